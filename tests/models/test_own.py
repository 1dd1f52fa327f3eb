"""The name of a user's own module says where training starts."""

import os
import subprocess
import sys
from functools import partial

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


class Activated(nn.Linear):
    """Whose activation is an attribute that its representation does not show."""

    def __init__(self, activation):
        with random.global_seed(0, "test"):
            super().__init__(2, 2)
        self.activation = activation

    def forward(self, x):
        return self.activation(super().forward(x))


def of_class(forward, **attributes):
    """A module of a class that is defined anew, with the code of `forward`."""
    with random.global_seed(0, "test"):
        return type("Net", (nn.Linear,), {"forward": forward, **attributes})(2, 2)


def hooked(hook):
    module = of_class(nn.Linear.forward)
    module.register_forward_hook(hook)
    return module


def masked(mask):
    module = of_class(nn.Linear.forward)
    module.register_buffer("mask", torch.tensor(mask), persistent=False)
    return module


def helper(x):
    return x.relu()


def other_helper(x):
    return x.tanh()


def power(exponent):
    return lambda x: x**exponent


PAIRS = {
    "function of torch": lambda: (Activated(torch.relu), Activated(torch.tanh)),
    "function of a module of torch": lambda: (Activated(nn.functional.softplus), Activated(nn.functional.gelu)),
    "own function": lambda: (Activated(lambda x: x.relu()), Activated(lambda x: x.tanh())),
    "partial": lambda: (Activated(partial(torch.clamp, min=0)), Activated(partial(torch.clamp, min=1))),
    "module in a list": lambda: tuple(of_class(nn.Linear.forward, layers=[each]) for each in (nn.ReLU(), nn.Tanh())),
    "closure": lambda: (Activated(power(2)), Activated(power(3))),
    "number": lambda: (of_class(nn.Linear.forward, power=2), of_class(nn.Linear.forward, power=3)),
    "code": lambda: (of_class(lambda self, x: (x @ self.weight).relu()), of_class(lambda self, x: (x @ self.weight).tanh())),
    "code within code": lambda: (of_class(lambda self, x: [y + 1 for y in x]), of_class(lambda self, x: [y + 2 for y in x])),
    "helper": lambda: (of_class(lambda self, x: helper(x)), of_class(lambda self, x: other_helper(x))),
    "decorated": lambda: tuple(of_class(torch.no_grad()(each)) for each in (lambda self, x: x, lambda self, x: -x)),
    "property": lambda: tuple(of_class(nn.Linear.forward, power=property(each)) for each in (lambda self: 2, lambda self: 3)),
    "hook": lambda: (hooked(lambda module, x, y: y), hooked(lambda module, x, y: -y)),
    "buffer that is not stored": lambda: (masked([0.0, 1.0]), masked([1.0, 1.0])),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_modules_that_do_something_else_have_other_names(pair):
    """Their weights and their representation are the same."""
    (one, other), (again, _) = PAIRS[pair](), PAIRS[pair]()
    assert own_name(one) == own_name(again)
    assert own_name(one) != own_name(other)
    assert repr(one) == repr(other)


def test_comments_and_places_of_code_do_not_matter_and_helpers_do(monkeypatch):
    text = "def forward(self, x):\n    return helper(x) + len({'a', 'b', 'c'})\n"
    names = set()
    for source in (text, f"# a remark\n\n{text}"):
        exec(compile(source, "elsewhere.py" if "#" in source else "here.py", "exec"), space := {"helper": helper})
        names.add(own_name(of_class(space["forward"])))
    assert len(names) == 1
    space["helper"] = lambda x: x.tanh()
    assert own_name(of_class(space["forward"])) not in names


def test_classes_of_no_module_are_looked_at():
    """As of a file that a plug-in or a notebook runs."""
    names = set()
    for number in (1, 1, 2):
        exec(f"class Net(Base):\n    def forward(self, x):\n        return x * {number}", space := {"Base": nn.Linear})
        with random.global_seed(0, "test"):
            names.add(own_name(space["Net"](2, 2)))
    assert len(names) == 2


@pytest.mark.slow
def test_names_are_the_same_in_every_process():
    code = "import torch, tests.models.test_own as own; print(*[own.own_name(pair()[0]) for pair in own.PAIRS.values()])"
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in "12"
    ]
    assert said[0] == said[1]
    assert said[0].count("own:") == len(PAIRS)


def test_a_module_that_nothing_can_be_said_about_needs_a_name(tmp_path):
    with (tmp_path / "open").open("w") as file:
        module = of_class(nn.Linear.forward, log=file)
        rule = (
            r"model must have code and attributes that can be told from others', .* \(TypeError: cannot pickle .*\): give rm.train a name="
        )
        with pytest.raises(InvalidInput, match=rule):
            own_name(module)
        assert own_name(module, "a") == own_name(module, "a")
        assert own_name(module, "a") != own_name(module, "b")


def test_what_torch_compile_puts_around_a_module_does_not_matter():
    name = own_name(torch.compile(network()))
    assert own_name(torch.compile(network())) == name
    assert own_name(torch.compile(network(1))) != name


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
    with pytest.raises(InvalidInput, match=r"must be own: and hexadecimal digits, 6 and 12 of them, got 'own:../../x'"):
        build_model("own:../../x", num_classes=2, image_size=8)


@pytest.mark.parametrize("name", ["resnet8", "resnet50", "wrn-26-10", "torchvision/resnet18"])
def test_a_network_with_convolutions_is_none_for_a_table(name):
    with pytest.raises(InvalidInput, match=rf"model must be one without convolutions, such as 'mlp', for a table .* got '{name}'"):
        build_model(name, num_classes=2, image_size=1, in_channels=5)


def test_a_perceptron_takes_rows():
    assert build_model("mlp", num_classes=2, image_size=1, in_channels=5)(torch.zeros(7, 5)).shape == (7, 2)
