import pytest
import torch

from rankmixup import build_model, random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import stage_names
from rankmixup.models import MODELS


@pytest.mark.parametrize(("name", "parameters"), [("resnet8", 75_290), ("resnet20", 269_722), ("resnet32", 464_154)])
def test_parameter_counts(name, parameters):
    model = build_model(name, num_classes=10, image_size=32, in_channels=3)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("train", [True, False])
def test_any_size_in_any_mode(name, train):
    for size, channels in ((8, 1), (32, 3)):
        model = build_model(name, num_classes=7, image_size=size, in_channels=channels).train(train)
        assert model(torch.zeros(2, channels, size, size)).shape == (2, 7)
        assert model(torch.zeros(1, channels, size, size)).shape == (1, 7)


@pytest.mark.parametrize("name", list(MODELS))
def test_stages_name_layers(name):
    model = build_model(name, num_classes=2, image_size=8, in_channels=1)
    assert stage_names(model)
    assert set(stage_names(model)) <= {layer for layer, _ in model.named_modules()}


def test_option_a_shortcut_has_no_parameters_and_pads_both_sides():
    model = build_model("resnet8", num_classes=2, image_size=8, in_channels=1)
    block = model.stage2[0].eval()
    torch.nn.init.zeros_(block.conv1.weight)
    x = torch.rand(1, 16, 4, 4)
    out = block(x)  # the residual branch is 0, so that the block is its shortcut
    expected = torch.zeros(1, 32, 2, 2)
    expected[:, 8:24] = x[:, :, ::2, ::2]
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("name", ["resnet8", "mlp"])
def test_overfits_32_images(name, rng):
    x, y = torch.randn(32, 1, 8, 8, generator=rng), torch.randint(10, (32,), generator=rng)
    with random.global_seed(0, "overfit"):
        model = build_model(name, num_classes=10, image_size=8, in_channels=1)
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    assert (model(x).argmax(1) == y).all()


def test_bad_input():
    with pytest.raises(InvalidInput, match="unknown model 'resnet9'; did you mean 'resnet8'"):
        build_model("resnet9", num_classes=2, image_size=8)
    with pytest.raises(InvalidInput, match="num_classes must be at least 1, got 0"):
        build_model("resnet8", num_classes=0, image_size=8)
