"""How often the intervals of NLL, Brier, AURC, E-AURC and AUROC cover a population's value where there are few samples.

    python -m studies.coverage_of_few FILE.npz ...     # writes results/coverage_of_few.md

The population is a file of somebody's real logits, divided by several temperatures: test sets are drawn from it with replacement, so its
own values are the true ones. BCa intervals, which `rankmixup evaluate` gives, stand beside percentiles of the same replicates.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch

from rankmixup import random
from rankmixup.evaluation import Scores
from rankmixup.evaluation.bca import bca_interval, ranked_influence, skewness
from rankmixup.evaluation.replicates import bootstrap, read_samples
from rankmixup.evaluation.results import percentiles
from rankmixup.evaluation.uncertainty import all_metrics

TEMPERATURES, SIZES = (1.0, 2.4), (30, 100, 1000)
KEYS = ("nll", "brier", "aurc", "eaurc", "auroc_correct")


def covered(logits: torch.Tensor, labels: torch.Tensor, true: dict[str, float | None], replicates: int, rng: torch.Generator) -> dict:
    """Whether the percentiles and the BCa interval of one test set cover the true value, by metric; of those that are defined on it."""
    samples = read_samples(logits, labels, num_bins=15, from_logits=True)
    (draws,) = bootstrap([samples], replicates, rng)
    observed = all_metrics(logits, labels)
    influence = {} if samples.unanimous else ranked_influence(samples.right, samples.last)
    influence |= {key: samples.means[key].double() - samples.means[key].double().mean() for key in ("nll", "brier")}
    found = {}
    for key, values in {**draws.means, **draws.ranked}.items():
        values = values[~values.isnan()]
        if key in influence and key in KEYS and len(values) > 0:
            ends = percentiles(values), bca_interval(values, observed[key], len(labels), skewness(influence[key]))
            found[key] = [low <= true[key] <= high for low, high in ends]
    return found


def rows(path: Path, draws: int, replicates: int) -> Iterator[str]:
    """A line of the table for each temperature, size and metric."""
    scores = Scores.read(path)
    for temperature in TEMPERATURES:
        logits = scores.logits.double() / temperature
        true = all_metrics(logits, scores.labels)
        for size in SIZES:
            rng, counts = random.stream(0, path.stem, str(temperature), size), defaultdict(list)
            for _ in range(draws):
                drawn = torch.randint(len(logits), (size,), generator=rng)
                for key, each in covered(logits[drawn], scores.labels[drawn], true, replicates, rng).items():
                    counts[key].append(each)
            for key in KEYS:
                percentile, bca = (100 * sum(each) / len(each) for each in zip(*counts[key], strict=True))
                head = f"| {path.stem} | {temperature:g} | {size:,} | {key} | {true[key]:.4f} | {len(counts[key])}"
                yield f"{head} | {percentile:.1f} % | {bca:.1f} % |"


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    head = "| file | logits over | N | metric | true value | draws where it is defined | percentiles cover | BCa covers |"
    table = [head, "|---" * (head.count("|") - 1) + "|"]
    for path in options.files:
        table += rows(path, options.draws, options.replicates)
    how = f"{options.draws} draws of {options.replicates} replicates, written by `python -m studies.coverage_of_few FILE.npz ...`."
    note = f"{how} All intervals should cover in 95 %.\nRanked metrics are defined on draws with right and wrong predictions."
    options.out.mkdir(exist_ok=True)
    text = "\n".join(["# Coverage of intervals of metrics that are means or ranks, with few samples", "", note, "", *table, ""])
    (options.out / "coverage_of_few.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
