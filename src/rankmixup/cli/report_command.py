"""rankmixup report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rankmixup.cli.output import console, require_writable
from rankmixup.cli.parsing import parse
from rankmixup.cli.sources import Metrics, Sources, open_source, spoken_warnings
from rankmixup.errors import one_line, require


@dataclass(kw_only=True)
class Report(Metrics):
    """One HTML page about one or more runs or files of scores, to be opened in any browser and sent to anyone."""

    sources: tyro.conf.Positional[Sources]
    """Run directories or files of scores, as `rankmixup evaluate` takes them."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The page."""
    calibrate_on: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH ...", help_behavior_hint="(optional)")] = ()
    """Files of held-out scores to calibrate on, one for each source in the same order; runs have their own validation scores."""
    calibrate_with: Literal["temperature", "vector", "ensemble-temperature", "isotonic", "histogram"] = "temperature"
    """How scores are calibrated."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Report, argv, prog="rankmixup report")
    options.check(*options.sources, *options.calibrate_on)
    require(len(options.sources) >= 1, "report must be given at least one run or file, got none")
    held_out = options.calibrate_on or (None,) * len(options.sources)
    require(
        len(held_out) == len(options.sources),
        f"--calibrate-on must give one file for each of {len(options.sources)} sources, got {len(held_out)}",
    )
    require_writable(options.output)

    from rankmixup.evaluation import evaluate_scores
    from rankmixup.reports.files import write_page

    sources = [open_source(path, options, each) for path, each in zip(options.sources, held_out, strict=True)]
    fits = options.calibrate_with == "temperature" or any(source.held_out is not None for source in sources)
    require(fits, "--calibrate-with must go with --calibrate-on where there is no run")
    with spoken_warnings():
        evaluations = [
            evaluate_scores(
                source.test,
                source.held_out,
                source=source.name,
                fitted_on=source.fitted_on,
                protocol=source.protocol,
                calibrate_with=options.calibrate_with,
                num_bins=options.num_bins,
                replicates=options.replicates,
                seed=options.seed,
            )
            for source in sources
        ]
    write_page(options.output, evaluations, [source.stored for source in sources])
    console().print(f"Report: {one_line(str(options.output))}", soft_wrap=True)
    return 0
