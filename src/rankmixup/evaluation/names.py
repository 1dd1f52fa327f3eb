"""Names of models: short ones for tables and conditions, from the paths that they were read from."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from rankmixup.errors import InvalidInput, unknown_name


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the folders that they do not need to be told apart; equal names stay equal.

    >>> short_names(["out/a.npz", "out/b.npz"]), short_names(["/x/one/test.npz", "/x/two/test.npz"])
    (['a.npz', 'b.npz'], ['one/test.npz', 'two/test.npz'])
    """
    parts = [PurePosixPath(name).parts or (name,) for name in names]
    length = 1
    while length < max(map(len, parts), default=1) and len({each[-length:] for each in parts}) < len(set(parts)):
        length += 1
    found = [str(PurePosixPath(*each[-length:])) if name else name for name, each in zip(names, parts, strict=True)]
    return found if len(set(found)) == len(set(names)) else list(names)


def find_model(name: str, models: Iterable[str]) -> str:
    """The one of `models` that a name means: itself, or the end of its path, with or without the suffix of the file.

    >>> find_model("b", ["out/a.npz", "out/b.npz"]), find_model("two/test", ["one/test.npz", "two/test.npz"])
    ('out/b.npz', 'two/test.npz')
    """
    models = list(models)
    if name in models:
        return name
    ends = {model: PurePosixPath(model) for model in models}
    wanted = PurePosixPath(name).parts
    found = [model for model, path in ends.items() if wanted and path.parts[-len(wanted) :] == wanted]
    found = found or [
        model for model, path in ends.items() if wanted and path.name and path.with_suffix("").parts[-len(wanted) :] == wanted
    ]
    if not found:
        raise unknown_name("model", name, [*models, *(path.stem for path in ends.values())])
    if len(found) > 1:
        raise InvalidInput(
            f"the name of a model must mean one of them, {name!r} could be {' or '.join(found)}; NAME=PATH gives a model a name"
        )
    return found[0]
