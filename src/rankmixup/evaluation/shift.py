"""Scores of corrupted images: metrics of every set, and their means over corruptions with intervals.

The interval of one run is over images: images are resampled, every corruption of an image together, and the mean over
corruptions is taken in every replicate. That of ECE is by test inversion, over the gaps of all corruptions at once. Noise floors draw one
number for each image, right under every corruption whose confidence exceeds it, since an image is hard or easy under all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup import random
from rankmixup.errors import require
from rankmixup.evaluation.intervals import Inverted, inverted_interval
from rankmixup.evaluation.noise_floor import noise_floor
from rankmixup.evaluation.resampling import bootstrap_weights, uniform_draws
from rankmixup.evaluation.results import Estimate, percentiles
from rankmixup.evaluation.scores import Scores
from rankmixup.evaluation.shift_results import SHIFT_METRICS, ShiftCell, ShiftedRun, ShiftSeverity, Stage
from rankmixup.metrics.inputs import checked_rows
from rankmixup.metrics.rows import bin_index
from rankmixup.posthoc import TemperatureScaling

Read = Callable[[str, int], Scores]
"""Scores of a corruption at a severity; `("clean", 0)` are the test samples as they are."""


@dataclass(frozen=True)
class Replicated:
    """Means over corruptions in every replicate, for paired differences; ECE also with its interval and its value without bias."""

    draws: dict[str, Float[Tensor, " R"]]
    ece: Inverted


@dataclass(frozen=True)
class MeasuredRun:
    """A run with its cells, and what its differences from another are computed from."""

    result: ShiftedRun
    cells: tuple[ShiftCell, ...]
    replicated: dict[tuple[int, Stage], Replicated]


class _Set:
    """Scores of one set of samples as columns, and what their bins hold."""

    def __init__(self, scores: Scores, num_bins: int):
        chunks = [
            (rows.confidence, rows.right_within(1), rows.nll, bin_index(rows.confidence, num_bins, rows.precision))
            for rows in checked_rows(scores.scores, scores.labels, from_logits=scores.from_logits)
        ]
        self.confidence, self.right, self.nll, bins = (torch.cat(parts).double() for parts in zip(*chunks, strict=True))
        self.member = torch.nn.functional.one_hot(bins.long(), num_bins).float()
        self.gaps = self.member * (self.confidence - self.right).float().unsqueeze(1)

    @property
    def gap(self) -> Float[Tensor, " B"]:
        """Mean confidence less accuracy of each bin, times its share of the samples."""
        return self.gaps.double().mean(dim=0)


def measure_run(
    read: Read,
    held_out: Scores,
    sets: Mapping[int, Sequence[str]],
    *,
    source: str,
    run_seed: int,
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
) -> MeasuredRun:
    """All metrics of a run.

    Args:
        read: Gives the scores.
        held_out: Clean validation scores, on which the temperature is fitted.
        sets: The corruptions of each severity; `{0: ["clean"], 1: [...], ...}`.
        source: Name of the run.
        run_seed: Its seed.
        num_bins: Bins of ECE.
        replicates: Resamples behind every interval and noise floor.
        seed: Seed of the resampling.
    """
    scaling = TemperatureScaling().fit(held_out.logits, held_out.labels, warn=False)
    severities, cells, replicated = [], [], {}
    for severity, names in sets.items():
        found: dict[Stage, list[_Set]] = {"before": [], "after": []}
        for name in names:
            scores = read(name, severity)
            found["before"].append(_Set(scores, num_bins))
            found["after"].append(_Set(Scores(scaling.transform(scores.logits.double()), scores.labels), num_bins))
        n = len(found["before"][0].right)
        lengths = {len(each.right) for each in found["before"]}
        require(len(lengths) == 1, f"all corruptions must be of the same number of images at severity {severity}, got {sorted(lengths)}")
        floors = {stage: _calibrated(parts, replicates, random.stream(seed, "shift floor")) for stage, parts in found.items()}
        estimates = {}
        for stage, parts in found.items():
            # The same resamples for every stage, severity and run, so that differences are paired.
            estimates[stage], replicated[severity, stage] = _estimated(parts, floors[stage], replicates, random.stream(seed, "shift"))
        severities.append(ShiftSeverity(severity, n, estimates["before"], estimates["after"]))
        for place, name in enumerate(names):
            values = {stage: _values(parts[place], floors[stage][:, place]) for stage, parts in found.items()}
            cells.append(ShiftCell(name, severity, values["before"], values["after"]))
    result = ShiftedRun(source, run_seed, scaling.temperature_, tuple(severities))
    return MeasuredRun(result, tuple(cells), replicated)


def _values(part: _Set, floor: Float[Tensor, " R"]) -> dict[str, float]:
    values = {"accuracy": part.right.mean(), "ece": part.gap.abs().sum(), "ece_floor": floor.mean(), "nll": part.nll.mean()}
    return {key: value.item() for key, value in values.items()}


def _calibrated(parts: Sequence[_Set], replicates: int, rng: torch.Generator) -> Float[Tensor, "R C"]:
    """ECE of every set, of calibrated models with these confidences."""
    size, found = len(parts[0].right), torch.zeros(replicates, len(parts), dtype=torch.float64)
    for rows, uniform in uniform_draws(size, replicates, rng):
        for place, part in enumerate(parts):
            right = (uniform < part.confidence.float()).float() @ part.member
            expected = (part.member * part.confidence.float().unsqueeze(1)).double().sum(dim=0)
            found[rows, place] = (expected - right).abs().sum(dim=1) / size
    return found


def _estimated(
    parts: Sequence[_Set], floors: Float[Tensor, "R C"], replicates: int, rng: torch.Generator
) -> tuple[dict[str, Estimate], Replicated]:
    """Means over sets of the same images, with intervals."""
    size, count = len(parts[0].right), len(parts)
    means = {"accuracy": sum(part.right for part in parts) / count, "nll": sum(part.nll for part in parts) / count}
    centre = {key: column.mean().item() for key, column in means.items()}  # type: ignore[union-attr]
    # Without their mean, columns lose nothing by being summed in single precision.
    columns = torch.stack([(means[key] - centre[key]).float() for key in means], dim=1)  # type: ignore[union-attr]
    everything = torch.cat([columns, *(part.gaps for part in parts)], dim=1)
    sums = torch.cat([(weights @ everything).double() / size for _, weights in bootstrap_weights(size, replicates, rng)])
    draws = {key: centre[key] + sums[:, place] for place, key in enumerate(means)}
    gap, noisy = torch.cat([part.gap for part in parts]), sums[:, len(means) :]

    def mean_ece(gaps: Tensor) -> Tensor:
        return gaps.abs().sum(dim=-1) / count

    floor = noise_floor(floors.mean(dim=1), mean_ece(gap).item())
    found = inverted_interval(gap, noisy - gap, mean_ece, floor)
    found = found._replace(high=min(found.high, 1.0), centre=min(found.centre, 1.0))
    estimates = {key: Estimate(centre[key], *_finite_percentiles(draws[key])) for key in means}
    estimates["ece"] = Estimate(found.value, found.low, found.high, floor, floor.p_value)
    return {key: estimates[key] for key in SHIFT_METRICS}, Replicated(draws | {"ece": mean_ece(noisy)}, found)


def _finite_percentiles(values: Tensor) -> tuple[float | None, float | None]:
    return percentiles(values) if bool(values.isfinite().all()) else (None, None)
