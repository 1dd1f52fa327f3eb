import torch
from torch import nn

from rankmixup import random
from rankmixup.mixers import LogitMixup, ManifoldMixup, mixup
from tests.oracles import Spy, images


def test_one_forward_and_logits_mixed_by_hand(rng):
    model = Spy()
    lam, partner = torch.tensor([[0.75, 0.75]]), torch.tensor([[1, 0]])
    mixed = LogitMixup()(model, images(2), rng, lam=lam, partner=partner)
    assert len(model.seen) == 1
    torch.testing.assert_close(mixed.logits[0, 0], 0.75 * mixed.raw[0] + 0.25 * mixed.raw[1])
    torch.testing.assert_close(mixed.logits[0, 1], 0.75 * mixed.raw[1] + 0.25 * mixed.raw[0])


def test_it_is_manifold_mixup_behind_the_last_stage_of_a_network_that_ends_in_pooling_and_a_linear_layer():
    class Net(nn.Module):
        stages = ("layer1",)

        def __init__(self):
            super().__init__()
            with random.global_seed(0, "net"):
                self.layer1, self.head = nn.Conv2d(1, 8, 3), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.layer1(x).mean(dim=(2, 3)))

    model, x = Net().double(), images(6).double()
    one, other = (mixer(model, x, random.stream(4), num_mixes=2) for mixer in (LogitMixup(alpha=2.0), ManifoldMixup(alpha=2.0)))
    assert torch.equal(one.partner, other.partner)
    torch.testing.assert_close(one.logits, other.logits)
    torch.testing.assert_close(one.raw, other.raw)


def test_gradients_reach_both_samples(rng):
    logits = torch.randn(4, 3, generator=rng, dtype=torch.float64, requires_grad=True)

    class Given(nn.Module):
        def forward(self, x):
            return logits

    mixed = LogitMixup(lam_mode="sample")(Given(), torch.zeros(4, 1), rng, num_mixes=3)
    mixed.logits.sum().backward()
    expected = torch.zeros(4, dtype=torch.float64)
    for lam, partner in zip(mixed.lam, mixed.partner, strict=True):
        for row in range(4):
            expected[row] += lam[row]
            expected[partner[row]] += 1 - lam[row]
    torch.testing.assert_close(logits.grad, expected.unsqueeze(1).expand(4, 3), check_dtype=False)


def test_inputs_of_any_type_and_without_raw_logits(rng):
    model = nn.Sequential(nn.Embedding(10, 5), nn.Flatten(), nn.Linear(10, 3))
    tokens = torch.randint(10, (4, 2), generator=rng)
    mixed = LogitMixup()(model, tokens, rng, raw=False, num_mixes=2)
    assert mixed.raw is None
    torch.testing.assert_close(mixed.logits, mixup(model(tokens), mixed.lam, mixed.partner))
