"""rankmixup export."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rankmixup.cli.options import AcceptAt, Json, OptionalPath
from rankmixup.cli.output import answer
from rankmixup.errors import one_line, require


@dataclass(kw_only=True)
class Export:
    """Write a folder with the calibrated network of a run, in formats that other programs can serve.

    The folder holds the weights (safetensors), config.json (network, classes, preprocessing, calibration), a model card and checksums;
    `rankmixup predict`, `rankmixup evaluate --on` and rm.load read it without the run. Graphs (onnx, pt2) give calibrated probabilities.
    Each file is run and compared with the source; nothing is left if a probability differs by more than 1e-4.
    """

    source: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN|FOLDER")]]
    """A run directory, or a folder that was exported before."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="PATH")]
    """The folder to write: a new or an empty one."""
    to: tuple[Literal["safetensors", "onnx", "pt2"], ...] = ("safetensors",)
    """Formats; weights as safetensors are always among them. onnx needs rankmixup[onnx]."""
    calibrate_with: str = "temperature"
    """Calibrator that is fitted on the run's validation scores: a name from `rankmixup list calibrators`, or none."""
    normalise_inside: bool = False
    """Let graphs take images of bytes and normalise them, instead of normalised floats."""
    licence: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(optional)")] = None
    """Licence of the model, for its card, as the Hugging Face Hub names it, such as apache-2.0."""
    data_root: OptionalPath = None
    """Folder that contains the data sets; by default RANKMIXUP_DATA, then data. Test images to compare on are read from there."""
    accept_at: AcceptAt = None
    """Store the confidence above which predictions have this accuracy, chosen on the run's validation scores; predict then applies it."""
    json: Json = False


def run(options: Export) -> None:
    """Run the command."""
    file = options.output.suffix in (".onnx", ".pt2", ".pt", ".safetensors", ".html", ".pdf", ".zip")
    require(not file, f"--output must be the name of a folder, got {one_line(str(options.output))}; --to names the files in it")
    from rankmixup.deploy import load
    from rankmixup.evaluation.results import plain
    from rankmixup.reports.tables import plain_table

    given = None if options.calibrate_with == "none" else options.calibrate_with
    model = load(options.source, calibrate_with=given, device="cpu", accept_at=options.accept_at)
    more = {"normalise_inside": options.normalise_inside, "data_root": options.data_root, "licence": options.licence}
    exported = model.export(options.output, options.to, **more)

    def view() -> object:
        table = plain_table("format", f"largest difference on {exported.compared_on}")
        for name, difference in exported.differences.items():
            table.add_row(name, f"{difference:.1e}")
        table.caption, table.caption_justify = f"Folder: {one_line(str(options.output))}", "left"
        return table

    answer(options.json, lambda: plain({**vars(exported), "folder": str(exported.folder)}), view)  # type: ignore[arg-type]
