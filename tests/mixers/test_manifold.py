"""Manifold mixup: where it mixes, what the trunk is paid, and that a hook which did not do its work never goes unnoticed."""

import pytest
import torch
from torch import nn

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import ManifoldMixup, Mixup, stage_names
from tests.oracles import ConvNet, images, unchecked

X = images(5, torch.float64)
LAM = torch.tensor([[0.3] * 5, [0.8] * 5])
PARTNER = torch.tensor([[1, 2, 3, 4, 0], [0, 2, 1, 4, 3]])


def mix(net, rng=None, *, num_mixes=2, raw=True, **fields):
    """Mix with the draws above; only `layer="random"` has anything left to draw."""
    rng = rng or random.stream(0)
    return ManifoldMixup(**fields)(net, X, rng, num_mixes=num_mixes, raw=raw, lam=LAM[:num_mixes], partner=PARTNER[:num_mixes])


def interpolated(features, lam, partner):
    lam = lam.double().reshape(*lam.shape, *[1] * (features.ndim - 1))
    return lam * features + (1 - lam) * features[partner]


def by_hand(net, layer):
    """Mixed logits of a network without BatchNorm, one mix at a time, with the network's parts called one by one."""
    head = nn.Sequential(net.pool, nn.Flatten(), net.fc)
    logits = []
    for lam, partner in zip(LAM, PARTNER, strict=True):
        features = net.layer1(X)
        if layer == "layer1":
            features = interpolated(features, lam, partner)
        features = net.layer2(features)
        if layer == "layer2":
            features = interpolated(features, lam, partner)
        logits.append(head(features))
    return torch.stack(logits)


def hooks(net):
    return sum(len(module._forward_hooks) for module in net.modules())


@pytest.fixture
def net():
    return ConvNet(norm=False).double()


# Where it mixes


@pytest.mark.parametrize("forward", ["shared", "separate"])
@pytest.mark.parametrize(("layer", "place"), [("last", "layer2"), ("layer2", "layer2"), ("layer1", "layer1"), ("layer1.2", "layer1")])
def test_mixes_behind_the_named_layer(net, forward, layer, place):
    mixed = mix(net, layer=layer, forward=forward)
    torch.testing.assert_close(mixed.logits, by_hand(net, place))
    torch.testing.assert_close(mixed.raw, net(X))
    assert torch.equal(mixed.lam, LAM)
    assert torch.equal(mixed.partner, PARTNER)


def test_layers_give_different_logits(net):
    assert not torch.allclose(mix(net, layer="layer1").logits, mix(net, layer="layer2").logits, rtol=1e-3)


def test_at_the_last_stage_it_is_interpolation_of_logits(net):
    """Behind it there is only averaging and an affine map, and both commute with a convex combination."""
    logits = net(X)
    torch.testing.assert_close(mix(net, layer="last").logits, interpolated(logits, LAM, PARTNER))
    assert not torch.allclose(mix(net, layer="layer1").logits, interpolated(logits, LAM, PARTNER), rtol=1e-3)


@pytest.mark.parametrize(
    ("layers", "places"), [((), {"layer1", "layer2"}), (("layer1",), {"layer1"}), (("layer2", "layer1.0"), {"layer2", "layer1.0"})]
)
def test_random_draws_one_of_the_layers_for_each_batch(net, layers, places, rng):
    logits = {place: mix(net, layer=place).logits for place in ("layer1", "layer2", "layer1.0")}
    drawn = [mix(net, rng, layer="random", layers=layers).logits for _ in range(30)]
    assert {place for got in drawn for place, expected in logits.items() if torch.equal(got, expected)} == places


def test_random_draws_from_its_own_stream_alone(net):
    first, again = ([mix(net, rng, layer="random").logits for _ in range(8)] for rng in (random.stream(7), random.stream(7)))
    assert all(map(torch.equal, first, again))


class Declared(nn.Module):
    stages = ("trunk.1", "trunk.0")

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


def test_stages_are_declared_or_found_by_their_names():
    assert stage_names(ConvNet()) == ("layer1", "layer2")
    assert stage_names(Declared()) == ("trunk.1", "trunk.0")
    assert stage_names(nn.Sequential(nn.Linear(2, 2))) == ()


# What it costs


def test_shared_and_separate_agree_in_logits_and_gradients(net):
    """Both with the network taken apart, mixed by hand."""

    def gradients(raw, mixed):
        return torch.autograd.grad((raw.sum(dim=0) - mixed).pow(3).sum(), list(net.parameters()))

    expected = gradients(net(X), by_hand(net, "layer1"))
    for forward in ("shared", "separate"):
        mixed = mix(net, forward=forward, layer="layer1")
        torch.testing.assert_close(mixed.logits, by_hand(net, "layer1"))
        for got, want in zip(gradients(mixed.raw, mixed.logits), expected, strict=True):
            torch.testing.assert_close(got, want)


def test_shared_equals_two_passes_where_batchnorm_is_only_in_front_of_the_layer():
    """In training mode both passes normalise the trunk with the statistics of the same batch."""
    net = ConvNet().double()
    shared, separate = mix(net, forward="shared"), mix(net, forward="separate")
    torch.testing.assert_close(shared.raw, separate.raw)
    torch.testing.assert_close(shared.logits, separate.logits)


def test_behind_the_layer_shared_has_joint_batch_statistics_and_separate_its_own():
    net = ConvNet().double()
    shared, separate = (mix(net, forward=forward, layer="layer1") for forward in ("shared", "separate"))
    with torch.no_grad():
        torch.testing.assert_close(separate.raw, net(X))
    assert not torch.allclose(shared.raw, separate.raw, rtol=1e-3)


@pytest.mark.parametrize(
    ("forward", "raw", "trunk", "head"),
    [("shared", True, [5], [15]), ("separate", True, [5, 5], [5, 10]), ("shared", False, [5], [10]), ("separate", False, [5], [10])],
)
def test_trunk_is_paid_once_if_shared_and_twice_if_separate(net, forward, raw, trunk, head):
    entered = {"layer1": [], "fc": []}
    for name, sizes in entered.items():
        getattr(net, name).register_forward_pre_hook(lambda _, inputs, sizes=sizes: sizes.append(len(inputs[0])))
    mixed = mix(net, forward=forward, raw=raw)
    assert entered == {"layer1": trunk, "fc": head}
    assert ManifoldMixup(forward=forward).forwarded(2, raw) == len(trunk)
    assert (mixed.raw is not None) == raw
    assert mixed.logits.shape == (2, 5, 3)


@pytest.mark.parametrize(("forward", "updates"), [("shared", 1), ("separate", 2)])
def test_running_statistics_of_the_trunk_are_updated_once_if_shared_and_twice_if_separate(forward, updates):
    net = ConvNet().double()
    mix(net, forward=forward)
    assert net.layer1[1].num_batches_tracked == updates


# A hook that did not do its work


class Odd(nn.Module):
    """Runs its layer `runs` times, or fails behind it."""

    def __init__(self, runs=1, layer=None, fail=False):
        super().__init__()
        self.layer1 = layer or nn.Identity()
        self.runs, self.fail = runs, fail

    def forward(self, x):
        out = x.flatten(1)
        for _ in range(self.runs):
            out = self.layer1(out)
            out = out[: len(x)] if isinstance(out, torch.Tensor) else out[0]
        if self.fail:
            raise ZeroDivisionError
        return out


class Returns(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


@pytest.mark.parametrize("forward", ["shared", "separate"])
@pytest.mark.parametrize(
    ("net", "message"),
    [
        (Odd(runs=0), r"^layer 'layer1' must run exactly once in a forward to be mixed behind, it ran 0 times"),
        (Odd(runs=2), r"^layer 'layer1' must run exactly once in a forward to be mixed behind, it ran 2 times$"),
        (Odd(layer=Returns(lambda x: (x, x))), r"^layer 'layer1' must return one tensor \[B, \.\.\.\] with B = 5 .*, got tuple$"),
        (Odd(layer=Returns(lambda x: {0: x})), r"^layer 'layer1' must return one tensor .*, got dict$"),
        (Odd(layer=Returns(lambda x: torch.cat([x, x]))), r"^layer 'layer1' must return .* B = 5 .*, got \[10, 36\]$"),
        (Odd(layer=Returns(lambda x: x.T)), r"^layer 'layer1' must return .* B = 5 .*, got \[36, 5\]$"),
    ],
)
def test_a_layer_that_cannot_be_mixed_behind_is_refused_and_left_without_hooks(net, message, forward):
    with pytest.raises(InvalidInput, match=message) as caught:
        mix(net, forward=forward)
    assert "\n" not in str(caught.value)
    assert hooks(net) == 0


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("forward", ["shared", "separate"])
def test_the_hook_is_removed_afterwards_even_if_the_network_fails(fail, forward):
    net = ConvNet(norm=False).double()
    net.fc.register_forward_pre_hook(lambda *_: 1 / 0 if fail else None)
    if fail:
        with pytest.raises(ZeroDivisionError):
            mix(net, forward=forward)
    else:
        mix(net, forward=forward)
    assert hooks(net) == 0


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        with random.global_seed(0, "TwoLayers"):
            self.layer1, self.fc = nn.Linear(36, 4).double(), nn.Linear(4, 3).double()

    def forward(self, x):
        return self.fc(self.layer1(x.flatten(1)).tanh()).tanh()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch.compile's own doing
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_a_compiled_network_is_mixed_or_refused_but_never_silently_raw(in_place, warm):
    torch.compiler.reset()
    net = TwoLayers()
    plain, expected = net(X), {forward: mix(net, forward=forward) for forward in ("shared", "separate")}
    compiled = net if in_place else torch.compile(net, backend="eager")
    if in_place:
        net.compile(backend="eager")
    if warm:
        compiled(X)
    for forward in ("shared", "separate", "shared", "separate"):
        try:
            with unchecked():
                mixed = mix(compiled, forward=forward)
        except InvalidInput as error:
            assert "torch.compile" in str(error)  # noqa: PT017 - to be refused is right, and so is to be mixed
        else:
            torch.testing.assert_close(mixed.logits, expected[forward].logits)
            torch.testing.assert_close(mixed.raw, expected[forward].raw)
        torch.testing.assert_close(compiled(X), plain)
        assert hooks(net) == 0


# What it refuses


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("layer_2", r"^unknown layer of ConvNet 'layer_2'; did you mean 'layer2' or"),
        ("zzzzzz", r"^unknown layer of ConvNet 'zzzzzz'; valid names: fc, layer1, layer1\.0,"),
        ("", r"^unknown layer of ConvNet ''; valid names: fc,"),
    ],
)
def test_an_unknown_layer_is_refused_with_the_nearest_names(net, layer, message):
    with pytest.raises(InvalidInput, match=message):
        mix(net, layer=layer)


def test_layers_can_be_checked_before_anything_is_forwarded(net):
    for mixer in (ManifoldMixup(), ManifoldMixup(layer="random"), ManifoldMixup(layer="layer1.0"), Mixup()):
        mixer.check_model(net)
    with pytest.raises(InvalidInput, match=r"^unknown layer of ConvNet 'layer9'; did you mean 'layer"):
        ManifoldMixup(layer="random", layers=("layer1", "layer9")).check_model(net)


@pytest.mark.parametrize("layer", ["last", "random"])
def test_a_network_without_stages_needs_a_named_layer(layer):
    with pytest.raises(InvalidInput, match=rf"^layer '{layer}' needs a model that names its stages, which Sequential does not"):
        mix(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).double(), layer=layer)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"forward": "joint"}, r"ManifoldMixup\.forward 'joint'"),
        ({"layer": 4}, r"ManifoldMixup\.layer must be of type str, got 4"),
        ({"layers": "layer1"}, r"ManifoldMixup\.layers must be of type tuple\[str, \.\.\.\], got 'layer1'"),
        ({"layers": (1, 2)}, r"ManifoldMixup\.layers must be of type tuple\[str, \.\.\.\], got \(1, 2\)"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        ManifoldMixup(**fields)


@pytest.mark.parametrize("layer", ["last", "layer1"])
def test_layers_without_a_draw_are_refused(layer):
    with pytest.raises(InvalidInput, match=rf"^layers must be given with layer='random', .* got layer='{layer}' and layers=\('layer1',\)$"):
        ManifoldMixup(layer=layer, layers=("layer1",))
