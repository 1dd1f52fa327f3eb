import math
import os
from pathlib import Path

import pytest
import torch
from scipy.optimize import minimize_scalar

from rankmixup import functional as F
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores
from rankmixup.posthoc import TemperatureScaling
from tests.oracles.metrics import binned


def distorted(rng: torch.Generator, temperature: float, samples: int = 3000) -> tuple[torch.Tensor, torch.Tensor]:
    """Calibrated logits multiplied by a temperature: the optimum divides them by about it again."""
    logits = 1.5 * torch.randn(samples, 5, generator=rng, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return logits * temperature, target


def test_value_by_hand():
    # Right nine times in ten at a logit difference of 2: softmax must give 0.9, so 2 / T = ln 9.
    logits, target = torch.tensor([[2.0, 0.0]] * 10), torch.tensor([0] * 9 + [1])
    assert TemperatureScaling().fit(logits, target).temperature_ == pytest.approx(2 / math.log(9), rel=1e-9)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0, 20.0])
def test_nll_is_solved_to_its_optimum(temperature, rng):
    logits, target = distorted(rng, temperature)
    fitted = TemperatureScaling().fit(logits, target)
    best = minimize_scalar(
        lambda log_t: F.negative_log_likelihood(logits / math.exp(log_t), target, from_logits=True).item(),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert fitted.temperature_ == pytest.approx(math.exp(best.x), rel=1e-5)
    assert fitted.temperature_ == pytest.approx(temperature, rel=0.1)
    assert fitted.report_.converged
    assert fitted.report_.after["nll"] <= best.fun + 1e-12


@pytest.mark.parametrize("temperature", [0.3, 3.0])
def test_a_start_from_some_of_the_rows_ends_at_the_same_optimum(temperature, rng, monkeypatch):
    logits, target = distorted(rng, temperature)
    directly = TemperatureScaling().fit(logits, target).temperature_
    monkeypatch.setattr("rankmixup.posthoc.temperature._COARSE", 64)
    assert TemperatureScaling().fit(logits, target).temperature_ == pytest.approx(directly, rel=1e-10)


def test_float32_is_solved_as_well_as_float64(rng):
    logits, target = (part.float() if part.is_floating_point() else part for part in distorted(rng, 2.0))
    exact = TemperatureScaling().fit(logits.double(), target).temperature_
    assert TemperatureScaling().fit(logits, target).temperature_ == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("size", "boundary"), [(1000.0, 100.0), (1e-3, 0.01)])
def test_an_optimum_beyond_the_search_is_a_boundary(size, boundary, rng):
    logits, target = distorted(rng, size)
    with pytest.warns(UserWarning, match="boundary"):
        assert TemperatureScaling().fit(logits, target).temperature_ == boundary


def test_equal_logits_change_nothing():
    fitted = TemperatureScaling().fit(torch.zeros(4, 3), torch.tensor([0, 0, 1, 2]))
    assert (fitted.temperature_, fitted.report_.verdict) == (1.0, "changes nothing")


def test_grid_is_the_papers(rng):
    """0.1 to 10 by 0.1, lowest ECE, smallest temperature on a tie."""
    logits, target = distorted(rng, 2.0, samples=300)
    errors = {t / 10: binned((logits / (t / 10)).softmax(1), target, 15)["ece"] for t in range(1, 101)}
    fitted = TemperatureScaling("ece-grid").fit(logits, target)
    assert fitted.temperature_ == min(errors, key=errors.get)
    assert fitted.report_.after["ece"] == pytest.approx(min(errors.values()), abs=1e-12)


def test_grid_takes_the_smallest_of_equal_temperatures():
    # Two equal logits stay equal whatever divides them: every temperature gives the same ECE.
    with pytest.warns(UserWarning, match="did not converge"):
        fitted = TemperatureScaling("ece-grid").fit(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]))
    assert fitted.temperature_ == 0.1


@pytest.mark.parametrize("objective", ["nll", "ece-grid"])
def test_logits_that_look_like_probabilities_when_scaled_are_fitted(objective):
    logits = torch.tensor([[1.5, 0.5]] * 4)  # at T = 2 every row lies in [0, 1] and sums to 1
    fitted = TemperatureScaling(objective).fit(logits, torch.tensor([0, 0, 0, 1], dtype=torch.int32))
    assert fitted.temperature_ == pytest.approx(1 / math.log(3), abs=0.05)


def test_the_two_objectives_differ(rng):
    logits, target = distorted(rng, 2.0, samples=300)
    nll, grid = (TemperatureScaling(objective).fit(logits, target).report_ for objective in ("nll", "ece-grid"))
    assert nll.after["nll"] < grid.after["nll"]
    assert grid.after["ece"] < nll.after["ece"]


@pytest.mark.parametrize(("target", "boundary"), [([0, 0, 0], 0.01), ([1, 1, 1], 100.0)])
def test_a_likelihood_without_a_minimum_warns_and_says_so(target, boundary):
    logits = torch.tensor([[2.0, 0.0]] * 3)
    with pytest.warns(UserWarning, match="boundary"):
        fitted = TemperatureScaling().fit(logits, torch.tensor(target))
    assert fitted.temperature_ == boundary
    assert not fitted.report_.converged


def test_scaling_keeps_predictions_and_returns_probabilities(rng):
    logits, target = distorted(rng, 4.0)
    fitted = TemperatureScaling().fit(logits, target)
    probs = fitted.predict_proba(logits)
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs), dtype=probs.dtype))
    assert (probs.argmax(1) == logits.argmax(1)).all()
    torch.testing.assert_close(fitted.transform(logits), logits / fitted.temperature_)


def test_bad_input():
    with pytest.raises(InvalidInput, match="must be fitted before"):
        TemperatureScaling().transform(torch.zeros(1, 2))
    with pytest.raises(InvalidInput, match="finite"):
        TemperatureScaling().fit(torch.tensor([[float("nan"), 0.0]]), torch.tensor([0]))


@pytest.mark.data
@pytest.mark.skipif("RANKMIXUP_DATA" not in os.environ, reason="RANKMIXUP_DATA does not name a folder with logits/")
@pytest.mark.parametrize(
    ("network", "expected", "temperature", "ece_at_temperature"),
    [
        ("resnet110", {"ece": 0.0475035083, "mce": 0.2957991822, "nll": 0.3582741489}, 2.39501, 0.011321),
        ("resnet50", {"ece": 0.0435432540, "nll": 0.4121202855}, None, None),
    ],
)
def test_real_logits_give_the_published_figures(network, expected, temperature, ece_at_temperature):
    folder = Path(os.environ["RANKMIXUP_DATA"]) / "logits"
    val, test = (Scores.read(folder / f"{network}_cifar10_{split}.npz") for split in ("val", "test"))
    functions = {"ece": F.expected_calibration_error, "mce": F.maximum_calibration_error, "nll": F.negative_log_likelihood}
    for key, value in expected.items():
        assert functions[key](test.scores, test.labels, from_logits=True).item() == pytest.approx(value, abs=1e-7)
    if temperature is not None:
        fitted = TemperatureScaling().fit(val.scores, val.labels)
        assert fitted.temperature_ == pytest.approx(temperature, abs=1e-5)
        after = F.expected_calibration_error(fitted.transform(test.scores), test.labels, from_logits=True)
        assert after.item() == pytest.approx(ece_at_temperature, abs=1e-6)
    else:
        assert F.expected_calibration_error(test.scores / 2.5, test.labels, from_logits=True).item() == pytest.approx(
            0.0135428845, abs=1e-7
        )
