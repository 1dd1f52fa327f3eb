"""Everything in the registries keeps its promises: a new entry is tested by existing. And a broken promise is noticed."""

import functools
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

MIXERS = (Mixup(lam_mode="sample"), Mixup(forward="joint"), CutMix(), ManifoldMixup())
MORE_MIXERS = (CutMix(lam_mode="sample", forward="joint"), ManifoldMixup(forward="separate"), ManifoldMixup(layer="random"))


@functools.cache
def label(thing: Method | Mixer) -> str:
    """Its name and whatever is not its default."""
    changed = [value for key in thing.to_dict() if (value := getattr(thing, key)) != getattr(type(thing)(), key)]
    return "-".join([thing.name, *(label(value) if isinstance(value, Mixer) else str(value) for value in changed)])


def every_method() -> tuple[Method, ...]:
    """Each registered method as it comes and, if it mixes, with every mixer."""
    methods = [Method.registry[name]() for name in Method.registry]
    mixing = [method for method in methods if hasattr(method, "mixer")]
    return (*methods, *(replace(method, mixer=mixer) for method in mixing for mixer in MIXERS))


METHODS = every_method()


class TestEveryMethod(MethodContract):
    @pytest.fixture(params=METHODS, ids=label)
    def method(self, request: pytest.FixtureRequest) -> Method:
        return request.param

    def companions(self, method: Method) -> tuple[Method, ...]:
        return METHODS


class TestEveryMixer(MixerContract):
    # A set, since the variants name some mixers as they come; sorted, so that every worker collects one order.
    @pytest.fixture(params=sorted({*(Mixer.registry[name]() for name in Mixer.registry), *MIXERS, *MORE_MIXERS}, key=label), ids=label)
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
