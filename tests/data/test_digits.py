import pytest
import torch

import rankmixup as rm
from rankmixup import random
from rankmixup.data import Digits
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import ece_noise_floor


def test_splits_are_fixed_disjoint_and_stratified():
    one, two = Digits().load(), Digits().load()
    everything = torch.cat([split.index for split in (one.train, one.val, one.test)])
    assert sorted(everything.tolist()) == list(range(1797))
    assert one.manifest() == two.manifest()
    torch.testing.assert_close(one.test.x, two.test.x, rtol=0, atol=0)
    for split in (one.train, one.val, one.test):
        counts = torch.bincount(split.y, minlength=10)
        assert counts.max() - counts.min() <= 0.1 * len(split)
    assert (len(one.train), len(one.val), len(one.test)) == (700, 400, 697)


def test_shapes_names_and_counts():
    data = Digits().load()
    assert (data.num_classes, data.view.image_size, data.view.in_channels) == (10, 8, 1)
    assert data.class_names == tuple("0123456789")
    assert data.class_counts.sum() == 700


def test_noise_is_what_it_says():
    clean, noisy = Digits(noise=0.0).load().train.x, Digits(noise=0.5).load().train.x
    assert (noisy - clean).std().item() == pytest.approx(0.5, rel=0.02)


def test_bad_input():
    with pytest.raises(InvalidInput, match=r"train_size must lie in 10..1300, got 5"):
        Digits(train_size=5)
    with pytest.raises(InvalidInput, match=r"noise must be at least 0, got -1.0"):
        Digits(noise=-1.0)


@pytest.mark.slow
def test_cross_entropy_is_overconfident_far_above_its_noise_floor(tmp_path):
    ratios = []
    for seed in range(5):
        stored = rm.train(rm.Run("ce", data="digits", seed=seed), runs=tmp_path)
        ece = stored.result().metrics["test"]["ece"]
        floor = ece_noise_floor(stored.scores("test").probs.amax(1), ece, random.stream(seed, "floor"))
        ratios.append(ece / floor.mean)
    assert sum(ratios) / 5 >= 3, ratios
