"""rankmixup report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rankmixup.cli.group_options import Grouping
from rankmixup.cli.options import Each, Evaluating, Sources
from rankmixup.cli.output import console, require_suffix, require_writable
from rankmixup.errors import one_line, require


@dataclass(kw_only=True)
class Report(Evaluating, Grouping):
    """Write one HTML page about one or more runs or files of scores, which opens in any browser without other files.

    Models of the same samples are compared with the first one, as by `rankmixup compare`. Runs are called by their method and seed; those
    that differ by their seed alone are one model, unless --each or --group is given.
    """

    sources: tyro.conf.Positional[Sources]
    """Run directories or files of scores, as for `rankmixup evaluate`."""
    each: Each = False
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The HTML file to write."""
    calibrate_on: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH ...", help_behavior_hint="(optional)")] = ()
    """Files of held-out scores to calibrate on, one for each source in the same order; by default a run's own validation scores."""


def run(options: Report) -> None:
    """Run the command."""
    options.check(*options.sources, *options.calibrate_on)
    count = len(options.sources)
    require(count >= 1, "report must be given at least one run or file, got none")
    held_out = options.calibrate_on or (None,) * count
    require(len(held_out) == count, f"--calibrate-on must give one file for each of {count} sources, got {len(held_out)}")
    require_writable(options.output, inputs=(*options.sources, *options.calibrate_on, *options.group_files))
    require_suffix(options.output, ".html", ".htm")

    from rankmixup.evaluation.paired_tests import paired_tests
    from rankmixup.reports.files import page_entries, write_page

    sources = [options.open(path, each) for path, each in zip(options.sources, held_out, strict=True)]
    options.check_held_out(any(source.held_out is not None for source in sources))
    groups = [options.read_groups(path if path.is_file() else None) for path in options.sources]
    evaluations = [options.evaluate(source, groups=each) for source, each in zip(sources, groups, strict=True)]
    # Groups are of one network: each has its own.
    entries = page_entries(evaluations, [source.stored for source in sources], each=options.each or bool(options.group))
    named = {entry.name: entry.evaluation for entry in entries}
    tests = paired_tests(named, num_bins=options.num_bins, replicates=options.replicates, seed=options.seed)
    write_page(options.output, entries, tests)
    console().print(f"Report: {one_line(str(options.output))}", soft_wrap=True)
