import pytest
import torch

from rankmixup import build_model, random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import stage_names
from rankmixup.models import MLP, MODELS, ResNet, SmallResNet, leaves_variant_open, resolve_model
from rankmixup.models.resnet import BasicBlock, _Bottleneck

# name, classes, pixels, parameters
NETWORKS = [
    ("resnet8", 10, 32, 75_290),
    ("resnet20", 10, 32, 269_722),
    ("resnet32", 10, 32, 464_154),
    ("resnet18", 10, 32, 11_173_962),
    ("resnet50", 10, 32, 23_520_842),
    ("resnet101", 10, 32, 42_512_970),
    ("wrn-26-10", 10, 32, 36_481_434),
    ("resnet18", 200, 64, 11_578_632),
    ("resnet50", 200, 64, 25_138_952),
    ("resnet101", 200, 64, 44_131_080),
    ("wrn-26-10", 200, 64, 36_987_224),
    ("resnet50", 1000, 224, 25_557_032),
]


def forward_in_both_modes(name, num_classes, size):
    model = build_model(name, num_classes=num_classes, image_size=size, in_channels=3).to(memory_format=torch.channels_last)
    x = torch.zeros(1, 3, size, size).to(memory_format=torch.channels_last)
    with torch.no_grad():
        return model, model.train()(x), model.eval()(x)


@pytest.mark.parametrize(("name", "num_classes", "size", "parameters"), NETWORKS)
def test_parameter_counts_and_shapes(name, num_classes, size, parameters):
    with torch.device("meta"):  # shapes without the arithmetic
        model, *logits = forward_in_both_modes(name, num_classes, size)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert [out.shape for out in logits] == [(1, num_classes)] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_classes", "size", "parameters"), NETWORKS)
def test_initial_logits_are_finite(name, num_classes, size, parameters):
    with random.global_seed(0, "weights"):
        _, *logits = forward_in_both_modes(name, num_classes, size)
    assert all(torch.isfinite(out).all() for out in logits)


@pytest.mark.parametrize(
    ("name", "size", "stages"),
    [
        ("mlp", 8, ("hidden1", "hidden2")),
        ("resnet8", 32, ("stage1", "stage2", "stage3")),
        ("resnet20", 32, ("stage1", "stage2", "stage3")),
        ("resnet32", 32, ("stage1", "stage2", "stage3")),
        ("resnet18", 32, ("stage1", "stage2", "stage3", "stage4")),
        ("resnet50", 32, ("stage1", "stage2", "stage3", "stage4")),
        ("resnet101", 64, ("stage1", "stage2", "stage3", "stage4")),
        ("wrn-26-10", 32, ("stage1", "stage2", "stage3")),
        ("resnet50", 224, ("layer1", "layer2", "layer3", "layer4")),
    ],
)
def test_stages_name_layers(name, size, stages):
    model = build_model(name, num_classes=2, image_size=size, in_channels=1)
    assert stage_names(model) == stages
    assert set(stages) <= {layer for layer, _ in model.named_modules()}


@pytest.mark.parametrize("name", ["resnet8", "resnet18", "mlp"])
@pytest.mark.parametrize("train", [True, False])
def test_any_size_and_number_of_channels(name, train):
    for size, channels in ((8, 1), (28, 1), (32, 4)):
        model = build_model(name, num_classes=7, image_size=size, in_channels=channels).train(train)
        assert model(torch.zeros(2, channels, size, size)).shape == (2, 7)


def test_every_network_that_is_listed_is_built():
    for name in MODELS:
        with torch.device("meta"):
            assert isinstance(build_model(name, num_classes=3, image_size=32), (MLP, ResNet, SmallResNet)), name


def test_strides_and_pooling_are_the_papers(rng):
    shapes = {}
    for name, size in (("resnet18:cifar", 32), ("resnet18:tiny", 64), ("wrn-26-10:cifar", 32), ("wrn-26-10:tiny", 64)):
        with torch.device("meta"):
            model = build_model(name, num_classes=5, image_size=size)
            last = model.get_submodule(stage_names(model)[-1])
            last.register_forward_hook(lambda module, inputs, out, name=name: shapes.update({name: tuple(out.shape[1:])}))
            model.eval()(torch.zeros(1, 3, size, size))
        shapes[name] += (model.fc.in_features,)
    assert shapes == {
        "resnet18:cifar": (512, 4, 4, 512),
        "resnet18:tiny": (512, 8, 8, 2048),
        "wrn-26-10:cifar": (640, 8, 8, 640),
        "wrn-26-10:tiny": (640, 16, 16, 2560),
    }


def test_a_bottleneck_strides_in_its_3x3_convolution():
    block = _Bottleneck(64, 32, 2)
    assert [conv.stride for conv in (block.conv1, block.conv2, block.conv3)] == [(1, 1), (2, 2), (1, 1)]
    assert [layer.kernel_size for layer in block.shortcut if isinstance(layer, torch.nn.Conv2d)] == [(1, 1)]
    assert len(_Bottleneck(64, 16, 1).shortcut) == 0


def test_initial_weights_are_the_papers():
    with random.global_seed(0, "weights"):
        cifar, tiny = (build_model(name, num_classes=10, image_size=32).stage4[1] for name in ("resnet50:cifar", "resnet50:tiny"))
    fan_out = 9 * 512
    assert tiny.conv2.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.01)
    # PyTorch's own: uniform on +-1/sqrt(fan in), whose standard deviation is the bound over sqrt(3).
    assert cifar.conv2.weight.std().item() == pytest.approx((1 / fan_out) ** 0.5 / 3**0.5, rel=0.01)
    assert cifar.conv2.weight.abs().max() <= (1 / fan_out) ** 0.5


def test_option_a_shortcut_has_no_parameters_and_pads_both_sides():
    model = build_model("resnet8", num_classes=2, image_size=8, in_channels=1)
    block = model.stage2[0].eval()
    torch.nn.init.zeros_(block.conv1.weight)
    x = torch.rand(1, 16, 4, 4)
    out = block(x)  # the residual branch is 0, so that the block is its shortcut
    expected = torch.zeros(1, 32, 2, 2)
    expected[:, 8:24] = x[:, :, ::2, ::2]
    torch.testing.assert_close(out, expected)


def _small(block, pool):
    sizes = {"num_classes": 10, "in_channels": 1}
    return ResNet(block, (1, 1, 1), (16, 16, 32, 64), pool=pool, he_init=pool == 2, **sizes)


@pytest.mark.parametrize(
    "build",
    [
        lambda: build_model("resnet8", num_classes=10, image_size=8, in_channels=1),
        lambda: build_model("mlp", num_classes=10, image_size=8, in_channels=1),
        lambda: _small(BasicBlock, 1),
        lambda: _small(BasicBlock, 2),
        lambda: _small(_Bottleneck, 1),
        lambda: _small(_Bottleneck, 2),
    ],
    ids=["resnet8", "mlp", "basic", "basic-tiny", "bottleneck", "bottleneck-tiny"],
)
def test_overfits_32_images(build, rng):
    x, y = torch.randn(32, 1, 8, 8, generator=rng), torch.randint(10, (32,), generator=rng)
    with random.global_seed(0, "overfit"):
        model = build()
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(60):
        optimiser.zero_grad()
        logits = model(x)
        if (logits.argmax(1) == y).all():
            break
        torch.nn.functional.cross_entropy(logits, y).backward()
        optimiser.step()
    assert (model(x).argmax(1) == y).all()


@pytest.mark.parametrize(
    ("name", "size", "resolved"),
    [
        ("resnet50", 8, "resnet50:cifar"),
        ("resnet50", 32, "resnet50:cifar"),
        ("resnet50", 33, "resnet50:tiny"),
        ("resnet50", 64, "resnet50:tiny"),
        ("resnet50", 65, "resnet50:imagenet"),
        ("resnet50:tiny", 32, "resnet50:tiny"),
        ("wrn-26-10", 64, "wrn-26-10:tiny"),
        ("resnet32", 224, "resnet32"),
        ("torchvision/resnet18", 32, "torchvision/resnet18"),
    ],
)
def test_the_variant_follows_from_the_size_of_the_images(name, size, resolved):
    assert resolve_model(name, size) == resolved
    assert leaves_variant_open(name) == (name != resolved)
    assert resolve_model(resolved, 1) == resolved


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("resnet9", {}, "unknown model 'resnet9'; did you mean 'resnet8'"),
        ("resnet50:tny", {}, "unknown variant of resnet50 'tny'; did you mean 'tiny'?"),
        ("resnet8:cifar", {}, "model 'resnet8' must be named without a variant, it has none, got 'cifar'"),
        ("resnet50:", {}, "unknown variant of resnet50 ''"),
        ("wrn-26-10", {"image_size": 65}, r"wrn-26-10 must be given images it has a variant for \(cifar, tiny\), got 65 pixels"),
        ("resnet8", {"num_classes": 0}, "num_classes must be at least 1, got 0"),
        ("resnet8", {"in_channels": 0}, "in_channels must be at least 1, got 0"),
    ],
)
def test_bad_input(name, sizes, message):
    with pytest.raises(InvalidInput, match=message):
        build_model(name, **{"num_classes": 2, "image_size": 8, **sizes})
