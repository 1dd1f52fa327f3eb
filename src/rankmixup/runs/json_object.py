"""JSON that was read from a file, whose values are asked for with the type that they must have."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from rankmixup.errors import InvalidInput, require, shown


class JsonObject:
    """A JSON object; `name` is what errors call it, `defaults` are the values of keys that may be missing."""

    def __init__(self, data: Any, name: str, defaults: Mapping[str, Any] | None = None):
        if not isinstance(data, dict):
            raise InvalidInput(f"{name} must be a JSON object, got {shown(data)}")
        self.values: dict[str, Any] = {**(defaults or {}), **data}
        self._name = name

    def require(self, condition: bool, key: str, rule: str, value: Any) -> None:
        """Raise `InvalidInput` unless `condition` holds."""
        require(condition, f"{self._name}: {key} must be {rule}, got {shown(value)}")

    def get(self, key: str, rule: str, is_valid: Callable[[Any], bool]) -> Any:
        """The value of `key`, for which `is_valid` must hold; `rule` is how errors put that."""
        if key not in self.values:
            raise InvalidInput(f"{self._name}: {key} must be {rule}, it is missing")
        self.require(is_valid(self.values[key]), key, rule, self.values[key])
        return self.values[key]

    def child(self, key: str) -> "JsonObject":
        """An object in the object."""
        return JsonObject(self.get(key, "a JSON object", lambda value: True), f"{self._name}: {key}")

    def items(self, key: str) -> list[Any]:
        """A list of anything."""
        return self.get(key, "a list", lambda value: isinstance(value, list))

    def string(self, key: str) -> str:
        """A string."""
        return self.get(key, "a string", lambda value: isinstance(value, str))

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.items(key)
        self.require(all(isinstance(each, str) for each in value), key, "a list of strings", value)
        return tuple(value)

    def integer(self, key: str, *, least: int = 0) -> int:
        """An integer of at least `least`."""
        return self.get(key, f"an integer of at least {least}", lambda value: type(value) is int and least <= value < 2**63)

    def number(self, key: str) -> float:
        """A finite number."""
        return float(self.get(key, "a number", is_number))

    def numbers(self, key: str) -> dict[str, float | None]:
        """An object of finite numbers and nulls."""
        values = self.child(key).values
        for name, value in values.items():
            self.require(value is None or is_number(value), f"{key}.{shown(name)}", "a number or null", value)
        return values


def is_number(value: Any) -> bool:
    """Whether it is a number that float64 can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
