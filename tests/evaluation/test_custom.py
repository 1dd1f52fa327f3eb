"""Registered metrics are in evaluations, comparisons, conditions and every kind of file."""

import json

import pytest
import torch

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import METRICS, Scores, register_metric
from rankmixup.evaluation.conditions import Condition, with_failures
from rankmixup.metrics import brier_score
from tests.oracles import unchecked

FEW = {"replicates": 60}


@pytest.fixture
def registered(monkeypatch):
    """A registry to add to, which is as it was afterwards."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))

    @register_metric("half-brier", title="half Brier", unit="", most=1.0)
    def half_brier(probs, target):
        return (probs - torch.nn.functional.one_hot(target, probs.shape[1])).square().sum(dim=1) / 2

    @register_metric("margin", title="mean margin", higher_is_better=True, needs="logits", most=100.0)
    def margin(logits, target):
        top = logits.topk(2, dim=1).values
        return (top[:, 0] - top[:, 1]).mean().item()

    @register_metric("three", min_classes=3)
    def three(probs, target):
        return 0.5


def model(rng, classes=2):
    logits = torch.randn(200, classes, generator=rng, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)


def test_they_have_values_and_intervals(rng, registered):
    logits, target = model(rng)
    before = {key: each for key, each in rm.evaluate(logits, target, **FEW).metrics.items() if key not in ("half-brier", "margin", "three")}
    found = rm.evaluate(logits, target, **FEW).metrics
    assert {key: found[key] for key in before} == before
    half, brier = found["half-brier"], found["brier"]
    assert half.value == pytest.approx(brier.value / 2)
    assert (half.low, half.high) == pytest.approx((brier.low / 2, brier.high / 2))  # the same replicates
    assert found["margin"].low < found["margin"].value < found["margin"].high
    assert found["three"] is None
    assert found["margin"].floor is None


def test_the_interval_of_a_number_is_that_of_a_mean(rng, registered):
    logits, target = model(rng)
    register_metric("whole", most=2.0)(lambda probs, target: brier_score(probs, target, from_logits=False))
    found = rm.evaluate(logits, target, replicates=600).metrics
    width = found["brier"].high - found["brier"].low
    assert (found["whole"].low, found["whole"].high) == pytest.approx((found["brier"].low, found["brier"].high), abs=0.2 * width)


def test_models_are_compared_by_them(rng, registered):
    logits, target = model(rng)
    models = {"a": logits, "b": logits + 3 * torch.randn(200, 2, generator=rng, dtype=torch.float64)}
    for key, verdict in (("half-brier", "worse"), ("margin", "better")):
        difference = rm.compare(models, target, metric=key, **FEW).models["b"][key].difference
        assert difference.verdict == verdict
        assert difference.low < difference.value < difference.high


def test_conditions_files_and_lists_have_them(rng, registered, tmp_path, capsys):
    logits, target = model(rng)
    report = rm.evaluate(logits, target, calibrate_on=(logits, target), **FEW)
    assert with_failures(report, [Condition.parse("half-brier>0.001:low"), Condition.parse("margin<1%")]).failed == (
        "half-brier>0.001:low",
    )
    assert json.loads(report.save(tmp_path / "a.json").read_text())["metrics"]["margin"]["low"] == report.metrics["margin"].low
    assert "margin," in report.save(tmp_path / "a.csv").read_text()
    for suffix in ("tex", "md", "html"):
        assert "half Brier" in report.save(tmp_path / f"a.{suffix}").read_text()
    assert "NLL, Brier and half Brier" in (tmp_path / "a.tex").read_text()
    assert "mean margin" in str(report)
    assert main(["list", "metrics"]) == 0
    assert "mean margin, 0 to 100, higher is better" in capsys.readouterr().out
    assert "margin" in rm.list_metrics()
    Scores(logits, target).write(tmp_path / "a.npz")
    assert main(["evaluate", str(tmp_path / "a.npz"), "--replicates", "10", "--fail-if", "half-brier>0.001"]) == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda probs, target: 1 / 0, "metric 'broken' must be computed without an error, got ZeroDivisionError: 'division by zero'"),
        (lambda probs, target: float("nan"), "metric 'broken' must return one number, or one for each of 200 samples, got NaN"),
        (lambda probs, target: probs, r"metric 'broken' must return one number, or one for each of 200 samples, got shape \[200, 2\]"),
        (lambda probs, target: "high", "metric 'broken' must be computed without an error, got TypeError"),
    ],
)
def test_a_metric_that_fails_is_named(function, message, rng, registered):
    register_metric("broken")(function)
    with pytest.raises(InvalidInput, match=message):
        rm.evaluate(*model(rng), **FEW)


def test_what_cannot_be_registered(registered):
    for key, options, message in (
        ("a.b", {}, "key must be a name"),
        ("a", {"unit": "m"}, "unit must be"),
        ("a", {"most": -1}, "most must be above 0, got -1"),
        ("a", {"needs": "scores"}, "needs must be"),
        ("a", {"min_classes": 0}, "min_classes must be at least 1"),
    ):
        with unchecked(), pytest.raises(InvalidInput, match=message):
            register_metric(key, **options)(lambda probs, target: 0.0)
    with pytest.raises(InvalidInput, match="metric 'ece' is already registered"):
        register_metric("ece")(lambda probs, target: 0.0)


def test_a_metric_that_is_defined_again_replaces_what_it_was(rng, registered):
    for value in (0.25, 0.5):

        @register_metric("mine")
        def mine(probs, target, value=value):
            return value

    assert rm.evaluate(*model(rng), **FEW).value("mine") == 0.5


def test_every_metric_says_what_it_is():
    import rankmixup.metrics

    logits, target = torch.tensor([[2.0, 0, 0, 0, 1], [0, 1, 3, 0, 0], [0, 2, 1, 0, 0]]).double(), torch.tensor([0, 1, 1])
    values = rm.evaluate(logits, target, replicates=1)
    for key, metric in METRICS.items():
        assert metric.function(logits, target, from_logits=True).item() == pytest.approx(values.value(key), abs=1e-9), key
        assert hasattr(rankmixup.metrics, metric.streaming)
        assert (metric.floor is None) == (metric.interval != "inversion")
