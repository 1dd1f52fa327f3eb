"""The name of a user's own module says where training starts."""

import pytest
import torch
from torch import nn

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.models import build_model, leaves_variant_open, own_name, resolve_model
from tests.oracles import unchecked


def network(seed=0, width=4) -> nn.Module:
    with random.global_seed(seed, "test"):
        return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


class Shows(nn.Linear):
    """With an address in its representation, as of a function that is an attribute."""

    def extra_repr(self) -> str:
        return repr(lambda: None)


def test_the_same_start_has_the_same_name():
    name = own_name(network())
    assert own_name(network()) == name
    assert own_name(network().eval()) == name
    with random.global_seed(0, "test"):
        one = Shows(2, 2)
    with random.global_seed(0, "test"):
        kept, other = [lambda: 0], Shows(2, 2)
    assert kept
    assert own_name(one) == own_name(other)


@pytest.mark.parametrize("change", ["weights", "width", "buffer", "frozen", "evaluated", "dtype", "layer"])
def test_another_start_has_another_name(change):
    other = network(seed=int(change == "weights"), width=5 if change == "width" else 4)
    if change == "buffer":
        other[1].running_mean += 1
    if change == "frozen":
        other[0].requires_grad_(False)
    if change == "evaluated":
        other[1].eval()
    if change == "dtype":
        other.double()
    if change == "layer":
        other = nn.Sequential(*other, nn.Tanh())
    assert own_name(other) != own_name(network())


def test_what_has_no_weights_is_refused():
    for module, message in (
        (lambda x: x, r"model must be a torch.nn.Module, got <function"),
        (nn.Flatten(), r"model must have parameters that are trained, got none"),
        (network().requires_grad_(False), r"model must have parameters that are trained, got none"),
        (network().to("meta"), r"model must have all its weights before it is trained, 0.weight has none yet"),
        (nn.LazyLinear(3), r"model must have all its weights before it is trained, weight has none yet"),
        (nn.DataParallel(network()), r"model must not be wrapped in DistributedDataParallel or DataParallel"),
    ):
        with unchecked(), pytest.raises(InvalidInput, match=message):
            own_name(module)


def test_weights_of_half_precision_and_of_no_dimension():
    module = network().bfloat16()
    module.register_parameter("scale", nn.Parameter(torch.tensor(1.0)))
    assert own_name(module) == own_name(module)


def test_such_a_name_builds_nothing():
    name = own_name(network())
    assert resolve_model(name, 8) == name
    assert not leaves_variant_open(name)
    with pytest.raises(InvalidInput, match=rf"model '{name}' must be given as a module, .* give it again"):
        build_model(name, num_classes=2, image_size=8)
    with pytest.raises(InvalidInput, match=r"must be own: and 12 hexadecimal digits, got 'own:../../x'"):
        build_model("own:../../x", num_classes=2, image_size=8)


@pytest.mark.parametrize("name", ["resnet8", "resnet50", "wrn-26-10", "torchvision/resnet18"])
def test_a_network_with_convolutions_is_none_for_a_table(name):
    with pytest.raises(InvalidInput, match=rf"model must be one without convolutions, such as 'mlp', for a table .* got '{name}'"):
        build_model(name, num_classes=2, image_size=1, in_channels=5)


def test_a_perceptron_takes_rows():
    assert build_model("mlp", num_classes=2, image_size=1, in_channels=5)(torch.zeros(7, 5)).shape == (7, 2)
