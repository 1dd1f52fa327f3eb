"""Which columns of a csv file hold scores and which one labels: decided by their names, and never guessed.

With a header, labels are in the only column with a name such as `label`, `target` or `y_true` (`LABEL_NAMES`). Scores are in the
columns whose names begin with `logit` or `prob` (`logit_0`, `prob_cat`, `probs[3]`), or else in the only one that is called so (`logit`,
`probability`); all others are then ignored. If there are none, every column except the labels must be a class, and a column that may be
something else is refused: `weight`, `id`, text, or whole numbers such as ages beside columns of fractions. A first column without a name
is ignored: pandas writes row numbers there.

Without a header, labels are in the last column, unless another column could hold labels too.

One column of scores is that of class 1 of two, and must not have the number of another class (`prob_0`). If it has the name of a class
(`prob_spam`), labels are 0 and 1, or that name and one other. If it has none, they are 0 and 1, false and true, or no and yes.

In all other cases `label_column` and `columns` name the columns; without a header they are numbers counted from 0.
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankmixup.errors import require, unknown_name

LABEL_NAMES = {"label", "labels", "target", "targets", "y", "y_true", "class", "true_label", "true_class", "truth", "ground_truth"}
"""Names of label columns; in upper or lower case, with words joined by an underscore, a hyphen or a space."""
_OTHER_NAMES = {
    *("id", "index", "idx", "row", "sample", "sample_id", "image", "image_id", "path", "file", "filename", "name", "split", "fold"),
    *("group", "weight", "weights", "sample_weight", "confidence", "correct", "loss", "pred", "prediction", "predicted", "y_pred"),
}
"""Names of columns that often accompany scores; a class may have such a name too."""
_PREFIX = re.compile(r"(logit|prob)(?:s|ability|abilities)?(?:[\s_.:\[(-]+(.+?)[\])]?|(\d+))", flags=re.IGNORECASE)
_ALONE = re.compile(r"(logit|prob)(?:s|ability|abilities)?", flags=re.IGNORECASE)
_KINDS = {"logit": "logits", "prob": "probs"}
_MANY = 10
"""Rows from which it is no chance that all numbers of a column are whole."""
Rows = Sequence[Sequence[str]]
NAME_LABELS = "name the column of labels with label_column (--label-column)"
_NAME_CLASSES = "name the classes with columns (--columns)"


@dataclass(frozen=True)
class Asked:
    """What the caller specifies about a file."""

    kind: str | None = None
    labelled: bool = True
    """Whether labels are needed; if not, the file may lack its `label_column`."""
    label_column: str | None = None
    columns: Sequence[str] = ()
    other_columns: Sequence[str] = ()
    """Columns with neither scores nor labels, if the file has them."""

    def places(self, names: list[str]) -> tuple[int | None, list[int]]:
        """Positions of `label_column` and of `columns`."""
        require(len(set(self.columns)) == len(self.columns), f"columns (--columns) must name each column once, got {listed(self.columns)}")
        needed = (self.label_column,) if self.labelled and self.label_column is not None else ()
        for name in (*needed, *self.columns):
            if name not in names:
                raise unknown_name("column", name, names)
        require(self.label_column not in self.columns, f"columns (--columns) must not name the column of labels, got {self.label_column!r}")
        return (names.index(self.label_column) if self.label_column in names else None), [names.index(name) for name in self.columns]


@dataclass(frozen=True)
class Layout:
    """Positions of columns, and what their names tell."""

    label: int | None
    scores: list[int]
    kind: str | None = None
    """`logits` or `probs`, if the names tell."""
    class_names: tuple[str, ...] | None = None
    """None if classes are numbered."""
    first_label: int = 0
    positive: str | None = None
    """The name of class 1 of two, if the only column of scores has one."""

    @property
    def num_classes(self) -> int:
        """One column of scores is of two classes."""
        return max(2, len(self.scores))


def by_name(names: list[str], rows: Rows, asked: Asked) -> Layout:
    """From a header and the first rows below it."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    require(not repeated, f"every column must have a different name, got {listed(repeated)} more than once")
    label, scores = asked.places(names)
    if label is None and asked.label_column is None:
        found = [place for place, name in enumerate(names) if _folded(name) in LABEL_NAMES and place not in scores]
        wrong = f"exactly one column must be named label, target or similar, got {listed([names[place] for place in found] or names)}"
        require(len(found) == 1 or not (found or asked.labelled), f"{wrong}; {NAME_LABELS}")
        label = found[0] if found else None
    if not scores:
        # pandas writes row numbers without a name.
        others = [place for place, name in enumerate(names) if place != label and (name or place > 0)]
        others = [place for place in others if names[place] not in asked.other_columns]
        scores = _score_columns(names, rows, others, asked.kind)
    return _named_classes(label, scores, [names[place] for place in scores])


def _score_columns(names: list[str], rows: Rows, others: list[int], kind: str | None) -> list[int]:
    found, alone = _by_kind(_PREFIX, names, others), _by_kind(_ALONE, names, others)
    if not found and alone:
        twice = next((places for places in alone.values() if len(places) > 1), [])
        require(
            not twice, f"one column of scores must be that of class 1 of two, got {listed([names[at] for at in twice])}; {_NAME_CLASSES}"
        )
        found = alone
    if found:
        require(len(found) == 1 or kind is not None, "there are both logits and probabilities, kind (--from) must say which to read")
        return found[kind] if kind in found else next(iter(found.values()))
    require(len(others) > 0, f"there must be at least one column of scores and one of labels, got {listed(names)}")
    numbers = {at: column for at in others if (column := _numbers([row[at] for row in rows[:1] if at < len(row)])) is not None}
    unclear = [names[at] for at in others if _folded(names[at]) in _OTHER_NAMES or at not in numbers]
    if len(rows) >= _MANY and not unclear:  # whole numbers beside others are ages, counts or codes
        whole = [names[at] for at in others if _counts([row[at] for row in rows if at < len(row)])]
        unclear = whole if len(whole) < len(others) else []
    require(not unclear, f"every column except the labels must be a class, {listed(unclear)} may not be; {_NAME_CLASSES}")
    return others


def example(names: list[str], rows: Rows, asked: Asked) -> str | None:
    """Options that read the table as its first rows suggest, in capitals what they leave open; None where no labels are needed.

    Scores are the column of fractions, or the columns of fractions that sum to 1; labels the only other column of zeros and ones.
    """
    if not asked.labelled or len(set(names)) < len(names):
        return None
    known = {name: values for at, name in enumerate(names) if (values := _numbers([row[at] for row in rows if at < len(row)]))}
    known = {name: values for name, values in known.items() if name not in asked.other_columns and _folded(name) not in _OTHER_NAMES}
    labels = [name for name in names if name == asked.label_column] or [name for name in names if _folded(name) in LABEL_NAMES]
    labels = labels or [name for name, values in known.items() if set(values) <= {0.0, 1.0} and name not in asked.columns]
    labels = labels or [name for at, name in enumerate(names) if answers([row[at] for row in rows if at < len(row)])]
    fractions = [name for name, values in known.items() if name not in labels and not all(value.is_integer() for value in values)]
    probs = [name for name in fractions if all(0 <= value <= 1 for value in known[name])]
    scores = [name for name in asked.columns if name in names] or probs or fractions
    together = all(abs(sum(row) - 1) < 1e-3 for row in zip(*(known.get(name, ()) for name in scores), strict=False))
    chosen = scores if len(scores) == 1 or (scores == probs and together) or asked.columns else ["SCORE"]
    kind = asked.kind or ("probs" if probs else "logits")
    return f"--from {kind} --label-column {shlex.quote(labels[0]) if len(labels) == 1 else 'LABEL'} --columns {shlex.join(chosen)}"


def answers(labels: Sequence[str]) -> tuple[str, str] | None:
    """Names of two classes whose order is clear, false and true or no and yes, in upper or lower case; None if labels are others."""
    found = sorted(set(labels), key=str.lower)
    clear = [name.lower() for name in found] in (["false", "true"], ["no", "yes"])
    return (found[0], found[1]) if clear else None


def _numbers(cells: Sequence[str]) -> list[float] | None:
    """The cells as numbers, if all are."""
    return [float(cell) for cell in cells] if all(map(is_number, cells)) else None


def _counts(cells: Sequence[str]) -> bool:
    """Whether all are whole numbers, and not only 0 and 1, which a class may have too."""
    values = _numbers(cells) or []
    return not set(values) <= {0.0, 1.0} and all(value.is_integer() for value in values)


def _by_kind(pattern: re.Pattern[str], names: list[str], places: list[int]) -> dict[str, list[int]]:
    """Places of names that match, as logits or probabilities."""
    found: dict[str, list[int]] = {}
    for place in places:
        if match := pattern.fullmatch(names[place]):
            found.setdefault(_KINDS[match[1].lower()], []).append(place)
    return found


def _class_1(label: int | None, place: int, name: str) -> Layout:
    """The layout of one column of scores."""
    match = _PREFIX.fullmatch(name)
    alone = _ALONE.fullmatch(name)
    positive = match[2] or match[3] if match else None if alone else name
    kind = _KINDS[found[1].lower()] if (found := match or alone) else None
    number = re.fullmatch(r"\D*(\d{1,9})", positive or "")
    other = number is not None and int(number[1]) != 1 and (positive == number[1] or int(number[1]) == 0)
    unclear = match is not None and _folded(positive or "") in {*_OTHER_NAMES, "max", "top", "top1"}
    require(not (other or unclear), f"one column of scores must be that of class 1 of two, {name!r} may not be; {_NAME_CLASSES}")
    return Layout(label, [place], kind, positive=None if number and int(number[1]) == 1 else positive)


def _named_classes(label: int | None, scores: list[int], names: list[str]) -> Layout:
    """The layout from the names of score columns; numbered classes are put in order."""
    if len(names) == 1:
        return _class_1(label, scores[0], names[0])
    matches = [_PREFIX.fullmatch(name) for name in names]
    kinds = {_KINDS[match[1].lower()] if match else None for match in matches}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is not None:
        names = [match[2] or match[3] for match in matches if match]
    numbered = [match for name in names if (match := re.fullmatch(r"(\D*)(\d{1,9})", name))]
    if len(numbered) == len(names) and len({match[1] for match in numbered}) == 1:
        place_of = {int(match[2]): place for match, place in zip(numbered, scores, strict=True)}
        first = min(place_of)
        if first <= 1 and sorted(place_of) == list(range(first, first + len(names))):
            return Layout(label, [place_of[number] for number in sorted(place_of)], kind, None, first)
    wrong = f"numbered columns must be classes from 0 or 1 on without a gap, got {listed(names)}; {_NAME_CLASSES}"
    require(not any(name.isdigit() for name in names), wrong)
    return Layout(label, scores, kind, tuple(names))


def by_number(table: NDArray[np.float64], asked: Asked) -> Layout:
    """From the table itself, which has no header."""
    width = table.shape[1]
    label, scores = asked.places([str(column) for column in range(width)])
    if label is None and asked.labelled:
        label = width - 1
        require(label not in scores, "label_column (--label-column) must be given if columns (--columns) includes the last column")
        classes = max(2, len(scores) or width - 1)
        # The first rows rule out nearly all columns of a large table.
        likely = [column for column in range(width) if column not in scores and _holds_labels(table[:100, column], classes)]
        possible = [column for column in likely if _holds_labels(table[:, column], classes)]
        wrong = f"columns {listed(possible)} could all be labels, since there is no header"
        require(label not in possible or possible == [label], f"{wrong}; {NAME_LABELS}")
    scores = scores or [column for column in range(width) if column != label]
    require(len(scores) > 0, f"there must be at least one column of scores and one of labels, got {width} in all")
    return Layout(label, scores)


def _holds_labels(column: NDArray[np.float64], classes: int) -> bool:
    return bool(((column == np.round(column)) & (column >= 0) & (column < classes)).all())


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[Any]) -> str:
    """The first names of a list."""
    return ", ".join(repr(str(name)[:40]) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.lower())
