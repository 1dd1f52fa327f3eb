"""Frozen dataclasses that are their own configuration: checked when made, JSON out and in, one stable hash."""

import dataclasses
import functools
import hashlib
import json
import math
import types
from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rankmixup.errors import InvalidInput, require, shown, unknown_name
from rankmixup.registry import Registry

C = TypeVar("C", bound="Configured")


class Configured(ABC):  # noqa: B024 - subclasses have the abstract methods
    """Base of every frozen dataclass that takes part in a run.

    Subclasses are frozen dataclasses whose fields are numbers, strings, `Literal` choices, tuples or other `Configured`
    objects. Types and choices are checked at construction; ranges are checked by each subclass in `check`.
    """

    registry: ClassVar[Registry[Any] | None] = None
    """Where subclasses are filed by name; None for a class without alternatives."""
    name: ClassVar[str] = ""
    """The registry key of a concrete subclass."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            annotation = _hints(type(self))[field.name]
            value = _checked(type(self).__name__, field.name, annotation, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        self.check()

    def check(self) -> None:  # noqa: B027 - most have nothing to add
        """Raise `InvalidInput` if a field is out of range."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data from which `from_dict` makes an equal object."""
        return _described(self)

    @classmethod
    def from_dict(cls: type[C], data: dict[str, Any]) -> C:
        """The object that `to_dict` described."""
        require(isinstance(data, dict), f"{cls.__name__} must be described by a JSON object, got {data!r}")
        data = dict(data)
        target: type[C] = cls
        if cls.registry is not None:
            require("name" in data, f'a {cls.registry.kind} must be described with its "name", got {data!r}')
            target = cls.registry[str(data.pop("name"))]
            require(issubclass(target, cls), f"{cls.registry.kind} {target.name!r} is no {cls.__name__}")
        return target.with_fields({key: _revived(_hints(target).get(key), value) for key, value in data.items()})

    @classmethod
    def with_fields(cls: type[C], values: Mapping[str, Any]) -> C:
        """An object with these values of its fields; unknown names are refused."""
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for key in values:
            if key not in names:
                raise unknown_name(f"field of {cls.__name__}", key, names)
        try:
            return cls(**values)
        except TypeError as error:
            raise InvalidInput(f"{cls.__name__} must be described by all its fields, got {sorted(values)} ({error})") from None

    def content_hash(self) -> str:
        """Hexadecimal SHA-256 of the canonical JSON form: equal objects, equal hash, on every machine.

        Fields that take no part in comparisons (`field(compare=False)`) take none in the hash.
        """
        return content_hash(_described(self, all_fields=False))


def content_hash(data: Any) -> str:
    """Hexadecimal SHA-256 of canonical JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def flatten(data: Mapping[str, Any], separator: str = ".", prefix: str = "") -> dict[str, Any]:
    """Values of nested mappings by their joined names.

    >>> flatten({"seed": 0, "method": {"mixer": {"alpha": 2.0}}})
    {'seed': 0, 'method.mixer.alpha': 2.0}
    """
    values: dict[str, Any] = {}
    for name, value in data.items():
        path = f"{prefix}{name}"
        values |= flatten(value, separator, path + separator) if isinstance(value, Mapping) else {path: value}
    return values


def added_field(default: Any) -> Any:
    """A field that earlier versions did not have: at its default it takes no part in the hash, so that ids stay what they were."""
    return dataclasses.field(default=default, metadata={"added": True})


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _described(value: Any, all_fields: bool = True) -> Any:
    if isinstance(value, tuple):
        return [_described(item, all_fields) for item in value]
    if not isinstance(value, Configured):
        return value
    if value.registry is not None and value.registry[value.name] is not type(value):
        raise InvalidInput(f"{type(value).__name__} must be registered under a name of its own, it has {value.name!r} from its parent")
    fields = [field.name for field in dataclasses.fields(value) if all_fields or _takes_part(field, value)]  # type: ignore[arg-type]
    head = {"name": value.name} if value.name else {}
    return head | {name: _described(getattr(value, name), all_fields) for name in fields}


def _takes_part(field: "dataclasses.Field[Any]", owner: Any) -> bool:
    """Whether a field is part of the hash."""
    return field.compare and not (field.metadata.get("added") and getattr(owner, field.name) == field.default)


def _revived(annotation: Any, value: Any) -> Any:
    if isinstance(value, dict):
        for candidate in _alternatives(annotation):
            if isinstance(candidate, type) and issubclass(candidate, Configured):
                return candidate.from_dict(value)
    return tuple(value) if isinstance(value, list) else value


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _checked(owner: str, field: str, annotation: Any, value: Any) -> Any:
    """`value`, with whole numbers made floats where a float is meant; raises if it has none of the annotated types."""
    where = f"{owner}.{field}"
    for expected in _alternatives(annotation):
        if expected is type(None) and value is None:
            return None
        if get_origin(expected) is Literal:
            if type(value) in (str, int, float, bool) and value in get_args(expected):
                return value
        elif get_origin(expected) is tuple and isinstance(value, (tuple, list)):
            if all(isinstance(item, get_args(expected)[0]) for item in value):
                return tuple(value)
        elif expected is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            # So that margin=2 and margin=2.0 are one run with one id.
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            require(math.isfinite(number), f"{where} must be finite, got {shown(value)}")
            return number + 0.0  # -0.0 equals 0.0 and must not have another hash
        elif isinstance(expected, type) and isinstance(value, expected) and not (expected is int and isinstance(value, bool)):
            return value
    choices = [str(choice) for expected in _alternatives(annotation) for choice in get_args(expected) if get_origin(expected) is Literal]
    if choices and isinstance(value, str):
        raise unknown_name(where, value, choices)
    kind = " | ".join(_type_name(expected) for expected in _alternatives(annotation))
    raise InvalidInput(f"{where} must be of type {kind}, got {shown(value)}")


def _type_name(kind: Any) -> str:
    if kind is type(None):
        return "None"
    plain = isinstance(kind, type) and get_origin(kind) is None
    return kind.__name__ if plain else str(kind).replace("typing.", "").replace("Literal['auto']", "'auto'")
