import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmixup import functional as F
from rankmixup import random
from rankmixup.errors import InvalidInput
from tests.oracles import metrics as oracle
from tests.oracles import unchecked


def test_value_by_hand():
    # Class 0: 0.9 twice, right once: gap 0.4. Class 1: 0.1 twice, right once: gap 0.4. Class 2: nothing, never.
    probs, target = torch.tensor([[0.9, 0.1, 0.0]] * 2, dtype=torch.float64), torch.tensor([0, 1])
    assert F.classwise_calibration_error(probs, target, from_logits=False).item() == pytest.approx(0.8 / 3)
    assert F.classwise_calibration_error(probs, target, aggregate="sum", from_logits=False).item() == pytest.approx(0.8)


def test_a_label_called_impossible_counts():
    """The release leaves probabilities of 0 out; then a certain and wrong prediction would be half as bad."""
    probs, target = torch.tensor([[1.0, 0.0]]), torch.tensor([1])
    assert F.classwise_calibration_error(probs, target, aggregate="sum", from_logits=False).item() == 2


@pytest.mark.parametrize(("samples", "classes", "num_bins"), [(1, 2, 15), (7, 3, 4), (200, 10, 15), (100, 5, 1), (60, 30, 2), (60, 30, 40)])
@pytest.mark.parametrize("from_logits", [False, True])
def test_agrees_with_loops(samples, classes, num_bins, from_logits, rng):
    probs, target = oracle.random_probs(samples, classes, rng)
    expected = oracle.classwise(probs, target, num_bins)
    scores = probs.log() if from_logits else probs
    options = {"num_bins": num_bins, "from_logits": from_logits}
    assert F.classwise_calibration_error(scores, target, **options).item() == pytest.approx(sum(expected) / classes, abs=1e-12)
    assert F.classwise_calibration_error(scores, target, aggregate="sum", **options).item() == pytest.approx(sum(expected), abs=1e-12)


def test_many_chunks_are_as_good_as_one(rng, monkeypatch):
    probs, target = oracle.random_probs(300, 7, rng)
    whole = F.classwise_calibration_error(probs, target, from_logits=False).item()
    monkeypatch.setattr("rankmixup.metrics.inputs._CHUNK", 50)
    assert F.classwise_calibration_error(probs, target, from_logits=False).item() == pytest.approx(whole, abs=1e-13)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 20), st.integers(0, 10**6))
def test_properties(samples, classes, num_bins, seed):
    rng = random.stream(seed, "properties")
    probs, target = oracle.random_probs(samples, classes, rng)
    value = F.classwise_calibration_error(probs, target, num_bins=num_bins, from_logits=False).item()
    assert 0 <= value <= 1 + 1e-12
    order, names = torch.randperm(samples, generator=rng), torch.randperm(classes, generator=rng)
    assert F.classwise_calibration_error(probs[order], target[order], num_bins=num_bins, from_logits=False).item() == pytest.approx(
        value, abs=1e-12
    )
    # Classes may change their names.
    renamed = F.classwise_calibration_error(probs[:, names], names.argsort()[target], num_bins=num_bins, from_logits=False)
    assert renamed.item() == pytest.approx(value, abs=1e-12)


def test_bad_options():
    probs, target = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    with unchecked(), pytest.raises(InvalidInput, match="aggregate must be 'mean' or 'sum', got 'max'"):
        F.classwise_calibration_error(probs, target, aggregate="max", from_logits=False)
    with pytest.raises(InvalidInput, match="num_bins must be at least 1, got 0"):
        F.classwise_calibration_error(probs, target, num_bins=0, from_logits=False)
