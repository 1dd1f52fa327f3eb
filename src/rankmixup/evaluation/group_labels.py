"""The group of each sample: text or whole numbers, from Python or from files; missing values are a group of their own."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, one_line, require, shown
from rankmixup.ops import as_tensor

MISSING = "(missing)"
"""The group of samples whose value is an empty text, NaN or None."""
MOST_GROUPS = 1000
"""More groups take hours and hold too few samples each."""
Values: TypeAlias = Any
"""A value for each sample: a list, an array, a tensor or a column of a table."""


@dataclass(frozen=True, eq=False)
class GroupLabels:
    """Names of groups, and the group of each sample as a position among them."""

    names: tuple[str, ...]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, values: Values, samples: int) -> "GroupLabels":
        """From one value for each sample; groups are in the order of their numbers or names, with missing values last.

        >>> labels = GroupLabels.of("site", ["b", "a", "", "b"], 4)
        >>> labels.names, labels.codes.tolist()
        (('a', 'b', '(missing)'), [1, 0, 2, 1])
        """
        array = _as_array(name, values)
        require(array.ndim == 1, f"groups {name!r} must have shape [N], got {list(array.shape)}")
        require(len(array) == samples, f"groups {name!r} must have one value for each of {samples:,} samples, got {len(array):,}")
        if array.dtype.kind == "O":
            array = np.array([_named(name, each) for each in array], dtype=np.str_)
        found, inverse = np.unique(array, return_inverse=True)
        named = [_named(name, each) for each in found]
        names = sorted(set(named), key=_place)
        if names and all(re.fullmatch(r"-?\d{1,18}", each, re.ASCII) or each == MISSING for each in names):
            names.sort(key=lambda each: (each == MISSING, 0 if each == MISSING else int(each)))
        rule = f"groups {name!r} must have at most {MOST_GROUPS:,} different values"
        require(len(names) <= MOST_GROUPS, f"{rule}, got {len(names):,}; join values or cut numbers into ranges")
        position = {each: place for place, each in enumerate(names)}
        return cls(tuple(names), np.array([position[each] for each in named], dtype=np.int64)[inverse.reshape(-1)])


def all_labels(groups: Values | Mapping[str, Values] | None, samples: int) -> dict[str, GroupLabels]:
    """Checked groupings by name; values without a name are called `group`."""
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {"group": groups}
    for name in named:
        require(isinstance(name, str) and bool(name.strip()), f"groups must be named by texts, got {shown(name)}")
    return {one_line(name): GroupLabels.of(name, values, samples) for name, values in named.items()}


def _as_array(name: str, values: Values) -> NDArray[Any]:
    rule = f"groups {name!r} must be a sequence [N] of texts or whole numbers"
    if isinstance(values, Tensor):
        found = as_tensor(f"groups {name!r}", values).detach().cpu()
        return (found.double() if found.is_floating_point() else found).numpy()  # numpy has no bfloat16
    sequence = hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping, set, frozenset))
    require(sequence and not np.ma.isMaskedArray(values), f"{rule}, got {shown(values)}")
    try:
        # As objects, since numpy would make the text "nan" of a NaN among texts.
        array = np.asarray(values, dtype=object) if isinstance(values, (list, tuple)) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"{rule}, got {shown(values)}") from error
    require(array.dtype.kind in "OUSbiuf", f"{rule}, got values of type {array.dtype}")
    return array


def _named(name: str, value: Any) -> str:
    """The name of a group from its value."""
    if value is None or value == "" or type(value).__name__ == "NAType":  # pandas' missing value
        return MISSING
    if isinstance(value, (str, bytes)):
        return one_line(value.decode(errors="replace") if isinstance(value, bytes) else str(value)) or MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    rule = f"groups {name!r} must hold texts or whole numbers"
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return MISSING
        require(float(value).is_integer(), f"{rule}, got {shown(float(value))}; cut numbers into ranges first")
        value = int(value)
    require(isinstance(value, (Integral, int)) and abs(int(value)) < 2**63, f"{rule}, got {shown(value)}")
    return str(int(value))


def _place(name: str) -> tuple[bool, str]:
    return name == MISSING, name
