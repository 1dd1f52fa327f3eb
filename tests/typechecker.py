"""Types and shapes in annotations, checked at run time in every test.

jaxtyping's import hook decorates every function of the library, which is slow for two kinds of them. Functions without shapes
are given to beartype alone. Functions inside functions, which would be decorated anew at each call of the outer one, are left
as they are.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

# As type checkers see the world: a whole number is as good as a float.
check = beartype(conf=BeartypeConf(is_pep484_tower=True))

_with_shapes = jaxtyping.jaxtyped(typechecker=check)


def _checked(found: Any) -> Any:
    """A function or class with its checks."""
    if not inspect.isfunction(found):
        return _with_shapes(found)
    if "<locals>" in found.__qualname__:
        return found
    return _with_types(found) if _has_types_alone(found) else _with_shapes(found)


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
    jaxtyping.jaxtyped = lambda *, typechecker: _checked  # the hook's decorators look it up by this name
    jaxtyping.install_import_hook("rankmixup", "tests.typechecker.check")
