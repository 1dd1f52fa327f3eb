"""Tables for people: rich in a terminal, the same in plain text; percent, where programs get fractions."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.table import Column, Table
from rich.text import Text

from rankmixup.errors import one_line
from rankmixup.evaluation.detection import FPR95_RULE
from rankmixup.evaluation.groups import MIN_SAMPLES
from rankmixup.evaluation.registry import metric_named
from rankmixup.evaluation.results import Calibration, Detection, Estimate, Evaluation, Metrics, Positive, all_metrics_of
from rankmixup.evaluation.uncertainty import FEW
from rankmixup.reports.export import Bold, DataTable

if TYPE_CHECKING:
    from rankmixup.experiments.sweep import Ranking
    from rankmixup.runs.listing import RunListing

_READING = (
    "interval: 95 % confidence interval. noise floor: the range in which 95 % of perfectly calibrated models with the same confidences "
    "lie. p: the share of them with at least this value."
)
POSITIVE_READING = (
    "observed/expected, intercept and slope of a calibrated model are 1, 0 and 1; their p-values are of likelihood ratio tests, for the "
    "slope of Wald's."
)
ESTIMATE_COLUMNS = ("value", "95 % interval", "noise floor", "p", "verdict")
"""What `estimate_cells` returns."""


def shown(key: str, value: float | None, *, sign: bool = False) -> str:
    """A metric's value as a table shows it: in percent, except NLL and Brier.

    >>> shown("ece", 0.04750), shown("nll", 0.35827), shown("ece", None), shown("ece", 0.01, sign=True)
    ('4.75', '0.3583', '', '+1.00')
    """
    if value is None:
        return ""
    plus = "+" if sign else ""
    return f"{value:{plus}.4f}" if metric_named(key).unit == "" else f"{100 * value:{plus}.2f}"


def titled(key: str) -> str:
    """A metric's name with its unit."""
    metric = metric_named(key)
    return metric.title if metric.unit == "" or metric.title.endswith("%") else f"{metric.title}, %"


def shown_range(key: str, found: Any, *, sign: bool = False) -> str:
    """`low to high` of an estimate, difference or noise floor; nothing where there is none."""
    if found is None or found.low is None or found.high is None:
        return ""
    return f"{shown(key, found.low, sign=sign)} to {shown(key, found.high, sign=sign)}"


def estimate_cells(key: str, estimate: Estimate | None) -> list[str | None]:
    """Value, interval, noise floor, p-value and verdict."""
    if estimate is None:
        return [None] * 5
    numbers = (shown(key, estimate.value), shown_range(key, estimate), shown_range(key, estimate.floor))
    return [*numbers, shown_p_value(estimate.p_value), estimate.verdict or ""]


SMALL = f"fewer than {MIN_SAMPLES} samples"
_POSITIVE_COLUMNS = {"observed_over_expected": "observed/expected", "intercept": "intercept", "slope": "slope", "ece": "ECE, %"}


def with_interval(key: str, estimate: Estimate | None) -> str:
    """Value and interval in one cell."""
    value, interval, *_ = (cell or "" for cell in estimate_cells(key, estimate))
    return f"{value} ({interval})" if interval else value


def positive_tables(of: str, positives: Mapping[str, Positive | None], caption: str) -> list[DataTable]:
    """How well the probability of the positive class is calibrated, a row for each name: six columns; none without a positive class."""
    rows = [
        [name, *(with_interval(f"positive.{key}", each.metrics[key]) for key in _POSITIVE_COLUMNS), each.verdict or SMALL]
        for name, each in positives.items()
        if each is not None
    ]
    columns = [of, *(f"{title} (95 % interval)" for title in _POSITIVE_COLUMNS.values()), "verdict"]
    return [DataTable(columns, rows, f"{caption}: probability of the positive class")] if rows else []


def shown_p_value(p_value: float | None) -> str:
    """Three decimals, or `<0.001`."""
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def seeds_words(seeds: Iterable[int]) -> str:
    """Which seeds a mean is over.

    >>> seeds_words([0, 1, 2])
    'seeds 0, 1 and 2'
    """
    *others, last = map(str, seeds)
    return f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"


def fit_words(calibration: Calibration) -> str:
    """What a calibrator is and what it was fitted on."""
    temperature = calibration.parameters.get("temperature")
    what = f"temperature T = {temperature:.4g}" if isinstance(temperature, float) else calibration.method
    return f"{what} ({calibration.objective}), fitted on {calibration.fitted_on}"


def evaluation_table(evaluation: Evaluation) -> RenderableType:
    """Value, interval, noise floor and verdict of each metric; the same after calibration, and OOD detection, if there are any."""
    stamp = ", protocol release (selected and fitted on test samples)" if evaluation.protocol == "release" else ""
    head = f"{evaluation.source}{stamp}: {evaluation.n:,} samples, {evaluation.num_classes} classes"
    parts: list[RenderableType] = [Text(head, style="bold"), *_metrics_parts(evaluation)]
    notes = [f"\n{_READING}", *([POSITIVE_READING] if evaluation.positive else []), *few_errors(evaluation)]
    if calibration := evaluation.calibration:
        parts += [Text(f"\nafter {fit_words(calibration)}", style="bold"), *_metrics_parts(calibration)]
        if calibration.same_data:
            notes += ["Calibrated and evaluated on the same data: results after calibration are better than they would be on new data."]
        if not calibration.converged:
            notes += [f"The fit of {calibration.method} {calibration.verdict}."]
    if evaluation.acceptance:
        notes += [f"accepted at {evaluation.acceptance}."]
    parts += [*map(Text, notes), *([ood_table(evaluation.ood)] if evaluation.ood else [])]
    if evaluation.groups:
        from rankmixup.reports.groups import groups_text  # which uses the tables here

        parts += groups_text(evaluation)
    return Group(*parts, *(Text(f"failed: {condition}") for condition in evaluation.failed))


def few_errors(evaluation: Evaluation) -> list[str]:
    """That intervals are too narrow, where hardly any prediction is wrong, or hardly any right."""
    accuracy = evaluation.metrics["accuracy"]
    share = 0.5 if accuracy is None else accuracy.value
    rarer, kind = round(evaluation.n * min(share, 1 - share)), "wrong" if share > 0.5 else "right"
    names = "NLL, Brier, AURC, E-AURC and AUROC"
    return [f"Fewer than {FEW} predictions are {kind} ({rarer}): the intervals of {names} are too narrow."] if rarer < FEW else []


def _metrics_parts(found: Evaluation | Calibration) -> list[RenderableType]:
    """The probability of the positive class, if there is one, before the confidence of predictions."""
    if found.positive is None:
        return [_metrics_table(found.metrics)]
    own = {key: estimate for key, estimate in all_metrics_of(found).items() if key not in found.metrics}
    confidence = Text("\nConfidence of the predicted class, whichever it is:")
    return [Text(f"\n{positive_line(found.positive)}"), _metrics_table(own), confidence, _metrics_table(found.metrics)]


def positive_lines(evaluation: Evaluation) -> list[str]:
    """The positive class before and after calibration, if there is one."""
    stages = {"": evaluation.positive, "After calibration, ": evaluation.calibration.positive if evaluation.calibration else None}
    return [f"{when}{positive_line(each)}" for when, each in stages.items() if each is not None]


def positive_line(positive: Positive) -> str:
    """How often the positive class is and is expected, and the verdict on its probability."""
    frequency, mean = (f"{100 * value:.2f} %" for value in (positive.frequency, positive.mean_probability))
    chance = "" if positive.p_value is None else f" (corrected {p_text(positive.p_value)})"  # of several seeds, each has its own
    return f"{positive.title}: frequency {frequency}, mean probability {mean}: {positive.verdict}{chance}."


def p_text(p_value: float | None) -> str:
    """`p = 0.012` or `p <0.001`."""
    text = shown_p_value(p_value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _metrics_table(metrics: Metrics) -> Table:
    table = plain_table("metric", "value", "interval", "noise floor", "p", "verdict")
    for key, estimate in metrics.items():
        if estimate is not None:
            value, *others = estimate_cells(key, estimate)
            table.add_row(metric_named(key).title, f"{value} {metric_named(key).unit}".rstrip(), *others)
    return table


def ood_table(ood: Mapping[str, Detection]) -> RenderableType:
    """How well each set of OOD samples is detected among the test samples."""
    parts: list[RenderableType] = []
    for name, found in ood.items():
        title = f"{name}: {found.n:,} OOD samples, detected by {found.score}"
        table = plain_table("metric", "value", "interval")
        for key, estimate in found.metrics.items():
            table.add_row(metric_named(key).title, shown(key, estimate.value), shown_range(key, estimate))
        parts += [Text(f"\n{title}", style="bold"), table]
        if shared := found.shared_classes:
            parts += [Text(f"Not all are OOD: the network was trained on classes of the same names: {', '.join(shared)}.")]
    parts += [Text(f"\nFPR at 95 %: {FPR95_RULE}.")]
    return Group(*parts)


def plain_table(*headings: str) -> Table:
    """An empty table that never cuts numbers and wraps words."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in headings:
        wraps = heading in ("model", "run", "verdict")
        left = wraps or heading in ("id", "metric", "method", "state")
        width = 10 if heading == "verdict" else None  # the longest word of "no difference shown"
        overflow: OverflowMethod = "fold" if wraps else "ellipsis"
        table.add_column(heading, justify="left" if left else "right", no_wrap=not wraps, overflow=overflow, min_width=width)
    return table


def runs_table(listed: "RunListing") -> RenderableType:
    """A line for each run, and one for each folder that is not a run."""
    table = plain_table("id", "run", "state", "epoch", "best", "last")
    for run in listed.runs:
        what = f"{run.method} on {run.data}, {run.model}, seed {run.seed}"
        epochs = (f"{shown('accuracy', each.accuracy)} {shown('ece', each.ece):>5}" if each else "" for each in (run.best, run.last))
        table.add_row(run.id, Text(what), run.state, f"{run.epoch}/{run.epochs}", *epochs)
    reading = Text("best, last: validation accuracy and ECE, in percent, of the selected and of the last epoch.")
    parts: list[RenderableType] = [table, reading] if listed.runs else [Text("No runs.")]
    return Group(*parts, *(Text(f"broken: {one_line(reason)}") for reason in listed.broken.values()))


def sweep_table(ranking: "Ranking") -> RenderableType:
    """Every setting on validation samples, the best one on test samples."""
    keys = list(dict.fromkeys((ranking.metric, "accuracy", "nll", "ece")))
    first, *others = (metric_named(key).title for key in keys)
    table = plain_table("method", first, "interval", *others)
    best = next(iter(ranking.val))
    for name, means in {**ranking.val, f"{best}, on test": ranking.test or {}}.items():
        value, *rest = (shown(key, means[key].value if key in means else None) for key in keys)
        table.add_row(name, value, shown_range(ranking.metric, means.get(ranking.metric)), *rest)
    table.rows[-2].end_section, table.rows[-1].style = True, "bold"
    title = f"Validation, mean over {len(ranking.runs[best])} seeds and its 95 % interval, best {first} first"
    return Group(Text(title, style="bold"), table)


def listing(kind: str, summaries: dict[str, str]) -> Table:
    """Names, each with its summary."""
    table = Table(Column(no_wrap=True, style="bold"), Column(), title=kind, title_justify="left", show_header=False)
    for name, summary in summaries.items():
        table.add_row(name, summary)
    return table


def to_text(table: RenderableType, width: int = 110) -> str:
    """A table as plain text."""
    console = Console(width=width, no_color=True, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip()


def rich_table(data: DataTable) -> Table:
    """Numbers to the right and never cut; words wrap, but not within themselves."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for place, (heading, numeric) in enumerate(zip(data.columns, data.numeric, strict=True)):
        words = [word for text in (heading, *(row[place] or "" for row in data.rows)) for word in str(text).split()]
        width = None if numeric else max(map(len, words), default=None)
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold", min_width=width)
    for row in data.rows:
        table.add_row(*(Text("" if cell is None else str(cell), style="bold" if isinstance(cell, Bold) else "") for cell in row))
    return table
