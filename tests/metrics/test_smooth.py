import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup import random
from rankmixup.metrics.smooth import residual_grid, smooth_from_grid
from tests.oracles import metrics as oracle


@pytest.mark.parametrize("samples", [1, 2, 5, 9])
def test_agrees_with_the_definition(samples, rng):
    probs, target = oracle.random_probs(samples, 4, rng)
    assert F.smooth_calibration_error(probs, target, from_logits=False).item() == pytest.approx(
        oracle.smooth(oracle.top(probs, target)), abs=2e-6
    )


def test_value_by_hand():
    """Residuals of one sign lose nothing to smoothing: the error is their mean, here (0.1 + 0.4) / 2."""
    probs, target = torch.tensor([[0.9, 0.1], [0.6, 0.4]], dtype=torch.float64), torch.tensor([0, 0])
    assert F.smooth_calibration_error(probs, target, from_logits=False).item() == pytest.approx(0.25, abs=1e-9)


def test_certain_and_right_is_0_and_certain_and_wrong_is_1():
    probs = torch.tensor([[1.0, 0.0]] * 3)
    assert F.smooth_calibration_error(probs, torch.tensor([0, 0, 0]), from_logits=False).item() == pytest.approx(0, abs=1e-11)
    assert F.smooth_calibration_error(probs, torch.tensor([1, 1, 1]), from_logits=False).item() == pytest.approx(1, abs=1e-11)


def test_calibrated_predictions_come_close_to_0_and_distorted_ones_do_not(rng):
    logits = torch.randn(20000, 5, generator=rng)
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    assert F.smooth_calibration_error(logits, target, from_logits=True) < 0.02
    assert F.smooth_calibration_error(3 * logits, target, from_logits=True) > 0.1


def test_leading_dimensions_are_independent(rng):
    grids = torch.stack([residual_grid(torch.rand(50, generator=rng), torch.randint(2, (50,), generator=rng).float()) for _ in range(3)])
    together = smooth_from_grid(grids, 50)
    assert together.tolist() == pytest.approx([smooth_from_grid(grid, 50).item() for grid in grids], abs=1e-12)


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(0, 10**6))
def test_properties(samples, seed):
    rng = random.stream(seed, "properties")
    probs, target = oracle.random_probs(samples, 4, rng)
    value = F.smooth_calibration_error(probs, target, from_logits=False).item()
    confidence_minus_right = [confidence - right for confidence, right in oracle.top(probs, target)]
    # Between the gap of the means, which no smoothing removes, and the raw residuals.
    assert abs(sum(confidence_minus_right)) / samples - 1e-9 <= value <= sum(map(abs, confidence_minus_right)) / samples + 1e-9
    order = torch.randperm(samples, generator=rng)
    assert F.smooth_calibration_error(probs[order], target[order], from_logits=False).item() == pytest.approx(value, abs=1e-11)
