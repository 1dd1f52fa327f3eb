"""rankmixup shift."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rankmixup.cli.options import Json, OptionalPath
from rankmixup.cli.output import answer, require_suffix, require_writable
from rankmixup.errors import require, require_whole
from rankmixup.hardware import Accelerator, Hardware


@dataclass(kw_only=True)
class Shift:
    """Measure calibration under distribution shift: accuracy, ECE and NLL on corrupted test images, before and after temperature scaling.

    Images have the published corruptions of CIFAR-10-C, Tiny-ImageNet-C and ImageNet-C at five severities. They are read from the published
    files where those are below the data root, and otherwise generated from the run's test images. The temperature is fitted on clean
    validation samples. Runs that differ by their seed alone are one method; several methods are compared with the baseline.
    Predictions are stored in the runs.
    """

    sources: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN ...", help_behavior_hint="(required)")]]
    """Run directories."""
    corruptions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ("all",)
    """Names from `rankmixup list corruptions`, groups (noise, blur, weather, digital), or all."""
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    """Severities, 1 to 5."""
    images: Literal["auto", "published", "generated"] = "auto"
    """Read the published files, generate images, or (auto) read the files if their folder exists."""
    limit: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: all)")] = None
    """Use only N test images, always the same ones."""
    baseline: OptionalPath = None
    """A run of the method that all others are compared with; by default the first."""
    num_bins: int = 15
    """Number of bins of ECE, 1 to 1000."""
    replicates: int = 1000
    """Number of resamples for every interval, noise floor and p-value."""
    seed: int = 0
    """Seed of generated images and of the resampling."""
    data_root: OptionalPath = None
    """Folder that contains the data sets; by default RANKMIXUP_DATA, then data."""
    accelerator: Accelerator = "auto"
    """Kind of device."""
    csv: OptionalPath = None
    """Write every number as csv."""
    markdown: OptionalPath = None
    """Write a short table as Markdown."""
    figure: OptionalPath = None
    """Write box plots by severity, as PNG and SVG."""
    json: Json = False


def run(options: Shift) -> None:
    """Run the command."""
    paths = list(options.sources)
    require(len(paths) > 0, "shift must be given at least one run, got none")
    twice = next((path for path in paths if paths.count(path) > 1), None)
    require(twice is None, f"shift must be given each run once, got {twice} twice")
    if options.baseline is not None and options.baseline not in paths:
        paths.insert(0, options.baseline)
    require_whole("--replicates", options.replicates, least=1)
    figures = [options.figure and options.figure.with_suffix(suffix) for suffix in (".png", ".svg")]
    require_suffix(options.csv, ".csv")
    require_suffix(options.markdown, ".md", ".markdown")
    require_suffix(options.figure, ".png", ".svg")
    require_writable(options.csv, options.markdown, *figures)

    from rankmixup.reports.shift import shift_view
    from rankmixup.runs import StoredRun
    from rankmixup.training.shift import grouped, shift

    stored = [StoredRun.open(path) for path in paths]
    groups = grouped(stored, {})
    of_baseline = stored[0 if options.baseline is None else paths.index(options.baseline)]
    found = shift(
        stored,
        corruptions=options.corruptions,
        severities=options.severities,
        images=options.images,
        limit=options.limit,
        baseline=next(name for name, members in groups.items() if of_baseline in members),
        num_bins=options.num_bins,
        replicates=options.replicates,
        seed=options.seed,
        data_root=options.data_root,
        hardware=Hardware(options.accelerator),
    )
    if options.csv is not None:
        found.save(options.csv, "csv")
    if options.markdown is not None:
        found.save(options.markdown, "markdown")
    if options.figure is not None:
        found.save(options.figure, "png")
    answer(options.json, found.to_dict, lambda: shift_view(found))
