import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.posthoc import PlattScaling, TemperatureScaling, VectorScaling


def skewed(rng: torch.Generator, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of class 1 that must be divided by 3 and shifted by 1 to be calibrated, and labels."""
    logits = 1.5 * torch.randn(samples, generator=rng, dtype=torch.float64)
    return 3 * (logits - 1), (torch.rand(samples, generator=rng) < logits.sigmoid()).long()


def test_value_by_hand():
    """Log-odds ln 9 at z = 2 and -ln 3 at z = -1: a = (ln 9 + ln 3) / 3 = ln 3, and b = ln 9 - 2 ln 3 = 0."""
    logits, target = torch.tensor([2.0] * 10 + [-1.0] * 4), torch.tensor([1] * 9 + [0] + [0] * 3 + [1])
    fitted = PlattScaling().fit(logits, target)
    assert fitted.report_.converged
    assert fitted.report_.parameters == pytest.approx({"scale": math.log(3), "bias": 0.0}, abs=1e-9)
    assert fitted.predict_proba(logits)[[0, -1], 1].tolist() == pytest.approx([0.9, 0.25], abs=1e-7)
    nll = -(9 * math.log(0.9) + math.log(0.1) + 3 * math.log(0.75) + math.log(0.25)) / 14
    assert fitted.report_.after["nll"] == pytest.approx(nll)


def test_smoothed_labels_by_hand():
    """Four samples of class 1 at z = 1 count as 5/6, two of class 0 at z = -1 as 1/4: a + b = ln 5 and b - a = -ln 3."""
    fitted = PlattScaling("smoothed-nll").fit(torch.tensor([1.0] * 4 + [-1.0] * 2), torch.tensor([1] * 4 + [0] * 2))
    assert fitted.report_.converged
    expected = {"scale": (math.log(5) + math.log(3)) / 2, "bias": (math.log(5) - math.log(3)) / 2}
    assert fitted.report_.parameters == pytest.approx(expected, abs=1e-9)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.01, 1.0, 100.0]), shift=st.sampled_from([0.0, -50.0]))
def test_it_is_the_logistic_regression_of_scikit_learn(seed, scale, shift):
    logits, target = skewed(random.stream(seed, "platt"), 120)
    fitted = PlattScaling().fit(scale * logits + shift, target, warn=False)
    assert fitted.report_.converged
    # On standardised logits, since its search needs them; without a penalty the optimum is the same.
    x = ((logits - logits.mean()) / logits.std()).numpy()[:, None]
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x, target.numpy())
    ours = fitted.predict_proba(scale * logits + shift)[:, 1].numpy()
    assert ours == pytest.approx(theirs.predict_proba(x)[:, 1], abs=1e-6)


def test_a_known_distortion_is_undone(rng):
    logits, target = skewed(rng, 20_000)
    fitted = PlattScaling().fit(logits, target)
    # The standard error of the scale is about 0.01 here, of the bias about 0.02.
    assert fitted.report_.parameters == pytest.approx({"scale": 1 / 3, "bias": 1.0}, abs=0.1)
    assert fitted.report_.after["nll"] < TemperatureScaling().fit(logits, target).report_.after["nll"]
    # Vector scaling of two classes has one number more than it needs, and the same optimum.
    both = torch.stack([torch.zeros_like(logits), logits], dim=1)
    assert fitted.report_.after["nll"] == pytest.approx(VectorScaling().fit(both, target).report_.after["nll"], abs=1e-9)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), objective=st.sampled_from(PlattScaling.objectives))
def test_only_differences_of_logits_matter_and_their_order_stays_or_turns(seed, objective):
    rng = random.stream(seed, "platt")
    logits, target = skewed(rng, 30)
    fitted = PlattScaling(objective).fit(logits, target, warn=False)
    both = torch.stack([-logits / 2, logits / 2], dim=1) + torch.randn(30, 1, generator=rng)
    torch.testing.assert_close(PlattScaling(objective).fit(both, target, warn=False).predict_proba(both), fitted.predict_proba(logits))
    ranked = fitted.transform(logits)[logits.argsort(), 1].diff()
    assert (ranked >= 0).all() or (ranked <= 0).all()


@pytest.mark.parametrize(
    ("logits", "target", "reason"),
    [
        ([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1], "the logits of the two classes do not overlap, so that the best scale is infinite"),
        ([-2.0, -1.0, -1.0, 2.0], [1, 1, 0, 0], "do not overlap"),
        ([-2.0, -1.0, 1.0, 2.0], [0, 0, 0, 0], "class 1 has no sample, so that the best bias is infinite; smoothed labels were used"),
        ([-2.0, -1.0, 1.0, 2.0], [1, 1, 1, 1], "class 0 has no sample"),
        ([3.0, 3.0, 3.0], [0, 1, 1], "all logits are equal, so that any scale is as good"),
    ],
)
def test_likelihoods_without_an_optimum_are_named(logits, target, reason):
    with pytest.warns(UserWarning, match=f"platt calibration did not converge: .*{reason}"):
        fitted = PlattScaling().fit(logits, target)
    probs = fitted.predict_proba(logits)[:, 1]
    assert ((probs > 0) & (probs < 1)).all()
    smoothed = PlattScaling("smoothed-nll").fit(logits, target, warn=False)
    assert torch.equal(smoothed.predict_proba(logits)[:, 1], probs)
    assert smoothed.report_.converged == (len(set(logits)) > 1)


def test_more_classes_are_refused_in_one_sentence(rng):
    logits = torch.randn(20, 3, generator=rng)
    with pytest.raises(InvalidInput, match=r"^logits must be of two classes for platt calibration, got 3 classes$"):
        PlattScaling().fit(logits, logits.argmax(1))


def test_the_module_follows_a_network_with_one_or_two_outputs_and_is_exported(rng):
    logits, target = skewed(rng, 300)
    fitted = PlattScaling().fit(logits, target)
    module, column = fitted.module(), logits.float().unsqueeze(1)
    expected = fitted.transform(column)
    both = torch.cat([torch.zeros_like(column), column], dim=1)
    for given_logits in (column, both):
        torch.testing.assert_close(module(given_logits), expected)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about itself
            program = torch.export.export(module, (given_logits,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
        torch.testing.assert_close(program.module()(given_logits[:7]), expected[:7])
