"""How often the tests of groups find one miscalibrated group, and how often they fire where there is none.

    python -m studies.groups            # writes results/groups.csv and results/groups.md

Predictions of two classes have log-odds |z| / d, with z from a normal distribution of standard deviation 3 and d the difficulty of the
group, and are right with exactly the probability that these say. Confidence is computed from the log-odds divided by a temperature: below
1 the model is overconfident, above 1 underconfident, at 1 calibrated. Groups differ in size, temperature and difficulty as each row says.

Two other tests of ECE stand beside the one of the library: one that exchanges all samples instead of those of nearly the same confidence,
and one whose statistic is the largest ECE of a group minus the smallest.
"""

import argparse
import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binomtest

from rankmixup import random
from rankmixup.evaluation.group_tests import GAP_KEYS, GroupedSamples, permutation_tests
from rankmixup.evaluation.groups import MIN_SAMPLES
from rankmixup.evaluation.replicates import sorted_samples
from rankmixup.files import write_atomic

OTHERS = ("ece, all exchanged", "ece, largest gap")
TESTS = (*GAP_KEYS, *OTHERS)
SETTINGS = {
    "groups": "groups",
    "share": "share of the first",
    "temperature": "its temperature",
    "others": "of the others",
    "difficulty": "its difficulty",
}
COLUMNS = ("kind", *SETTINGS, "n", "draws", *TESTS)


@dataclass(frozen=True)
class Case:
    """One row of the table: the first group has its own temperature and difficulty, the other groups share theirs."""

    kind: str
    """`null` if every test should fire in 5 % of draws; `same curve` if only those of calibration should; else `power`."""
    groups: int
    share: float
    """Share of the first group; the other groups are of equal size."""
    temperature: float = 1.0
    others: float = 1.0
    """Temperature of the other groups."""
    difficulty: float = 1.0
    """Of the first group; that of the others is 1."""


NULL = [Case("null", groups, share, each, each) for groups, share in ((2, 0.05), (10, 0.1), (20, 0.01)) for each in (1.0, 0.5)]
SAME_CURVE = [Case("same curve", 2, share, each, each, 2.5) for share in (0.1, 0.5) for each in (1.0, 0.5)]
POWER = [Case("power", 2, share, temperature) for share in (0.05, 0.1, 0.2) for temperature in (0.5, 0.67, 1.5, 2.0)]
POWER += [Case("power", 10, 0.1, 0.5), Case("power", 2, 0.1, 1.0, 0.5), Case("power", 11, 0.8, 0.5)]
CASES = (*NULL, *SAME_CURVE, *POWER)
SIZE = 2000


def draw(case: Case, size: int, rng: torch.Generator) -> GroupedSamples:
    """One test set."""
    codes = torch.zeros(size, dtype=torch.long)
    first = round(case.share * size)
    codes[first:] = 1 + torch.arange(size - first) % (case.groups - 1)
    mine = codes == 0
    odds = 3 * torch.randn(size, generator=rng, dtype=torch.float64).abs() / torch.where(mine, case.difficulty, 1.0)
    right = torch.rand(size, generator=rng, dtype=torch.float64) < odds.sigmoid()
    confidence = (odds / torch.where(mine, case.temperature, case.others)).sigmoid()
    chance = torch.where(right, confidence, 1 - confidence).clamp(min=1e-300)
    means = {"accuracy": right.clone(), "nll": -chance.log(), "brier": 2 * (1 - chance).square()}
    return GroupedSamples.of(sorted_samples(confidence, right, 15, means=means), codes.numpy(), case.groups, 15)


def p_values(grouped: GroupedSamples, permutations: int, rng: torch.Generator) -> list[float]:
    """Of the tests of the library, for one test set."""
    found = permutation_tests(grouped, grouped.sizes >= MIN_SAMPLES, permutations, rng)
    return [found[key].p_value for key in GAP_KEYS]


def other_p_values(grouped: GroupedSamples, permutations: int, rng: torch.Generator) -> list[float]:
    """Of the two other tests."""
    tested = grouped.sizes >= MIN_SAMPLES
    free = replace(grouped, strata=np.zeros_like(grouped.strata))
    all_exchanged = permutation_tests(free, tested, permutations, rng)["ece"].p_value
    orders = [None, *(torch.randperm(len(grouped.codes), generator=rng).numpy() for _ in range(permutations))]
    gaps = np.array([np.ptp(grouped.values(order)["ece"][tested]) for order in orders])
    return [all_exchanged, float(np.mean(gaps >= gaps[0] - 1e-9))]


def row(case: Case, size: int, draws: int, other_draws: int, permutations: int) -> dict[str, object]:
    """Share of draws in which each test fires at 5 %; the other tests are computed for fewer draws."""
    rng = random.stream(0, "groups study", *map(str, vars(case).values()))
    found: dict[str, list[bool]] = {name: [] for name in TESTS}
    for number in range(draws):
        grouped = draw(case, size, rng)
        p_of = p_values(grouped, permutations, rng) + (other_p_values(grouped, permutations, rng) if number < other_draws else [])
        for name, p_value in zip(TESTS, p_of, strict=False):
            found[name].append(p_value <= 0.05)
    rates = {name: round(float(np.mean(fires)), 4) for name, fires in found.items() if fires}
    return {**vars(case), "n": size, "draws": draws, **rates}


def stored_rows(path: Path) -> list[dict[str, object]]:
    """What an earlier run of the study has written."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {
                key: text if key == "kind" else int(text) if key in ("groups", "n", "draws") else float(text)
                for key, text in line.items()
                if text
            }
            for line in csv.DictReader(file)
        ]


def has_level(rate: float, draws: int) -> bool:
    """Whether the exact 95 % interval of a rejection rate contains 5 %."""
    interval = binomtest(round(rate * draws), draws).proportion_ci()
    return bool(interval.low <= 0.05 <= interval.high)


def level_keys(found: dict[str, object]) -> tuple[str, ...]:
    """The tests of the library that should fire in 5 % of draws."""
    return {"null": GAP_KEYS, "same curve": ("ece", "overconfidence")}.get(str(found["kind"]), ())


def markdown(table: list[dict[str, object]], permutations: int) -> str:
    """The page that goes with the csv."""
    heads = {
        "null": "No group differs",
        "same curve": "One group is harder, all follow the same calibration curve",
        "power": "One group has another calibration curve",
    }
    sizes = " and ".join(f"{each:,}" for each in sorted({found["draws"] for found in table}, reverse=True))
    note = f"{SIZE:,} samples, {sizes} draws (the second number for the power and for other tests), {permutations} permutations."
    note += "" if len(table) == len(CASES) else f" {len(table)} of {len(CASES)} rows are computed so far; the same command continues."
    lines = ["# Tests of groups", "", f"`python -m studies.groups` wrote this page and `groups.csv`. {note}", ""]
    checked = [has_level(found[key], found["draws"]) for found in table for key in level_keys(found)]
    lines += [
        "Share of draws in which each test has p <= 0.05. It should be 5 % in the first table, and for `ece` and `overconfidence`",
        f"in the second: the exact 95 % interval of the share contains 5 % in {sum(checked)} of {len(checked)} cases. The third table",
        "is the power. The last two columns are other tests of ECE, for comparison (see `studies/groups.py`). Temperature: below 1",
        "overconfident, 1 calibrated, above 1 underconfident.",
    ]
    for kind, head in heads.items():
        names = GAP_KEYS if kind == "null" else TESTS
        lines += ["", f"## {head}", "", f"| {' | '.join((*SETTINGS.values(), *names))} |", "|---" * (len(SETTINGS) + len(names)) + "|"]
        for found in (each for each in table if each["kind"] == kind):
            marks = ["" if key not in level_keys(found) or has_level(found[key], found["draws"]) else " (outside)" for key in names]
            rates = [f"{100 * found[key]:.1f} %{mark}" for key, mark in zip(names, marks, strict=True)]
            lines.append(f"| {' | '.join([*(f'{found[key]:g}' for key in SETTINGS), *rates])} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run the study and write its results; rows that are written already are not computed again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--power-draws", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=99)
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    stored = stored_rows(arguments.out / "groups.csv")
    table: list[dict[str, object]] = []
    for case in CASES:
        draws = arguments.power_draws if case.kind == "power" else arguments.draws
        settings = {**vars(case), "n": SIZE, "draws": draws}
        done = [each for each in stored if all(each[key] == value for key, value in settings.items())]
        others = 0 if case.kind == "null" else arguments.power_draws
        table += done[:1] or [row(case, SIZE, draws, others, arguments.permutations)]
        print(*table[-1].values(), flush=True)
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        write_atomic(arguments.out / "groups.csv", text.getvalue().encode())
        (arguments.out / "groups.md").write_text(markdown(table, arguments.permutations), encoding="utf-8")


if __name__ == "__main__":
    main()
