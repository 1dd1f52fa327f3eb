import itertools
import math

import pytest
import torch

from rankmixup import Run, build_model, train
from rankmixup.data import Digits
from rankmixup.models.weights import freeze_body
from rankmixup.runs import Optimisation
from rankmixup.training.optimisation import build_optimiser, learning_rate, parameter_layers


def test_steps_are_those_of_torchs_scheduler():
    optimisation = Optimisation(epochs=12, lr=0.1, milestones=(3, 7, 7), decay=0.3)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], optimisation.lr)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(optimisation.milestones), optimisation.decay)
    for epoch in range(optimisation.epochs):
        for step in (0, 4):
            assert learning_rate(optimisation, epoch, step, 5) == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-14)
        optimiser.step()
        schedule.step()


def test_the_long_tailed_recipe_warms_up_for_five_epochs_and_drops_at_160_and_180():
    optimisation = Optimisation(epochs=200, milestones=(160, 180), warmup=5)
    rates = [learning_rate(optimisation, epoch, 17, 80) for epoch in range(200)]
    assert rates[:6] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1, 0.1])
    assert (rates[159], rates[160], rates[179], rates[180], rates[199]) == pytest.approx((0.1, 0.01, 0.01, 0.001, 0.001))


def test_cosine_rises_in_a_line_and_falls_to_its_end_step_by_step():
    optimisation = Optimisation(epochs=5, lr=5e-4, schedule="cosine", warmup=1, warmup_lr=5e-7, final_lr=5e-6)
    rate = [learning_rate(optimisation, epoch, step, 10) for epoch in range(5) for step in range(10)]
    assert rate[0] == 5e-7
    assert rate[5] == pytest.approx((5e-7 + 5e-4) / 2)
    assert rate[10] == 5e-4
    assert rate[30] == pytest.approx((5e-4 + 5e-6) / 2)  # half of the four epochs behind the warm-up
    assert rate[49] == pytest.approx(5e-6 + (5e-4 - 5e-6) * (1 + math.cos(math.pi * 39 / 40)) / 2)
    assert all(before > after for before, after in itertools.pairwise(rate[10:]))


def test_a_warm_up_as_long_as_the_training_only_rises():
    optimisation = Optimisation(epochs=1, schedule="cosine", warmup=1)
    assert [learning_rate(optimisation, 0, step, 4) for step in range(4)] == pytest.approx([0, 0.025, 0.05, 0.075])


def _model():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 2))


def test_sgd_is_plain_and_decays_everything():
    optimiser = build_optimiser(_model(), Optimisation(momentum=0.8, weight_decay=0.3))
    assert type(optimiser) is torch.optim.SGD
    (group,) = optimiser.param_groups
    assert {name: group[name] for name in ("lr", "momentum", "nesterov", "weight_decay")} == {
        "lr": 0.1,
        "momentum": 0.8,
        "nesterov": False,
        "weight_decay": 0.3,
    }
    assert len(group["params"]) == 6


def test_adamw_leaves_vectors_without_decay():
    model = _model()
    optimiser = build_optimiser(model, Optimisation(optimiser="adamw", lr=5e-4, weight_decay=0.05, decay_vectors=False))
    assert type(optimiser) is torch.optim.AdamW
    matrices, vectors = optimiser.param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.05, 0.0)
    assert (matrices["lr"], vectors["lr"]) == (5e-4, 5e-4)
    assert [id(each) for each in matrices["params"]] == [id(model[0].weight), id(model[3].weight)]
    assert len(vectors["params"]) == 4


def test_frozen_parameters_are_left_alone():
    model = _model()
    model[0].requires_grad_(False)
    assert len(build_optimiser(model, Optimisation()).param_groups[0]["params"]) == 4


@pytest.mark.parametrize("decay_vectors", [True, False])
def test_layer_decay_gives_each_layer_its_learning_rate(decay_vectors):
    """Five layers of ResNet-8: lr x 0.5 ** (4 - layer), the whole rate for the head."""
    model = build_model("resnet8", num_classes=3, image_size=8, in_channels=1)
    optimisation = Optimisation(lr=0.16, layer_decay=0.5, decay_vectors=decay_vectors)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {names[id(each)]: group for group in build_optimiser(model, optimisation).param_groups for each in group["params"]}
    assert set(found) == set(names.values())
    expected = {"conv": 0.01, "bn": 0.01, "stage1": 0.02, "stage2": 0.04, "stage3": 0.08, "fc": 0.16}
    for name, group in found.items():
        assert group["scale"] * optimisation.lr == pytest.approx(expected[name.partition(".")[0]]), name
        assert (group["weight_decay"] == 0) == (not decay_vectors and dict(model.named_parameters())[name].ndim == 1)


def test_layer_decay_is_off_by_default_and_frozen_parameters_are_in_no_group():
    model = build_model("resnet8", num_classes=3, image_size=8, in_channels=1)
    assert all("scale" not in group for group in build_optimiser(model, Optimisation()).param_groups)
    freeze_body(model)
    (group,) = build_optimiser(model, Optimisation(layer_decay=0.5)).param_groups
    assert (group["scale"], len(group["params"])) == (1.0, 2)


@pytest.mark.parametrize(
    ("name", "layers", "where"),
    [
        ("torchvision/resnet18", 10, {"bn1.weight": 0, "layer1.0.conv1.weight": 1, "layer4.1.bn2.bias": 8, "fc.bias": 9}),
        ("torchvision/efficientnet_b0", 19, {"features.0.1.weight": 0, "features.8.0.weight": 17, "classifier.1.weight": 18}),
        ("timm/test_vit", 8, {"cls_token": 0, "pos_embed": 0, "patch_embed.proj.bias": 0, "blocks.0.norm1.weight": 1, "norm.bias": 6}),
    ],
)
def test_layers_are_blocks_in_order_and_the_head_is_the_last(name, layers, where):
    if name.startswith("timm/"):
        pytest.importorskip("timm")
    found = parameter_layers(build_model(name, num_classes=3, image_size=32))
    assert set(found.values()) == set(range(layers))
    assert {each: found[each] for each in where} == where


def test_training_sets_the_rates_of_all_layers_in_every_step(tmp_path):
    seen = []

    class Rates(torch.optim.SGD):
        def step(self, closure=None):
            seen.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "SGD", Rates)
        optimisation = Optimisation(epochs=2, batch_size=32, lr=0.1, milestones=(1,), layer_decay=0.5)
        stored = train(Run("ce", data=Digits(train_size=50), model="mlp", optimisation=optimisation), runs=tmp_path)
    assert seen == [pytest.approx([0.025, 0.05, 0.1])] * 2 + [pytest.approx([0.0025, 0.005, 0.01])] * 2
    assert [record.lr for record in stored.history()] == pytest.approx([0.1, 0.01])
