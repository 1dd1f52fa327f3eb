"""The tables of the HTML report, in percent as everything for people, and its verdicts in plain words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rankmixup.config import flatten
from rankmixup.errors import listed
from rankmixup.evaluation.detection import FPR95_RULE
from rankmixup.evaluation.diagrams import pooled_top_label
from rankmixup.evaluation.group_tests import POSITIVE_GAP_KEYS
from rankmixup.evaluation.pooling import deviation
from rankmixup.evaluation.results import Estimate, Evaluation, Positive
from rankmixup.evaluation.uncertainty import FEW, MISCALIBRATED
from rankmixup.reports.best import best_table
from rankmixup.reports.entry import ReportEntry
from rankmixup.reports.export import Cell, DataTable
from rankmixup.reports.groups import gap_sentence, worst_groups
from rankmixup.reports.tables import (
    ESTIMATE_COLUMNS,
    estimate_cells,
    p_text,
    positive_lines,
    positive_tables,
    seeds_words,
    shown,
    shown_range,
    titled,
)


class Verdict(NamedTuple):
    """What the numbers of one model mean, in plain words."""

    headline: str
    sentences: tuple[str, ...]
    calibrated: bool | None
    """Whether the model is not distinguishable from a calibrated one: after calibration, if there was one."""


def verdict(entry: ReportEntry) -> Verdict:
    """The verdicts before and after calibration, and the numbers behind them: on the positive class if there is one, and then on ECE."""
    found = _confidence_verdict(entry)
    if entry.evaluation.positive is None:
        return found
    stages = [each.positive for each in (entry.evaluation, entry.evaluation.calibration) if each and each.positive]
    headline = "; after calibration ".join(_leaning(each) for each in stages)
    said = positive_lines(entry.evaluation) + _different_groups(entry.evaluation)
    said += [f"Confidence of the predicted class, whichever it is: {found.headline}.", *found.sentences]
    sentences = tuple(each.replace(" %", "\u00a0%") for each in said)
    return Verdict(f"{stages[0].title}: {headline}", sentences, not (stages[-1].verdict or "").startswith(MISCALIBRATED))


def _leaning(positive: Positive) -> str:
    """The verdict, with whether the class is predicted too often."""
    ratio = positive.metrics["observed_over_expected"]
    if ratio is None or not (ratio.verdict or "").startswith(MISCALIBRATED):
        return positive.verdict or ""
    return f"predicted too {'often' if ratio.value < 1 else 'rarely'}, {positive.verdict}"


def _different_groups(evaluation: Evaluation) -> list[str]:
    """What is found about groups and the positive class, in the last stage."""
    last = {name: [*grouping.stages.values()][-1] for name, grouping in evaluation.groups.items()}
    return [
        f"Groups by {name}{', after calibration' if evaluation.groups[name].after else ''}: {said}"
        for name, stage in last.items()
        for said in (*worst_groups(stage), *(gap_sentence(key, gap) for key, gap in stage.gaps.items() if key in POSITIVE_GAP_KEYS))
    ]


def _confidence_verdict(entry: ReportEntry) -> Verdict:
    """The verdicts on ECE before and after calibration, and the numbers behind them."""
    confidence, correct = (values.mean().item() for values in pooled_top_label([entry.scores]))
    ece, calibration = entry.evaluation.metrics["ece"], entry.evaluation.calibration
    after = entry.after["ece"] if entry.after else None
    seeds = f", over {seeds_words(entry.evaluation.runs)}" if len(entry.evaluation.runs) > 1 else ""
    right, many = f"{100 * correct:.1f} %", f"{entry.evaluation.n:,}"
    sentences = [f"Right in {right} of {many} samples, at a mean confidence of {100 * confidence:.1f} %{seeds}."]
    headline = ""
    if ece:
        leaning = "overconfident" if confidence > correct else "underconfident"
        headline = f"{leaning}, {ece.verdict}" if (ece.verdict or "").startswith("miscalibrated") else ece.verdict or ""
        sentences.append(_ece_sentence("ECE", ece))
    if calibration and after:
        headline += f"; after calibration {after.verdict}" if after.verdict else ""
        temperature = calibration.parameters.get("temperature")
        what = f"temperature scaling (T = {temperature:.3f}, " if isinstance(temperature, float) else f"{calibration.method} calibration ("
        sentences.append(_ece_sentence(f"After {what}fitted on {calibration.fitted_on or 'held-out data'}): ECE", after))
        if not calibration.converged:
            sentences.append("That fit did not converge; do not rely on it.")
        if calibration.same_data:
            sentences.append("It was fitted and evaluated on the same data; on new data expect it to do worse.")
    last = (after or ece or Estimate(0.0)).verdict
    # A line never breaks between a number and its unit.
    return Verdict(
        headline, tuple(each.replace(" %", "\u00a0%") for each in sentences), not last.startswith("miscalibrated") if last else None
    )


def _ece_sentence(opening: str, ece: Estimate) -> str:
    interval = f" (95 % interval {shown_range('ece', ece)})" if ece.low is not None else ""
    sentence = f"{opening} {shown('ece', ece.value)} %{interval}"
    if ece.floor is None or ece.p_value is None:  # of several seeds, each has its own p-value
        return sentence + "."
    compared = p_text(ece.p_value).replace("= ", "=\u00a0")
    return f"{sentence}; the noise floor of a calibrated model is {shown_range('ece', ece.floor)} % ({compared})."


def summary_table(entries: Sequence[ReportEntry]) -> DataTable:
    """One row for each model: accuracy, ECE and its verdict, before and after calibration."""
    columns = ["model", "samples", "accuracy, %", "ECE, %", *ESTIMATE_COLUMNS[1:]]
    calibrated = any(entry.after for entry in entries)
    rows: list[list[Cell]] = []
    for entry in entries:
        metrics = entry.evaluation.metrics
        value, interval, *_, judged = estimate_cells("ece", (entry.after or {}).get("ece"))
        after = [value, interval, judged] if calibrated else []
        accuracy = estimate_cells("accuracy", metrics["accuracy"])[0]
        rows.append([entry.name, entry.evaluation.n, accuracy, *estimate_cells("ece", metrics["ece"]), *after])
    if calibrated:
        columns += ["ECE after, %", "95 % interval after", "verdict after"]
    return DataTable(columns, rows, "ECE of each model" + (", before and after calibration" if calibrated else ""))


def positive_summary(entries: Sequence[ReportEntry]) -> list[DataTable]:
    """One row for each model that has a positive class, and one after calibration."""
    stages = {each.name: each.evaluation.positive for each in entries}
    stages |= {f"{each.name}, calibrated": fit.positive for each in entries if (fit := each.evaluation.calibration)}
    return positive_tables("model", stages, "Summary")


def overview_table(entries: Sequence[ReportEntry]) -> DataTable:
    """Every metric of every model, before and after calibration, with the deviation over its seeds if it has several."""
    values: dict[str, dict[str, tuple[float, float | None] | None]] = {}
    for entry in entries:
        for name, metrics in ((entry.name, entry.before), (f"{entry.name}, calibrated", entry.after or {})):
            found = {key: each for key, each in metrics.items() if each}
            calibrated = name != entry.name
            if found:
                values[name] = {key: (each.value, deviation(entry.evaluation, key, calibrated=calibrated)) for key, each in found.items()}
    over = ", means and standard deviations over seeds" if any(len(entry.evaluation.runs) > 1 for entry in entries) else ""
    return best_table(values, f"All metrics{over}{', the best in bold' if len(values) > 1 else ''}")


def metrics_table(entry: ReportEntry) -> DataTable:
    """Every metric of one model with interval, noise floor and verdict; the same after calibration."""
    columns, after = ["metric", *ESTIMATE_COLUMNS], entry.after
    if after:
        columns += ["after", *(f"{name} after" for name in ESTIMATE_COLUMNS[1:])]
    rows = [
        [titled(key), *estimate_cells(key, estimate), *(estimate_cells(key, after[key]) if after else [])]
        for key, estimate in entry.before.items()
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
        known = f" (not all unknown: trained on {', '.join(each.shared_classes)})" if each.shared_classes else ""
        numbers = (cell for key in keys for cell in estimate_cells(key, each.metrics.get(key))[:2])
        rows.append([model, name + known, each.n, each.score, *numbers])
    columns = ["model", "unknown set", "samples", "score", *(part for key in keys for part in (titled(key), "95 % interval"))]
    return DataTable(columns, rows, f"Detection of unknown samples; FPR at 95 %: {FPR95_RULE}")


def metric_notes(entry: ReportEntry) -> list[str]:
    """What has to be said about the numbers of one model."""
    seeds = len(entry.evaluation.runs)
    several = f"Tables have means over {seeds} seeds and Student's 95 % interval over them; figures show the samples of all seeds together."
    notes = [several] if seeds > 1 else []
    mce = (entry.evaluation.metrics["mce"], (entry.after or {}).get("mce"))
    bins = [each.verdict for each in mce if each and each.verdict and each.verdict.startswith("rests on")]
    if not bins:
        return notes
    rule = f"MCE is the gap of a single bin. Where that bin holds fewer than {FEW} samples, its accuracy is too uncertain for a verdict"
    return [*notes, f"{rule}: here MCE {' and, after calibration, '.join(bins)}."]


def protocol_table(entries: Sequence[ReportEntry]) -> DataTable:
    """How each model came about, one column each, so that differences show."""
    facts = [_facts(entry) for entry in entries]
    names = dict.fromkeys(name for each in facts for name in each)
    rows = [[name, *(each.get(name, "") for each in facts)] for name in names]
    return DataTable(["", *(entry.name for entry in entries)], rows, "Protocol")


def _classes(entry: ReportEntry) -> str:
    count, names = entry.evaluation.num_classes, entry.scores.class_names
    return f"{count}: {listed(names, 20)}" if names else str(count)


def _facts(entry: ReportEntry) -> dict[str, str]:
    """How a model was evaluated and trained; nested mappings as `outer: inner` names."""
    evaluation, calibration = entry.evaluation, entry.evaluation.calibration
    facts: dict[str, Any] = {
        "source": evaluation.source,
        "samples": f"{evaluation.n:,}",
        "classes": _classes(entry),
        "positive class": evaluation.positive.title if evaluation.positive else None,
        "given as": "logits" if entry.scores.from_logits else "probabilities",
        "accepted at": evaluation.acceptance and str(evaluation.acceptance),
        "calibration": "none",
    }
    if calibration:
        facts["calibration"] = {
            "method": calibration.method,
            "objective": calibration.objective,
            "fitted on": calibration.fitted_on,
            **{name: f"{value:.6g}" for name, value in calibration.parameters.items() if isinstance(value, int | float)},
            "converged": "yes" if calibration.converged else "no",
        }
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name, value in (flatten(facts, ": ") | flatten(entry.protocol, ": ")).items()
        if value is not None
    }
