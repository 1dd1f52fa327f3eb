"""How often the intervals of smooth and classwise ECE cover the population's values.

    python -m studies.coverage_classwise            # writes results/coverage_classwise.md

Labels are drawn from the softmax of random logits, and the model multiplies these logits by a factor: 1 is calibrated, more is
overconfident. The population's errors are computed from the true probabilities of many samples, so that no label adds noise to them.
"""

import argparse
from pathlib import Path

import torch

from rankmixup import random
from rankmixup.evaluation import metric_uncertainty
from rankmixup.metrics.rows import bin_index
from rankmixup.metrics.smooth import GRID, grid_cells, smooth_from_grid

BINS = 15
CELLS = ((2000, 10, 1.0), (2000, 10, 1.2), (2000, 10, 1.6), (2000, 100, 1.2), (2000, 100, 1.6), (10_000, 10, 1.1))
"""Samples, classes, factor."""


def make_logits(samples: int, classes: int, rng: torch.Generator) -> torch.Tensor:
    """Logits whose softmax is the true distribution of labels."""
    return 1.5 * torch.randn(samples, classes, generator=rng, dtype=torch.float64)


def true_errors(classes: int, factor: float, samples: int = 400_000, step: int = 20_000) -> dict[str, float]:
    """Smooth and summed classwise ECE of the population."""
    rng, residuals = random.stream(0, "population", classes), torch.zeros(GRID + 1, dtype=torch.float64)
    gaps = torch.zeros(classes * BINS, dtype=torch.float64)
    for _ in range(0, samples, step):
        logits = make_logits(step, classes, rng)
        true, said = logits.softmax(1), (factor * logits).softmax(1)
        gaps.index_add_(
            0, (bin_index(said.flatten(), BINS).view_as(said) + torch.arange(classes) * BINS).flatten(), (said - true).flatten()
        )
        confidence, prediction = said.max(1)
        residual = true.gather(1, prediction[:, None]).squeeze(1) - confidence
        below, share = grid_cells(confidence, GRID)
        residuals.index_add_(0, below, residual * (1 - share)).index_add_(0, below + 1, residual * share)
    return {"smooth_ece": smooth_from_grid(residuals, samples).item(), "classwise_ece_sum": gaps.abs().sum().item() / samples}


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    rows = ["| N | classes | factor | metric | true | coverage | interval above | interval below |", "|---|---|---|---|---|---|---|---|"]
    for samples, classes, factor in CELLS:
        true = true_errors(classes, factor)
        missed = {key: [0, 0] for key in true}
        for seed in range(arguments.draws):
            rng = random.stream(seed, "test set", samples, classes)
            logits = make_logits(samples, classes, rng)
            target = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
            found = metric_uncertainty(factor * logits, target, replicates=arguments.replicates, rng=rng)
            for key, value in true.items():
                missed[key][0] += found[key].low > value + 1e-9
                missed[key][1] += found[key].high < value - 1e-9
        for key, value in true.items():
            shares = [100 * count / arguments.draws for count in (arguments.draws - sum(missed[key]), *missed[key])]
            cells = (f"{samples:,}", classes, factor, key, f"{100 * value:.2f} %", *(f"{share:.1f} %" for share in shares))
            rows.append(f"| {' | '.join(map(str, cells))} |")
            print(rows[-1], flush=True)
    note = (
        f"`python -m studies.coverage_classwise` wrote this page: {arguments.draws} draws of {arguments.replicates} replicates in each row."
    )
    page = ["# Coverage of the intervals of smooth and classwise ECE", "", note, "", *rows, ""]
    (arguments.out / "coverage_classwise.md").write_text("\n".join(page))


if __name__ == "__main__":
    main()
