import pytest
import torch

from rankmixup import random
from rankmixup.evaluation.class_replicates import Cells, ClassReplicates, SignFlips
from rankmixup.evaluation.noise_floor import noise_floor
from rankmixup.metrics.classwise import class_gaps
from rankmixup.metrics.inputs import checked_rows
from rankmixup.metrics.rows import bin_index
from tests.oracles.metrics import random_probs


def replicates_of(probs, target, num_bins, replicates, chunk):
    found = ClassReplicates(probs.shape[1], num_bins, len(probs), replicates, seed=3)
    for part, labels in zip(probs.split(chunk), target.split(chunk), strict=True):
        for rows in checked_rows(part, labels, from_logits=False):
            found.add(rows)
    return found


@pytest.mark.parametrize("num_bins", [1, 2, 7])
def test_gaps_are_those_of_the_metric(num_bins, rng):
    probs, target = random_probs(300, 4, rng)
    found = replicates_of(probs, target, num_bins, 5, chunk=77)
    torch.testing.assert_close(found.gaps, class_gaps(probs, target, num_bins, from_logits=False), atol=1e-10, rtol=0)


@pytest.mark.parametrize(("num_bins", "cells"), [(5, 1 << 25), (50, 0)], ids=["every cell", "cells with labels"])
def test_labels_are_drawn_from_the_probabilities(num_bins, cells, rng, monkeypatch):
    probs, target = random_probs(120, 3, rng, sharpness=1.0)
    values = []
    for _ in range(200):
        label = torch.multinomial(probs, 1, generator=rng).squeeze(1)
        values.append(class_gaps(probs, label, num_bins, from_logits=False).abs().sum().item() / 120)
    expected = torch.tensor(values, dtype=torch.float64)
    monkeypatch.setattr("rankmixup.evaluation.class_replicates._DENSE", cells)
    floor = replicates_of(probs, target, num_bins, 1000, chunk=50).calibrated()
    error = (expected.var() / len(expected) + floor.var() / len(floor)).sqrt()
    assert abs(floor.mean() - expected.mean()) < 4 * error
    assert floor.std().item() == pytest.approx(expected.std().item(), rel=0.3)


@pytest.mark.parametrize("num_bins", [1, 2, 7])
def test_every_residual_of_a_sample_gets_the_same_sign(num_bins, rng):
    probs, target = random_probs(50, 4, rng)
    probs, replicates = probs.double(), 6
    flips = SignFlips(4 * num_bins, replicates, random.stream(3))
    flips.add(Cells(probs, target, num_bins))
    signs = 2.0 * SignFlips(4 * num_bins, replicates, random.stream(3)).bits(50) - 1
    assert signs.shape == (50, replicates)
    assert abs(signs.mean().item()) < 4 / 300**0.5
    expected = torch.zeros(4, num_bins, replicates, dtype=torch.float64)
    for row, label in enumerate(target.tolist()):
        for klass in range(4):
            place = bin_index(probs[row, klass : klass + 1], num_bins).item()
            expected[klass, place] += (probs[row, klass] - float(klass == label)) * signs[row]
    torch.testing.assert_close(flips.noise.view_as(expected).double(), expected, atol=1e-5, rtol=0)


def test_the_interval_has_its_value_and_shrinks_with_samples(rng):
    logits = torch.randn(4000, 4, generator=rng, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    widths = []
    for size in (500, 4000):
        probs = (2 * logits[:size]).softmax(1)
        gaps = class_gaps(probs, target[:size], 15, from_logits=False)
        floor = noise_floor(torch.full((999,), 0.01, dtype=torch.float64), 1.0)
        found = replicates_of(probs, target[:size], 15, 200, chunk=1000).interval(floor)
        assert found.value == pytest.approx(gaps.abs().sum().item() / size, abs=1e-6)
        assert 0 < found.low < found.value <= found.high
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 2
