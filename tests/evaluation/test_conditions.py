import pytest

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Calibration, Detection, Estimate, Evaluation
from rankmixup.evaluation.conditions import Condition, with_failures
from rankmixup.evaluation.registry import DETECTION_METRICS, METRICS


def with_ece(**values: float | None) -> Evaluation:
    metrics = {**dict.fromkeys(METRICS), "ece": Estimate(**{"value": 0.05, "low": 0.02, "high": 0.08, **values})}
    calibrated = {**dict.fromkeys(METRICS), "ece": Estimate(0.01, 0.0, 0.03), "nll": Estimate(2.5, 2, 3)}
    detected = Detection(5, "entropy", {"auroc": Estimate(0.85, 0.8, 0.95)})
    return Evaluation(
        "a",
        1,
        2,
        metrics,
        Calibration("temperature", "nll", {}, True, "val", 9, False, "", calibrated),
        {"svhn": detected, "v1.5": detected},
    )


@pytest.mark.parametrize(
    ("text", "trips"),
    [
        ("ece>0.03", True),
        ("ece>0.05", False),
        ("ece<0.05", False),
        ("ece < 6e-2", True),
        ("ece>0.03:low", False),
        ("ece>0.01:low", True),
        ("ece:high>0.07", True),
        ("ece<0.07:high", False),
        ("ece>3%", True),
        ("ece>5%", False),
        ("ece<5.1%", True),
        ("ece > 1% : low", True),
        ("calibrated.ece>2%", False),
        ("calibrated.ece>0.9%", True),
        ("calibrated.ece:high>2%", True),
        ("calibrated.nll>2.4", True),
        ("ood.svhn.auroc<0.9", True),
        ("ood.svhn.auroc<90%:high", False),
        ("ood.v1.5.auroc<0.9", True),
    ],
)
def test_conditions(text, trips):
    assert with_failures(with_ece(), [Condition.parse(text)]).failed == ((text,) if trips else ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ece",
        "ece>",
        ">0.03",
        "ece=0.03",
        "ece>=0.03",
        "ece>%",
        "ece>3%%",
        "ece>nan",
        "ece>inf",
        "ece>0.03:mid",
        "ece:low>0.1:low",
        "ece>1>2",
    ],
)
def test_malformed_conditions(text):
    with pytest.raises(InvalidInput, match="a condition must be METRIC, < or >, a number and optionally :low or :high"):
        Condition.parse(text)


@pytest.mark.parametrize("key", [*METRICS, *(f"ood.a.{key}" for key in DETECTION_METRICS)])
def test_every_metric_has_thresholds_that_it_cannot_pass(key):
    last = key.rpartition(".")[2]
    largest = {"brier": 2, "classwise_ece_sum": 2, "nll": None}.get(last, 1)
    for text in (f"{key}<0", f"{key}<-0.1", f"{key}>-1", *([f"{key}>{largest}", f"{key}<{largest}.1", f"{key}>3"] if largest else [])):
        with pytest.raises(InvalidInput, match=f"must compare {last} with a number that it can pass, it lies in 0"):
            Condition.parse(text)
    assert Condition.parse(f"{key}>0").bound == 0
    assert Condition.parse(f"{key}<1").bound == 1


def test_percent_taken_for_a_fraction_is_refused_with_the_way_out():
    with pytest.raises(InvalidInput, match=r"it lies in 0..1; 3 percent is 3%$"):
        Condition.parse("ece>3")
    with pytest.raises(InvalidInput, match=r"it lies in 0..1$"):
        Condition.parse("ece>300%")
    for key in ("nll", "brier", "calibrated.nll"):
        with pytest.raises(InvalidInput, match=r"must have no %, .* is not in percent"):
            Condition.parse(f"{key}>3%")


def test_conditions_about_nothing():
    for text, hint in {
        "eec>0.03": r"unknown metric 'eec'; did you mean 'ece'",
        "calibrated.eec>0.03": r"unknown metric 'calibrated.eec'; did you mean 'calibrated.ece'",
        "calibrate.ece>0.03": r"did you mean 'calibrated.ece'",
        "ood.svhn.aurocc>0.5": r"did you mean 'ood.svhn.auroc'",
        "ood.auroc>0.5": "unknown metric 'ood.auroc'",
    }.items():
        with pytest.raises(InvalidInput, match=hint):
            Condition.parse(text)
    for text, hint in {
        "nll>1": "condition 'nll>1' must be about a number that these scores have; nll has no value here",
        "ood.shvn.auroc<0.9": "unknown OOD set 'shvn'; did you mean 'svhn'",
    }.items():
        with pytest.raises(InvalidInput, match=hint):
            with_failures(with_ece(), [Condition.parse(text)])
    with pytest.raises(InvalidInput, match="ece has no low here"):
        with_failures(with_ece(low=None), [Condition.parse("ece>0.1:low")])
    bare = Evaluation("a", 1, 2, dict.fromkeys(METRICS))
    with pytest.raises(InvalidInput, match="must go with scores to calibrate on"):
        with_failures(bare, [Condition.parse("calibrated.ece>0.1")])
    with pytest.raises(InvalidInput, match="must go with out-of-distribution samples"):
        with_failures(bare, [Condition.parse("ood.svhn.auroc<0.9")])
