"""Interval and noise floor of ECE beside torchmetrics' BootStrapper."""

import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.timing import line
from rankmixup import random
from rankmixup.evaluation import evaluate
from rankmixup.evaluation.replicates import sorted_samples
from rankmixup.evaluation.statistics import gap_estimate
from rankmixup.evaluation.uncertainty import metric_uncertainty

N, K, REPLICATES = 10_000, 10, 1000
LARGE = 50_000


def seconds(step: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def peer(probs: torch.Tensor, target: torch.Tensor) -> Callable[[], object]:
    from torchmetrics.classification import MulticlassCalibrationError
    from torchmetrics.wrappers import BootStrapper

    def step() -> object:
        # It resamples with torch's global generator and has no noise floor.
        with random.global_seed(0, "benchmark"):
            metric = MulticlassCalibrationError(num_classes=probs.shape[1], n_bins=15)
            wrapper = BootStrapper(metric, num_bootstraps=REPLICATES, sampling_strategy="multinomial")
            wrapper.update(probs, target)
            return wrapper.compute()

    return step


def many_classes(repeats: int) -> tuple[float, float]:
    """Medians of one softmax over 50,000 x 1000 logits, and of an evaluation of them; taken in turn, since a machine's speed varies."""
    rng = random.stream(0, "many classes")
    logits = 2 * torch.randn(LARGE, 1000, generator=rng)
    target = torch.randint(1000, (LARGE,), generator=rng)
    pairs = [(seconds(lambda: logits.softmax(dim=1), 5), seconds(lambda: evaluate(logits, target), 1)) for _ in range(repeats)]
    softmax, everything = (statistics.median(column) for column in zip(*pairs, strict=True))
    return softmax, everything


def main(repeats: int = 3) -> list[str]:
    rng = random.stream(0, "benchmark")
    logits = 2 * torch.randn(LARGE, K, generator=rng)
    probs = logits.softmax(dim=1)
    target = torch.multinomial(probs, 1, generator=rng).squeeze(1)
    confidence, prediction = probs.max(dim=1)
    correct = (prediction == target).float()

    def ece_alone(size: int) -> object:
        return gap_estimate(sorted_samples(confidence[:size], correct[:size], 15), "ece", 0.0, REPLICATES, rng)

    ours, large = (seconds(lambda size=size: ece_alone(size), repeats) for size in (N, LARGE))
    everything = seconds(lambda: metric_uncertainty(probs[:N], target[:N], replicates=REPLICATES, rng=rng, from_logits=False), repeats)
    theirs = seconds(peer(probs[:N], target[:N]), 1)
    softmax, thousand = many_classes(repeats)
    return [
        f"      {ours:7.2f} s   interval and floor of ECE, N = {N:,}, {REPLICATES:,} replicates",
        f"      {large:7.2f} s   the same, N = {LARGE:,}",
        f"      {everything:7.2f} s   every metric, N = {N:,}, K = {K}",
        f"      {theirs:7.2f} s   torchmetrics BootStrapper, ECE without a floor, N = {N:,}",
        line(f"seconds for interval and floor of ECE, N = {N:,}", ours, 2.0),
        line(f"seconds for interval and floor of ECE, N = {LARGE:,}", large, 2.0),
        line(f"every metric, interval and floor over one softmax, N = {LARGE:,}, K = 1000", thousand / softmax, 40.0),
        line("interval and floor of ECE over BootStrapper", ours / theirs, 0.1),
    ]


if __name__ == "__main__":
    print("\n".join(main()))
