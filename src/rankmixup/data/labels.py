"""Labels of any kind: integers of any values, or text, become class indices and class names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, listed, one_line, require, shown
from rankmixup.ops import as_tensor


def check_labels(name: str, y: Any, size: int) -> NDArray[Any]:
    """The labels of `size` samples, as integers of 64 bits or as text; `name` is what errors call them."""
    if isinstance(y, Tensor):
        y = as_tensor(name, y)
        require(not y.is_floating_point(), f"{name} must hold an integer or text for each of {size} samples, got {y.dtype}")
    require(not np.ma.isMaskedArray(y), f"{name} must not be a masked array, fill or leave out what is masked")
    try:
        y = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidInput(f"{name} must be an array of labels, got {shown(y)}") from error
    found = f"{y.dtype} of shape {list(y.shape)}"
    require(y.shape == (size,) and y.dtype.kind in "iubUS", f"{name} must hold an integer or text for each of {size} samples, got {found}")
    if y.dtype.kind in "iu":
        fits = size == 0 or int(y.max()) < 2**63
        require(fits, f"{name} must hold integers of 64 bits, got {y.max() if size else 0}")
        return y.astype(np.int64)
    try:
        text: NDArray[Any] = np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y.astype(np.str_)
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} must hold text in UTF-8, got bytes that are not") from None
    for label in np.unique(text).tolist():
        valid = label.strip() != "" and one_line(label) == label
        require(valid, f"{name} must hold text without control characters that is not empty, got {shown(label)}")
    return text


def class_labels(labels: Mapping[str, NDArray[Any]]) -> tuple[tuple[str, ...], list[Int[Tensor, " N"]]]:
    """The class names, which are the different labels of the first array in order, and the class indices of each array.

    >>> names, (train, val) = class_labels({"train": np.array([-1, 10, 2, 10]), "val": np.array([2])})
    >>> names, train.tolist(), val.tolist()
    (('-1', '2', '10'), [0, 2, 1, 2], [1])
    """
    (first, known), *_ = labels.items()
    values = np.unique(known)
    require(len(values) >= 2, f"{first} must have labels of at least 2 classes, got {len(values)}")
    indices = []
    for name, each in labels.items():
        kinds = {"i": "integers", "U": "text"}
        same = each.dtype.kind == values.dtype.kind
        require(same, f"{name} must hold {kinds[values.dtype.kind]}, as {first} does, got {kinds[each.dtype.kind]}")
        unknown = [shown(label) for label in np.setdiff1d(each, values).tolist()]
        require(not unknown, f"{name} must hold labels that {first} has too, which it has not for {listed(unknown, 5)}")
        indices.append(torch.from_numpy(np.searchsorted(values, each).astype(np.int64)))
    return tuple(str(value) for value in values.tolist()), indices
