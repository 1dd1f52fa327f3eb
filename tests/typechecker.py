"""Shapes and types in annotations, checked at run time in every test.

jaxtyping's import hook decorates every function that it finds. Two kinds are treated apart, because together they took a third of
the time of all tests: functions without shapes are given to beartype alone, and functions defined inside others, which would be
decorated anew at each call of the outer one, are left as they are.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

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
        return (_with_types if _has_types_alone(found) else _with_shapes(typechecker=typechecker))(found)

    return decorate


def _has_types_alone(found: Callable[..., Any]) -> bool:
    try:
        return not any("jaxtyping" in repr(each) for each in get_type_hints(found).values())
    except NameError:  # a name that only type checkers import: jaxtyping knows how to go on
        return False


def _with_types(found: Callable[..., Any]) -> Callable[..., Any]:
    checked = check(found)

    @functools.wraps(found)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return (found if jaxtyping.config.jaxtyping_disable else checked)(*args, **kwargs)

    return wrapper


def install() -> None:
    """Check everything of the library that is imported from now on."""
    jaxtyping.jaxtyped = _jaxtyped
    jaxtyping.install_import_hook("rankmixup", "tests.typechecker.check")
