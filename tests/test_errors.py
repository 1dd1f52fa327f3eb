import math

import numpy as np
import pytest
import torch

from rankmixup.errors import InvalidInput, RankMixupError, require_choice, require_number, require_whole, shown, unknown_name
from tests.oracles import unchecked


def test_invalid_input_is_also_a_value_error():
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(InvalidInput, RankMixupError)


@pytest.mark.parametrize("value", [None, "1", True, math.nan, math.inf, 10**400, [1], torch.zeros(2), 1j, -0.5, 1.5])
def test_what_is_no_number_in_the_range_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^weight must (be a number|be finite|lie in 0\.\.1), got "):
        require_number("weight", value, least=0, most=1)


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), torch.tensor(0.5)])
def test_every_kind_of_number_in_the_range_passes(value):
    require_number("weight", value, least=0, most=1)


@pytest.mark.parametrize(
    "value", [None, "1", True, 1.0, math.nan, torch.tensor(1.0), torch.tensor([1, 2]), torch.tensor(3), np.array(3), np.float64(1), 0, 11]
)
def test_what_is_no_whole_number_in_the_range_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^num_bins must be (a whole number|at least 1|at most 10), got "):
        require_whole("num_bins", value, least=1, most=10)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_every_kind_of_whole_number_becomes_an_int(value):
    assert type(require_whole("num_bins", value, least=1)) is int


@pytest.mark.parametrize("value", [None, "c", 1, ["a"], np.array(["a", "b"]), torch.zeros(2)])
def test_what_is_no_choice_is_refused(value):
    with pytest.raises(InvalidInput, match=r"^form must be 'a' or 'b', got "):
        require_choice("form", value, ("a", "b"))


def test_a_message_shows_little_of_a_large_value():
    assert shown(torch.zeros(1000, 10)) == "Tensor of shape [1000, 10]"
    assert all(len(shown(value)) < 300 for value in ("x" * 10**6, list(range(10**6)), object()))


def test_a_name_that_is_no_string_is_refused():
    with unchecked(), pytest.raises(InvalidInput, match="the name of a model must be a string, got 3"):
        raise unknown_name("model", 3, ["a"])


def test_an_unknown_name_is_refused_in_a_sentence_however_long_the_valid_ones_are():
    for name in ("x", "a" * 5000):
        assert len(str(unknown_name("column", name, ["a" * 4000, "b"]))) < 1000
    assert str(unknown_name("column", "x", ["a" * 4000, "b"])) == "unknown column 'x'; none of the 2 valid names is similar"
    assert str(unknown_name("column", "x", ["ab", "cd"])) == "unknown column 'x'; valid names: ab, cd"
