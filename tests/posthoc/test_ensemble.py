import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankmixup import random
from rankmixup.posthoc import EnsembleTemperatureScaling, TemperatureScaling
from rankmixup.posthoc.ensemble import EnsembleModule
from tests.oracles import posthoc as oracle


def noisy(rng: torch.Generator, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Overconfident logits, and one label in five drawn at random: no single temperature can be right."""
    logits = torch.randn(samples, 4, generator=rng, dtype=torch.float64) * 2
    target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    at_random = torch.rand(samples, generator=rng) < 0.2
    return logits * 2, torch.where(at_random, torch.randint(4, (samples,), generator=rng), target)


def test_value_by_hand():
    # 0.5 softmax(z / 2) + 0.25 softmax(z) + 0.25 / 2 at z = (ln 9, 0): 0.5 * 3/4 + 0.25 * 9/10 + 0.125 = 0.725
    logits = torch.tensor([[9.0, 1.0]], dtype=torch.float64).log()
    assert EnsembleModule(temperature=2.0, weights=(0.5, 0.25, 0.25))(logits)[0].exp().tolist() == pytest.approx([0.725, 0.275])


def test_weights_are_at_their_optimum(rng):
    logits, target = noisy(rng, 1000)
    fitted = EnsembleTemperatureScaling().fit(logits, target)
    temperature, weights = fitted.report_.parameters["temperature"], fitted.report_.parameters["weights"]
    assert temperature == TemperatureScaling().fit(logits, target).temperature_
    assert sum(weights) == pytest.approx(1, abs=1e-12)
    assert min(weights) >= 0
    best = oracle.ensemble_on_a_grid(logits.numpy(), target.numpy(), temperature, steps=100)
    assert fitted.report_.after["nll"] <= best + 1e-6
    # A grid this fine is near the optimum too: the curvature is bounded, and weights are off by at most 1/100.
    assert fitted.report_.after["nll"] >= best - 1e-3


def test_a_known_mixture_is_found_again(rng):
    logits, target = noisy(rng, 50_000)
    fitted = EnsembleTemperatureScaling().fit(logits, target)
    truth = 0.8 * (logits / 2).softmax(1) + 0.2 / 4
    best = -truth[torch.arange(len(target)), target].log().mean().item()
    alone = TemperatureScaling().fit(logits, target).report_.after["nll"]
    # The temperature is not refitted, so that the truth itself is out of reach; most of the way to it is not.
    assert fitted.report_.after["nll"] - best < 0.25 * (alone - best)


@given(
    st.integers(0, 2**20),
    st.floats(0.05, 20),
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
)
def test_the_ranking_of_classes_is_kept(seed, temperature, weights):
    logits = 3 * torch.randn(20, 6, generator=random.stream(seed, "ranking"), dtype=torch.float64)
    total = sum(weights)
    out = EnsembleModule(temperature=temperature, weights=[weight / total for weight in weights])(logits)
    torch.testing.assert_close(out.exp().sum(1), torch.ones(20, dtype=torch.float64))
    ranked = out.gather(1, logits.argsort(dim=1))
    # Probabilities far below the uniform part may round to the same number; none may change places.
    assert (ranked.diff(dim=1) >= -1e-12).all()
    assert torch.equal(out.argmax(1), logits.argmax(1))
