"""Parameters of the scikit-learn estimator: fields of frozen methods as nested parameters, and devices by name."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from rankmixup.config import Configured
from rankmixup.errors import InvalidInput, require, shown, unknown_name
from rankmixup.methods import Method

C = TypeVar("C", bound=Configured)


def as_method(method: Method | str) -> Method:
    """The method, with its default fields if it is given by name."""
    if isinstance(method, str):
        return Method.registry[method].with_fields({})
    require(isinstance(method, Method), f"method must be a method or the name of one, got {shown(method)}")
    return method


def fields_of(value: Configured) -> dict[str, Any]:
    """Fields by name, with those of fields that have fields themselves.

    >>> from rankmixup.methods import MixupTraining
    >>> fields_of(MixupTraining())["mixer__alpha"]
    0.2
    """
    found = _own_fields(value)
    for name, part in list(found.items()):
        if isinstance(part, Configured):
            found |= {f"{name}__{inner}": each for inner, each in fields_of(part).items()}
    return found


def with_fields(value: C, changes: Mapping[str, Any]) -> C:
    """A copy with these fields changed, all at once: what one field may be can depend on another.

    Numbers of numpy, as grids of a search have them, are taken as Python's.
    """
    fields, inner = _own_fields(value), dict[str, dict[str, Any]]()
    for name, change in changes.items():
        first, _, rest = name.partition("__")
        if rest:
            inner.setdefault(first, {})[rest] = change
        else:
            fields[name] = change.item() if isinstance(change, np.generic) else change
    for name, parts in inner.items():
        if not isinstance(fields.get(name), Configured):
            raise unknown_name(f"field of {type(value).__name__}", f"{name}__{next(iter(parts))}", fields_of(value))
        fields[name] = with_fields(fields[name], parts)
    return type(value).with_fields(fields)


def _own_fields(value: Configured) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]


def as_device(name: Any) -> torch.device:
    """The device of this name; "auto" is a GPU if there is one."""
    wrong = f"device must be 'auto', 'cpu' or a device of this machine, got {shown(name)}"
    require(isinstance(name, (str, torch.device)) and str(name) != "meta", wrong)
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        return torch.empty(0, device=torch.device(name)).device
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without CUDA
        raise InvalidInput(wrong) from error
