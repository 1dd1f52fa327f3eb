"""Names for things: one registry class for methods, mixers, models and data sets."""

import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from rankmixup.errors import InvalidInput, unknown_name

__all__ = ["Registry", "first_line"]

T = TypeVar("T")
Entry = TypeVar("Entry")


class Registry(Generic[T]):
    """Maps kebab-case names to classes or functions; third parties add theirs through `entry_point_group`."""

    def __init__(self, kind: str, entry_point_group: str | None = None):
        self.kind = kind
        self._entry_point_group = entry_point_group
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Class or function decorator that files its target under `name`; a class also learns its `name`."""

        def decorate(entry: Entry) -> Entry:
            if name in self._entries and self._entries[name] is not entry:
                raise InvalidInput(f"{self.kind} {name!r} is already registered; choose another name")
            self._entries[name] = entry  # type: ignore[assignment]
            if isinstance(entry, type):
                entry.name = name  # type: ignore[attr-defined]
            return entry

        return decorate

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str):
            raise unknown_name(self.kind, name, self._entries)
        if name not in self._entries:
            self._load_plugins()
        if name not in self._entries:
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._entries))

    def __contains__(self, name: str) -> bool:
        return name in list(self)

    def summaries(self) -> dict[str, str]:
        """Name to one-line card, the first line of the entry's docstring."""
        return {name: first_line(self[name]) for name in self}

    def _load_plugins(self) -> None:
        if self._entry_point_group is None:
            return
        # Looked up once, on the first miss or listing, so that importing the library runs nobody else's code.
        group, self._entry_point_group = self._entry_point_group, None
        for point in entry_points(group=group):
            try:
                point.load()
            except Exception as error:
                warnings.warn(f"{self.kind} plugin {point.name!r} ({point.value}) could not be loaded: {error}", stacklevel=3)


def first_line(thing: object) -> str:
    """First line of a docstring, without its full stop."""
    return (thing.__doc__ or "").strip().split("\n")[0].rstrip(".")
