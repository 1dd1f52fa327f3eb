import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Calibration, Detection, Estimate, Evaluation
from rankmixup.evaluation.conditions import ComparisonCondition, Condition, with_failures
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


MODELS, KEYS = ["out/a.npz", "b", "my model", "it's <x>", "resnet-50.v2"], ["ece", "nll", "accuracy"]


@pytest.mark.parametrize(
    ("text", "model", "other", "key", "sign", "bound", "end"),
    [
        ("b.ece - a.ece > 1%:low", "b", "out/a.npz", "ece", ">", 0.01, "low"),
        ("b.ece - a.ece:low > 1%", "b", "out/a.npz", "ece", ">", 0.01, "low"),
        ("b.accuracy-a.accuracy<-0.5%", None, None, "", "", 0, ""),  # a minus without spaces belongs to a name
        ("b.accuracy - a.accuracy<-0.5%", "b", "out/a.npz", "accuracy", "<", -0.005, "value"),
        ("b.nll - 'out/a.npz'.nll > -0.25 : high", "b", "out/a.npz", "nll", ">", -0.25, "high"),
        ("b.ece>3%", "b", None, "ece", ">", 0.03, "value"),
        ("'my model'.ece - resnet-50.v2.ece > 0", "my model", "resnet-50.v2", "ece", ">", 0, "value"),
        ('"it\'s <x>".ece > 3%:high', "it's <x>", None, "ece", ">", 0.03, "high"),
        ("a.npz.ece < 3%", "out/a.npz", None, "ece", "<", 0.03, "value"),
    ],
)
def test_conditions_of_comparisons(text, model, other, key, sign, bound, end):
    if model is None:
        with pytest.raises(InvalidInput, match=r"unknown model 'b.accuracy-a'"):
            ComparisonCondition.parse(text, MODELS, KEYS)
    else:
        assert ComparisonCondition.parse(text, MODELS, KEYS) == ComparisonCondition(text, model, other, key, sign, bound, end)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ece>3%", "a condition must be MODEL.METRIC or MODEL.METRIC - MODEL.METRIC"),
        ("b.ece - 1% > a.ece", "a condition must be MODEL.METRIC"),
        ("b.ece + a.ece > 1%", "a condition must be MODEL.METRIC"),
        ("b.ece - a.ece - b.ece > 1%", "a condition must be MODEL.METRIC"),
        ("my model.ece > 1%", "quotes around a name that holds spaces"),
        ("'b.ece > 1%", "a condition must be MODEL.METRIC"),
        ("b.eec > 1%", "unknown metric 'eec'; did you mean 'ece'"),
        ("b.brier > 1", r"must be about a metric that is compared \(ece, nll, accuracy\), got brier"),
        ("b.ece - a.nll > 1%", "must subtract the same metric, got ece and nll"),
        ("b.ece - b.ece > 1%", "must subtract another model, got b twice"),
        ("bb.ece > 1%", "unknown model 'bb'; did you mean 'b'"),
        ("b.ece - a.ece > 1", "a difference of ece with a number that it can pass, it lies in -1..1"),
        ("b.ece - a.ece < -1", "it lies in -1..1"),
        ("b.ece - a.ece > 3", "3 percent is 3%"),
        ("b.ece > -1%", r"it lies in 0..1"),
        ("b.nll - a.nll > 3%", "must have no %, nll is not in percent"),
    ],
)
def test_conditions_of_comparisons_that_are_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        ComparisonCondition.parse(text, MODELS, KEYS)


_names = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="'\""), min_size=1, max_size=12)


@given(names=st.lists(_names, min_size=2, max_size=2, unique=True), sign=st.sampled_from("<>"), bound=st.floats(-0.99, 0.99))
def test_names_in_quotes_may_hold_anything(names, sign, bound):
    text = f"'{names[0]}'.ece - \"{names[1]}\".ece {sign} {bound!r}:high"
    assert ComparisonCondition.parse(text, names, KEYS) == ComparisonCondition(text, *names, "ece", sign, bound, "high")


@given(st.text(alphabet="ab.ece-'\"<> :low%01\u2212", max_size=60))
def test_any_text_is_a_condition_or_refused(text):
    try:
        found = ComparisonCondition.parse(text, MODELS, KEYS)
    except InvalidInput:
        return
    assert found.model in MODELS
    assert found.key in KEYS


def test_hostile_text_is_refused_at_once():
    for text in ("'" * 20_000, "'\"" * 10_000, "a" * 50_000, "a." * 20_000 + ">", " " * 20_000 + ">1"):
        start = time.process_time()
        with pytest.raises(InvalidInput):
            ComparisonCondition.parse(text, MODELS, KEYS)
        assert time.process_time() - start < 5
