"""Tables of groups and of classes: for people in percent, for programs as fractions."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from rankmixup.errors import listed
from rankmixup.evaluation.classes import ClassMetrics
from rankmixup.evaluation.groups import DIFFER, MIN_SAMPLES, Gap, Grouping, GroupMetrics, GroupStage
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Evaluation, all_metrics_of
from rankmixup.evaluation.uncertainty import MISCALIBRATED
from rankmixup.reports.export import Cell, DataTable
from rankmixup.reports.tables import (
    ESTIMATE_COLUMNS,
    SMALL,
    estimate_cells,
    p_text,
    plain_table,
    positive_tables,
    shown,
    shown_p_value,
    titled,
    with_interval,
)

GROUPS_READING = (
    "corrected p: the share of random permutations of the groups in which some group deviates as much, with Holm's correction over all "
    "metrics and groupings. For ECE and overconfidence, only samples of nearly the same confidence are permuted."
)
POSITIVE_GROUPS_READING = (
    "Of the positive class, samples of nearly the same probability are permuted; observed/expected is tested with the exact mean and "
    "covariance of all permutations, and slopes by Cochran's Q."
)
_PHRASES = {
    "positive.observed_over_expected": "observed/expected of the positive class",
    "positive.slope": "slope of the positive class",
    "positive.ece": "ECE of the positive class",
}
_PHRASES |= {"ece": "ECE", "overconfidence": "overconfidence", "accuracy": "accuracy", "nll": "NLL", "brier": "Brier score"}


def value_text(key: str, value: float | None) -> str:
    """A value of a group or a gap; overconfidence is a difference of percentages."""
    return shown("accuracy", value, sign=True) if key == "overconfidence" else shown(key, value)


def gap_sentence(key: str, gap: Gap | None) -> str:
    """The test of one metric in words."""
    if gap is None:
        return f"{_PHRASES[key]}: not tested; this takes two groups of at least {MIN_SAMPLES} samples, and finite values."
    unit = " points" if key == "overconfidence" else f" {metric_named(key).unit}".rstrip()
    chance = f"corrected {p_text(gap.p_holm)}"
    values = f"{value_text(key, gap.observed)}{unit}, where {value_text(key, gap.expected)}{unit} is expected"
    if gap.verdict != DIFFER:
        return f"{_PHRASES[key]}: no difference between groups shown ({chance}); {gap.extreme} deviates most ({values})."
    return f"{_PHRASES[key]}: groups differ ({chance}); {gap.extreme} deviates most ({values})."


def worst_groups(stage: GroupStage) -> list[str]:
    """A sentence that names the groups in which the positive class is miscalibrated; nothing if there is none."""
    judged = {name: each.positive for name, each in stage.groups.items() if each.positive and each.positive.verdict == MISCALIBRATED}
    ratios = {name: ratio.value for name, each in judged.items() if (ratio := each.metrics["observed_over_expected"])}
    worst = sorted(ratios, key=lambda name: abs(math.log(max(ratios[name], 1e-9))), reverse=True)
    named = [f"{name} {shown('positive.observed_over_expected', ratios[name])}" for name in worst]
    return [f"miscalibrated groups by observed/expected, the worst first: {listed(named, 20)}."] if named else []


def _judged(group: GroupMetrics) -> list[Cell]:
    """ECE with interval, floor, p-value and verdict."""
    cells: list[Cell] = [*estimate_cells("ece", group.metrics.get("ece"))]
    return [*cells[:-1], SMALL] if group.too_small else cells


def group_tables(name: str, grouping: Grouping, model: str = "") -> list[DataTable]:
    """A row for each group: a table before and, if there was one, another after calibration, since both together are too wide to read."""
    columns = ["group", "samples", "accuracy, %", "mean confidence, %", "overconfidence, points", "NLL", "Brier"]
    columns += ["ECE, %", *ESTIMATE_COLUMNS[1:]]
    tables = []
    for stage, found in grouping.stages.items():
        rows: list[list[Cell]] = []
        for group, each in found.groups.items():
            means = [shown("accuracy", each.mean_confidence), value_text("overconfidence", each.overconfidence)]
            row: list[Cell] = [group, each.n, shown("accuracy", each.value("accuracy")), *means]
            rows.append([*row, *(shown(key, each.value(key)) for key in ("nll", "brier")), *_judged(each)])
        caption, of_model = f"Groups by {name}{_after(stage)}", f": {model}" if model else ""
        if of_class := positive_groups(name, grouping)[stage]:
            tables += [replace(each, caption=f"{each.caption}{of_model}") for each in of_class]
            caption += ": confidence of predictions"
        tables.append(DataTable(columns, rows, f"{caption}{of_model}"))
    return tables


def _after(stage: str) -> str:
    return ", after calibration" if stage == "after" else ""


def gap_table(name: str, grouping: Grouping, model: str = "") -> DataTable:
    """A row for each test of whether groups differ, before and after calibration."""
    columns = ["metric", "stage", "largest gap", "smallest value", "largest value", "deviates most", "its value", "expected", "p"]
    columns += ["corrected p", "verdict"]
    rows: list[list[Cell]] = []
    for stage, found in grouping.stages.items():
        for key, gap in found.gaps.items():
            if gap is not None:
                title = "overconfidence, points" if key == "overconfidence" else titled(key)
                numbers = (value_text(key, gap.observed), value_text(key, gap.expected))
                chances = (shown_p_value(gap.p_value), shown_p_value(gap.p_holm))
                spread = shown("accuracy" if key == "overconfidence" else key, gap.value)
                rows.append([title, stage, spread, gap.smallest, gap.largest, gap.extreme, *numbers, *chances, gap.verdict])
    return DataTable(columns, rows, f"Do groups by {name} differ?" + (f" {model}" if model else ""))


def group_sections(entries: Sequence[Any]) -> list[dict[str, Any]]:
    """What the HTML report shows of each grouping of each model: title, sentences and tables."""
    several = len(entries) > 1
    return [
        {
            "title": f"{name}: {entry.name}" if several else name,
            "stages": {
                # A line never breaks between a number and its unit.
                stage: [said.replace(" %", "\u00a0%") for said in _stage_sentences(found)]
                for stage, found in grouping.stages.items()
            },
            "tables": [
                gap_table(name, grouping, entry.name if several else ""),
                *group_tables(name, grouping, entry.name if several else ""),
            ],
        }
        for entry in entries
        for name, grouping in entry.evaluation.groups.items()
    ]


def positive_groups(name: str, grouping: Grouping) -> dict[str, list[DataTable]]:
    """The probability of the positive class in each group, if there is one, before and after calibration."""
    return {
        stage: positive_tables("group", {group: each.positive for group, each in found.groups.items()}, f"Groups by {name}{_after(stage)}")
        for stage, found in grouping.stages.items()
    }


def compact_table(name: str, grouping: Grouping) -> DataTable:
    """Accuracy and ECE of each group, before and after calibration: at most six columns."""
    columns = ["group", "samples", "accuracy, %", "ECE, % (95 % interval)", "verdict"]
    columns += ["ECE after (95 % interval), verdict"] if grouping.after else []
    rows: list[list[Cell]] = []
    for group, each in grouping.before.groups.items():
        row: list[Cell] = [group, each.n, shown("accuracy", each.value("accuracy")), *_compact(each)]
        rows.append([*row, ", ".join(filter(None, _compact(grouping.after.groups[group])))] if grouping.after else row)
    return DataTable(columns, rows, f"Groups by {name}")


def _compact(group: GroupMetrics) -> list[str]:
    """ECE with its interval, and the verdict."""
    return [with_interval("ece", group.metrics.get("ece")), str(_judged(group)[-1] or "")]


def gap_lines(grouping: Grouping) -> list[str]:
    """The tests in few words: a sentence for each difference that is shown, and one for all others."""
    lines = []
    for stage, found in grouping.stages.items():
        when = f"{stage} calibration" if grouping.after else "tests"
        lines += [f"{when}, {said}" if grouping.after else said for said in worst_groups(found)]
        lines += [f"{when}, {gap_sentence(key, gap)}" for key, gap in found.gaps.items() if gap is not None and gap.verdict == DIFFER]
        others = [_PHRASES[key] for key, gap in found.gaps.items() if gap is not None and gap.verdict != DIFFER]
        lines += [f"{when}: no difference between groups shown in {', '.join(others)}."] if others else []
    return lines


def groups_text(evaluation: Evaluation) -> list[RenderableType]:
    """Groups in the terminal: a table for each grouping and stage, and what the tests say."""
    parts: list[RenderableType] = []
    for name, grouping in evaluation.groups.items():
        for stage, found in grouping.stages.items():
            title = f"\ngroups by {name}{_after(stage)}"
            of_class = [part for each in positive_groups(name, grouping)[stage] for part in _positive_stage_table(each)]
            parts += [Text(title, style="bold"), *of_class, _stage_table(found), Text()]
            parts += map(Text, _stage_sentences(found))
    return [*parts, Text(f"\n{groups_reading([evaluation])}")] if parts else []


def groups_reading(evaluations: Iterable[Evaluation]) -> str:
    """How to read the tests of groups."""
    return GROUPS_READING + (f" {POSITIVE_GROUPS_READING}" if any(each.positive for each in evaluations) else "")


def _stage_sentences(stage: GroupStage) -> list[str]:
    return [*worst_groups(stage), *(gap_sentence(key, gap) for key, gap in stage.gaps.items())]


def _positive_stage_table(of_class: DataTable) -> list[RenderableType]:
    """Its columns that a terminal has room for."""
    table = plain_table("model", "obs/exp (interval)", "slope", "ECE", "verdict")
    table.columns[0].header, table.columns[0].min_width, table.columns[-1].min_width = "group", 9, 15
    for group, ratio, _, slope, ece, verdict in (map(str, row) for row in of_class.rows):
        table.add_row(Text(group), ratio, *(number.partition(" ")[0] for number in (slope, ece)), verdict)
    return [table, Text("Confidence of the predicted class:")]


def _stage_table(stage: GroupStage) -> RenderableType:
    table = plain_table("model", "n", "accuracy", "ECE", "interval", "noise floor", "verdict")
    table.columns[0].header, table.columns[0].min_width, table.columns[-1].min_width = "group", 9, 15
    for group, each in stage.groups.items():
        value, interval, floor, _, verdict = (str(cell or "") for cell in _judged(each))
        table.add_row(Text(group), f"{each.n:,}", shown("accuracy", each.value("accuracy")), value, interval, floor, verdict)
    return table


def group_rows(evaluation: Evaluation) -> DataTable:
    """Every metric of every group, for programs."""
    rows: list[list[Cell]] = []
    for name, grouping in evaluation.groups.items():
        for stage, found in grouping.stages.items():
            for group, each in found.groups.items():
                head: list[Cell] = [evaluation.source, name, group, each.n, stage]
                rows += [[*head, key, getattr(each, key), *[None] * 7] for key in ("mean_confidence", "overconfidence")]
                for key, estimate in all_metrics_of(each).items():
                    if estimate is not None:
                        floor = estimate.floor[:3] if estimate.floor else (None,) * 3
                        numbers = (estimate.value, estimate.low, estimate.high, *floor, estimate.p_value)
                        rows.append([*head, key, *numbers, estimate.verdict])
    columns = ["source", "grouping", "group", "n", "stage", "metric", "value", "low", "high"]
    return DataTable([*columns, "floor_mean", "floor_low", "floor_high", "p_value", "verdict"], rows)


_CLASS_KEYS = tuple(ClassMetrics.__dataclass_fields__)


def class_rows(evaluation: Evaluation) -> DataTable:
    """Every class before and after calibration, for programs."""
    stages = ("before", "after") if evaluation.calibration else ("before",)
    rows: list[list[Cell]] = []
    for each in evaluation.classes:
        for stage in stages:
            found = getattr(each, stage)
            rows.append([evaluation.source, each.index, each.name, each.n, stage, *(getattr(found, key) for key in _CLASS_KEYS)])
    return DataTable(["source", "class", "name", "n", "stage", *_CLASS_KEYS], rows)


MOST_CLASSES = 200
"""In a table for people: a page with thousands of rows for each model opens slowly and is not read."""


def class_tables(name: str, evaluation: Evaluation) -> list[DataTable]:
    """Samples, accuracy, confidence, ECE, NLL and classwise ECE of each class: before and, if there was one, after calibration.

    Of very many classes, those with the largest classwise ECE before calibration.
    """
    worst = sorted(evaluation.classes, key=lambda each: -each.before.classwise_ece)[:MOST_CLASSES]
    classes = sorted(worst, key=lambda each: each.index)
    left_out = len(evaluation.classes) - len(classes)
    note = f": the {len(classes)} with the largest classwise ECE; --class-csv writes the other {left_out} too" if left_out else ""
    columns = ["class", "samples", "accuracy, %", "95 % interval", "mean confidence, %", "overconfidence, points"]
    columns += ["ECE, %", "NLL", "classwise ECE, %"]
    stages = ("before", "after") if evaluation.calibration else ("before",)
    if not classes:  # of several seeds
        return []
    return [
        DataTable(
            columns,
            [[str(each.index) if each.name is None else each.name, each.n, *_class_cells(getattr(each, stage))] for each in classes],
            f"Classes of {name}{_after(stage)}{note}",
        )
        for stage in stages
    ]


def _class_cells(found: ClassMetrics) -> list[Cell]:
    sure, right = found.mean_confidence, found.accuracy
    gap = None if sure is None or right is None else sure - right
    interval = "" if right is None else f"{shown('accuracy', found.accuracy_low)} to {shown('accuracy', found.accuracy_high)}"
    cells: list[Cell] = [shown("accuracy", right), interval, shown("accuracy", sure), value_text("overconfidence", gap)]
    return [*cells, shown("ece", found.ece), shown("nll", found.nll), shown("ece", found.classwise_ece)]
