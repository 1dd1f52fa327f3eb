"""How often the interval of ECE covers that of a population made of somebody's real logits, divided by several temperatures.

    python -m studies.coverage_of_logits FILE.npz ...     # writes results/coverage_of_logits.md

The population is the file itself: test sets are drawn from it with replacement, so its own ECE is the true one. Nothing of the
interval was chosen on these populations.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch

from rankmixup import random
from rankmixup.evaluation import Scores
from rankmixup.evaluation.replicates import sorted_samples
from rankmixup.evaluation.statistics import gap_estimate
from rankmixup.metrics import expected_calibration_error
from rankmixup.metrics.inputs import top_label

TEMPERATURES = (1.0, 1.5, 2.4, 4.0)
HEAD = "| file | logits over | N | true ECE | floor | coverage | too high | too low |"


def rows(path: Path, size: int, draws: int, replicates: int) -> Iterator[str]:
    """A line of the table for each temperature."""
    scores = Scores.read(path)
    for temperature in TEMPERATURES:
        logits = scores.logits.double() / temperature
        confidence, correct = top_label(logits, scores.labels, from_logits=True)
        true = expected_calibration_error(logits, scores.labels, from_logits=True).item()
        rng = random.stream(0, path.stem, str(temperature))
        found = []
        for _ in range(draws):
            drawn = torch.randint(len(confidence), (size,), generator=rng)
            found.append(gap_estimate(sorted_samples(confidence[drawn], correct[drawn], 15), "ece", true, replicates, rng))
        high, low = (sum(each.low > true for each in found) / draws, sum(each.high < true for each in found) / draws)
        floor = sum(each.floor.mean for each in found) / draws
        shares = " | ".join(f"{100 * share:.1f} %" for share in (1 - high - low, high, low))
        yield f"| {path.stem} | {temperature:g} | {size:,} | {100 * true:.2f} % | {100 * floor:.2f} % | {shares} |"


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    table = [HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    for path in options.files:
        table += rows(path, options.size, options.draws, options.replicates)
    drawn = f"{options.draws} draws of {options.replicates} replicates in each row"
    note = f"{drawn}, written by `python -m studies.coverage_of_logits FILE.npz ...`."
    text = "\n".join(["# Coverage of the interval of ECE on real logits", "", note, "", *table, ""])
    options.out.mkdir(exist_ok=True)
    (options.out / "coverage_of_logits.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
