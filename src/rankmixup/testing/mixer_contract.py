"""What every mixer promises, as a test class to inherit."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import Mixer
from rankmixup.testing.contracts import ConfiguredContract, TinyNet, assert_no_global_randomness, toy_batch
from rankmixup.types import Mixed


class MixerContract(ConfiguredContract):
    """Inherit from it, call the class `Test...` and give it a fixture `mixer`; pytest then runs every test below."""

    subject = pytest.fixture(lambda self, mixer: mixer)

    @staticmethod
    def _mix(mixer: Mixer, model: nn.Module | None = None, *, size: int = 5, seed: int = 0, **options: Any) -> Mixed:
        return mixer(model or TinyNet(), toy_batch(size).x, random.stream(seed, "mixing"), **options)

    @pytest.mark.parametrize("size", [1, 2, 5])
    @pytest.mark.parametrize("num_mixes", [1, 3])
    def test_gives_back_everything_it_drew(self, mixer: Mixer, size: int, num_mixes: int) -> None:
        """Logits of raw samples and of every mix, with a lambda in [0, 1] and a partner in the batch for each."""
        mixed = self._mix(mixer, size=size, num_mixes=num_mixes)
        assert mixed.raw is not None
        assert mixed.raw.shape == (size, 4)
        assert mixed.logits.shape == (num_mixes, size, 4)
        assert mixed.lam.shape == mixed.partner.shape == (num_mixes, size)
        assert mixed.logits.isfinite().all()
        assert ((mixed.lam >= 0) & (mixed.lam <= 1)).all()
        assert ((mixed.partner >= 0) & (mixed.partner < size)).all()

    def test_same_seed_same_draws(self, mixer: Mixer) -> None:
        """And another seed, other draws."""
        first, again, other = self._mix(mixer), self._mix(mixer), self._mix(mixer, seed=1)
        assert all(torch.equal(getattr(first, name), getattr(again, name)) for name in ("logits", "lam", "partner"))
        assert not torch.equal(first.logits, other.logits)

    @pytest.mark.parametrize(("name", "given"), [("partner", torch.arange(5).unsqueeze(0)), ("lam", torch.ones(1, 5))])
    def test_takes_the_partner_and_lambda_it_is_given(self, mixer: Mixer, name: str, given: Any) -> None:
        """A sample stays what it was where it is its own partner, whatever lambda, and with lambda 1."""
        mixed = self._mix(mixer, TinyNet().eval(), **{name: given})
        assert torch.equal(getattr(mixed, name), given)
        torch.testing.assert_close(mixed.logits[0], TinyNet().eval()(toy_batch(5).x))

    def test_lambda_is_the_weight_of_the_own_sample(self, mixer: Mixer) -> None:
        """On images of one colour and an affine model, logits are mixed exactly as lambda and partner say."""
        model, colours = _Affine(), torch.randn(6, 3, 1, 1, generator=random.stream(0, "colours"))
        mixed = mixer(model, colours.expand(6, 3, 8, 8), random.stream(0, "mixing"), num_mixes=3)
        assert mixed.raw is not None
        lam = mixed.lam.unsqueeze(-1)
        torch.testing.assert_close(mixed.logits, lam * mixed.raw + (1 - lam) * mixed.raw[mixed.partner])

    def test_gradient_reaches_every_parameter(self, mixer: Mixer) -> None:
        """Through the mixes alone, since methods may leave the raw samples out."""
        model = TinyNet()
        mixed = self._mix(mixer, model, size=8, raw=False)
        assert mixed.raw is None
        mixed.logits.square().sum().backward()
        assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())

    @pytest.mark.parametrize("named", [True, False])
    def test_mappings_and_tuples_are_mixed_as_tensors_are(self, mixer: Mixer, named: bool) -> None:
        """Inputs that are whole numbers go along; the model may return an object with logits."""
        images, numbers = toy_batch(5).x, torch.arange(5)
        inputs = {"images": images, "numbers": numbers} if named else (images, numbers)
        mixed = mixer(_TwoInputs(), inputs, random.stream(0, "mixing"), num_mixes=2)
        plain = self._mix(mixer, num_mixes=2)
        assert all(torch.equal(getattr(mixed, name), getattr(plain, name)) for name in Mixed._fields)

    def test_half_precision(self, mixer: Mixer) -> None:
        """Samples are mixed in their own precision; lambda keeps its own."""
        mixed = mixer(TinyNet().bfloat16(), toy_batch().x.bfloat16(), random.stream(0, "mixing"))
        assert mixed.logits.dtype == torch.bfloat16
        assert mixed.lam.dtype == torch.float32

    def test_leaves_global_generators_and_inputs_alone(self, mixer: Mixer) -> None:
        """Randomness is an argument, and the loop may still need its batch."""
        x, model = toy_batch().x, TinyNet()
        assert_no_global_randomness(lambda: mixer(model, x, random.stream(0, "mixing"), num_mixes=2).logits)
        assert torch.equal(x, toy_batch().x)
        assert x._version == 0
        hooks = [module for module in model.modules() if module._forward_hooks or module._forward_pre_hooks]
        assert not hooks, "a hook was left behind"

    @pytest.mark.parametrize("raw", [True, False])
    @pytest.mark.parametrize("num_mixes", [1, 3])
    def test_forwards_no_more_than_it_declares(self, mixer: Mixer, num_mixes: int, raw: bool) -> None:
        """`forwarded` is what methods declare as their cost."""
        model, entered = TinyNet(), [0]
        model.register_forward_pre_hook(lambda _, inputs: entered.append(len(inputs[0])))
        self._mix(mixer, model, num_mixes=num_mixes, raw=raw)
        assert sum(entered) <= 5 * mixer.forwarded(num_mixes, raw)

    def test_refuses_what_it_cannot_mix(self, mixer: Mixer) -> None:
        """In a sentence, before any forward."""
        with pytest.raises(InvalidInput, match="num_mixes"):
            self._mix(mixer, num_mixes=0)
        if not mixer.mixes_inputs:
            return
        with pytest.raises(InvalidInput, match="floating point"):
            mixer(TinyNet(), torch.zeros(2, 3, 6, 6, dtype=torch.uint8), random.stream(0, "mixing"))


class _TwoInputs(TinyNet):
    """A model with an input that it does not use, which returns more than logits."""

    def forward(self, images: Tensor, numbers: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return {"logits": super().forward(images), "numbers": numbers}


class _Affine(nn.Module):
    """A model that sends mixtures of one-colour images to the same mixtures of logits."""

    stages = ("layer1",)

    def __init__(self) -> None:
        super().__init__()
        with random.global_seed(0, "affine"):
            self.layer1 = nn.Conv2d(3, 5, 1)
            self.head = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer1(x).mean(dim=(2, 3)))
