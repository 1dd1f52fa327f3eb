"""The tests of a report: all its models against the first, before calibration and after it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rankmixup.errors import InvalidInput
from rankmixup.evaluation.comparison import compare_evaluations
from rankmixup.evaluation.results import Comparison, Evaluation


class PairedTests(NamedTuple):
    """Comparisons of the models of a report: before calibration and, if all are calibrated, after it."""

    comparisons: tuple[Comparison, ...] = ()
    reason: str = ""
    """Why there are none, of several models."""


NO_TESTS = PairedTests()


def paired_tests(
    evaluations: Mapping[str, Evaluation],
    *,
    metric: str | Sequence[str] = ("ece", "nll"),
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> PairedTests:
    """Differences of all models from the first, or the reason why they have none: they are not of the same samples."""
    if len(evaluations) < 2:
        return NO_TESTS
    stages = [False, True] if all(each.calibrated is not None for each in evaluations.values()) else [False]
    options: dict[str, Any] = {"metric": metric, "num_bins": num_bins, "replicates": replicates, "seed": seed}
    try:
        return PairedTests(tuple(compare_evaluations(evaluations, calibrated=calibrated, **options) for calibrated in stages))
    except InvalidInput as refusal:
        return PairedTests(reason=str(refusal))
