"""What every function accepts, and what it is told that gives it something else."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankmixup.errors import InvalidInput
from rankmixup.ops import as_tensor, check_floats, check_indices, check_logits, check_unit, class_indices

NUMBERS = [[0.5, 1.0], [2.0, 3.0]]


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "value",
    [
        NUMBERS,
        tuple(NUMBERS),
        np.array(NUMBERS),
        np.array(NUMBERS, dtype=">f8"),
        np.array(NUMBERS, dtype=np.longdouble),
        np.array(NUMBERS)[::-1, ::-1].copy()[::-1, ::-1],
        np.array(NUMBERS, order="F"),
        read_only(np.array(NUMBERS)),
        np.array([(0.5, 1, 2), (1.0, 1, 2), (2.0, 1, 2), (3.0, 1, 2)], dtype="f8,i1,i1")["f0"].reshape(2, 2),
        [torch.tensor(row, dtype=torch.float64) for row in NUMBERS],
    ],
)
def test_whatever_holds_floating_point_numbers_becomes_a_tensor(value):
    assert torch.equal(as_tensor("x", value), torch.tensor(NUMBERS, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["f2", ">f4", "f4", "f8"])
def test_floating_point_numbers_keep_their_precision(kind):
    array = np.array(NUMBERS, dtype=kind)
    assert as_tensor("x", array).numpy().dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize("kind", ["u1", "u2", ">u2", "u4", "u8", "i1", ">i4", "i8"])
def test_integers_of_every_kind_become_int64(kind):
    expected = torch.tensor([0, 100])
    found = as_tensor("labels", np.array([0, 100], dtype=kind))
    assert torch.equal(found, expected)
    native = getattr(torch, np.dtype(kind).newbyteorder("=").name)
    assert torch.equal(as_tensor("labels", torch.tensor([0, 100]).to(native)), expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "x must hold real numbers, got NoneType of type object"),
        ("abc", "x must hold real numbers, got str of type <U3"),
        ({}, "x must hold real numbers, got dict of type object"),
        (np.array(["a"]), "x must hold real numbers, got ndarray of type <U1"),
        (np.array([None, 1.0]), "x must hold real numbers, got ndarray of type object"),
        (np.array([1j]), "x must hold real numbers, got ndarray of type complex128"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "x must hold real numbers, got ndarray of type datetime64"),
        ([[1.0], [1.0, 2.0]], "x must be an array of numbers, got "),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "x must not be a masked array"),
        ([np.ma.masked_array([1.0, 2.0], [False, True])], "x must not be a masked array"),
        (np.array([2**63], dtype=np.uint64), "x must be less than 2^63, got 9223372036854775808"),
        (torch.tensor([1j]), "x must hold real numbers, got torch.complex64"),
        (torch.eye(2).to_sparse(), "x must be a dense tensor, got layout torch.sparse_coo"),
        (torch.zeros(2, device="meta"), "x must hold values, got a tensor on the meta device"),
        ([torch.zeros(2, requires_grad=True)], "x must be an array of numbers, got "),
    ],
)
def test_what_holds_no_numbers_is_refused_in_a_short_sentence(value, message):
    with pytest.raises(InvalidInput) as caught:
        as_tensor("x", value)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "value", [None, [1], np.ones(2, dtype=int), torch.ones(2, dtype=torch.long), torch.ones(2).to(torch.float8_e4m3fn)]
)
def test_floats_are_numbers_that_can_be_computed_with(value):
    with pytest.raises(InvalidInput, match=r"^lam must (hold real numbers|be floating point), got "):
        check_floats("lam", value)


@given(st.floats(0, 1), st.floats(allow_nan=True).filter(lambda number: not 0 <= number <= 1))
def test_shares_lie_in_0_to_1(right, wrong):
    check_unit("lam", torch.tensor([0.0, right, 1.0], dtype=torch.float64))
    with pytest.raises(InvalidInput, match=r"^lam must lie in 0\.\.1, got "):
        check_unit("lam", torch.tensor([right, wrong], dtype=torch.float64))


@pytest.mark.parametrize("wrong", [-1, 3])
def test_indices_lie_within_the_size(wrong):
    assert torch.equal(check_indices("partner", torch.tensor([2, 0], dtype=torch.uint8), 3), torch.tensor([2, 0]))
    with pytest.raises(InvalidInput, match=rf"^partner must lie in 0\.\.2, got {wrong}$"):
        check_indices("partner", torch.tensor([0, wrong]), 3)
    with pytest.raises(InvalidInput, match=r"^partner must hold whole numbers, got dtype torch.float32$"):
        check_indices("partner", torch.zeros(2), 3)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int32, torch.int64])
def test_class_indices_of_every_integer_type_become_int64(dtype):
    found = class_indices("target", torch.tensor([2, 0]).to(dtype), 2, 3)
    assert found.dtype == torch.int64
    assert found.tolist() == [2, 0]


SINGLE = "single-label classification (one class index per sample), not for multi-label or regression targets"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.tensor([[0, 1, 1], [1, 0, 0]]), SINGLE),
        (torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]), SINGLE),
        (torch.tensor([[0], [1]]), SINGLE),
        (torch.tensor([0.5, 1.7]), SINGLE),
        (torch.zeros(2, 4, 4), SINGLE),
        (torch.tensor([[0, 0, 1], [1, 0, 0]]), "got one-hot rows of shape [2, 3]; target.argmax(1) are the indices"),
        (torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), "target.argmax(1) are the indices"),
        (torch.tensor([True, False]), "target must hold class indices, got dtype torch.bool"),
        (torch.tensor(1), "target must hold one class index for each of 2 samples, got shape []"),
        (torch.tensor([0, 1, 2]), "target must hold one class index for each of 2 samples, got shape [3]"),
        (["cat", "dog"], "target must hold real numbers, got list of type <U3"),
        ([0, 1, 2], "target must hold one class index for each of 2 samples, got shape [3]"),
    ],
)
def test_targets_that_are_no_class_indices_are_told_what_they_should_be(target, message):
    with pytest.raises(InvalidInput) as caught:
        class_indices("target", target, 2, 3)
    assert message in str(caught.value)
    assert ("argmax" in str(caught.value)) == ("argmax" in message)


@pytest.mark.parametrize("returned", [{"logits": torch.zeros(2, 3)}, (torch.zeros(2, 3),), None])
def test_a_model_that_returns_no_tensor_is_told_what_to_do(returned):
    with pytest.raises(InvalidInput, match=rf"got {type(returned).__name__}; wrap it in a module that returns logits alone"):
        check_logits(returned)
