import pytest
import torch

from rankmixup import functional as F
from rankmixup import random
from rankmixup.data import Synthetic
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import ece_noise_floor


def test_posterior_is_bayes_rule():
    source = Synthetic(num_classes=3, train_size=5, val_size=5, test_size=5)
    x = source.load().test.x.double()
    density = torch.stack([torch.exp(-(x - mean).square().flatten(1).sum(1) / 2) for mean in source.means().double()], dim=1)
    torch.testing.assert_close(source.posterior_logits(x).softmax(1), density / density.sum(1, keepdim=True))


def test_the_posterior_is_calibrated_and_a_sharpened_one_is_not():
    source = Synthetic(test_size=10_000)
    test = source.load().test
    logits = source.posterior_logits(test.x)
    for sharpness, calibrated in ((1.0, True), (2.0, False)):
        probs = (sharpness * logits).softmax(1)
        ece = F.expected_calibration_error(probs, test.y, from_logits=False).item()
        floor = ece_noise_floor(probs.amax(1), ece, random.stream(0, "synthetic"))
        assert (floor.p_value > 0.01) == calibrated, (sharpness, ece, floor)


def test_splits_do_not_overlap_and_repeat():
    source = Synthetic(train_size=10, val_size=20, test_size=30)
    one, two = source.load(), source.load()
    assert [len(one.train), len(one.val), len(one.test)] == [10, 20, 30]
    assert len(set(torch.cat([one.train.index, one.val.index, one.test.index]).tolist())) == 60
    assert torch.equal(one.test.x, two.test.x)


def test_bad_input():
    with pytest.raises(InvalidInput, match="num_classes must be at least 2, got 1"):
        Synthetic(num_classes=1)
    with pytest.raises(InvalidInput, match=r"separation must be positive, got 0.0"):
        Synthetic(separation=0.0)
