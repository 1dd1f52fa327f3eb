"""The model card: README.md of an exported folder, with the metadata that the Hugging Face Hub reads."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankmixup.config import flatten
from rankmixup.deploy.folder import CARD, CONFIG, FIGURE
from rankmixup.deploy.model import CalibratedModel
from rankmixup.evaluation import Evaluation, evaluate_scores
from rankmixup.evaluation.diagrams import reliability
from rankmixup.evaluation.registry import metric_named
from rankmixup.files import read_json
from rankmixup.reports.export import MARKDOWN_ESCAPES, DataTable, escape, to_markdown, write_text
from rankmixup.reports.figures import reliability_figure
from rankmixup.reports.figures.style import drawing
from rankmixup.reports.tables import ESTIMATE_COLUMNS, estimate_cells
from rankmixup.runs import StoredRun

_SHOWN = ("accuracy", "nll", "brier", "ece", "adaptive_ece", "aece", "classwise_ece", "smooth_ece", "aurc")
_INDEXED = ("accuracy", "nll", "brier", "ece", "aece", "classwise_ece")
_MOST_CLASSES = 50
_LIMITS = """\
- The confidences hold for samples like those that it was trained and calibrated on. On others, such as blurred photos, other cameras or
  other shares of the classes, they are too high more often than not; measure with `rankmixup evaluate`.
- Every sample gets one of the classes above, also one of something else.
- The interval of a metric covers the choice of test samples, not that of the training samples or of the seed."""


def write_card(model: CalibratedModel, folder: Path, config: Mapping[str, Any], licence: str | None = None) -> None:
    """Write the card and its figure, given the content of config.json; a model that was exported before keeps its own."""
    place = model.origin.place
    if isinstance(place, Path) and model.calibrator is None and _says_calibrated(place):
        title = f"# {_text(model.origin.network)}"
        write_text(folder / CARD, f"{title}\n\nExported without the calibrator that it had. Its confidences were not evaluated.")
    elif isinstance(place, Path):
        for name in (CARD, FIGURE):
            if (place / name).is_file():
                shutil.copyfile(place / name, folder / name)
    elif isinstance(place, StoredRun):
        protocol = place.run.data.protocol
        evaluation = evaluate_scores(
            place.scores("test"), model.calibrator, source=place.run.method.name, protocol=protocol, accept_at=model.threshold
        )
        scores = {"before calibration": evaluation.test, "after calibration": evaluation.calibrated}
        figure = reliability_figure({name: reliability([each]) for name, each in scores.items() if each is not None})
        with drawing():
            figure.savefig(folder / FIGURE, dpi=120, bbox_inches="tight")
        write_text(folder / CARD, model_card(model, place, evaluation, config, licence))


def model_card(model: CalibratedModel, stored: StoredRun, evaluation: Evaluation, config: Mapping[str, Any], licence: str | None) -> str:
    """The card in Markdown."""
    run, title = stored.run, _text(f"{stored.run.model} on {stored.run.data.name}, {stored.run.method.name}")
    classes = ", ".join(_text(name) for name in model.class_names[:_MOST_CLASSES])
    more = f" and {len(model.class_names) - _MOST_CLASSES} more" if len(model.class_names) > _MOST_CLASSES else ""
    shape = ", ".join(map(str, model.view.input_shape))
    use = 'model.predict_proba("photo.jpg")' if model.view.values == "bytes" else f"model.predict_proba(x)  # floats [N, {shape}]"
    calibration = evaluation.calibration
    how = "It has no calibrator."
    if calibration is not None:
        how = f"{calibration.method} ({calibration.objective}), fitted on {calibration.samples:,} validation samples"
        how = f"Its logits are calibrated by {how}."
        if not calibration.converged:
            how += f" The fit {calibration.verdict}."
    after = evaluation.calibration.metrics if evaluation.calibration else evaluation.metrics
    keys = [key for key in _SHOWN if evaluation.metrics.get(key)]
    stages = {"before": evaluation.metrics} | ({"after": after} if calibration else {})
    columns = ["metric", *(f"{name}, {stage}" for stage in stages for name in ESTIMATE_COLUMNS[:3])]
    rows = [
        [metric_named(key).title, *(cell for each in stages.values() for cell in estimate_cells(key, each.get(key))[:3])] for key in keys
    ]
    parity, graphs = config["parity"], config["graphs"]
    differences = ", ".join(f"{name} {value:.1e}" for name, value in parity["largest_difference"].items())
    recipe = DataTable(
        ["setting", "value"], [[name, json.dumps(value)] for name, value in flatten(run.to_dict()).items() if name != "data.path"]
    )
    parts = [
        f"---\n{_metadata(model, stored, evaluation, licence)}\n---",
        f"# {title}",
        f"A classifier of {len(model.class_names)} classes, trained with rankmixup (run `{run.id}`). {how}",
        f"Classes: {classes}{more}.",
        "## Use",
        f"```python\nimport rankmixup as rm\n\nmodel = rm.load({_FOLDER!r})\n{use}\n```",
        *_preprocessing(config["preprocessing"], graphs),
        "## Calibration",
        *([f"Accepted at {evaluation.acceptance}."] if evaluation.acceptance else []),
        f"{evaluation.n:,} test samples; in percent, except NLL and Brier score; with 95 % intervals. The noise floor is what perfectly "
        "calibrated models with the same confidences show.",
        to_markdown(DataTable(columns, rows)),
        f"![Reliability diagram]({FIGURE})",
        "## Limits",
        _LIMITS,
        "## Training",
        to_markdown(recipe),
        f"Exported files compared with the source on {parity['compared_on']}, largest difference of a probability: {differences}.",
    ]
    return "\n\n".join(parts)


_FOLDER = "path/to/this/folder"
_DECODED = """\
import json
import numpy as np
import onnxruntime
from PIL import Image, ImageOps
def network_input(path):
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):  # 16 bits
        image = Image.fromarray(((np.asarray(image).astype(int) + 128) // 257).astype(np.uint8))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "black"), image.convert("RGBA"))
    image = image.convert("RGB")"""
_SQUARE_FIRST = """\
    left, top = ((side - min(image.size)) // 2 for side in image.size)
    image = image.crop((left, top, left + min(image.size), top + min(image.size)))
    pixels = np.asarray(image.resize(({size}, {size}), Image.Resampling.BILINEAR))"""
_SQUARE_LAST = """\
    image = image.resize([int({shorter} * n / min(image.size)) for n in image.size], Image.Resampling.BILINEAR)
    left, top = (round((side - {size}) / 2) for side in image.size)
    pixels = np.asarray(image.crop((left, top, left + {size}, top + {size})))"""
_SERVED = """\
session = onnxruntime.InferenceSession("model.onnx")
names = json.loads(session.get_modelmeta().custom_metadata_map["class_names"])
images = np.stack([network_input(path) for path in ["photo.jpg"]])
probabilities = session.run(["probabilities"], {"images": images})[0]
print([names[row.argmax()] for row in probabilities], probabilities)"""


def _preprocessing(steps: Mapping[str, Any], graphs: Mapping[str, Any]) -> list[str]:
    """What makes an image the input of the graphs: as a table and, for ONNX, as a program."""
    rows = [[name, json.dumps(value)] for name, value in steps.items()]
    parts = ["## Preprocessing", "From top to bottom, as in `config.json`:", to_markdown(DataTable(["step", "value"], rows))]
    if steps["values"] == "bytes":
        parts.append(
            "A photo is turned upright as the camera notes it in the file (EXIF). Its shorter side is resized to `resize`, and the middle "
            "cropped to `crop`; with `square_first`, the largest square in the middle is cropped first and then resized."
        )
    if steps["values"] == "bytes" and "onnx" in graphs.get("formats", ()):
        place = (_SQUARE_FIRST if steps["square_first"] else _SQUARE_LAST).format(size=steps["crop"], shorter=steps["resize"])
        colours = "" if steps["colours"] == "RGB" else f'.convert("{steps["colours"]}")'
        parts += [
            "With onnxruntime, in this folder:",
            f"```python\n{_DECODED}{colours}\n{place}\n{_normalised(steps, graphs)}\n{_SERVED}\n```",
        ]
    return parts


def _normalised(steps: Mapping[str, Any], graphs: Mapping[str, Any]) -> str:
    """The last line of the function: layout, and scaling where the graph does not do it."""
    pixels = "pixels" if steps["colours"] == "RGB" else f"pixels.reshape({steps['crop']}, {steps['crop']}, 1)"
    if graphs["input"]["values"].startswith("bytes"):
        return f"    return {pixels}.transpose(2, 0, 1)"
    scaled = f"({pixels} / {steps['scale']} - {list(steps['mean'])}) / {list(steps['std'])}"
    return f"    return np.float32({scaled}).transpose(2, 0, 1)"


def _metadata(model: CalibratedModel, stored: StoredRun, evaluation: Evaluation, licence: str | None) -> str:
    """YAML, every value of it as JSON, which is YAML too and needs no other rules for quotes."""
    metrics = evaluation.calibration.metrics if evaluation.calibration else evaluation.metrics
    found = [
        {"type": key, "name": metric_named(key).title, "value": estimate.value}
        for key in _INDEXED
        if (estimate := metrics.get(key)) is not None
    ]
    task = {"type": "image-classification" if len(model.view.input_shape) == 3 else "tabular-classification"}
    name = stored.run.data.name
    result = {"task": task, "dataset": {"type": name, "name": name, "split": "test"}, "metrics": found}
    values: dict[str, Any] = {
        **({"license": licence} if licence else {}),
        "library_name": "rankmixup",
        "pipeline_tag": task["type"],
        "tags": ["calibration", "rankmixup", stored.run.method.name],
        "datasets": [name],
        "metrics": [each["type"] for each in found],
        "model-index": [{"name": f"{stored.run.model}-{stored.run.id}", "results": [result]}],
    }
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in values.items())


def _says_calibrated(folder: Path) -> bool:
    return bool(read_json(folder / CONFIG).get("calibration"))


def _text(text: str) -> str:
    return escape(text, MARKDOWN_ESCAPES)
