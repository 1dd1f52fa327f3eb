"""What all figures share: colours, lines and markers, names that are safe to draw, files."""

import contextlib
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

BLUE, ACCENT, GREY = "#0072B2", "#D55E00", "#808080"
"""Okabe and Ito's blue and vermilion, and a grey; all can be seen on white and on black."""

STYLES = [  # Okabe and Ito's colours, in an order whose lightness also differs between neighbours
    ("#000000", "-", "o"),
    ("#E69F00", "--", "s"),
    ("#0072B2", "-.", "^"),
    ("#CC79A7", ":", "D"),
    ("#009E73", "-", "v"),
    ("#56B4E9", "--", "P"),
    ("#D55E00", "-.", "X"),
]
"""Colour, line and marker of each series."""

_LONGEST = 34  # letters of a name that a figure has room for


def style(position: int) -> tuple[str, str, str]:
    """Colour, line and marker of a series; after the last it starts again."""
    return STYLES[position % len(STYLES)]


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure that is not known to pyplot, so that nothing has to be closed."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(width: float, height: float) -> tuple["Figure", "Axes"]:
    """A new figure with a single pair of axes."""
    figure = new_figure(width, height)
    return figure, figure.subplots()


def series(named: Mapping[str, T]) -> Iterator[tuple[T, dict[str, Any]]]:
    """Each value with the colour, line, marker and label that it is drawn with."""
    for position, (name, value) in enumerate(zip(labels(named), named.values(), strict=True)):
        yield value, {**dict(zip(("color", "linestyle", "marker"), style(position), strict=True)), "label": name}


def finish(axes: "Axes") -> None:
    """Add a grid and a legend."""
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)


def label(name: str) -> str:
    r"""A name from outside as text to draw: never a formula, never hidden, never longer than there is room.

    >>> label("$x$"), label("_private"), label("one\ntwo"), label("a" * 20 + "b" * 20)
    ('\\$x\\$', ' _private', 'one two', 'aaaaaaaaaaaaaaaaa…bbbbbbbbbbbbbbbb')
    """
    name = "".join(" " if unicodedata.category(letter).startswith("C") else letter for letter in name)
    if len(name) > _LONGEST:
        half = _LONGEST // 2
        name = f"{name[:half]}…{name[len(name) - _LONGEST + half + 1 :]}"
    # matplotlib reads dollars as mathematics and leaves names that start with an underscore out of a legend.
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def labels(names: Iterable[str]) -> list[str]:
    """`label` of each name; numbered, if some became alike when they were shortened.

    >>> labels(["a", "b"]), labels(["x" * 30 + "1" + "x" * 30, "x" * 30 + "2" + "x" * 30])[1]
    (['a', 'b'], '2: xxxxxxxxxxxxxxxxx…xxxxxxxxxxxxxxxx')
    """
    drawn = [label(name) for name in names]
    return drawn if len(set(drawn)) == len(drawn) else [f"{number}: {text}" for number, text in enumerate(drawn, 1)]


@contextlib.contextmanager
def drawing(fonttype: str = "path") -> Iterator[None]:
    """Draw names in any script, and the same figure as the same file.

    matplotlib's own font shows a box for letters that it lacks, and warns.
    """
    from matplotlib import rc_context

    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "rankmixup", "svg.fonttype": fonttype}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def save_figure(figure: "Figure", path: str | Path) -> list[Path]:
    """Write `path` as PNG and as SVG; returns both paths."""
    paths = [Path(path).with_suffix(suffix) for suffix in (".png", ".svg")]
    with drawing():
        for target in paths:
            figure.savefig(target, dpi=150, bbox_inches="tight", metadata={"Date": None} if target.suffix == ".svg" else None)
    return paths
