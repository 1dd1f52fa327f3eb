import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.posthoc import HistogramBinning
from tests.oracles import posthoc as oracle


def overconfident(rng: torch.Generator, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(samples, 4, generator=rng, dtype=torch.float64) * 1.5
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return logits * 3, target


WORSE = pytest.mark.filterwarnings("ignore:histogram calibration makes things worse")
"""Where the values matter, not whether they help."""


@WORSE
def test_value_by_hand():
    # Two bins of two: one of two right, then two of two; the others keep their proportions, 2 : 1.
    low, high = [2.0, np.log(2), 0.0], [5.0, np.log(2), 0.0]
    logits = torch.tensor([low, low, high, high], dtype=torch.float64)
    probs = HistogramBinning(num_bins=2).fit(logits, torch.tensor([0, 1, 0, 0])).predict_proba(logits)
    first, second = (1 + 1 / 3) / 3, (2 + 1 / 3) / 3
    assert probs[0].tolist() == pytest.approx([first, (1 - first) * 2 / 3, (1 - first) / 3])
    assert probs[2].tolist() == pytest.approx([second, (1 - second) * 2 / 3, (1 - second) / 3])


@pytest.mark.parametrize(("samples", "num_bins"), [(200, 15), (7, 15), (100, 1), (31, 4)])
def test_agrees_with_a_loop(rng, samples, num_bins):
    logits, target = overconfident(rng, samples)
    probs = HistogramBinning(num_bins=num_bins).fit(logits, target).predict_proba(logits)
    expected = oracle.histogram_confidences(logits.numpy(), target.numpy(), num_bins)
    np.testing.assert_allclose(probs.amax(1).numpy(), expected, atol=1e-9)


@WORSE
@given(st.integers(0, 2**20), st.integers(1, 60), st.integers(2, 5), st.sampled_from([torch.float32, torch.float64]))
def test_predictions_never_change(seed, samples, classes, dtype):
    """Even where labels are drawn at random, so that most bins are less accurate than chance would have it."""
    rng = random.stream(seed, "histogram")
    logits = (4 * torch.randn(samples, classes, generator=rng)).round().to(dtype)  # ties and saturation among them
    target = torch.randint(classes, (samples,), generator=rng)
    if (logits == 0).all():
        return
    binning = HistogramBinning(num_bins=5).fit(logits, target)
    new = (4 * torch.randn(50, classes, generator=rng)).round().to(dtype)
    probs = binning.predict_proba(new)
    assert torch.equal(probs.argmax(1), new.argmax(1))
    torch.testing.assert_close(probs.sum(1), torch.ones(50, dtype=dtype))
    assert binning.transform(new).isfinite().all()


def test_equal_confidences_share_a_bin():
    logits = torch.tensor([[1.0, 0.0]] * 30 + [[2.0, 0.0]])
    fitted = HistogramBinning(num_bins=15).fit(logits, torch.tensor([0] * 15 + [1] * 15 + [0]))
    assert fitted.report_.parameters["values"] == pytest.approx([15.5 / 31, 1.5 / 2])


def test_a_known_distortion_is_undone(rng):
    logits, target = overconfident(rng, 20_000)
    new, labels = overconfident(rng, 20_000)
    fitted = HistogramBinning().fit(logits, target)
    ece = [
        F.expected_calibration_error(fitted.predict_proba(new), labels, from_logits=False).item(),
        F.expected_calibration_error(new.softmax(1), labels, from_logits=False).item(),
    ]
    assert ece[0] < 0.02 < 0.1 < ece[1]


def test_bad_number_of_bins():
    with pytest.raises(InvalidInput, match="num_bins must be at least 1, got 0"):
        HistogramBinning(num_bins=0)


@pytest.mark.parametrize("value", [1e300, 1.5])
def test_stored_values_that_are_no_probabilities_give_none(value):
    """Only some logits fall into the bin, so that it may not show when the calibrator is restored."""
    fitted = HistogramBinning(num_bins=2).fit(*overconfident(random.stream(0), 50), warn=False)
    state = {"edges": torch.tensor([0.5, 0.9]), "values": torch.tensor([0.4, value, 0.95], dtype=torch.float64)}
    restored = HistogramBinning.restored(fitted.report_, state, 3)
    assert restored.predict_proba(torch.tensor([[9.0, 0.0, 0.0]])).isfinite().all()
    with pytest.raises(InvalidInput, match="what 'histogram' was fitted to must make probabilities of logits, it does not"):
        restored.predict_proba(torch.tensor([[9.0, 0.0, 0.0], [1.5, 0.0, 0.0]]))
