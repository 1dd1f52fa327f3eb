"""Weights into a network: which are copied, which start at random, and what is refused."""

import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from rankmixup import build_model, random
from rankmixup.errors import InvalidInput
from rankmixup.models.weights import freeze_body, head_names, load_weights, read_weights, train_head


def resnet8(num_classes=10, seed=0) -> nn.Module:
    with random.global_seed(seed, "weights"):
        return build_model("resnet8", num_classes=num_classes, image_size=8, in_channels=1)


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("resnet8", ("fc",)),
        ("mlp", ("fc",)),
        ("torchvision/squeezenet1_1", ("classifier.1",)),
        ("torchvision/mobilenet_v3_small", ("classifier.3",)),
        ("timm/test_vit", ("head",)),
        ("timm/deit_tiny_distilled_patch16_224", ("head", "head_dist")),
    ],
)
def test_the_head_is_the_layer_whose_size_is_the_number_of_classes(name, heads):
    if name.startswith("timm/"):
        pytest.importorskip("timm")
    model = build_model(name, num_classes=7, image_size=32)
    assert head_names(model) == heads
    assert all(model.get_submodule(head).weight.shape[0] == 7 for head in heads)


@pytest.mark.parametrize("ending", [".safetensors", ".pt", ".pth"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
def test_a_file_fills_all_but_a_head_for_other_classes(ending, prefix, tmp_path):
    source, path = resnet8(), tmp_path / f"weights{ending}"
    held = {prefix + name: value for name, value in source.state_dict().items()}
    (save_file if ending == ".safetensors" else torch.save)(held, path)
    for classes in (10, 3):
        model, untouched = resnet8(classes, seed=1), resnet8(classes, seed=1)
        said = load_weights(model, read_weights(path), str(path))
        for name, value in model.state_dict().items():
            its = untouched if classes == 3 and name.startswith("fc.") else source
            assert torch.equal(value, its.state_dict()[name]), name
        total = len(held)
        assert said == (
            f"{total} of {total} tensors from {path}"
            if classes == 10
            else f"{total - 2} of {total} tensors from {path}; fc.weight, fc.bias start at random: 3 classes instead of 10"
        )


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_a_checkpoint_holds_the_weights_beside_other_things(key, tmp_path):
    source, path = resnet8(), tmp_path / "a.pt"
    torch.save({key: source.state_dict(), "epoch": 3, "optimizer": {"lr": 0.1}}, path)
    assert all(torch.equal(value, source.state_dict()[name]) for name, value in read_weights(path).items())


def test_weights_without_a_head_or_counters_and_of_half_precision_are_taken():
    source, model = resnet8(), resnet8(seed=1)
    held = {name: value.half() for name, value in source.state_dict().items() if "fc." not in name and "num_batches" not in name}
    assert load_weights(model, held, "x").endswith("tensors from x; fc.weight, fc.bias start at random: no head there")
    assert torch.equal(model.conv.weight, source.conv.weight.half().float())


def without(held, name):
    return {key: value for key, value in held.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: without(held, "conv.weight"), r"x must fit SmallResNet and lack no tensor of it, got conv\.weight$"),
        (lambda held: held | {"a": held["conv.weight"], "b": held["conv.weight"]}, "hold no other tensors, got a, b$"),
        (lambda held: held | {f"n{i}": held["bn.bias"] for i in range(9)}, "got n0, n1, n2, n3 and 5 more$"),
        (lambda held: held | {"bn.bias": torch.zeros(3)}, r"have its shapes, got bn\.bias of shape \[3\] instead of \[16\]$"),
        (lambda held: held | {"fc.weight": torch.zeros(10, 5)}, r"got fc\.weight of shape \[10, 5\] instead of \[10, 64\]"),
        (lambda held: held | {"bn.bias": torch.full((16,), torch.nan)}, "bn.bias of x must be finite"),
        (lambda held: held | {"bn.bias": torch.zeros(16, dtype=torch.long)}, "must be like torch.float32, got torch.int64"),
        (lambda held: {"module." + name: value for name, value in held.items()} | {"other": torch.zeros(1)}, "must fit"),
        (lambda held: {}, "lack no tensor"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(change, message):
    model = resnet8()
    with pytest.raises(InvalidInput, match=message):
        load_weights(model, change(resnet8(seed=1).state_dict()), "x")
    assert all(torch.equal(value, resnet8().state_dict()[name]) for name, value in model.state_dict().items())


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_file_with_code_executes_nothing_and_is_refused(hidden, tmp_path):
    proof, path = tmp_path / "executed", tmp_path / "evil.pt"
    torch.save({"model": resnet8().state_dict(), "x": Payload(proof)} if hidden else Payload(proof), path)
    with pytest.raises(InvalidInput, match="plain tensors; other objects are never loaded"):
        read_weights(path)
    assert not proof.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.bin", b"", r"must be a \.safetensors, \.pt, \.pth file, got '\.bin'"),
        ("a.pt", None, "there is no such file"),
        ("a.pt", b"torn", "must be a zip file"),
        ("a.safetensors", b"torn", "must be a whole .safetensors file"),
    ],
)
def test_files_of_other_kinds_are_refused(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        read_weights(tmp_path / name)


@pytest.mark.parametrize("held", [[1, 2], {}, {"a": 1}, {1: torch.zeros(1)}, torch.zeros(2)])
def test_files_of_other_things_are_refused(held, tmp_path):
    torch.save(held, tmp_path / "a.pt")
    with pytest.raises(InvalidInput, match="must hold"):
        read_weights(tmp_path / "a.pt")


def test_only_the_head_of_a_frozen_network_is_trained():
    model = resnet8()
    freeze_body(model)
    assert [name for name, parameter in model.named_parameters() if parameter.requires_grad] == ["fc.weight", "fc.bias"]
    train_head(model.train())
    assert [name for name, module in model.named_modules() if module.training] == ["fc"]
    with pytest.raises(InvalidInput, match="freeze must leave a linear layer to train, Flatten has none"):
        freeze_body(nn.Flatten())
