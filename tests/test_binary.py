"""Two classes: scores of class 1, `[N]` or `[N, 1]`, mean exactly what `[N, 2]` does, wherever scores are taken."""

import inspect
import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import binomtest, chi2, norm
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from torch import nn

import rankmixup as rm
from rankmixup import functional as F
from rankmixup import metrics, random
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import METRICS, Scores, all_metrics, diagrams, evaluate_scores, metric_uncertainty, paired_comparison
from rankmixup.evaluation.conditions import Condition, with_failures
from rankmixup.evaluation.pooling import pooled
from rankmixup.evaluation.positive import describe_positive, positive_index
from rankmixup.evaluation.registry import metric_named
from rankmixup.methods import RankMixupMRL
from rankmixup.metrics.inputs import class_scores, scores_and_labels
from rankmixup.posthoc import CALIBRATORS
from tests.oracles import unchecked

FEW = {"replicates": 20}
KINDS = pytest.mark.parametrize("from_logits", [True, False], ids=["logits", "probs"])


def task(seed: int = 0, samples: int = 90) -> tuple[torch.Tensor, torch.Tensor]:
    """Overconfident logits of class 1 in float64, with ties, and labels."""
    rng = random.stream(seed, "two classes")
    z = torch.randn(samples, generator=rng, dtype=torch.float64)
    z[-5:] = z[:5]
    return 2 * z, (torch.rand(samples, generator=rng) < (z + 0.3).sigmoid()).long()


def forms(z: torch.Tensor, from_logits: bool) -> list[torch.Tensor]:
    """`[N]`, `[N, 1]` and `[N, 2]`, the last written by hand."""
    one = z if from_logits else z.double().sigmoid()
    return [one, one.unsqueeze(1), torch.stack([torch.zeros_like(one) if from_logits else 1 - one, one], dim=1)]


FUNCTIONS = {
    name: function
    for name in metrics.functions.__all__
    if {"logits", "target", "from_logits"} <= set(inspect.signature(function := getattr(metrics, name)).parameters)
    and "class_counts" not in inspect.signature(function).parameters
}
FUNCTIONS |= {"long_tail_metrics": lambda scores, target, **more: F.long_tail_metrics(scores, target, [9, 3], **more)}
FUNCTIONS |= {"all_metrics": all_metrics}
FUNCTIONS |= {"metric_uncertainty": lambda *data, **more: metric_uncertainty(*data, **more, **FEW, rng=random.stream(0, "uncertainty"))}
STREAMING = {name: getattr(metrics, name) for name in metrics._STREAMING}
STREAMING |= {"ClasswiseCalibrationError": partial(metrics.ClasswiseCalibrationError, 2)}
STREAMING |= {"LongTailMetrics": partial(metrics.LongTailMetrics, [9, 3])}


def test_every_metric_is_among_those_tested():
    tested = set(FUNCTIONS.values())
    plain = {getattr(metric.function, "func", metric.function) for _, metric in METRICS.items()}
    assert plain <= tested
    assert {metric.streaming for _, metric in METRICS.items()} <= set(STREAMING)
    assert len(FUNCTIONS) >= 17


@KINDS
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_every_function_gives_the_same_for_all_three(name, from_logits, seed):
    z, target = task(seed)
    first, *others = (FUNCTIONS[name](scores, target, from_logits=from_logits) for scores in forms(z, from_logits))
    assert all(other == first for other in others)


@KINDS
@pytest.mark.parametrize("name", STREAMING)
def test_every_streaming_metric_gives_the_same_for_all_three(name, from_logits):
    """In batches of which one has a single sample."""
    z, target = task()
    values = []
    for scores in forms(z, from_logits):
        metric = STREAMING[name](from_logits=from_logits)
        for rows in (slice(40), slice(40, 41), slice(41, None)):
            metric.update(scores[rows], target[rows])
        values.append(metric.compute())
    assert values[0] == values[1] == values[2]


@KINDS
@pytest.mark.parametrize("kind", ["entropy", "max-probability", "energy"])
def test_every_score_of_unknown_samples_is_the_same(kind, from_logits):
    if kind == "energy" and not from_logits:
        pytest.skip("needs logits")
    first, *others = (F.ood_scores(scores, kind, from_logits=from_logits) for scores in forms(task()[0], from_logits))
    assert all(torch.equal(other, first) for other in others)


@KINDS
def test_evaluations_and_comparisons_are_the_same(from_logits):
    (z, target), (held_out, labels), (unknown, _) = task(0), task(1), task(2)
    sets = zip(*(forms(each, from_logits) for each in (z, held_out, unknown)), strict=True)
    found, compared = [], []
    for test, val, ood in sets:
        options = {"calibrate_on": (val, labels), "calibrate_with": "platt", "ood": {"other": ood}, "from_logits": from_logits, **FEW}
        found.append(rm.evaluate(test, target, **options).to_dict())
        compared.append(rm.compare({"a": test, "b": val}, target, from_logits=from_logits, **FEW).to_dict())
    assert found[0] == found[1] == found[2]
    assert compared[0] == compared[1] == compared[2]
    assert found[0]["num_classes"] == 2


def test_models_of_one_output_are_compared_with_models_of_two():
    (z, target), (other, _) = task(0), task(1)
    found = [paired_comparison(a, b, target, **FEW, rng=random.stream(0, "a")) for a in forms(z, True) for b in forms(other, True)]
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("name", list(CALIBRATORS))
def test_every_calibrator_takes_all_three_and_returns_two_columns(name):
    z, target = task()
    results = []
    for scores in forms(z, True):
        fitted = CALIBRATORS[name]().fit(scores, target, warn=False)
        assert all(fitted.fitted_on_same(other) for other in forms(z, True))
        results += [(fitted.transform(other), fitted.predict_proba(other), fitted.report_) for other in forms(z, True)]
        module = fitted.module()
        assert torch.equal(module(z.unsqueeze(1)), module(forms(z, True)[2]))
    for logits, probs, report in results:
        assert logits.shape == (90, 2)
        assert torch.equal(logits, results[0][0])
        assert torch.equal(probs, results[0][1])
        assert report == results[0][2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_precision_is_kept(dtype):
    """Small probabilities of either class are not rounded away; 1 - p is taken in float64."""
    p = torch.tensor([1e-7, 0.9995, 0.25], dtype=dtype)
    found = class_scores(p, from_logits=False)
    assert found.dtype == torch.float64
    assert torch.equal(found[:, 1], p.double())
    assert torch.equal(found[:, 0], 1 - p.double())
    z = torch.tensor([-40.0, 0.0, 40.0], dtype=dtype)
    assert F.negative_log_likelihood(z, [1, 0, 0]).item() == pytest.approx((80 + math.log(2)) / 3)
    assert torch.equal(class_scores(z, from_logits=True), torch.stack([0 * z, z], dim=1))


@pytest.mark.parametrize("labels", [torch.Tensor.bool, torch.Tensor.float, lambda y: y.unsqueeze(1), lambda y: y.double().unsqueeze(1)])
def test_labels_may_be_those_of_a_binary_loss(labels):
    z, target = task()
    assert F.brier_score(z, labels(target)) == F.brier_score(z, target)
    assert rm.evaluate(z, labels(target), **FEW) == rm.evaluate(z, target, **FEW)
    assert CALIBRATORS["platt"]().fit(z, labels(target)).report_ == CALIBRATORS["platt"]().fit(z, target).report_


@pytest.mark.parametrize(
    ("scores", "labels", "from_logits", "message"),
    [
        ([[1.0], [2.0], [3.0]], [0, 1, 2], True, "target must be 0 or 1, since logits of shape [3, 1] are of two classes, got 2"),
        ([1.0, 2.0], [-1, 1], True, "target must be 0 or 1, since logits of shape [2] are of two classes, got -1"),
        ([0.5, 0.5], [0.5, 1.0], False, "target must be 0 or 1, since probs of shape [2] are of two classes, got 0.5"),
        ([[[1.0]], [[2.0]]], [0, 1], True, "logits must have shape [N, K], or [N] or [N, 1] for two classes, got [2, 1, 1]"),
        (1.0, [0], True, "logits must have shape [N, K], or [N] or [N, 1] for two classes, got []"),
        ([0.5, 1.5], [0, 1], False, "probs of class 1 must lie in 0..1 (logits, perhaps?), got 1.5"),
        ([[0.5], [-0.25]], [0, 1], False, "probs of class 1 must lie in 0..1 (logits, perhaps?), got -0.25"),
        ([0.5, math.nan], [0, 1], False, "probs must be finite, row 1 is not"),
        ([math.inf, 0.5], [0, 1], False, "probs must be finite, row 0 is not"),
        ([math.nan, 0.5], [0, 1], True, "logits must be finite, row 0 is not"),
        (np.zeros(0), np.zeros(0, dtype=int), True, "logits must hold at least one sample and one class, got shape [0]"),
        (np.zeros((0, 1)), np.zeros(0, dtype=int), False, "probs must hold at least one sample and one class, got shape [0, 1]"),
        ([1.0, 2.0], [0, 1, 1], True, "target must hold one class index for each of 2 samples, got shape [3]"),
        ([1.0, 2.0], [[1, 0], [0, 1]], True, "target must hold one class index for each of 2 samples, got one-hot rows"),
        ([1, 0], [1, 0], True, "logits must be floating point, got torch.int64"),
    ],
)
def test_bad_scores_of_class_1_are_refused_in_one_sentence(scores, labels, from_logits, message):
    given = {"from_logits": from_logits}
    calls = [partial(F.expected_calibration_error, **given), partial(all_metrics, **given), metrics.BrierScore(**given).update]
    for call in calls:
        with unchecked(), pytest.raises(InvalidInput) as caught:
            call(scores, labels)
        assert str(caught.value).startswith(message)
    with unchecked(), pytest.raises(InvalidInput, match=r"^[^\n]+ must [^\n]+$"):
        rm.evaluate(scores, labels, from_logits=from_logits)


def test_logits_near_1_are_no_probabilities():
    """[0, 0.9995] sums to 1 within the rounding of half precision."""
    assert rm.evaluate([0.9995], [1], **FEW).value("accuracy") == 1
    scores, labels = scores_and_labels([0.9995], [True], from_logits=True)
    assert (scores.tolist(), labels.tolist()) == ([[0.0, 0.9995]], [1])


class Classifier(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def forward(self, x):
        return {"[B]": x[:, 0], "squeezed": x[:, :1].squeeze(), "[B, 1]": x[:, :1], "[B, 2]": torch.stack([0 * x[:, 0], x[:, 0]], 1)}[
            self.shape
        ]


@pytest.mark.parametrize("shape", ["[B]", "squeezed", "[B, 1]"])
def test_a_model_with_one_output_is_evaluated(shape):
    z, target = task(samples=41)
    x = z.float().unsqueeze(1)
    batches = [(x[rows], target[rows]) for rows in (slice(20), slice(20, 40), slice(40, 41))]
    binary = [(x, y.float().unsqueeze(1)) for x, y in batches]
    expected = rm.evaluate(Classifier("[B, 2]"), batches, **FEW).to_dict()
    assert rm.evaluate(Classifier(shape), batches, **FEW).to_dict() == expected
    assert rm.evaluate(Classifier(shape), binary, **FEW).to_dict() == expected
    probs = nn.Sequential(Classifier(shape), nn.Sigmoid())
    assert rm.evaluate(probs, batches, from_logits=False, **FEW).value("nll") == pytest.approx(
        expected["metrics"]["nll"]["value"], abs=1e-6
    )


@pytest.mark.parametrize("shape", ["[B]", "[B, 1]"])
def test_training_a_model_with_one_output_is_refused_with_what_to_do(shape):
    step = rm.objective(RankMixupMRL(), num_classes=2)
    with pytest.raises(InvalidInput, match="for two classes, give the model two outputs instead of one"):
        step(Classifier(shape), torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1]))


def write_all(folder, scores, labels, kind):
    """The same scores as a file of each format."""
    arrays = {kind: scores.numpy(), "labels": labels.numpy()}
    np.savez(folder / "a.npz", **arrays)
    torch.save({kind: scores, "labels": labels}, folder / "a.pt")
    save_file({kind: scores.contiguous(), "labels": labels}, folder / "a.safetensors")
    columns = scores.view(len(scores), -1)
    prefix = {"logits": "logit", "probs": "prob"}[kind]
    names = [f"{prefix}_{number}" for number in range(2)] if columns.shape[1] == 2 else [prefix if scores.ndim == 1 else f"{prefix}_1"]
    rows = ([*map(repr, row.tolist()), str(int(label))] for row, label in zip(columns, labels, strict=True))
    (folder / "a.csv").write_text("\n".join(map(",".join, [[*names, "label"], *rows])) + "\n")


@KINDS
def test_files_of_every_format_give_one_json(from_logits, tmp_path, monkeypatch, capsys):
    z, target = task()
    found = {}
    for form, scores in enumerate(forms(z, from_logits)):
        folder = tmp_path / str(form)
        folder.mkdir()
        write_all(folder, scores, target, "logits" if from_logits else "probs")
        monkeypatch.chdir(folder)
        for name in ("a.npz", "a.pt", "a.safetensors", "a.csv"):
            assert main(["evaluate", name, "--replicates", "20", "--json"]) == 0
            found[form, name] = json.loads(capsys.readouterr().out) | {"source": ""}
    first = found[0, "a.npz"]
    assert first["positive"]["index"] == 1
    assert all(each == first for each in found.values())


def test_class_names_go_with_scores_of_class_1(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.array([1.0, -2.0]), labels=np.array(["spam", "ham"]), class_names=np.array(["ham", "spam"]))
    found = Scores.read(tmp_path / "a.npz")
    assert (found.scores.tolist(), found.labels.tolist(), found.class_names) == ([[0, 1], [0, -2]], [1, 0], ("ham", "spam"))
    with pytest.raises(InvalidInput, match="class_names must name each of 2 classes, got 3 names"):
        Scores(torch.zeros(2), torch.tensor([0, 1]), class_names=("a", "b", "c"))
    found.write(tmp_path / "b.npz")
    assert torch.equal(Scores.read(tmp_path / "b.npz").scores, found.scores)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_scikit_learn_agrees_where_it_defines_the_same(seed):
    z, target = task(seed)
    p, y = z.sigmoid().numpy(), target.numpy()
    assert F.brier_score(z, target).item() == pytest.approx(2 * brier_score_loss(y, p))
    assert F.negative_log_likelihood(z, target).item() == pytest.approx(log_loss(y, p))
    positive = rm.evaluate(z, target, replicates=1).positive
    assert positive.auroc == pytest.approx(roc_auc_score(y, z.float().numpy()))
    # Its bins are closed on the left, which no probability here lies on.
    frequency, probability = calibration_curve(y, p, n_bins=15, strategy="uniform")
    ours = diagrams.reliability([Scores(z, target)], 15, positive=1)
    filled = ours.count > 0
    assert ours.accuracy[filled] == pytest.approx(frequency)
    assert ours.confidence[filled] == pytest.approx(probability)
    ece = (ours.count[filled] * np.abs(frequency - probability)).sum() / len(y)
    assert positive.ece == pytest.approx(ece)
    assert F.classwise_calibration_error(z, target).item() == pytest.approx(ece)


def test_the_positive_class_by_hand():
    probs = torch.tensor([0.9, 0.9, 0.6, 0.1], dtype=torch.float64)
    found = rm.evaluate(probs, [1, 0, 1, 0], from_logits=False, num_bins=2, replicates=1).positive
    # Above 0.5: probability 0.8, two of three; below: 0.1 and none. A tie counts half, 0.6 beats 0.1 alone.
    assert (found.index, found.name, found.frequency, found.mean_probability) == (1, None, 0.5, pytest.approx(0.625))
    assert found.ece == pytest.approx((3 * abs(0.8 - 2 / 3) + 0.1) / 4)
    assert found.auroc == pytest.approx((0.5 + 1 + 0 + 1) / 4)
    other = rm.evaluate(probs, [1, 0, 1, 0], from_logits=False, num_bins=2, positive=0, replicates=1).positive
    assert (other.index, other.mean_probability, other.auroc) == (0, pytest.approx(0.375), pytest.approx(found.auroc))
    assert rm.evaluate(probs, [1, 1, 1, 1], from_logits=False, replicates=1).positive.auroc is None


def test_the_positive_class_after_calibration(tmp_path):
    z = 2 * torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = (torch.rand(400, generator=torch.Generator().manual_seed(1)) < (z / 2 - 1).sigmoid()).long()
    held_out = Scores(z[200:], labels[200:], class_names=("ham", "spam"))
    test = Scores(z[:200], labels[:200], class_names=("ham", "spam"))
    report = evaluate_scores(test, held_out, calibrate_with="platt", replicates=10)
    after = report.calibration.positive
    assert (after.index, after.name, after.frequency) == (1, "spam", report.positive.frequency)
    assert after.mean_probability == pytest.approx(report.calibrated.probs[:, 1].mean().item())
    assert after.ece < report.positive.ece
    assert after.auroc == pytest.approx(report.positive.auroc)  # Platt scaling keeps the order
    assert str(report).count("class 1 (spam): frequency") == 2
    text = report.save(tmp_path / "a.md").read_text()
    assert text.index("class 1 (spam): frequency") < text.index("After calibration, class 1 (spam): frequency")


def test_the_positive_class_is_named_or_numbered():
    two, three = Scores(torch.zeros(2), torch.tensor([0, 1]), class_names=("ham", "spam")), Scores(torch.zeros(1, 3), torch.tensor([0]))
    assert [positive_index(two, each) for each in (None, "ham", "spam", "0", 1)] == [1, 0, 1, 0, 1]
    assert [positive_index(three, each) for each in (None, 2, "2")] == [None, 2, 2]
    for scores, wrong, message in (
        (two, "egg", r"^positive must be one of 'ham', 'spam' or an index in 0..1, got 'egg'$"),
        (two, 2, "^positive must be at most 1, got 2$"),
        (three, "3", r"^positive must be an index in 0..2, got '3'$"),
        (three, "9" * 5000, r"^positive must be an index in 0..2, got '9+.*$"),
        (
            Scores(torch.zeros(2), torch.tensor([0, 1]), class_names=("1", "0")),
            "1",
            "^positive must be clear, but '1' is both the name of class 0",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            positive_index(scores, wrong)


def test_the_page_has_a_diagram_of_the_positive_class(tmp_path, capsys):
    z, target = task()
    Scores(z, target, class_names=("ham", "spam")).write(tmp_path / "a.npz")
    for command in ("evaluate", "report"):
        page, output = tmp_path / f"{command}.html", "--html" if command == "evaluate" else "-o"
        assert main([command, str(tmp_path / "a.npz"), output, str(page), "--positive", "ham", "--replicates", "10"]) in (0, None)
        text = page.read_text()
        assert "Reliability of class 0 (ham)" in text
        assert "Frequency of class 0 (ham) against its probability" in text
    assert "class 0 (ham): frequency" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "a.npz"), "--positive", "egg"]) == 2
    assert "positive must be one of 'ham', 'spam' or an index in 0..1, got 'egg'" in capsys.readouterr().err


def test_calibration_of_the_positive_class_against_maximum_likelihood():
    """Observed over expected by hand; intercept and slope from a general optimiser, with the intervals of its likelihood."""
    rng = np.random.default_rng(5)
    z = rng.normal(-1, 1.5, 600)
    y = (rng.random(600) < expit(0.6 * z - 0.2)).astype(int)
    found = rm.evaluate(z, y, replicates=200).positive.metrics

    def loss(at: np.ndarray) -> float:
        margin = at[0] + at[1] * z
        return float((np.logaddexp(0, margin) - y * margin).sum())

    fitted = minimize(loss, [0.0, 1.0], tol=1e-12).x
    probs = expit(fitted[0] + fitted[1] * z)
    design = np.stack([np.ones_like(z), z], axis=1)
    error = np.linalg.inv(design.T @ (design * (probs * (1 - probs))[:, None]))[1, 1] ** 0.5
    assert found["slope"].value == pytest.approx(fitted[1], abs=1e-5)
    assert (found["slope"].low, found["slope"].high) == pytest.approx(
        (fitted[1] - 1.959964 * error, fitted[1] + 1.959964 * error), abs=1e-4
    )
    assert found["slope"].p_value == pytest.approx(2 * norm.sf(abs(fitted[1] - 1) / error), rel=1e-2)
    sklearn = LogisticRegression(C=np.inf, tol=1e-10).fit(z[:, None], y)
    assert found["slope"].value == pytest.approx(sklearn.coef_[0, 0], abs=1e-4)

    best = brentq(lambda shift: expit(z + shift).sum() - y.sum(), -9, 9)
    drop = 2 * (loss(np.array([0.0, 1.0])) - loss(np.array([best, 1.0])))

    def too_far(shift: float) -> float:
        return 2 * (loss(np.array([shift, 1.0])) - loss(np.array([best, 1.0]))) - chi2.isf(0.05, 1)

    ends = brentq(too_far, -9, best), brentq(too_far, best, 9)
    intercept, ratio = found["intercept"], found["observed_over_expected"]
    assert (intercept.value, intercept.low, intercept.high) == pytest.approx((best, *ends), abs=1e-6)
    assert intercept.p_value == ratio.p_value == pytest.approx(chi2.sf(drop, 1), rel=1e-6)
    expected = expit(z).sum()
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((y.sum() / expected, *(expit(z + end).sum() / expected for end in ends)))


def test_intervals_of_observed_over_expected_cover_and_the_test_has_its_level():
    """Also where only a handful of events is expected."""
    covered, rejected = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        z = rng.normal(-3, 1, 60)
        y = (rng.random(60) < expit(z)).astype(int)
        scores = Scores(torch.from_numpy(z), torch.from_numpy(y))
        ratio = describe_positive(scores, index=1, num_bins=15, replicates=1).metrics["observed_over_expected"]
        covered.append(ratio.low <= 1 <= ratio.high)
        rejected.append(ratio.p_value < 0.05)
    assert binomtest(sum(covered), 100, 0.95).pvalue > 1e-4
    assert binomtest(sum(rejected), 100, 0.05).pvalue > 1e-4


def test_the_verdict_is_that_of_all_tests_of_the_positive_class():
    z, target = task(samples=400)  # twice too extreme, and too low
    found = rm.evaluate(z, target, replicates=100).positive
    tests = [found.metrics[key].p_value for key in ("observed_over_expected", "slope", "ece")]
    assert found.p_value == pytest.approx(min(1, 3 * min(tests)))
    assert (found.verdict, found.metrics["slope"].verdict) == ("miscalibrated", "miscalibrated")
    assert found.metrics["ece"].low < found.ece < found.metrics["ece"].high
    assert found.metrics["ece"].floor.low < found.ece
    assert metric_named("positive.slope").unit == ""


@pytest.mark.parametrize(
    ("text", "of", "key"),
    [
        ("positive.ece>3%:low", "", "positive.ece"),
        ("positive.intercept<-0.5", "", "positive.intercept"),
        ("calibrated.positive.slope<0.8:high", "calibrated", "positive.slope"),
        ("groups.site.positive.observed_over_expected<0.8", "groups.site", "positive.observed_over_expected"),
        ("calibrated.groups.a.b.positive.auroc<0.8", "calibrated.groups.a.b", "positive.auroc"),
        ("groups.positive.ece>3%", "groups.positive", "ece"),
        ("ood.positive.auroc<0.8", "ood.positive", "auroc"),
    ],
)
def test_conditions_on_the_positive_class(text, of, key):
    found = Condition.parse(text)
    assert (found.of, found.key) == (of, key)


def test_conditions_on_the_positive_class_hold_or_are_refused():
    z, target = task(samples=400)
    report = rm.evaluate(z, target, calibrate_on=(z, target), calibrate_with="platt", replicates=50)
    texts = ["positive.slope<0.9", "positive.slope>2", "positive.intercept>0", "calibrated.positive.slope<0.9:high"]
    assert with_failures(report, [Condition.parse(text) for text in texts]).failed == ("positive.slope<0.9", "positive.intercept>0")
    several = rm.evaluate(torch.randn(20, 3), torch.arange(20) % 3, **FEW)
    with pytest.raises(
        InvalidInput, match=r"^condition 'positive.ece>3%' must go with two classes or a positive class \(--positive\), got none$"
    ):
        Condition.parse("positive.ece>3%").holds(several)
    with pytest.raises(InvalidInput, match=r"did you mean 'positive\.slope'"):
        Condition.parse("positive.slop<1")
    with pytest.raises(InvalidInput, match="a number that it can pass"):
        Condition.parse("positive.observed_over_expected<0")


def test_runs_of_several_seeds_have_mean_numbers_of_the_positive_class(tmp_path):
    runs = {seed: rm.evaluate(*task(seed, samples=300), replicates=50) for seed in range(3)}
    found = pooled(runs, "a")
    slopes = [run.positive.metrics["slope"].value for run in runs.values()]
    slope = found.positive.metrics["slope"]
    assert slope.value == pytest.approx(np.mean(slopes))
    assert slope.low < min(slopes) < max(slopes) < slope.high
    assert found.positive.mean_probability == pytest.approx(np.mean([run.positive.mean_probability for run in runs.values()]))
    assert (found.positive.p_value, found.positive.verdict) == (None, "miscalibrated")
    json.dumps(found.to_dict(), allow_nan=False)
    assert "mean probability" in str(found)
    assert "class 1: predicted too rarely, miscalibrated" in found.save(tmp_path / "a.html").read_text()
