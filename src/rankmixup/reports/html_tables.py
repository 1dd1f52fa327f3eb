"""The tables of the HTML report, in percent as everything for people, and its verdicts in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankmixup.config import flatten
from rankmixup.evaluation.detection import FPR95_RULE
from rankmixup.evaluation.diagrams import class_summaries, pooled_top_label
from rankmixup.evaluation.results import Calibration, Estimate, Metrics
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import Cell, DataTable
from rankmixup.reports.tables import estimate_cells, shown, shown_p_value, shown_range, titled


def _calibrator(calibration: Calibration) -> str:
    """What was fitted, in words."""
    temperature = calibration.parameters.get("temperature")
    what = f"temperature scaling (T = {temperature:.3f}" if isinstance(temperature, float) else f"{calibration.method} calibration ("
    return f"{what}{', ' if what[-1] != '(' else ''}fitted on {calibration.fitted_on or 'held-out data'})"


@dataclass(frozen=True)
class Verdict:
    """What the numbers of one model mean, in plain words."""

    headline: str
    sentences: tuple[str, ...]
    calibrated: bool | None
    """Whether the model is not distinguishable from a calibrated one: after calibration, if there was one."""


def verdict(entry: ReportEntry) -> Verdict:
    """The verdicts on ECE before and after calibration, and the numbers behind them."""
    confidence, correct = (values.mean().item() for values in pooled_top_label([entry.scores]))
    ece, calibration = entry.evaluation.metrics["ece"], entry.evaluation.calibration
    after = calibration.metrics["ece"] if calibration else None
    sentences = [f"Right in {100 * correct:.1f} % of {len(entry.scores):,} samples, at a mean confidence of {100 * confidence:.1f} %."]
    headline = ""
    if ece:
        leaning = "overconfident" if confidence > correct else "underconfident"
        headline = f"{leaning}, {ece.verdict}" if ece.verdict == "miscalibrated" else ece.verdict or ""
        sentences.append(_ece_sentence("ECE", ece))
    if calibration and after:
        headline += f"; after calibration {after.verdict}" if after.verdict else ""
        sentences.append(_ece_sentence(f"After {_calibrator(calibration)}: ECE", after))
        if not calibration.converged:
            sentences.append("That fit did not converge; do not rely on it.")
        if calibration.same_data:
            sentences.append("It was fitted and evaluated on the same data; on new data expect it to do worse.")
    judged = after or ece
    last = judged.verdict if judged else None
    # A line never breaks between a number and its unit.
    return Verdict(headline, tuple(each.replace(" %", "\u00a0%") for each in sentences), last != "miscalibrated" if last else None)


def _ece_sentence(opening: str, ece: Estimate) -> str:
    interval = f" (95 % interval {shown_range('ece', ece)})" if ece.low is not None else ""
    sentence = f"{opening} {shown('ece', ece.value)} %{interval}"
    if ece.floor is None:
        return sentence + "."
    return f"{sentence}; the noise floor of a calibrated model is {shown_range('ece', ece.floor)} % (p {_p(ece.p_value)})."


def _p(p_value: float | None) -> str:
    text = shown_p_value(p_value)
    return text if text.startswith("<") else f"= {text}"


def _value(key: str, metrics: Metrics) -> str:
    estimate = metrics.get(key)
    return shown(key, None if estimate is None else estimate.value)


def _after(entry: ReportEntry) -> Metrics | None:
    return entry.evaluation.calibration.metrics if entry.evaluation.calibration else None


def summary_table(entries: Sequence[ReportEntry]) -> DataTable:
    """One row for each model: accuracy, ECE and its verdict, before and after calibration."""
    columns = ["model", "samples", "accuracy, %", "ECE, %", "95 % interval", "noise floor", "p", "verdict"]
    calibrated = any(_after(entry) for entry in entries)
    rows: list[list[Cell]] = []
    for entry in entries:
        metrics, after = entry.evaluation.metrics, _after(entry)
        row: list[Cell] = [
            entry.name,
            len(entry.scores),
            _value("accuracy", metrics),
            *estimate_cells("ece", metrics["ece"]),
        ]
        value, interval, *_, judged = estimate_cells("ece", after["ece"] if after else None)
        rows.append(row + ([value, interval, judged] if calibrated else []))
    if calibrated:
        columns += ["ECE after, %", "95 % interval after", "verdict after"]
    return DataTable(columns, rows, "ECE of each model" + (", before and after calibration" if calibrated else ""))


def overview_table(entries: Sequence[ReportEntry]) -> DataTable:
    """Every metric of every model, before and after calibration."""
    named: dict[str, Metrics] = {entry.name: entry.evaluation.metrics for entry in entries}
    for entry in entries:
        if after := _after(entry):
            named[f"{entry.name}, calibrated"] = after
    keys = list(dict.fromkeys(key for metrics in named.values() for key, estimate in metrics.items() if estimate))
    rows = [[name, *(_value(key, metrics) for key in keys)] for name, metrics in named.items()]
    return DataTable(["model", *map(titled, keys)], rows, "All metrics")


def metrics_table(entry: ReportEntry) -> DataTable:
    """Every metric of one model with interval, noise floor and verdict; the same after calibration."""
    columns = ["metric", "value", "95 % interval", "noise floor", "p", "verdict"]
    after = _after(entry)
    if after:
        columns += ["after", "95 % interval after", "noise floor after", "p after", "verdict after"]
    rows = [
        [titled(key), *estimate_cells(key, estimate), *(estimate_cells(key, after[key]) if after else [])]
        for key, estimate in entry.evaluation.metrics.items()
        if estimate
    ]
    return DataTable(columns, rows, f"Metrics of {entry.name}")


def ood_table(entries: Sequence[ReportEntry]) -> DataTable | None:
    """How well OOD samples are detected among test samples."""
    found = [(entry.name, name, each) for entry in entries for name, each in entry.evaluation.ood.items()]
    if not found:
        return None
    keys = list(found[0][2].metrics)
    rows: list[list[Cell]] = []
    for model, name, each in found:
        shared = each.shared_classes
        known = f" (not all unknown: trained on {', '.join(shared)})" if shared else ""
        cells: list[Cell] = [model, name + known, each.n, each.score]
        for key in keys:
            cells += estimate_cells(key, each.metrics.get(key))[:2]
        rows.append(cells)
    return DataTable(
        ["model", "unknown set", "samples", "score", *(part for key in keys for part in (titled(key), "95 % interval"))],
        rows,
        f"Detection of unknown samples; FPR at 95 %: {FPR95_RULE}",
    )


def class_table(entry: ReportEntry, num_bins: int = 15) -> DataTable:
    """Samples, accuracy, mean confidence and classwise ECE of each class."""
    rows: list[list[Cell]] = []
    for name, each in zip(entry.classes, class_summaries(entry.scores, num_bins), strict=True):
        shares: list[Cell] = [""] * 3
        if each.accuracy is not None and each.mean_confidence is not None:
            shares = [f"{100 * share:.2f}" for share in (each.accuracy, each.mean_confidence, each.mean_confidence - each.accuracy)]
        rows.append([name, each.count, *shares, f"{100 * each.error:.2f}"])
    columns = ["class", "samples", "accuracy, %", "mean confidence, %", "overconfidence, points", "classwise ECE, %"]
    return DataTable(columns, rows, f"Classes of {entry.name}")


def protocol_table(entries: Sequence[ReportEntry]) -> DataTable:
    """How each model came about, one column each, so that differences show."""
    facts = [_flat(_evaluation_facts(entry)) | _flat(entry.protocol) for entry in entries]
    names = dict.fromkeys(name for each in facts for name in each)
    rows = [[name, *(each.get(name, "") for each in facts)] for name in names]
    return DataTable(["", *(entry.name for entry in entries)], rows, "Protocol")


def _evaluation_facts(entry: ReportEntry) -> dict[str, Any]:
    calibration = entry.evaluation.calibration
    facts: dict[str, Any] = {
        "source": entry.evaluation.source,
        "samples": f"{len(entry.scores):,}",
        "classes": entry.evaluation.num_classes,
    }
    facts["given as"] = "logits" if entry.scores.from_logits else "probabilities"
    if not calibration:
        return facts | {"calibration": "none"}
    parameters = {name: value for name, value in calibration.parameters.items() if isinstance(value, int | float)}
    facts["calibration"] = {
        "method": calibration.method,
        "objective": calibration.objective,
        "fitted on": calibration.fitted_on,
        **{name: f"{value:.6g}" for name, value in parameters.items()},
        "converged": "yes" if calibration.converged else "no",
    }
    return facts


def _flat(facts: Mapping[str, Any]) -> dict[str, str]:
    """Nested mappings as `outer: inner` names."""
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name, value in flatten(facts, ": ").items()
        if value is not None
    }
