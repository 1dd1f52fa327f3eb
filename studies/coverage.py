"""How often the interval of ECE covers the population's, and whether the p-value of calibration is uniform.

    python -m studies.coverage            # writes results/coverage.csv and results/coverage.md

A population is a set of atoms, two confidences in each of fifteen bins, with a share and an accuracy each. A test set
is then a table of counts, and so are its bootstrap replicates and the calibrated models with its confidences: drawing the
tables from their multinomial and binomial distributions is exactly what drawing sample by sample does, and a thousand times cheaper.
"""

import argparse
import csv
import itertools
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from rankmixup.evaluation.intervals import inverted_interval
from rankmixup.evaluation.noise_floor import noise_floor

BINS, ATOMS = 15, 2
TRUE = (0.0, 0.01, 0.02, 0.05, 0.10)
SIZES = (2_000, 10_000)
CONFIDENCES = {
    "cifar10-like": stats.beta(4, 0.25, loc=0.3, scale=0.7),
    "cifar100-like": stats.beta(1.6, 0.6, loc=0.05, scale=0.95),
    "tiny-like": stats.beta(1.3, 1.1, loc=0.05, scale=0.95),
    "uniform": stats.uniform(0.5, 0.5),
}
SHAPES = {
    "overconfident": lambda confidence, share: np.ones_like(confidence),
    "temperature": lambda confidence, share: confidence * (1 - confidence) * np.sign(confidence - 0.3) + 1e-3,
    "alternating": lambda confidence, share: np.where(np.arange(len(confidence)) // ATOMS % 2, 1.0, -1.0),
    "one bin": lambda confidence, share: np.repeat((per_bin := share.reshape(BINS, ATOMS).sum(1)) == per_bin.max(), ATOMS) * 1.0,
}
COLUMNS = ("confidences", "shape", "n", "true", "floor", "draws", "coverage", "too_high", "too_low", "reaches_zero", "width", "percentile")


def in_bins(values: np.ndarray) -> np.ndarray:
    """Sums over the atoms of each bin."""
    return values.reshape(*values.shape[:-1], BINS, ATOMS).sum(axis=-1)


def population(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and share of every atom: two equal pieces of each bin, at their middle."""
    edges = np.linspace(0, 1, BINS * ATOMS + 1)
    return (edges[1:] + edges[:-1]) / 2, np.diff(CONFIDENCES[name].cdf(edges))


def accuracies(confidence: np.ndarray, share: np.ndarray, shape: str, true: float) -> np.ndarray | None:
    """Accuracy of every atom such that binned ECE is `true`; None where the shape cannot reach it within [0, 1]."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        accuracy = np.clip(confidence - middle * SHAPES[shape](confidence, share), 0, 1) if true else confidence
        error = np.abs(in_bins(share * (confidence - accuracy))).sum()
        low, high = (middle, high) if error < true else (low, middle)
    return accuracy if abs(error - true) < 1e-6 else None


def interval_of_table(
    confidence: np.ndarray, count: np.ndarray, right: np.ndarray, replicates: int, rng: np.random.Generator
) -> tuple[float, ...]:
    """Ends of the interval, p-value, mean floor and ends of the percentile bootstrap, for one test set."""
    size = count.sum()
    drawn = rng.multinomial(size, np.concatenate([right, count - right]) / size, size=replicates)
    drawn_right, drawn_wrong = np.split(drawn, 2, axis=1)
    gap = in_bins(count * confidence - right) / size
    gaps = in_bins((drawn_right + drawn_wrong) * confidence - drawn_right) / size
    calibrated = in_bins(count * confidence - rng.binomial(count, confidence, size=(replicates, len(count)))) / size
    floor = noise_floor(torch.from_numpy(np.abs(calibrated).sum(axis=1)), np.abs(gap).sum())
    _, low, high, _ = inverted_interval(torch.from_numpy(gap), torch.from_numpy(gaps - gap), lambda values: values.abs().sum(dim=-1), floor)
    return low, high, floor.p_value, floor.mean, *np.quantile(np.abs(gaps).sum(axis=1), [0.025, 0.975])


def cell(name: str, shape: str, size: int, true: float, draws: int, replicates: int, seed: list[int]) -> dict[str, object] | None:
    """One line of the table, and the p-values of its draws."""
    confidence, share = population(name)
    accuracy = accuracies(confidence, share, shape, true)
    if accuracy is None:
        return None
    rng = np.random.Generator(np.random.Philox(seed))
    low, high, p_value, floor, percentile_low, percentile_high = np.array(
        [
            interval_of_table(confidence, count := rng.multinomial(size, share), rng.binomial(count, accuracy), replicates, rng)
            for _ in range(draws)
        ]
    ).T
    true = float(np.abs(in_bins(share * (confidence - accuracy))).sum())
    return {
        "confidences": name,
        "shape": shape if true else "calibrated",
        "n": size,
        "true": round(true, 4),
        "floor": round(floor.mean(), 5),
        "draws": draws,
        # A bisection ends within a millionth of the end it looks for.
        "coverage": round(np.mean((low <= true + 1e-9) & (true <= high)), 4),
        "too_high": round(np.mean(low > true + 1e-9), 4),
        "too_low": round(np.mean(high < true), 4),
        "reaches_zero": round(np.mean(low == 0), 4),
        "width": round(np.mean(high - low), 5),
        "percentile": round(np.mean((percentile_low <= true) & (true <= percentile_high)), 4),
        "p_values": p_value,
    }


def grid(draws: int, replicates: int, workers: int) -> Iterator[dict[str, object]]:
    """Every cell of the study in turn; the calibrated population is the same for every shape."""
    cells = [each for each in itertools.product(CONFIDENCES, SHAPES, SIZES, TRUE) if each[3] or each[1] == next(iter(SHAPES))]
    with ProcessPoolExecutor(workers) as pool:
        waiting = [pool.submit(cell, *each, draws, replicates, [0, seed]) for seed, each in enumerate(cells)]
        for future in waiting:
            if (found := future.result()) is not None:
                yield found


def passes(row: dict[str, object]) -> bool:
    """What is asked of a cell: 92-98 % above twice the floor, at least 92 % below; at a true value of 0, 95 % reach it."""
    if row["true"] == 0:
        return row["reaches_zero"] >= 0.95
    return row["coverage"] >= 0.92 and (row["coverage"] <= 0.98 or row["true"] <= 2 * row["floor"])


def markdown(rows: list[dict[str, object]], uniform: list[str], note: str) -> str:
    """The page that goes with the csv."""
    table = [
        "| confidences | shape of the error | N | true ECE | floor | coverage | percentile bootstrap | reaches 0 | width | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        percent = {key: f"{100 * row[key]:.1f} %" for key in ("coverage", "percentile", "reaches_zero")}
        table.append(
            f"| {row['confidences']} | {row['shape']} | {row['n']:,} | {100 * row['true']:g} % | {100 * row['floor']:.2f} % "
            f"| {percent['coverage']} | {percent['percentile']} | {percent['reaches_zero']} | {100 * row['width']:.2f} % "
            f"| {'' if passes(row) else 'outside'} |"
        )
    inside = sum(map(passes, rows))
    return "\n".join(
        [
            "# Coverage of the interval of ECE",
            "",
            f"`python -m studies.coverage` wrote this page and `coverage.csv`. {note}",
            "",
            "The interval inverts the consistency test (`rankmixup.evaluation.intervals`). It should cover the population's binned ECE in",
            "92 to 98 % of draws where that is above twice the noise floor, in at least 92 % below, and reach down to 0 in at least 95 %",
            f"where it is 0. {inside} of {len(rows)} cells do.",
            "",
            *table,
            "",
            "## p-value of a calibrated model",
            "",
            *uniform,
            "",
        ]
    )


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    began = time.perf_counter()
    rows, uniform = [], []
    for row in grid(arguments.draws, arguments.replicates, arguments.workers):
        p_values = row.pop("p_values")
        if row["true"] == 0:
            found = stats.kstest(p_values, "uniform")
            uniform.append(
                f"- {row['confidences']}, N = {row['n']:,}: Kolmogorov-Smirnov distance from uniform {found.statistic:.3f}, "
                f"p = {found.pvalue:.2f}; {100 * np.mean(p_values < 0.05):.1f} % below 0.05"
            )
        rows.append(row)
        print(*row.values(), "" if passes(row) else "OUTSIDE", flush=True)
    minutes = (time.perf_counter() - began) / 60
    note = f"{arguments.draws} draws of {arguments.replicates} replicates in each cell, {minutes:.0f} minutes "
    note += f"with {arguments.workers} processes ({platform.machine()})."
    arguments.out.mkdir(exist_ok=True)
    with (arguments.out / "coverage.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    (arguments.out / "coverage.md").write_text(markdown(rows, uniform, note))


if __name__ == "__main__":
    main()
