"""Mixes of embeddings: which mask, which token types and which embeddings the network gets, by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.mixers import CutMix, LogitMixup, ManifoldMixup, Mixup

IDS = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 0]])
MASK = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]])
TYPES = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
PARTNER = torch.tensor([[1, 2, 0], [2, 0, 1]])
LAM = torch.tensor([[0.25, 0.5, 1.0], [0.75, 0.0, 0.125]])
X = {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": TYPES}


class Reader(nn.Module):
    """Adds token types and a row for each sample to the embeddings, as models do, and means them where the mask is 1."""

    def __init__(self) -> None:
        super().__init__()
        with random.global_seed(0, "reader"):
            self.words, self.types, self.head = nn.Embedding(7, 5), nn.Embedding(2, 5), nn.Linear(5, 3)
        self.calls: list[dict[str, Any]] = []

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        words = self.words(input_ids)
        self.calls.append({"attention_mask": attention_mask, "token_type_ids": token_type_ids, "words": words})
        rows = torch.zeros(len(input_ids), 1, 1)  # as a class token or positions: of as many rows as the inputs have
        weight = attention_mask.unsqueeze(-1)
        return {"logits": self.head(((words + self.types(token_type_ids) + rows).tanh() * weight).sum(dim=1) / weight.sum(dim=1))}


class Owner(nn.Module):
    """A model around another, which alone declares its embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Reader()

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return self.model(**inputs)


@pytest.mark.parametrize("owner", [Reader, Owner])
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("forward", ["shared", "separate"])
def test_a_mix_attends_where_either_sample_does(forward, raw, owner, rng):
    """Masks are united with those of the partner, words are mixed, token types are the own sample's."""
    model = owner()
    reader = getattr(model, "model", model)
    mixed = ManifoldMixup(layer="embeddings", forward=forward)(model, X, rng, num_mixes=2, raw=raw, lam=LAM, partner=PARTNER)
    last, united = reader.calls[-1], (MASK.unsqueeze(0) | MASK[PARTNER]).flatten(0, 1)
    if raw and forward == "shared":
        assert len(reader.calls) == 1
        assert torch.equal(last["attention_mask"][:3], MASK)
        last = {name: value[3:] for name, value in last.items()}
    assert torch.equal(last["attention_mask"], united)
    assert united[0].tolist() == [1, 1, 0, 0]
    assert united[3].tolist() == [1, 1, 1, 0]
    assert torch.equal(last["token_type_ids"], TYPES.repeat(2, 1))
    words, lam = reader.words(IDS), LAM[..., None, None]
    torch.testing.assert_close(last["words"], (lam * words + (1 - lam) * words[PARTNER]).flatten(0, 1))
    if raw:
        torch.testing.assert_close(mixed.raw, model(**X)["logits"])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_both_forwards_give_the_same_logits(rng):
    shared, separate = (
        ManifoldMixup(layer="embeddings", forward=forward)(Reader(), X, rng, num_mixes=2, lam=LAM, partner=PARTNER)
        for forward in ("shared", "separate")
    )
    torch.testing.assert_close(shared.raw, separate.raw)
    torch.testing.assert_close(shared.logits, separate.logits)


@pytest.mark.parametrize("mask", [MASK.bool(), MASK.float(), torch.where(MASK == 1, 0.0, -torch.inf)])
def test_masks_of_any_type_are_united(mask, rng):
    model = Reader()
    seen = []
    model.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs["attention_mask"]), with_kwargs=True)
    ManifoldMixup(layer="embeddings")(model, {**X, "attention_mask": mask}, rng, raw=False, partner=PARTNER[:1])
    assert seen[0].dtype == mask.dtype
    assert torch.equal(seen[0], torch.stack([mask[row].maximum(mask[other]) for row, other in enumerate(PARTNER[0])]))


@pytest.mark.parametrize("mixer", [Mixup(), CutMix()])
def test_token_ids_are_refused_with_what_to_use(mixer, rng):
    with pytest.raises(InvalidInput, match=r'must hold a floating point tensor .*ManifoldMixup\(layer="embeddings"\)\), got \{'):
        mixer(Reader(), X, rng)
    assert LogitMixup()(Reader(), X, rng).logits.shape == (1, 3, 3)


def test_a_model_without_embeddings_is_refused(rng):
    with pytest.raises(InvalidInput, match=r"layer 'embeddings' needs a model with get_input_embeddings\(\), which Linear has not"):
        ManifoldMixup(layer="embeddings").check_model(nn.Linear(2, 2))


class TwoImages(nn.Module):
    """Takes two images of a sample, and a number of its kind."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Tensor]] = []

    def forward(self, **inputs: Tensor) -> Tensor:
        self.calls.append(inputs)
        return torch.stack([inputs["left"].mean(dim=(1, 2, 3)), inputs["right"].mean(dim=(1, 2, 3))], dim=1)


def two_images(rng: torch.Generator) -> dict[str, Tensor]:
    left, right = torch.randn(2, 3, 1, 4, 4, generator=rng).unbind()
    return {"left": left, "right": right, "kind": torch.tensor([5, 6, 7])}


@pytest.mark.parametrize("forward", ["separate", "joint"])
def test_all_floating_point_inputs_are_mixed_alike_and_others_are_the_own_samples(forward, rng):
    model, x = TwoImages(), two_images(rng)
    mixed = Mixup(forward=forward)(model, x, rng, num_mixes=2, lam=LAM, partner=PARTNER)
    given = {name: value[-6:] for name, value in model.calls[-1].items()}
    lam = LAM[..., None, None, None]
    for name in ("left", "right"):
        torch.testing.assert_close(given[name], (lam * x[name] + (1 - lam) * x[name][PARTNER]).flatten(0, 1))
    assert given["kind"].tolist() == [5, 6, 7] * 2
    torch.testing.assert_close(mixed.raw, model(**x))


def test_only_the_inputs_that_are_named_are_mixed(rng):
    model, x = TwoImages(), two_images(rng)
    Mixup(mixes=("right",))(model, x, rng, raw=False, lam=LAM[:1], partner=PARTNER[:1])
    assert torch.equal(model.calls[0]["left"], x["left"])
    assert not torch.equal(model.calls[0]["right"], x["right"])


def test_cutmix_cuts_all_images_at_one_place(rng):
    model, x = TwoImages(), two_images(rng)
    x["right"] = x["left"] + 1
    mixed = CutMix()(model, x, rng, raw=False, num_mixes=2)
    torch.testing.assert_close(model.calls[0]["right"], model.calls[0]["left"] + 1)
    assert mixed.lam.shape == (2, 3)


def test_images_that_are_cut_differently_are_refused(rng):
    x = two_images(rng) | {"right": torch.zeros(3, 1, 7, 7)}
    with pytest.raises(InvalidInput, match=r"one height and width, got \['left', 'right'\] that differ; name one of them with mixes="):
        CutMix()(TwoImages(), x, rng, lam=torch.full((1, 3), 0.4))
    assert CutMix(mixes=("left",))(TwoImages(), x, rng).logits.shape == (1, 3, 2)


@pytest.mark.parametrize(("name", "x"), [("kind", None), ("nothing", None), ("left", torch.zeros(3, 1, 4, 4))])
def test_names_of_inputs_that_cannot_be_mixed_are_refused(name, x, rng):
    with pytest.raises(InvalidInput, match=f"mixes must name floating point inputs, got '{name}' of "):
        Mixup(mixes=(name,))(TwoImages(), two_images(rng) if x is None else x, rng)
