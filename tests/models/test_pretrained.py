"""Weights of torchvision and timm, through their own functions; a file in their cache stands in for the download."""

import pytest
import torch
from torch import nn

from rankmixup import build_model, random
from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.models.libraries import find_pretrained, pretrained_weights
from rankmixup.models.weights import load_weights

SMALL = {"torchvision": "torchvision/shufflenet_v2_x0_5", "timm": "timm/test_resnet"}


def network(name, num_classes=1000, seed=0) -> nn.Module:
    with random.global_seed(seed, "weights"):
        return build_model(name, num_classes=num_classes, image_size=32)


@pytest.fixture(params=list(SMALL))
def cached(request, tmp_path, monkeypatch):
    """The name of a network, and what its library finds instead of downloading."""
    name = SMALL[request.param]
    source = put_into_cache(name, tmp_path, monkeypatch)
    return name, source


def put_into_cache(name, folder, monkeypatch) -> nn.Module:
    source, (library, key) = network(name), name.split("/")
    if library == "torchvision":
        from torchvision.models import get_model_weights

        monkeypatch.setenv("TORCH_HOME", str(folder))
        (folder / "hub" / "checkpoints").mkdir(parents=True)
        torch.save(source.state_dict(), folder / "hub" / "checkpoints" / get_model_weights(key).DEFAULT.url.rpartition("/")[2])
    else:
        builder = pytest.importorskip("timm").models._builder
        monkeypatch.setattr(builder, "load_state_dict_from_hf", lambda *args, **kwargs: source.state_dict())
    return source


def test_they_fill_all_but_the_head(cached):
    name, source = cached
    held = pretrained_weights(name, find_pretrained(name).tag, image_size=32, in_channels=3)
    model, untouched = network(name, 5, seed=1), network(name, 5, seed=1)
    said = load_weights(model, held, "x")
    assert said.endswith("; fc.weight, fc.bias start at random: 5 classes instead of 1000")
    for key, value in model.state_dict().items():
        assert torch.equal(value, (untouched if key.startswith("fc.") else source).state_dict()[key]), key
    same = network(name, seed=1)  # of as many classes
    load_weights(same, held, "x")
    assert torch.equal(same.fc.weight, source.fc.weight)


def test_what_the_input_is_and_which_weights_are_meant():
    assert find_pretrained("torchvision/resnet50").tag == "IMAGENET1K_V2"
    assert find_pretrained("torchvision/resnet50", "IMAGENET1K_V1").tag == "IMAGENET1K_V1"
    vit = find_pretrained("torchvision/vit_l_16", "IMAGENET1K_SWAG_E2E_V1")
    assert (vit.image_size, vit.mean) == (512, (0.485, 0.456, 0.406))
    pytest.importorskip("timm")
    found = find_pretrained("timm/test_resnet")
    assert (found.tag, found.image_size, found.mean) == ("r160_in1k", 160, (0.5, 0.5, 0.5))
    assert find_pretrained("timm/resnet18.fb_swsl_ig1b_ft_in1k").tag == "fb_swsl_ig1b_ft_in1k"
    assert find_pretrained("timm/resnet18", "tv_in1k").tag == "tv_in1k"


def test_old_names_in_the_files_of_densenet_are_translated(monkeypatch):
    """As torchvision's own function does, which would unpickle the file."""
    from torchvision.models import DenseNet121_Weights

    source = network("torchvision/densenet121")
    held = {name.replace(".norm1.", ".norm.1.") if "denselayer" in name else name: value for name, value in source.state_dict().items()}
    assert any(".norm.1." in name for name in held)
    monkeypatch.setattr(DenseNet121_Weights, "get_state_dict", lambda *args, **kwargs: dict(held))
    found = pretrained_weights("torchvision/densenet121", "", image_size=32, in_channels=3)
    assert all(torch.equal(found[name], value) for name, value in source.state_dict().items())


@pytest.mark.parametrize(
    ("name", "tag", "message"),
    [
        ("resnet8", "", "pretrained must go with a network that has weights, torchvision/NAME or timm/NAME, got model 'resnet8'"),
        ("resnet50:imagenet", "", "got model 'resnet50:imagenet'"),
        ("timm/vit_small_patch16_18x2_224", "", "a network that timm has weights for, got 'timm/vit_small_patch16_18x2_224'"),
        ("timm/resnet18.nothing", "", "Invalid pretrained tag"),
        ("torchvision/resnet18", "IMAGENET1K_V9", "unknown weights of torchvision/resnet18 'IMAGENET1K_V9'; did you mean 'IMAGENET1K_V1'"),
        ("torchvision/resnet19", "", "unknown model of torchvision"),
    ],
)
def test_what_is_refused(name, tag, message):
    if name.startswith("timm/"):
        pytest.importorskip("timm")
    with pytest.raises(InvalidInput, match=message):
        find_pretrained(name, tag)


def test_a_file_in_the_cache_is_never_executed(tmp_path, monkeypatch):
    from torchvision.models import get_model_weights

    from tests.models.test_weights import Payload

    put_into_cache(SMALL["torchvision"], tmp_path, monkeypatch)
    (path,) = (tmp_path / "hub" / "checkpoints").iterdir()
    torch.save(Payload(tmp_path / "executed"), path)
    tag = get_model_weights("shufflenet_v2_x0_5").DEFAULT.name
    with pytest.raises(WorkFailed, match="the weights IMAGENET1K_V1 of torchvision/shufflenet_v2_x0_5 could not be loaded"):
        pretrained_weights(SMALL["torchvision"], tag, image_size=32, in_channels=3)
    assert not (tmp_path / "executed").exists()


def test_weights_that_cannot_be_downloaded_fail_in_a_sentence(tmp_path, monkeypatch):
    builder = pytest.importorskip("timm").models._builder

    def refuse(*args, **kwargs):
        raise ConnectionError("no route\nto the server")

    monkeypatch.setattr(builder, "load_state_dict_from_hf", refuse)
    with pytest.raises(WorkFailed, match=r"the weights r160_in1k of timm/test_resnet could not be loaded \(no route\)"):
        pretrained_weights("timm/test_resnet", "r160_in1k", image_size=32, in_channels=3)
