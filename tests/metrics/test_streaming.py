"""Every streaming class keeps the contract; a new one is tested by existing, since the list is checked against the module's."""

import functools

import pytest
import torch
from torchmetrics import Metric

from rankmixup import functional as F
from rankmixup import metrics
from rankmixup.errors import InvalidInput
from rankmixup.metrics import streaming, streaming_ranked
from rankmixup.testing import MetricContract
from rankmixup.testing.metric_contract import assert_same
from tests.oracles import unchecked

COUNTS = [500, 300, 180, 110, 65, 40, 23, 14, 8, 5]


def ood(logits: torch.Tensor, target: torch.Tensor, kind: str) -> dict[str, float]:
    scores = F.ood_scores(logits, kind)
    return F.ood_detection(scores[target == 0], scores[target == 1])


# The class, its options, its function, and options that only the class needs.
KINDS = {
    "accuracy": (metrics.Accuracy, {}, F.accuracy),
    "top-3": (metrics.Accuracy, {"top_k": 3}, F.accuracy),
    "nll": (metrics.NegativeLogLikelihood, {}, F.negative_log_likelihood),
    "brier": (metrics.BrierScore, {}, F.brier_score),
    "ece": (metrics.ExpectedCalibrationError, {}, F.expected_calibration_error),
    "ece, 4 bins": (metrics.ExpectedCalibrationError, {"num_bins": 4}, F.expected_calibration_error),
    "ece, l2": (metrics.ExpectedCalibrationError, {"norm": "l2"}, F.expected_calibration_error),
    "ece, max": (metrics.ExpectedCalibrationError, {"norm": "max"}, F.expected_calibration_error),
    "mce": (metrics.MaximumCalibrationError, {}, F.maximum_calibration_error),
    "oe": (metrics.OverconfidenceError, {}, F.overconfidence_error),
    "ue": (metrics.UnderconfidenceError, {}, F.underconfidence_error),
    "debiased": (metrics.DebiasedCalibrationError, {}, F.debiased_calibration_error),
    "classwise": (metrics.ClasswiseCalibrationError, {}, F.classwise_calibration_error, {"num_classes": 10}),
    "classwise, sum": (metrics.ClasswiseCalibrationError, {"aggregate": "sum"}, F.classwise_calibration_error, {"num_classes": 10}),
    "smooth": (metrics.SmoothCalibrationError, {}, F.smooth_calibration_error),
    "aece": (metrics.AdaptiveCalibrationError, {}, F.adaptive_calibration_error),
    "aece, release": (metrics.AdaptiveCalibrationError, {"edges": "release"}, F.adaptive_calibration_error),
    "ks": (metrics.KSCalibrationError, {}, F.ks_calibration_error),
    "aurc": (metrics.AURC, {}, F.aurc),
    "eaurc": (metrics.ExcessAURC, {}, F.excess_aurc),
    "auroc": (metrics.CorrectnessAUROC, {}, F.correctness_auroc),
    "long tail": (metrics.LongTailMetrics, {"class_counts": COUNTS}, F.long_tail_metrics),
}
TWINS = {
    name: (functools.partial(streamed, **options, **dict(*own)), functools.partial(function, **options))
    for name, (streamed, options, function, *own) in KINDS.items()
}
OOD = {
    kind: (functools.partial(metrics.OODDetection, kind), functools.partial(ood, kind=kind))
    for kind in ("entropy", "max-probability", "energy")
}


class TestEveryMetric(MetricContract):
    twins = TWINS

    @pytest.fixture(params=TWINS)
    def name(self, request):
        return request.param

    @pytest.fixture
    def metric(self, name):
        return self.twins[name][0]

    @pytest.fixture
    def function(self, name):
        return self.twins[name][1]

    def companions(self, metric):
        return tuple(twins[0] for twins in self.twins.values())


class TestOOD(TestEveryMetric):
    twins = OOD

    @pytest.fixture(params=OOD)
    def name(self, request):
        return request.param

    def make_data(self, seed=0):
        logits, target = super().make_data(seed)
        return logits, target % 2  # which samples are out of distribution


def test_every_streaming_class_is_under_contract_and_public():
    modules = (streaming, streaming_ranked)
    found = [each for module in modules for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    public = {each.__name__ for each in found if issubclass(each, Metric) and not each.__name__.startswith("_")}
    classes = public - {"StreamingMetric"}
    tested = {metric.func.__name__ for metric, _ in (*TWINS.values(), *OOD.values())}
    assert classes == tested
    assert all(issubclass(getattr(metrics, name), Metric) for name in classes)


def test_scores_may_be_probabilities(rng):
    probs, target = torch.randn(50, 10, generator=rng).softmax(1), torch.randint(10, (50,), generator=rng)
    for make, function in TWINS.values():
        metric = make(from_logits=False)
        metric.update(probs, target)
        assert_same(metric.compute(), function(probs, target, from_logits=False))


@pytest.mark.parametrize("name", TWINS)
def test_probabilities_given_as_logits_are_refused(name, rng):
    probs, target = torch.randn(50, 10, generator=rng).softmax(1), torch.randint(10, (50,), generator=rng)
    make, function = TWINS[name]
    for measure in (make().update, function):
        with pytest.raises(InvalidInput, match=r"logits must not be probabilities, .* pass from_logits=False"):
            measure(probs, target)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: metrics.ExpectedCalibrationError(num_bins=0), "num_bins must be at least 1, got 0"),
        (lambda: metrics.ExpectedCalibrationError(norm="l3"), "norm must be"),
        (lambda: metrics.AdaptiveCalibrationError(edges="equal"), "edges must be"),
        (lambda: metrics.Accuracy(top_k=0), "top_k must be at least 1, got 0"),
        (lambda: metrics.ClasswiseCalibrationError(1), "num_classes must be at least 2, got 1"),
        (lambda: metrics.ClasswiseCalibrationError(3, aggregate="max"), "aggregate must be"),
        (lambda: metrics.OODDetection("distance"), "kind must be"),
    ],
)
def test_bad_options_are_refused_at_once(make, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        make()


def test_classes_must_be_as_many_as_announced(rng):
    with pytest.raises(InvalidInput, match="num_classes = 3 columns, got 4"):
        metrics.ClasswiseCalibrationError(3).update(torch.randn(5, 4, generator=rng), torch.zeros(5, dtype=torch.long))


def test_a_collection_shares_states_and_agrees(rng):
    """torchmetrics may merge the states of metrics that are equal after the first batch."""
    from torchmetrics import MetricCollection

    logits = torch.randn(100, 10, generator=rng, dtype=torch.float64)
    target = torch.randint(10, (100,), generator=rng)
    names = ("ece", "mce", "oe", "nll", "accuracy", "aece", "ks")
    collection = MetricCollection({name: TWINS[name][0]() for name in names})
    for part in torch.arange(100).split(30):
        collection.update(logits[part], target[part])
    for name, value in collection.compute().items():
        assert value.item() == pytest.approx(TWINS[name][1](logits, target).item(), abs=1e-12)
