import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup import metrics, random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.evaluation.diagrams import reliability
from rankmixup.evaluation.uncertainty import metric_uncertainty
from rankmixup.metrics.calibration import bin_top_label
from rankmixup.metrics.rows import bin_index
from tests.oracles import metrics as oracle

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FUNCTIONS = {
    "ece": F.expected_calibration_error,
    "mce": F.maximum_calibration_error,
    "oe": F.overconfidence_error,
    "ue": F.underconfidence_error,
}


def two_class(confidences: list[float], correct: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Class 0 with the given confidence; the label is 0 where the prediction is to be right."""
    first = torch.tensor(confidences, dtype=torch.float64)
    return torch.stack([first, 1 - first], dim=1), 1 - torch.tensor(correct)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("samples", "classes", "num_bins"), [(1, 2, 15), (7, 3, 4), (400, 10, 15), (400, 10, 1), (50, 100, 30)])
def test_binned_metrics_agree_with_loops(name, samples, classes, num_bins, rng):
    probs, target = oracle.random_probs(samples, classes, rng)
    expected = oracle.binned(probs, target, num_bins)[name]
    assert FUNCTIONS[name](probs, target, num_bins=num_bins, from_logits=False).item() == pytest.approx(expected, abs=1e-12)


def test_values_by_hand():
    # Bins of width 1/2. (0.5, 1]: confidences 0.6, 0.8, 1.0 with two right, so 0.8 against 2/3: gap 2/15, all the weight.
    probs, target = two_class([0.6, 0.8, 1.0], [1, 0, 1])
    assert F.expected_calibration_error(probs, target, num_bins=2, from_logits=False).item() == pytest.approx(2 / 15)
    assert F.maximum_calibration_error(probs, target, num_bins=2, from_logits=False).item() == pytest.approx(2 / 15)
    assert F.overconfidence_error(probs, target, num_bins=2, from_logits=False).item() == pytest.approx(0.8 * 2 / 15)
    assert F.underconfidence_error(probs, target, num_bins=2, from_logits=False).item() == 0


def test_underconfidence_keeps_the_confidence_factor():
    # One bin, confidence 0.6, all right: 0.6 * (1 - 0.6).
    assert F.underconfidence_error(*two_class([0.6, 0.6], [1, 1]), from_logits=False).item() == pytest.approx(0.24)


def test_bins_are_right_closed_and_confidence_one_has_no_bin_of_its_own():
    """50 samples at 1.0 with accuracy 0.9 and 50 at 0.97 with accuracy 1: one bin in the paper, two in torchmetrics."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, target = two_class([1.0] * 50 + [0.97] * 50, [0] * 5 + [1] * 95)
    ours = F.expected_calibration_error(probs, target, from_logits=False).item()
    assert ours == pytest.approx(0.035)
    # torchmetrics' bins are left-closed, so that confidence 1.0 falls into a sixteenth bin.
    theirs = multiclass_calibration_error(probs, target, num_classes=2, n_bins=15, norm="l1").item()
    assert theirs == pytest.approx(0.065, abs=1e-6)


def test_agrees_with_torchmetrics_where_no_confidence_lies_on_an_edge(rng):
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, target = oracle.random_probs(2000, 10, rng)
    theirs = multiclass_calibration_error(probs, target, num_classes=10, n_bins=15, norm="l1").item()
    assert F.expected_calibration_error(probs, target, from_logits=False).item() == pytest.approx(theirs, abs=1e-6)


@settings(max_examples=50)
@given(st.integers(1, 60), st.integers(2, 6), st.integers(1, 20), st.integers(0, 10**6))
def test_properties(samples, classes, num_bins, seed):
    rng = random.stream(seed, "properties")
    probs, target = oracle.random_probs(samples, classes, rng)
    value = {name: function(probs, target, num_bins=num_bins, from_logits=False).item() for name, function in FUNCTIONS.items()}
    assert 0 <= value["ece"] <= value["mce"] + 1e-12 <= 1 + 1e-12
    assert value["oe"] + value["ue"] <= value["ece"] + 1e-12
    order = torch.randperm(samples, generator=rng)
    for name, function in FUNCTIONS.items():
        assert function(probs[order], target[order], num_bins=num_bins, from_logits=False).item() == pytest.approx(value[name], abs=1e-12)
    # With one bin, ECE is the gap of the means.
    top = oracle.top(probs, target)
    gap = abs(sum(confidence - correct for confidence, correct in top) / samples)
    assert F.expected_calibration_error(probs, target, num_bins=1, from_logits=False).item() == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize("edges", ["mass", "release"])
@pytest.mark.parametrize(("samples", "num_bins"), [(1, 15), (10, 15), (100, 15), (403, 15), (403, 1)])
def test_adaptive_agrees_with_loops(edges, samples, num_bins, rng):
    probs, target = oracle.random_probs(samples, 5, rng)
    expected = (oracle.adaptive if edges == "mass" else oracle.adaptive_release)(probs, target, num_bins)
    assert F.adaptive_calibration_error(probs, target, num_bins=num_bins, edges=edges, from_logits=False).item() == pytest.approx(
        expected, abs=1e-12
    )


def test_adaptive_with_ties_does_not_depend_on_order(rng):
    probs, target = two_class([0.7] * 40 + [0.9] * 23, [1] * 20 + [0] * 20 + [1] * 23)
    values = set()
    for _ in range(5):
        order = torch.randperm(63, generator=rng)
        values.add(round(F.adaptive_calibration_error(probs[order], target[order], num_bins=4, from_logits=False).item(), 12))
    # 40 samples at 0.7 of which half are right, 23 at 0.9 all right: every bin's gap has its own sign or mixes both.
    assert values == {round(oracle.adaptive(probs, target, 4), 12)}


def test_adaptive_release_drops_the_smallest_confidence():
    """Two samples, one bin: (lo, hi] leaves the smaller one out, |0.9 - 1| / 2; equal mass counts both, |0.6 + 0.9 - 1| / 2."""
    probs, target = two_class([0.6, 0.9], [0, 1])
    assert F.adaptive_calibration_error(probs, target, num_bins=1, edges="release", from_logits=False).item() == pytest.approx(0.05)
    assert F.adaptive_calibration_error(probs, target, num_bins=1, edges="mass", from_logits=False).item() == pytest.approx(0.25)


def test_logits_and_probabilities_give_the_same(rng):
    logits = torch.randn(50, 4, generator=rng, dtype=torch.float64)
    target = torch.randint(4, (50,), generator=rng)
    for function in (*FUNCTIONS.values(), F.adaptive_calibration_error, F.negative_log_likelihood, F.brier_score, F.accuracy):
        expected = function(logits.softmax(1), target, from_logits=False).item()
        assert function(logits, target).item() == pytest.approx(expected, abs=1e-12)


def test_float16_scores_are_binned_in_float32(rng):
    probs, target = oracle.random_probs(300, 10, rng)
    half = probs.half()
    expected = oracle.binned(half.float(), target, 15)["ece"]
    assert F.expected_calibration_error(half, target, from_logits=False).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("samples", "classes", "num_bins"), [(2, 2, 1), (7, 3, 4), (400, 10, 15), (400, 10, 1), (50, 100, 30)])
def test_l2_debiased_and_ks_agree_with_loops(samples, classes, num_bins, rng):
    probs, target = oracle.random_probs(samples, classes, rng)
    value = F.expected_calibration_error(probs, target, num_bins=num_bins, norm="l2", from_logits=False).item()
    assert value == pytest.approx(oracle.ece_l2(probs, target, num_bins), abs=1e-12)
    debiased = F.debiased_calibration_error(probs, target, num_bins=num_bins, from_logits=False).item()
    # A root of a difference near 0 has half as many right digits.
    assert debiased**2 == pytest.approx(oracle.ece_l2(probs, target, num_bins, debias=True) ** 2, abs=1e-12)
    assert F.ks_calibration_error(probs, target, from_logits=False).item() == pytest.approx(oracle.ks(probs, target), abs=1e-12)


def test_norms_by_hand():
    # Two bins of gaps 0.1 and 0.3.
    probs, target = two_class([0.9, 0.9, 0.8, 0.8], [1, 1, 1, 0])
    assert F.expected_calibration_error(probs, target, norm="l2", from_logits=False).item() == pytest.approx((0.05) ** 0.5)
    assert F.expected_calibration_error(probs, target, norm="max", from_logits=False).item() == pytest.approx(0.3)
    # The second bin's noise is 0.5 * 0.5 / (2 - 1), more than its squared gap of 0.09: (0.01 - 0.16) / 2 is below 0.
    assert F.debiased_calibration_error(probs, target, from_logits=False).item() == 0


def test_norms_agree_with_torchmetrics_where_no_confidence_lies_on_an_edge(rng):
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, target = oracle.random_probs(2000, 10, rng)
    for norm in ("l2", "max"):
        theirs = multiclass_calibration_error(probs, target, num_classes=10, n_bins=15, norm=norm).item()
        assert F.expected_calibration_error(probs, target, norm=norm, from_logits=False).item() == pytest.approx(theirs, abs=1e-6)


def test_debiasing_removes_what_chance_adds(rng):
    """Calibrated by construction: the squared error is pure noise, of which on average nothing is left."""
    plain = debiased = 0.0
    for _ in range(200):
        confidence = 0.5 + 0.5 * torch.rand(500, generator=rng, dtype=torch.float64)
        bins = bin_top_label(confidence, (torch.rand(500, generator=rng) < confidence).double(), 15)
        noise = bins.accuracy * (1 - bins.accuracy) / (bins.count - 1).clamp(min=1)
        plain += bins.ece("l2").item() ** 2 / 200
        debiased += (bins.weight * (bins.gap.square() - noise)).sum().item() / 200
    assert abs(debiased) < 0.1 * plain


def test_debiased_error_needs_a_bin_of_two():
    for probs, target in (two_class([0.9], [0]), two_class([0.6, 0.9], [0, 1])):
        with pytest.raises(InvalidInput, match="must have a bin of at least two samples, got none"):
            F.debiased_calibration_error(probs, target, from_logits=False)


def test_ks_by_hand_and_with_ties():
    # In order of confidence 0.6 wrong, 0.8 right twice: running gaps 0.6, then 0.6 - 0.4.
    assert F.ks_calibration_error(*two_class([0.8, 0.6, 0.8], [1, 0, 1]), from_logits=False).item() == pytest.approx(0.2)
    # All tied: only the sum over all counts, whichever comes first.
    assert F.ks_calibration_error(*two_class([0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0]), from_logits=False).item() == 0


@settings(max_examples=50)
@given(st.integers(2, 60), st.integers(0, 10**6))
def test_properties_of_l2_debiased_and_ks(samples, seed):
    rng = random.stream(seed, "properties")
    probs, target = oracle.random_probs(samples, 3, rng)
    probs = probs[torch.randint(samples, (samples,), generator=rng)]  # ties
    order = torch.randperm(samples, generator=rng)
    l1, l2, top = (
        F.expected_calibration_error(probs, target, num_bins=1, norm=norm, from_logits=False).item() for norm in ("l1", "l2", "max")
    )
    assert l1 == pytest.approx(l2) == pytest.approx(top)
    assert F.debiased_calibration_error(probs, target, num_bins=1, from_logits=False).item() <= l2 + 1e-12
    l1, l2, top = (F.expected_calibration_error(probs, target, norm=norm, from_logits=False).item() for norm in ("l1", "l2", "max"))
    assert l1 - 1e-12 <= l2 <= top + 1e-12
    ks = F.ks_calibration_error(probs, target, from_logits=False).item()
    gap = abs(sum(confidence - right for confidence, right in oracle.top(probs, target))) / samples
    assert gap - 1e-12 <= ks <= 1
    assert F.ks_calibration_error(probs[order], target[order], from_logits=False).item() == pytest.approx(ks, abs=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
def test_k_of_b_belongs_to_bin_k_at_every_count(dtype):
    for num_bins in range(1, 201):
        edges = torch.tensor([k / num_bins for k in range(1, num_bins + 1)], dtype=dtype)
        assert bin_index(edges, num_bins).tolist() == list(range(num_bins))


@settings(max_examples=50)
@given(st.integers(1, 1000), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 10**6))
def test_a_rounding_error_beside_an_edge_is_in_its_bin_and_nothing_else_is(num_bins, dtype, seed):
    edges = torch.arange(1, num_bins + 1, dtype=torch.float64) / num_bins
    one_more, one_less = (edges.to(dtype).nextafter(torch.tensor(way, dtype=dtype)).clamp(0, 1) for way in (2, -1))
    for values in (one_more, one_less):
        assert bin_index(values, num_bins).tolist() == list(range(num_bins))
    assert bin_index((edges[:-1] + 2e-6).to(dtype), num_bins).tolist() == list(range(1, num_bins))
    values = torch.rand(50, generator=random.stream(seed, "bins"), dtype=torch.float64)
    values = values[(values * num_bins).frac() / num_bins > 2e-6]
    assert bin_index(values.to(dtype), num_bins).tolist() == (values * num_bins).ceil().sub(1).tolist()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("num_bins", [5, 10, 15, 20])
def test_rounded_confidences_have_the_same_errors_in_every_type(dtype, num_bins):
    """Confidences in steps of 0.05, as people and language models give them; bins by whole numbers."""
    steps = torch.arange(10, 21).repeat_interleave(20)
    correct = (torch.arange(len(steps)) % 20 < steps - 10 + torch.tensor([7, 0])[steps % 2]).double()
    bins = (steps * num_bins + 19) // 20 - 1
    gaps = torch.bincount(bins, steps / 20 - correct, minlength=num_bins) / len(steps)
    # The steps themselves are up to this much larger or smaller, once rounded.
    rounding = pytest.approx(gaps.abs().sum().item(), abs=max(1e-6, torch.finfo(dtype).eps / 2))
    probs, target = two_class((steps / 20).tolist(), correct.long().tolist())
    probs = probs.to(dtype)
    streaming = metrics.ExpectedCalibrationError(num_bins=num_bins, from_logits=False)
    for part in (slice(0, 33), slice(33, None)):
        streaming.update(probs[part], target[part])
    found = metric_uncertainty(probs, target, num_bins=num_bins, from_logits=False, replicates=10, rng=random.stream(0))
    classwise = F.classwise_calibration_error(probs, target, num_bins=num_bins, from_logits=False)
    assert F.expected_calibration_error(probs, target, num_bins=num_bins, from_logits=False).item() == rounding
    assert streaming.compute().item() == rounding
    assert found["ece"].value == rounding
    assert found["classwise_ece"].value == pytest.approx(classwise.item(), abs=1e-12)
    assert reliability([Scores(probs, target, from_logits=False)], num_bins).ece == rounding
    if dtype in (torch.float32, torch.float64):
        assert F.expected_calibration_error(probs.log().clamp(min=-50), target, num_bins=num_bins).item() == rounding
