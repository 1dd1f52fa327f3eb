"""Names for things: one registry class for methods, mixers, models, data sets, metrics and calibrators."""

import importlib
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from rankmixup.errors import InvalidInput, unknown_name

T = TypeVar("T")
Entry = TypeVar("Entry")


class Registry(Generic[T]):
    """Maps kebab-case names and their aliases to classes or functions; third parties add theirs through `entry_point_group`."""

    def __init__(self, kind: str, entry_point_group: str | None = None):
        self.kind = kind
        self._entry_point_group = entry_point_group
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}

    def register(self, name: str, *aliases: str) -> Callable[[Entry], Entry]:
        """Class or function decorator that registers its target as `name`; it is found by `aliases` too but listed once.

        A class also gets an attribute `name`. What is defined again in the same place, as by a cell of a notebook, replaces what it was.
        """

        def decorate(entry: Entry) -> Entry:
            for taken in (name, *aliases):
                if not _same_definition(self._entries.get(self._aliases.get(taken, taken), entry), entry):
                    raise InvalidInput(f"{self.kind} {taken!r} is already registered; choose another name")
            self._entries[name] = entry  # type: ignore[assignment]
            self._aliases |= dict.fromkeys(aliases, name)
            if isinstance(entry, type):
                entry.name = name  # type: ignore[attr-defined]
            return entry

        return decorate

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[self._aliases.get(name, name)]

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name not in self._entries and name not in self._aliases:
            self._load_plugins()
        return name in self._entries or name in self._aliases

    def summaries(self) -> dict[str, str]:
        """Name to one line about the entry: the first of its docstring, and its aliases."""
        aliases = {name: ", ".join(alias for alias, full in self._aliases.items() if full == name) for name in self}
        return {name: first_line(self[name]) + (f" (alias {also})" if also else "") for name, also in aliases.items()}

    def _load_plugins(self) -> None:
        if self._entry_point_group is None:
            return
        # Looked up on the first miss or listing, so that importing the library runs nobody else's code.
        importlib.import_module("rankmixup.plugins")  # which loads the files that the user asks for; all is tried again if one is bad
        group, self._entry_point_group = self._entry_point_group, None
        for point in entry_points(group=group):
            try:
                point.load()
            except Exception as error:
                warnings.warn(f"{self.kind} plugin {point.name!r} ({point.value}) could not be loaded: {error}", stacklevel=3)


def _same_definition(one: object, other: object) -> bool:
    """Whether two entries are one, or were made by the same lines of code, which have run twice."""
    # An entry without a name, such as a metric, is known by its function.
    sources = [each if hasattr(each, "__qualname__") else getattr(each, "function", each) for each in (one, other)]
    places = [(getattr(each, "__module__", None), getattr(each, "__qualname__", None)) for each in sources]
    return one is other or (places[0] == places[1] and places[0][1] is not None)


def first_line(thing: object) -> str:
    """First line of a docstring, without its full stop."""
    return (thing.__doc__ or "").strip().split("\n")[0].rstrip(".")
