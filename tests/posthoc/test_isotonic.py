import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from rankmixup import functional as F
from rankmixup import random
from rankmixup.posthoc import IsotonicCalibration
from tests.oracles import posthoc as oracle


def overconfident(rng: torch.Generator, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(samples, 3, generator=rng, dtype=torch.float64) * 1.5
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return logits * 3, target


def test_value_by_hand():
    # Class 0 at rising probability: wrong, right, wrong, right. The middle two are pooled: 0, 1/2, 1/2, 1; class 1 mirrors it.
    logits = torch.tensor([[0.5, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    fitted = IsotonicCalibration().fit(logits, torch.tensor([1, 0, 1, 0]))
    expected = [(4 * p + 0.5) / 5 for p in (0, 0.5, 0.5, 1)]
    assert fitted.predict_proba(logits)[:, 0].tolist() == pytest.approx(expected, abs=1e-6)


def test_agrees_with_the_minimax_formula(rng):
    logits, target = overconfident(rng, 60)
    probs = IsotonicCalibration().fit(logits, target).predict_proba(logits)
    np.testing.assert_allclose(probs.numpy(), oracle.isotonic_probabilities(logits.numpy(), target.numpy()), atol=1e-9)


def test_other_samples_agree_with_sklearn(rng):
    logits, target = overconfident(rng, 500)
    new, _ = overconfident(rng, 400)
    columns = []
    for k in range(3):
        regression = IsotonicRegression(out_of_bounds="clip").fit(logits.softmax(1)[:, k].numpy(), (target == k).double().numpy())
        columns.append((500 * regression.predict(new.softmax(1)[:, k].numpy()) + 1 / 3) / 501)
    expected = np.stack(columns, axis=1)
    probs = IsotonicCalibration().fit(logits, target).predict_proba(new)
    np.testing.assert_allclose(probs.numpy(), expected / expected.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.filterwarnings("ignore:isotonic calibration makes things worse")  # it does, of one sample
@given(st.integers(0, 2**20), st.integers(1, 80))
def test_every_map_is_monotone_and_gives_probabilities(seed, samples):
    rng = random.stream(seed, "isotonic")
    logits, target = overconfident(rng, samples)
    module = IsotonicCalibration().fit(logits, target).module()
    ladder = torch.linspace(0, 1, 200, dtype=torch.float64).unsqueeze(1).expand(-1, 3)
    maps = module.class_maps(ladder)
    assert (maps.diff(dim=0) >= -1e-15).all()
    assert (maps > 0).all()
    assert (maps < 1).all()


def test_a_known_distortion_is_undone(rng):
    logits, target = overconfident(rng, 20_000)
    new, labels = overconfident(rng, 20_000)
    fitted = IsotonicCalibration().fit(logits, target)
    ece = [
        F.expected_calibration_error(fitted.predict_proba(new), labels, from_logits=False).item(),
        F.expected_calibration_error(new.softmax(1), labels, from_logits=False).item(),
    ]
    assert ece[0] < 0.02 < 0.15 < ece[1]
