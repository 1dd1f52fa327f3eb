"""rankmixup compare."""

from dataclasses import dataclass

import tyro

from rankmixup.cli.options import Json, Metrics, OptionalPath, Sources
from rankmixup.cli.output import answer
from rankmixup.errors import one_line, require


@dataclass(kw_only=True)
class Compare(Metrics):
    """Test whether models differ significantly on one test set.

    Takes run directories and files of scores, as `rankmixup evaluate` does, of the same samples in the same order. Differences are tested
    with a paired bootstrap, differences of accuracy with McNemar's test; p-values are corrected with Holm's method over the whole table.
    """

    sources: tyro.conf.Positional[Sources]
    """Run directories or files of scores."""
    baseline: OptionalPath = None
    """The model that all others are compared with; by default the first."""
    metric: str = "ece"
    """Metric to compare besides accuracy: a name from `rankmixup list metrics`."""
    json: Json = False


def run(options: Compare) -> None:
    """Run the command."""
    options.check(*options.sources, options.baseline)
    paths = list(options.sources)
    if options.baseline is not None and options.baseline not in paths:
        paths.insert(0, options.baseline)
    require(len(paths) >= 2, f"compare must be given at least two runs or files, got {len(paths)}")
    twice = next((path for path in paths if paths.count(path) > 1), None)
    require(twice is None, f"compare must be given each run or file once, got {twice} twice")

    from rankmixup.evaluation.comparison import compare_scores
    from rankmixup.evaluation.registry import METRICS
    from rankmixup.reports.tables import comparison_table

    METRICS[options.metric]  # refused here, before any file is read, if it is unknown
    comparison = compare_scores(
        {one_line(str(path)): options.open(path).test for path in paths},
        baseline=one_line(str(options.baseline or paths[0])),
        metric=options.metric,
        num_bins=options.num_bins,
        replicates=options.replicates,
        seed=options.seed,
    )
    answer(options.json, comparison.to_dict, lambda: comparison_table(comparison))
