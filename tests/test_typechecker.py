"""The checks of annotations that run in every test do find what is wrong."""

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation

from rankmixup import functional as F
from rankmixup.errors import InvalidInput, require
from tests.oracles import unchecked

LOGITS, TARGET = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)


@pytest.mark.parametrize(
    "arguments",
    [(LOGITS, TARGET[:3]), (LOGITS[None], TARGET), (LOGITS, TARGET.float())],
    ids=["one axis of two sizes", "an axis too many", "floats as classes"],
)
def test_shapes_and_kinds_of_tensors(arguments):
    with pytest.raises(BeartypeCallHintViolation):
        F.cross_entropy_loss(*arguments)
    with unchecked(), pytest.raises(InvalidInput):
        F.cross_entropy_loss(*arguments)


def test_types_without_shapes():
    with pytest.raises(BeartypeCallHintViolation):
        require(True, 3)
    with unchecked():
        require(True, 3)


def test_an_inner_call_has_axes_of_its_own():
    """N of the outer function is not that of a function which it calls with other tensors."""
    assert F.cross_entropy_loss(LOGITS, TARGET) == F.cross_entropy_loss(LOGITS[:2], TARGET[:2])
    assert F.expected_calibration_error(LOGITS, TARGET).ndim == 0
