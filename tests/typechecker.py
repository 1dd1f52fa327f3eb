"""Types and shapes in annotations, checked at run time in every test.

jaxtyping's import hook names every function and class of the library; what it does with functions takes too long, since it checks
arguments twice. Here beartype checks them once, within jaxtyping's scope for the names of axes. Functions inside functions, which
would be decorated anew at each call of the outer one, are left as they are.
"""

import functools
import inspect
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

# As type checkers see the world: a whole number is as good as a float.
check = beartype(conf=BeartypeConf(is_pep484_tower=True))

_by_jaxtyping, _axes = jaxtyping.jaxtyped(typechecker=check), jaxtyping.jaxtyped("context")


def _checked(found: Any) -> Any:
    """A function or class with its checks."""
    if not inspect.isfunction(found) or inspect.isgeneratorfunction(found) or not _resolvable(found):
        return _by_jaxtyping(found)
    if "<locals>" in found.__qualname__:
        return found
    checked = check(found)

    @functools.wraps(found)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return found(*args, **kwargs)
        with _axes:
            return checked(*args, **kwargs)

    return wrapper


def _resolvable(found: Any) -> bool:
    """Whether no name in its annotations is imported for type checkers alone, which only jaxtyping puts up with."""
    try:
        get_type_hints(found)
    except NameError:
        return False
    return True


def install() -> None:
    """Check everything of the library that is imported from now on."""
    jaxtyping.jaxtyped = lambda *, typechecker: _checked  # the hook's decorators look it up by this name
    jaxtyping.install_import_hook("rankmixup", "tests.typechecker.check")
