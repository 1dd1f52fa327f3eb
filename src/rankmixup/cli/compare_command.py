"""rankmixup compare."""

import json
from dataclasses import dataclass

import tyro

from rankmixup.cli.output import console
from rankmixup.cli.parsing import parse
from rankmixup.cli.sources import Metrics, OptionalPath, Sources, open_source
from rankmixup.errors import one_line, require


@dataclass(kw_only=True)
class Compare(Metrics):
    """Are differences between models on one test set more than chance?

    Takes run directories and files of scores, as `rankmixup evaluate` does, of the same samples in the same order. Differences are tested
    with a paired bootstrap, those of accuracy with McNemar's test, and p-values are corrected by Holm over the whole table.
    """

    sources: tyro.conf.Positional[Sources]
    """Run directories or files of scores."""
    baseline: OptionalPath = None
    """The one that all others are compared with; the first unless given."""
    metric: str = "ece"
    """What to compare beside accuracy, by its key in the JSON of `rankmixup evaluate`."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Compare, argv, prog="rankmixup compare")
    options.check(*options.sources, options.baseline)
    paths = list(options.sources)
    if options.baseline is not None and options.baseline not in paths:
        paths.insert(0, options.baseline)
    require(len(paths) >= 2, f"compare must be given at least two runs or files, got {len(paths)}")
    twice = next((path for path in paths if paths.count(path) > 1), None)
    require(twice is None, f"compare must be given each run or file once, got {twice} twice")

    from rankmixup.errors import unknown_name
    from rankmixup.evaluation.comparison import compare_scores
    from rankmixup.evaluation.registry import METRICS
    from rankmixup.reports.tables import comparison_table

    if options.metric not in METRICS:
        raise unknown_name("metric", options.metric, METRICS)
    models = {one_line(str(path)): open_source(path, options).test for path in paths}
    report = compare_scores(
        models,
        baseline=one_line(str(options.baseline or paths[0])),
        metric=options.metric,
        num_bins=options.num_bins,
        replicates=options.replicates,
        seed=options.seed,
    )
    if options.json:
        print(json.dumps(report.to_dict(), allow_nan=False))
    else:
        console().print(comparison_table(report))
    return 0
