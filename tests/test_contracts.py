"""Everything in the registries keeps its promises: a new entry is tested by existing. And a broken promise is noticed."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from rankmixup.methods import Method
from rankmixup.mixers import CutMix, ManifoldMixup, Mixer, Mixup
from rankmixup.testing import MethodContract, MixerContract
from rankmixup.types import Batch, Context, StepOutput

VARIANTS = (
    Mixup(lam_mode="sample"),
    Mixup(forward="joint"),
    CutMix(),
    CutMix(lam_mode="sample", forward="joint"),
    ManifoldMixup(),
    ManifoldMixup(layer="random", forward="separate"),
)


def label(thing: Method | Mixer) -> str:
    """`name`, with whatever is not its default."""
    default = type(thing)().to_dict()
    changed = {key: value for key, value in thing.to_dict().items() if value != default[key]}
    return "-".join([thing.name, *(str(value["name"]) if key == "mixer" else str(value) for key, value in changed.items())])


def every_method() -> tuple[Method, ...]:
    """Each registered method as it comes and, if it mixes, with every mixer."""
    methods = [Method.registry[name]() for name in Method.registry]
    mixing = [method for method in methods if hasattr(method, "mixer")]
    return (*methods, *(replace(method, mixer=mixer) for method in mixing for mixer in VARIANTS))


METHODS = every_method()


class TestEveryMethod(MethodContract):
    @pytest.fixture(params=METHODS, ids=label)
    def method(self, request: pytest.FixtureRequest) -> Method:
        return request.param

    def companions(self, method: Method) -> tuple[Method, ...]:
        return METHODS


class TestEveryMixer(MixerContract):
    @pytest.fixture(params=[*(Mixer.registry[name]() for name in Mixer.registry), *VARIANTS], ids=label)
    def mixer(self, request: pytest.FixtureRequest) -> Mixer:
        return request.param


def plain(model: nn.Module, batch: Batch) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch.x).float(), batch.y)


def head_only(model: nn.Module, batch: Batch) -> torch.Tensor:
    return model.head.weight.square().sum() + plain(model, batch).detach()


def writes_to_its_input(model: nn.Module, batch: Batch) -> torch.Tensor:
    batch.x.mul_(1.0)
    return plain(model, batch)


def keeps_half_precision(model: nn.Module, batch: Batch) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch.x), batch.y)


BROKEN: dict[str, tuple[Callable[[nn.Module, Batch], torch.Tensor], str]] = {
    "infinite": (lambda model, batch: plain(model, batch) / 0.0, "test_loss_is_a_finite_scalar"),
    "one loss per sample": (lambda model, batch: plain(model, batch).expand(8), "test_loss_is_a_finite_scalar"),
    "head only": (head_only, "test_gradient_reaches_every_parameter"),
    "torch's generator": (lambda model, batch: plain(model, batch) + torch.rand(()), "test_leaves_global_generators_alone"),
    "Python's generator": (lambda model, batch: plain(model, batch) + random.random(), "test_leaves_global_generators_alone"),
    "no seed": (lambda model, batch: plain(model, batch) + torch.rand(()), "test_same_seed_same_loss"),
    "writes": (writes_to_its_input, "test_writes_to_no_input"),
    "half": (keeps_half_precision, "test_half_precision_gives_a_float32_loss"),
    "divides by B - 1": (lambda model, batch: plain(model, batch) / (len(batch.y) - 1), "test_any_batch_size_will_do"),
    "two forwards": (lambda model, batch: plain(model, batch) + plain(model, batch), "test_forwards_no_more_than_it_declares"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_noticed(name: str) -> None:
    function, test = BROKEN[name]

    @dataclass(frozen=True)
    class Broken(Method):
        def __call__(self, model: nn.Module, batch: Batch, ctx: Context) -> StepOutput:
            return StepOutput(function(model, batch), None, {})

    contract = MethodContract()
    size = {"size": 1} if test == "test_any_batch_size_will_do" else {}
    with pytest.raises(AssertionError):
        getattr(contract, test)(method=Broken(), **size)
