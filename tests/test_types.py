"""Inputs and outputs of models: what is passed how, and where logits are found."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rankmixup as rm
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import predict_batches
from rankmixup.testing import TinyNet, toy_batch
from rankmixup.types import batch_size, call_model, map_leaves, named_leaves, take_logits
from tests.oracles import unchecked

LOGITS = torch.tensor([[1.0, 2.0]])


class Recorder(nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.given = args, kwargs
        return LOGITS


@pytest.mark.parametrize(
    ("x", "args", "kwargs"),
    [
        (LOGITS, [LOGITS], {}),
        ((LOGITS, LOGITS), [LOGITS, LOGITS], {}),
        ([LOGITS], [LOGITS], {}),
        ({"input_ids": LOGITS, "labels": LOGITS}, [], {"input_ids": LOGITS}),
    ],
)
def test_a_tensor_is_passed_as_it_is_a_tuple_by_position_and_a_mapping_by_name_without_labels(x, args, kwargs):
    model = Recorder()
    assert torch.equal(call_model(model, x), LOGITS)
    assert (list(model.given[0]), model.given[1]) == (args, kwargs)


@pytest.mark.parametrize("output", [LOGITS, {"logits": LOGITS, "loss": None}, SimpleNamespace(logits=LOGITS)])
def test_logits_are_found_in_tensors_objects_and_mappings(output):
    assert take_logits(output) is LOGITS
    assert take_logits(output, lambda _: {"logits": LOGITS}) is LOGITS


@pytest.mark.parametrize(
    ("output", "logits_of", "message"),
    [
        ({"scores": LOGITS}, None, r"one tensor of logits \[B, K\], or have it .* got dict with \['scores'\]; name another place"),
        ((LOGITS, None), None, "got tuple; name another place with logits_of="),
        (LOGITS, lambda output: None, "got NoneType from logits_of"),
    ],
)
def test_other_outputs_are_refused_with_what_was_given(output, logits_of, message):
    with pytest.raises(InvalidInput, match=message):
        take_logits(output, logits_of)


def test_leaves_have_the_names_of_their_keys_and_places():
    x = {"a": LOGITS, "b": (LOGITS + 1, [LOGITS + 2])}
    assert list(named_leaves(x)) == ["a", "b.0", "b.1.0"]
    assert list(named_leaves((LOGITS, LOGITS))) == ["0", "1"]
    total = map_leaves(lambda name, one, other: one + other, x, x)
    assert torch.equal(total["b"][1][0], 2 * LOGITS + 4)


@pytest.mark.parametrize("x", [{}, (), {"a": None}, {1: LOGITS}, np.zeros(3), torch.tensor(1.0), {"a": torch.tensor(1.0)}, "ab"])
def test_inputs_without_a_batch_of_tensors_are_refused(x):
    with unchecked(), pytest.raises(InvalidInput, match=r"^(x|a) must "):
        batch_size(x)


def test_different_batch_sizes_are_refused():
    with pytest.raises(InvalidInput, match=r"one batch size, got \{'a': 1, 'b': 2\}"):
        batch_size({"a": LOGITS, "b": torch.zeros(2)})


class Keywords(TinyNet):
    """Inputs by name; logits in a place of their own."""

    def forward(self, *, pixels: torch.Tensor, ids: torch.Tensor) -> Any:
        return [("scores", super().forward(pixels))]


@pytest.mark.parametrize("method", sorted(rm.list_methods()))
def test_every_method_trains_any_inputs_and_outputs_as_it_trains_tensors(method):
    data = toy_batch(8)
    plain, named = (
        rm.objective(method, 4, class_counts=[2] * 4, dataset_size=8, logits_of=where) for where in (None, lambda out: out[0][1])
    )
    loss = plain(TinyNet(), data.x, data.y, data.index).loss
    inputs = {"pixels": data.x, "ids": torch.arange(8), "labels": data.y}
    assert torch.equal(named(Keywords(), inputs, data.y, data.index).loss, loss)
    step = rm.TrainStep(Keywords(), rm.objective(method, 4, class_counts=[2] * 4, dataset_size=8, logits_of=lambda out: out[0][1]))
    assert torch.equal(step(inputs, data.y, data.index).loss, loss)
    model = Keywords().eval()
    torch.testing.assert_close(named.eval()(model, inputs, data.y).logits, TinyNet().eval()(data.x))
    assert not model._forward_hooks


def test_a_model_with_any_inputs_is_evaluated():
    data, model, plain = toy_batch(8), Keywords(), TinyNet()
    by_name = {"pixels": data.x, "ids": torch.arange(8)}
    values = [
        rm.evaluate(plain, [(data.x, data.y)], replicates=10).value("nll"),
        rm.evaluate(model, [(by_name, data.y)], logits_of=lambda out: out[0][1], replicates=10).value("nll"),
        rm.evaluate(model, [{**by_name, "labels": data.y}], logits_of=lambda out: out[0][1], replicates=10).value("nll"),
    ]
    assert values == [values[0]] * 3
    with pytest.raises(InvalidInput, match="a mapping with 'labels'"):
        rm.evaluate(model, [by_name])
    with pytest.raises(InvalidInput, match="got list; name another place with logits_of="):
        rm.evaluate(model, [(by_name, data.y)])


class Bystander(nn.Sequential):
    """Sets the mode of a module that it does not register too, as `TrainStep` does."""

    def train(self, mode: bool = True) -> "Bystander":
        self.__dict__.setdefault("other", nn.Dropout()).train(mode)
        return super().train(mode)


@pytest.mark.parametrize("wrap", [lambda m: m, nn.Sequential, Bystander])
def test_predictions_give_each_part_of_a_model_its_own_mode_back(wrap):
    model = wrap(nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.Dropout(), nn.Linear(3, 2))).train())
    next(part for part in model.modules() if isinstance(part, nn.BatchNorm1d)).eval()
    before = [part.training for part in model.modules()]
    assert True in before
    assert False in before
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    predict_batches(model, [(x, y)])
    assert [part.training for part in model.modules()] == before
    with pytest.raises(InvalidInput, match="a batch"):
        predict_batches(model, [(x, y), (x, y, y)])
    assert [part.training for part in model.modules()] == before
    assert getattr(model, "other", model).training
