"""Groups of samples, from Python and from files: their names, their members and their numbers are those of plain loops."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

import rankmixup as rm
from rankmixup.errors import InvalidInput, one_line
from rankmixup.evaluation.group_files import read_groups
from rankmixup.evaluation.group_labels import MISSING, GroupLabels
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.commands import call, require_orderly
from studies.fuzzing.damage import damage
from studies.fuzzing.oracle import agree
from studies.fuzzing.score_files import write_scores
from studies.fuzzing.values import Sample, draw_sample, hostile

__all__ = ["try_grouping"]

_TEXTS = ("a", "b", "B", "site 1", "", "nan", "NaN", "None", "1", "01", "-3", "10", "2", "1.0", "ünï", "[red]", "a\nb", "=1+1", "(missing)")
_TEXTS += ("a,b", '"q"', "x" * 300, "%s", "--json", "\u2028", "\ud800", "🙂", "a;b", "True", "9" * 19)
_FILE_TEXTS = ("a", "b", "site 1", "nan", "1", "01", "-3", "10", "2", "1.0", "ünï", "[red]", "=1+1", "(missing)", "a,b", 'q"q', "x" * 300)
_NUMBERS = (0, 1, 2, 10, -1, 2**40)
_FLOATS = (0.0, -0.0, 1.0, 2.0, 1e15, -3.0, math.nan)


def try_grouping(rng: np.random.Generator, folder: Path) -> Verdict:
    """One grouping."""
    kind = rng.choice(["values", "hostile", "file", "numbers", "command"], p=[0.4, 0.15, 0.33, 0.08, 0.04])
    if kind == "numbers":
        return _numbers(rng)
    if kind == "command":
        return _command(rng, folder)
    size = int(rng.choice([1, 2, 5, 30]))
    if kind == "file":
        return _file(rng, folder, size)
    values = _draw(rng, size)
    if kind == "values":
        _require_groups(GroupLabels.of("site", values, size), _plain(values))
        return "agrees"
    changed = hostile(rng, rng.integers(-3, 12, size=size))
    labels = GroupLabels.of("site", changed, size)
    if len(labels.codes) != size or sorted(set(labels.codes.tolist())) != list(range(len(labels.names))):
        raise Difference(f"each of {size} samples must have a group and each group a sample, got {labels}")
    return "answered"


def _draw(rng: np.random.Generator, size: int) -> Any:
    """Values that are right, of one kind or mixed."""
    kind = int(rng.integers(7))
    if kind == 0:
        return [_TEXTS[i] for i in rng.integers(len(_TEXTS), size=size)]
    if kind == 1:
        kinds = ("i1", "i2", "i4", "i8", "u1", ">i4")
        return rng.integers(0, 5, size=size).astype(str(rng.choice(kinds)))
    if kind == 2:
        return np.array(_FLOATS)[rng.integers(len(_FLOATS), size=size)].astype(str(rng.choice(["f4", "f8", ">f8"])))
    if kind == 3:
        mixed: tuple[Any, ...] = (*_TEXTS, *_NUMBERS, *_FLOATS, None, True, False, b"a", np.int8(1), np.float32(2))
        return [mixed[i] for i in rng.integers(len(mixed), size=size)]
    if kind == 4:
        return rng.integers(2, size=size).astype(bool)
    if kind == 5:
        return torch.from_numpy(rng.integers(-3, 3, size=size))
    plain = [text for text in _TEXTS if "\ud800" not in text]
    return np.array([plain[i] for i in rng.integers(len(plain), size=size)])


def _plain(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list) else values.tolist()


def _named(value: Any) -> str:
    """The name of a group, by the words of the guide."""
    if isinstance(value, bytes):
        value = value.decode()
    if value is None or value == "" or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return MISSING
    if isinstance(value, (str, bool)):
        return one_line(str(value))
    return str(int(value))


def _require_groups(labels: GroupLabels, values: list[Any]) -> None:
    expected = [_named(value) for value in values]
    found = [labels.names[code] for code in labels.codes]
    if found != expected:
        raise Difference(f"the groups of {values[:20]} must be {expected[:20]}, got {found[:20]}")
    names = sorted(set(expected) - {MISSING})
    if all(name.lstrip("-").isdecimal() and name.isascii() and len(name) < 19 and name.count("-") < 2 for name in names):
        names.sort(key=int)
    if sorted(labels.names, key=names.index if MISSING not in labels.names else (lambda name: name == MISSING)) != list(labels.names):
        raise Difference(f"groups must be in the order of their numbers or names, missing ones last, got {labels.names}")
    if set(labels.names) != set(expected) or len(set(labels.names)) != len(labels.names):
        raise Difference(f"each group must be named once, got {labels.names}")


def _file(rng: np.random.Generator, folder: Path, size: int) -> Verdict:
    """A file of groups, whole or damaged."""
    ending = str(rng.choice([".csv", ".txt", ".npz", ".pt", ".safetensors"]))
    path = folder / f"site{ending}"
    texts = [_FILE_TEXTS[i] for i in rng.integers(len(_FILE_TEXTS), size=size)]
    numbers = rng.integers(-3, 12, size=size)
    column = str(rng.choice(["site", "groups"]))
    values: list[Any] = texts if ending in (".csv", ".txt") else numbers.tolist()
    if ending == ".txt":
        path.write_text("\n".join(texts) + "\n" * int(rng.integers(2)), encoding="utf-8")
    elif ending == ".csv":
        with path.open("w", encoding=str(rng.choice(["utf-8", "utf-8-sig"])), newline="") as file:
            writer = csv.writer(file, delimiter=str(rng.choice([",", ";", "\t"])))
            writer.writerows([["id", column, "other"], *([str(place), text, "1"] for place, text in enumerate(texts))])
    elif ending == ".npz":
        values = texts if rng.random() < 0.5 else values
        np.savez(path, **{column: np.array(values), "other": np.zeros(3)})
    elif ending == ".pt":
        torch.save({column: texts if rng.random() < 0.5 else torch.from_numpy(numbers)}, path)
        values = torch.load(path)[column]
        values = values if isinstance(values, list) else values.tolist()
    else:
        save_file({column: torch.from_numpy(numbers)}, path)
    content = path.read_bytes()
    damaged = rng.random() < 0.4
    if damaged:
        path.write_bytes(damage(rng, content))
    named = None if ending == ".txt" else column
    try:
        labels = GroupLabels.of("site", read_groups(path, named), size)
    except InvalidInput as error:
        if not damaged:
            raise Difference(f"a whole file must be read, got: {error}") from error
        raise
    if not damaged or (ending in (".npz", ".pt") and path.read_bytes() != content):
        _require_groups(labels, values)
        return "agrees"
    return "answered"


def _numbers(rng: np.random.Generator) -> Verdict:
    """The numbers of each group are those of its samples alone."""
    sample = draw_sample(rng, classes=int(rng.choice([2, 2, 3])))
    names = ["a", "b", "c", "d"][: int(rng.integers(1, 5))]
    values = np.array(names)[rng.integers(len(names), size=len(sample.labels))]
    report = rm.evaluate(sample.scores, sample.labels, groups=values, replicates=2, from_logits=sample.from_logits).to_dict()
    _require_numbers(report["groups"]["group"]["before"], sample, values)
    return "agrees"


def _require_numbers(stage: dict[str, Any], sample: Sample, values: np.ndarray) -> None:
    if set(stage["groups"]) != set(values.tolist()):
        raise Difference(f"groups must be {sorted(set(values.tolist()))}, got {list(stage['groups'])}")
    for name, group in stage["groups"].items():
        part = Sample(sample.scores[values == name], sample.labels[values == name], sample.from_logits)
        if group["n"] != len(part.labels) or group["too_small"] != (len(part.labels) < 10):
            raise Difference(f"group {name} must have {len(part.labels)} samples, got {group['n']}")
        agree({key: entry and entry["value"] for key, entry in group["metrics"].items()}, part)
        probs = _probs(part)
        confidence = probs.max(axis=1).mean()
        right = (part.exact.argmax(axis=1) == part.labels).mean()
        _close(f"mean confidence of {name}", group["mean_confidence"], confidence)
        _close(f"overconfidence of {name}", group["overconfidence"], confidence - right)
        ratio = positive["metrics"]["observed_over_expected"] if (positive := group.get("positive")) else None
        # Given probabilities are made log-odds: they are normalised, and 0 becomes the least that has some.
        plain = sample.from_logits or (sample.scores.dtype == np.float64 and probs.min() > 1e-6)
        if ratio is not None and plain and probs[:, 1].sum() > 1e-300:
            _close(f"observed over expected of {name}", ratio["value"], (part.labels == 1).sum() / probs[:, 1].sum())
    for key in ("accuracy", "nll", "brier"):
        _require_gap(stage, key)


def _require_gap(stage: dict[str, Any], key: str) -> None:
    """The gap of a metric is that between the extreme groups of ten samples or more, and every p-value is one."""
    gap = stage["gaps"][key]
    values = [group["metrics"][key]["value"] for group in stage["groups"].values() if group["n"] >= 10]
    if gap is None:
        return
    _close(f"gap of {key}", gap["value"], max(values) - min(values))
    if not 0 < gap["p_value"] <= gap["p_holm"] <= 1:
        raise Difference(f"p-values of {key} must lie in 0..1, the corrected one not below the other, got {gap}")


def _probs(sample: Sample) -> np.ndarray:
    if not sample.from_logits:
        return sample.exact
    shifted = np.exp(sample.exact - sample.exact.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def _close(what: str, found: float, expected: float) -> None:
    if not math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9):
        raise Difference(f"{what} must be {expected!r}, got {found!r}")


def _command(rng: np.random.Generator, folder: Path) -> Verdict:
    """A file of scores and one of groups on the command line."""
    sample = draw_sample(rng, classes=int(rng.choice([2, 3])))
    write_scores(rng, folder / "scores.npz", sample)
    values = np.array(["a", "b", "1", "x y"])[rng.integers(4, size=len(sample.labels))]
    ending = str(rng.choice([".csv", ".txt"]))
    (folder / f"site{ending}").write_text("\n".join([*(["site"] if ending == ".csv" else []), *values.tolist()]) + "\n")
    damaged = rng.random() < 0.3
    if damaged:
        (folder / f"site{ending}").write_bytes(damage(rng, (folder / f"site{ending}").read_bytes()))
    status, out, err = call("evaluate", str(folder / "scores.npz"), "--group", str(folder / f"site{ending}"), "--json", "--replicates", "2")
    require_orderly(status, out, err, as_json=True)
    if damaged:
        return "refused" if status else "answered"
    if status != 0:
        raise Difference(f"right files must be evaluated, got: {err}")
    (found,) = json.loads(out)["groups"].values()
    _require_numbers(found["before"], sample, values)
    return "agrees"
