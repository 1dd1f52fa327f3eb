"""The scorecard as tables: in a terminal, and as the data of every other format."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from rankmixup.evaluation.registry import metric_named
from rankmixup.paper.measure import OBJECTIVES
from rankmixup.paper.scorecard import Score, Scorecard
from rankmixup.paper.verdict import SeedEstimate
from rankmixup.reports.export import Cell, DataTable
from rankmixup.reports.tables import rich_table, shown, shown_p_value, shown_range

READING = (
    "In percent. paper: as printed, in parentheses after temperature scaling. ours: mean over seeds; interval: 95 % confidence interval, "
    "over seeds and test samples; noise floor: the mean of calibrated models with the same confidences. T by ECE: with the temperature of "
    "a grid that has the lowest ECE on validation data, as in the paper's parentheses; T by NLL: with the maximum likelihood temperature."
)
CLAIMS_READING = (
    "its own cells: comparisons of printed numbers. parts: how many of the claim's comparisons agree with it on our runs. p: p-value of "
    "all parts holding (Student's test over paired seeds, Page's test over ordered settings); Holm: corrected over the claims that were "
    "tested. against: corrected p-value of one part being opposite. A verdict also needs an exact permutation p-value below 0.05, which is "
    "possible from five seeds for pairs and from three for orders."
)
PARTS_READING = (
    "effect: larger minus smaller, as the part has them, in percentage points (of a correlation: in hundredths) with its 95 % interval "
    "over seeds; or the mean rank correlation with the order that the part names. Above 0 it agrees with the claim. repetitions: "
    "pairs, or seeds with all their settings."
)


def scorecard_view(card: Scorecard) -> RenderableType:
    """For a terminal: each experiment, then the claims, then runs that could not be read."""
    parts: list[RenderableType] = []
    for key in card.titles:
        for table in map(_narrower, experiment_tables(card, key)):
            parts += [Text(table.caption, style="bold"), rich_table(table), Text()]
        if missing := not_run(card, key):
            parts += [Text(f"{key}, not run: {', '.join(missing)}"), Text()]
    if card.scores:
        parts += [Text(READING), Text()]
    if card.claims:
        parts += [Text("Claims of the paper", style="bold"), rich_table(claims_table(card)), Text(), Text(CLAIMS_READING)]
    return Group(*parts, *(Text(f"damaged: {reason}") for reason in card.damaged.values()))


def _narrower(table: DataTable) -> DataTable:
    """With what is the same in all rows in the caption: a terminal has few columns."""
    columns = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
    same = [name for name in ("metric", "seeds", "verdict") if name in columns and len(set(columns[name])) == 1]
    said = "".join(f"; {name} {columns.pop(name)[0]}" for name in same)
    return DataTable(list(columns), list(zip(*columns.values(), strict=True)), table.caption + said)


def experiment_tables(card: Scorecard, experiment: str) -> Iterator[DataTable]:
    """A table for each column that has been filled, with a row for each metric of each row."""
    columns = ["row", "metric", "paper", "ours", "interval", "noise floor", "T by ECE", "T by NLL", "seeds", "verdict"]
    for scores in _columns(card, experiment):
        if any(score.ours for score in scores):
            instead = "" if card.scale == "paper" else f", at scale {card.scale} {scores[0].stands_for_column}"
            caption = f"{experiment}, {card.titles[experiment]}: {scores[0].column_label}{instead}"
            yield DataTable(columns, [_row(score) for score in scores], caption)


def _columns(card: Scorecard, experiment: str) -> Iterable[list[Score]]:
    """The scores of each column of an experiment."""
    columns: dict[str, list[Score]] = {}
    for score in card.of(experiment):
        columns.setdefault(score.column, []).append(score)
    return columns.values()


def _row(score: Score) -> list[Cell]:
    metric, ours = score.metric, score.ours
    seeds = len(ours.seeds) if ours else 0
    count = str(seeds) if seeds == score.seeds_wanted else f"{seeds} of {score.seeds_wanted}"
    numbers = [shown(metric, _ends(ours)[0]), shown_range(metric, ours), shown(metric, ours.floor if ours else None)]
    numbers += [shown(metric, _ends(score.after.get(objective))[0]) for objective in OBJECTIVES]
    after = f"({shown(metric, score.paper_after)})" if score.paper_after is not None else ""
    paper = f"{shown(metric, score.paper)}{after}" or "not published"
    return [score.row_label, metric_named(metric).title, paper, *numbers, count, _verdict(score)]


def _verdict(score: Score) -> str:
    """Both where they differ."""
    before, after = _in_words(score.verdict), _in_words(score.verdict_after)
    if score.paper_after is None or before == after:
        return before
    return after if score.paper is None else f"{before} ({after})"


def _in_words(verdict: str) -> str:
    """A verdict or an outcome as people are shown it; files of results keep the older words."""
    return "inconclusive" if verdict == "cannot tell" else verdict


def not_run(card: Scorecard, experiment: str) -> list[str]:
    """Labels of the columns of an experiment in which nothing has been run."""
    return [scores[0].column_label for scores in _columns(card, experiment) if not any(score.ours for score in scores)]


def claims_table(card: Scorecard) -> DataTable:
    """One row for each claim."""
    rows: list[list[Cell]] = []
    for claim in card.claims:
        found = [each.direction for each in claim.findings if each.direction is not None]
        missing = len(claim.findings) - len(found)
        parts = f"{sum(each.effect > 0 for each in found)} of {len(found)}" + (f", {missing} not run" if missing else "")
        p_values = map(shown_p_value, (claim.p_value, claim.p_holm, claim.p_against_holm))
        rows.append([claim.number, claim.sentence, claim.published, parts, *p_values, _in_words(claim.outcome)])
    columns = ["claim", "what the paper says", "its own cells", "parts", "p", "Holm", "against", "on our runs"]
    return DataTable(columns, rows, "Claims of the paper")


def claim_parts_table(card: Scorecard) -> DataTable:
    """Every part of every claim, with its effect and p-values."""
    rows: list[list[Cell]] = []
    for claim in card.claims:
        for finding in claim.findings:
            found = finding.direction
            cells: list[Cell] = [None] * 7
            if found is not None:
                effect = f"{100 * found.effect:+.2f}" if found.kind == "difference" else f"{found.effect:+.2f} rank correlation"
                p_values = map(shown_p_value, (found.p_for, found.exact_for, found.p_against, found.exact_against))
                cells = [effect, shown_range("ece", found, sign=True), found.blocks, *p_values]
            rows.append([claim.number, finding.part, *cells])
    columns = ["claim", "part", "effect", "interval", "repetitions", "p", "exact p", "p against", "exact p against"]
    return DataTable(columns, rows, "Parts of the claims")


def program_table(card: Scorecard) -> DataTable:
    """Every cell, run or not, as fractions with all their digits."""
    ends = ("value", "low", "high")
    columns = ["experiment", "row", "column", "metric", "paper", "paper_after_ts", "scale", "stands_for_column", "seeds", "seeds_wanted"]
    columns += [*ends, "floor", *(f"{name}_{end}" for name in ("ece_grid", "nll") for end in ends), "verdict", "verdict_after_ts", "notes"]
    rows: list[list[Cell]] = []
    for score in card.scores:
        head: list[Cell] = [score.experiment, score.row, score.column, score.metric, score.paper, score.paper_after]
        head += [card.scale, score.stands_for_column, len(score.ours.seeds) if score.ours else 0, score.seeds_wanted]
        ours = [*_ends(score.ours), score.ours.floor if score.ours else None]
        scaled = [end for objective in OBJECTIVES for end in _ends(score.after.get(objective))]
        rows.append([*head, *ours, *scaled, score.verdict, score.verdict_after, "; ".join(score.notes)])
    return DataTable(columns, rows)


def _ends(estimate: SeedEstimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)


def summary_line(card: Scorecard) -> str:
    """What was run, at what cost."""
    hours = card.seconds / 3600
    machine = f" ({'; '.join(card.machines)})" if card.machines else ""
    line = f"Scale {card.scale}: {card.runs_done} of {card.runs_wanted} runs done, {hours:.1f} hours of training in all{machine}."
    if card.damaged:
        line += f" {len(card.damaged)} of them could not be read or not wholly."
    if card.scale != "paper":
        line += " A verdict at this scale is about a small network on few images; of the paper's own settings it says nothing."
    return line
