import math

import pytest
import torch

from rankmixup.posthoc import TemperatureScaling, VectorScaling
from tests.oracles import posthoc as oracle


def skewed(rng: torch.Generator, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Calibrated logits, then other scales and shifts for each class."""
    logits = 1.5 * torch.randn(samples, 3, generator=rng, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return (logits - torch.tensor([1.0, 0.0, -1.0])) * torch.tensor([2.0, 1.0, 3.0]), target


def test_value_by_hand():
    # Two groups of samples and two classes: the two log-odds can be met exactly, ln 9 where z = (1, 0) and -ln 3 where z = (0, 1).
    logits = torch.tensor([[1.0, 0.0]] * 10 + [[0.0, 1.0]] * 4)
    target = torch.tensor([0] * 9 + [1] + [1] * 3 + [0])
    # Logits that sum to 1 would be taken for probabilities.
    fitted = VectorScaling().fit(logits + 1, target)
    assert fitted.report_.converged
    probs = fitted.predict_proba(logits + 1)
    assert probs[0, 0].item() == pytest.approx(0.9, abs=1e-6)
    assert probs[-1, 0].item() == pytest.approx(0.25, abs=1e-6)
    assert fitted.report_.after["nll"] == pytest.approx(-(9 * math.log(0.9) + math.log(0.1) + 3 * math.log(0.75) + math.log(0.25)) / 14)
    assert sum(fitted.report_.parameters["bias"]) == pytest.approx(0, abs=1e-12)


def test_nll_is_at_its_minimum(rng):
    logits, target = skewed(rng, 150)
    fitted = VectorScaling().fit(logits, target)
    assert fitted.report_.converged
    assert fitted.report_.after["nll"] == pytest.approx(oracle.vector_scaling(logits.numpy(), target.numpy()), abs=1e-8)


def test_a_known_distortion_is_undone(rng):
    logits, target = skewed(rng, 20_000)
    fitted = VectorScaling().fit(logits, target)
    # The standard error of a scale is about 0.02 here, of a bias about 0.03.
    assert fitted.report_.parameters["scale"] == pytest.approx([1 / 2, 1 / 1, 1 / 3], abs=0.1)
    assert fitted.report_.parameters["bias"] == pytest.approx([1.0, 0.0, -1.0], abs=0.15)
    assert fitted.report_.after["nll"] < TemperatureScaling().fit(logits, target).report_.after["nll"]


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_logits_far_from_zero_are_no_harder(rng, shift):
    logits, target = skewed(rng, 300)
    fitted, shifted = VectorScaling().fit(logits, target), VectorScaling().fit(logits + shift, target)
    assert shifted.report_.converged
    assert shifted.report_.after["nll"] == pytest.approx(fitted.report_.after["nll"], abs=1e-8)


def test_likelihoods_without_an_optimum_are_named(rng):
    logits, target = skewed(rng, 300)
    with pytest.warns(UserWarning, match="class 1 has no sample, so that the best bias is minus infinity"):
        VectorScaling().fit(logits, torch.where(target == 1, 0, target))
    with pytest.warns(UserWarning, match="every sample can be made right"):
        fitted = VectorScaling().fit(logits, logits.argmax(1))
    assert not fitted.report_.converged
    assert fitted.predict_proba(logits).isfinite().all()
