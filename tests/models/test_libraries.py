import copy
import sys

import pytest
import torch

from rankmixup import Run, build_model, random
from rankmixup.errors import InvalidInput
from rankmixup.methods import objective
from rankmixup.mixers import ManifoldMixup, stage_names


@pytest.mark.parametrize(
    ("name", "channels", "last_stage"),
    [
        ("torchvision/resnet18", 1, "layer4"),
        ("torchvision/mobilenet_v3_small", 1, "features.12"),
        ("torchvision/shufflenet_v2_x0_5", 3, "stage4"),
        ("torchvision/regnet_y_400mf", 3, "trunk_output.block4"),
        ("timm/resnet10t", 1, "layer4"),
        ("timm/vit_tiny_patch16_224", 3, "blocks.11"),
        ("timm/convnext_atto", 3, "stages.3"),
        ("timm/regnetx_002", 3, "s4"),
    ],
)
def test_a_network_of_a_library_classifies_and_mixes_at_its_last_stage(name, channels, last_stage, rng):
    if name.startswith("timm/"):
        pytest.importorskip("timm")
    model = build_model(name, num_classes=5, image_size=32, in_channels=channels)
    assert model.training
    x = torch.randn(3, channels, 32, 32, generator=rng)
    assert model.eval()(x).shape == (3, 5)
    assert stage_names(model)[-1] == last_stage
    assert ManifoldMixup()(model.train(), x, rng).logits.shape == (1, 3, 5)


def test_a_transformer_is_built_for_the_size_of_the_images():
    model = build_model("torchvision/vit_b_16", num_classes=3, image_size=48)
    assert model.image_size == 48
    assert stage_names(model)[-1] == "encoder.layers.encoder_layer_11"


def test_it_is_the_librarys_own_network():
    from torchvision.models import resnet18

    with random.global_seed(0, "weights"):
        ours = build_model("resnet18:imagenet", num_classes=10, image_size=64)
    with random.global_seed(0, "weights"):
        # A size that a network does not ask for is refused before any weight is drawn.
        theirs = resnet18(num_classes=10)
    for (name, mine), (other, its) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert name == other
        torch.testing.assert_close(mine, its)


def test_checking_the_output_leaves_no_trace():
    with random.global_seed(0, "weights"):
        model = build_model("torchvision/resnet18", num_classes=10, image_size=32)
    assert model.bn1.num_batches_tracked == 0
    assert model.bn1.running_mean.abs().max() == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torchvision/resnet19", "unknown model of torchvision 'resnet19'; did you mean 'resnet18'"),
        ("torchvision/fcn_resnet50", "unknown model of torchvision 'fcn_resnet50'"),  # segments, does not classify
        ("torchvision/alexnet", "model 'torchvision/alexnet' must be one that can classify images of 3 x 32 x 32, which it cannot"),
        ("keras/resnet50", "unknown model 'keras/resnet50'; did you mean 'resnet50'"),
    ],
)
def test_bad_input(name, message):
    with pytest.raises(InvalidInput, match=message):
        build_model(name, num_classes=2, image_size=32)


def test_a_name_far_from_a_thousand_others_does_not_list_them():
    pytest.importorskip("timm")
    with pytest.raises(InvalidInput, match=r"unknown model of timm 'qqq'; none of the \d+ valid names is similar"):
        build_model("timm/qqq", num_classes=2, image_size=32)


def test_without_timm_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InvalidInput, match=r"package timm, which is missing: pip install 'rankmixup\[timm\]'"):
        build_model("timm/resnet18", num_classes=2, image_size=32)
    # Its scores can be read all the same.
    assert Run("ce", model="timm/resnet18").model == "timm/resnet18"


CHANNELS_LAST = {"memory_format": torch.channels_last}


@pytest.mark.parametrize(
    ("name", "backend", "method"),
    [
        ("test_resnet", "eager", "rankmixup-mndcg"),
        ("test_vit", "eager", "rankmixup-mrl"),
        pytest.param("test_convnext", "aot_eager", "rankmixup-mndcg", marks=pytest.mark.slow),
        pytest.param("test_resnet", "inductor", "rankmixup-auto", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of the compiler
def test_a_compiled_network_of_timm_takes_the_steps_of_the_plain_one(name, backend, method, rng):
    """Channels last, BatchNorm's statistics included."""
    pytest.importorskip("timm")
    with random.global_seed(0, "weights"):
        plain = build_model(f"timm/{name}", num_classes=5, image_size=32).to(**CHANNELS_LAST)
    network = copy.deepcopy(plain)
    x, y = torch.randn(4, 3, 32, 32, generator=rng).to(**CHANNELS_LAST), torch.tensor([0, 1, 2, 4])
    losses = []
    for model, trained in ((plain, plain), (torch.compile(network, backend=backend), network)):
        step, optimiser = objective(method, 5), torch.optim.SGD(trained.parameters(), lr=0.01)
        for _ in range(2):
            loss = step(model, x, y).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert losses[:2] == pytest.approx(losses[2:], rel=1e-4)
    assert losses[0] != losses[1]
    for one, two in zip(plain.state_dict().values(), network.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_manifold_mixup_of_a_compiled_network_of_timm_mixes_in_every_step(rng):
    pytest.importorskip("timm")
    plain = build_model("timm/test_resnet", num_classes=5, image_size=32)
    compiled = torch.compile(plain, backend="eager")
    x, y = torch.randn(4, 3, 32, 32, generator=rng), torch.tensor([0, 1, 2, 4])
    shared = [objective("rankmixup-mndcg", 5, mixer=ManifoldMixup()) for _ in range(2)]
    for _ in range(2):  # the second step with other lambdas and partners
        one, two = (step(model, x, y).loss.item() for step, model in zip(shared, (plain, compiled), strict=True))
        assert one == pytest.approx(two, rel=1e-5)
