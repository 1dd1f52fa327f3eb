"""rankmixup predict."""

import csv
import dataclasses
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rankmixup.cli.options import AcceptAt, Json, OptionalPath
from rankmixup.cli.output import console, require_writable
from rankmixup.errors import one_line, require

if TYPE_CHECKING:
    from rankmixup.deploy import CalibratedModel


@dataclass(kw_only=True)
class Predict:
    """Predict images with the calibrated network of a run or of an exported folder.

    Writes a row for each image: its name, the most probable class, its calibrated probability (the confidence), and the next classes
    with theirs. Images that cannot be read are named and left out, and the exit status is then 1.
    """

    source: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN|FOLDER")]]
    """A run directory, or a folder written by `rankmixup export`."""
    images: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="IMAGES ...")]]
    """Images, or folders of images."""
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"], metavar="PATH", help_behavior_hint="(default: standard output)")] = None
    """Where to write the predictions: a csv file, or JSON if its name ends in .json."""
    top: int = 3
    """How many classes to write for each image."""
    calibrate_with: str = "temperature"
    """Calibrator that is fitted on the run's validation scores: a name from `rankmixup list calibrators`, or none."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 512, fewer of large images)")] = None
    """How many images are predicted at once."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: one for each core)")] = None
    """Threads that decode images while others are predicted."""
    device: str = "auto"
    """Device, such as cpu or cuda:0; auto takes a GPU if there is one."""
    accept_at: AcceptAt = None
    """Add whether each prediction is accepted: those above the confidence at which the run's validation samples have this accuracy. A
    folder that was exported with it has one."""
    json: Json = False


def run(options: Predict) -> int:
    """Run the command."""
    for name, value in {"--top": options.top, "--batch-size": options.batch_size, "--workers": options.workers}.items():
        require(value is None or value >= 1, f"{name} must be at least 1, got {value}")
    require(len(options.images) >= 1, "IMAGES must name at least one image or folder, got none")
    require_writable(options.output)
    ending = "" if options.output is None else options.output.suffix
    require(options.output is None or ending in (".csv", ".json"), f"--output must end in .csv or .json, got {options.output}")

    from rankmixup.deploy import load

    given = None if options.calibrate_with == "none" else options.calibrate_with
    model = load(options.source, calibrate_with=given, device=options.device, accept_at=options.accept_at)
    rows, bad = _predicted(model, options)
    as_json = options.json or (options.output is not None and options.output.suffix == ".json")
    head = {"schema": 1} | ({"acceptance": dataclasses.asdict(model.threshold)} if model.threshold else {})
    text = json.dumps({**head, "predictions": rows, "unreadable": bad}, indent=2) if as_json else _csv(rows, options.top)
    if options.output is None:
        print(text)
    else:
        from rankmixup.reports.export import write_text

        write_text(options.output, text)
        console(stderr=True).print(f"{len(rows)} predictions: {one_line(str(options.output))}", soft_wrap=True)
    if model.threshold:
        console(stderr=True).print(f"accepted at {model.threshold}", soft_wrap=True, markup=False)
    for name, reason in bad.items():
        print(f"error: image {one_line(name)} cannot be read ({one_line(reason)}) and was left out", file=sys.stderr)
    return 1 if bad else 0


def _predicted(model: "CalibratedModel", options: Predict) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row for each image that can be read, and why the others cannot."""
    from rankmixup.deploy.inputs import image_files

    rows: list[dict[str, Any]] = []
    unreadable: dict[str, str] = {}
    left_out: list[dict[str, str]] = [{} for _ in options.images]
    found = [image_files(path, bad) for path, bad in zip(options.images, left_out, strict=True)]  # before any work
    for path, files, bad in zip(options.images, found, left_out, strict=True):
        prefix = f"{path}/" if len(found) > 1 and path.is_dir() else ""
        for names, probabilities in model.predict_files(files, bad, batch_size=options.batch_size, workers=options.workers):
            best = probabilities.topk(min(options.top, probabilities.shape[1]), dim=1)
            accepts = model.threshold.accepts(probabilities).tolist() if model.threshold else [None] * len(names)
            for name, values, labels, accepted in zip(names, best.values.tolist(), best.indices.tolist(), accepts, strict=True):
                ranked = [{"label": model.class_names[label], "probability": value} for value, label in zip(values, labels, strict=True)]
                shown = str(path) if not path.is_dir() else prefix + name
                more = {} if accepted is None else {"accepted": accepted}
                rows.append({"name": shown, "label": ranked[0]["label"], "confidence": values[0], **more, "top": ranked})
        unreadable |= {str(path) if not path.is_dir() else prefix + name: reason for name, reason in bad.items()}
    return rows, unreadable


def _csv(rows: list[dict[str, Any]], top: int) -> str:
    """The predictions as a table whose names are those of the files to the last character, so that other tables can be joined by them."""
    count = max((len(row["top"]) for row in rows), default=top)
    given = ["accepted"] if any("accepted" in row for row in rows) else []
    others = [f"{kind}_{place}" for place in range(2, count + 1) for kind in ("label", "probability")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "label", "confidence", *given, *others])
    for row in rows:
        values = [value for each in row["top"][1:] for value in (each["label"], each["probability"])]
        writer.writerow([row["name"], row["label"], row["confidence"], *(str(row[each]).lower() for each in given), *values])
    return text.getvalue().removesuffix("\n")
