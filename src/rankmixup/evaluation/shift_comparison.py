"""Several methods under shift: means over their runs, differences from a baseline, and pairs whose order turns round."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import torch

from rankmixup.evaluation.paired import combined_difference
from rankmixup.evaluation.registry import METRICS
from rankmixup.evaluation.results import Difference, percentiles
from rankmixup.evaluation.shift import MeasuredRun
from rankmixup.evaluation.shift_results import (
    SHIFT_METRICS,
    STAGES,
    Reversal,
    ShiftCell,
    ShiftDifference,
    ShiftedMethod,
    ShiftSeverity,
    Stage,
)
from rankmixup.evaluation.significance import holm, metrics_over_seeds, paired_direction, seeds_difference


def compare_methods(groups: Mapping[str, Sequence[MeasuredRun]], baseline: str) -> tuple[dict[str, ShiftedMethod], tuple[Reversal, ...]]:
    """Each method's means over its runs with its differences from the baseline, and pairs whose order turns round under shift.

    Differences of methods with at least two seeds in common are paired over seeds (Student's t), others over images (paired bootstrap).
    Holm's correction is over all differences of a metric: methods, severities, before and after temperature scaling.
    """
    severities = [each.severity for each in groups[baseline][0].result.severities]
    methods = {name: _over_runs(runs) for name, runs in groups.items()}
    for metric in SHIFT_METRICS:
        places = [(name, severity, stage) for name in groups if name != baseline for severity in severities for stage in STAGES]
        if metric == "accuracy":  # which a temperature does not change
            places = [place for place in places if place[2] == "before"]
        found = [_difference(groups[name], groups[baseline], severity, stage, metric) for name, severity, stage in places]
        corrected = holm([each.p_value for each in found]) if found else []
        for (name, severity, stage), difference, p_holm in zip(places, found, corrected, strict=True):
            direction = "better" if METRICS[metric].better(difference.value, 0.0) else "worse"
            difference = replace(difference, p_holm=p_holm, verdict="no difference shown" if p_holm >= 0.05 else direction)
            added = ShiftDifference(severity, stage, metric, difference)
            methods[name] = replace(methods[name], differences=(*methods[name].differences, added))
    return methods, _reversals(groups, [each for each in severities if each > 0])


def _over_runs(runs: Sequence[MeasuredRun]) -> ShiftedMethod:
    severities = []
    for parts in zip(*(run.result.severities for run in runs), strict=True):
        stages = ({key: each for key, each in metrics_over_seeds([part.of(stage) for part in parts]).items() if each} for stage in STAGES)
        severities.append(ShiftSeverity(parts[0].severity, parts[0].n, *stages))
    cells = []
    for same in zip(*(run.cells for run in runs), strict=True):
        means = ({key: sum(getattr(cell, stage)[key] for cell in same) / len(same) for key in same[0].before} for stage in STAGES)
        cells.append(ShiftCell(same[0].corruption, same[0].severity, *means))
    return ShiftedMethod(tuple(run.result for run in runs), tuple(severities), tuple(cells))


def _pairs(runs: Sequence[MeasuredRun], others: Sequence[MeasuredRun]) -> list[tuple[MeasuredRun, MeasuredRun]]:
    """Runs of two methods with the same seed."""
    of_seed = {other.result.seed: other for other in others}
    return [(run, of_seed[run.result.seed]) for run in runs if run.result.seed in of_seed]


def _difference(runs: Sequence[MeasuredRun], base: Sequence[MeasuredRun], severity: int, stage: Stage, metric: str) -> Difference:
    pairs = _pairs(runs, base)
    if len(pairs) >= 2:
        return seeds_difference(
            [one.result.value(severity, stage, metric) - other.result.value(severity, stage, metric) for one, other in pairs]
        )
    one, other = (pairs or [(runs[0], base[0])])[0]
    first, second = one.replicated[severity, stage], other.replicated[severity, stage]
    a, b = first.draws[metric], second.draws[metric]
    if metric == "ece":
        return combined_difference(first.ece, second.ece, torch.corrcoef(torch.stack([a, b]))[0, 1].nan_to_num().item())
    value = one.result.value(severity, stage, metric) - other.result.value(severity, stage, metric)
    beyond = min(int((a - b <= 0).sum()), int((a - b >= 0).sum()))
    return Difference(value, *percentiles(a - b), min(1.0, 2 * (1 + beyond) / (1 + len(a))))


def _reversals(groups: Mapping[str, Sequence[MeasuredRun]], severities: Sequence[int]) -> tuple[Reversal, ...]:
    """Pairs of methods, each with at least two seeds in common, that change places; each with a p-value corrected over all pairs."""
    found: list[Reversal] = []
    kinds: list[tuple[str, Stage]] = [(metric, stage) for metric in SHIFT_METRICS for stage in STAGES]
    for metric, stage in [kind for kind in kinds if kind != ("accuracy", "after")]:
        sign = 1 if METRICS[metric].better(1.0, 0.0) else -1

        def shifted(run: MeasuredRun, metric: str = metric, stage: Stage = stage) -> float:
            return sum(run.result.value(severity, stage, metric) for severity in severities) / len(severities)

        rows = []
        for one, other in combinations(groups, 2):
            pairs = _pairs(groups[one], groups[other])
            if len(pairs) < 2:
                continue
            clean = [sign * (a.result.value(0, stage, metric) - b.result.value(0, stage, metric)) for a, b in pairs]
            under = [sign * (shifted(a) - shifted(b)) for a, b in pairs]
            tests = paired_direction(clean), paired_direction(under)
            first = tests[0].effect > 0
            # Both directions must be shown, so the larger p-value counts; doubled, since either method may be the first.
            p_value = min(1.0, 2 * (max(tests[0].p_for, tests[1].p_against) if first else max(tests[0].p_against, tests[1].p_for)))
            names = (one, other) if first else (other, one)
            effects = abs(tests[0].effect), -tests[1].effect if first else tests[1].effect
            rows.append(Reversal(metric, stage, *names, *effects, p_value, p_value))
        corrected = holm([row.p_value for row in rows]) if rows else []
        found += [replace(row, p_holm=p_holm) for row, p_holm in zip(rows, corrected, strict=True) if row.shifted > 0]
    return tuple(found)
