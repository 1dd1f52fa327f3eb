"""Shapes and types in annotations, checked at run time in every test.

jaxtyping's import hook decorates every function that it finds. Two kinds are treated apart, because together they took a third of
the time of all tests: functions without shapes are given to beartype alone, and functions defined inside others, which would be
decorated anew at each call of the outer one, are left as they are.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

# As type checkers see the world: a whole number is as good as a float.
check = beartype(conf=BeartypeConf(is_pep484_tower=True))

_with_shapes = jaxtyping.jaxtyped


def _jaxtyped(*, typechecker: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(found: Any) -> Any:
        if not inspect.isfunction(found):
            return _with_shapes(typechecker=typechecker)(found)
        if "<locals>" in found.__qualname__:
            return found
        shapes = any("jaxtyping" in repr(each) or isinstance(each, str) for each in found.__annotations__.values())
        return _with_shapes(typechecker=typechecker)(found) if shapes else check(found)

    return decorate


def install() -> None:
    """Check everything of the library that is imported from now on."""
    jaxtyping.jaxtyped = _jaxtyped
    jaxtyping.install_import_hook("rankmixup", "tests.typechecker.check")
