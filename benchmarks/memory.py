"""What `rm.evaluate` adds to the memory that a process holds, scores included: each case in a process of its own."""

import resource
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.timing import line

CASES = {(5_000_000, 10, 10): 600.0, (50_000, 1000, 1000): 600.0, (200, 100_000, 10): 1000.0}
"""Samples, classes and replicates, and the most megabytes that evaluating such float32 logits may take; of the first two, three times
their size. Where there are few replicates, the peak is reached before they are drawn: each takes about 20 kB."""


def main() -> list[str]:
    lines = []
    for (samples, classes, replicates), limit in CASES.items():
        command = [sys.executable, "-m", "benchmarks.memory", str(samples), str(classes), str(replicates)]
        found = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        lines.append(
            line(f"MB for rm.evaluate of {samples:,} x {classes:,} float32 logits of {4e-6 * samples * classes:.0f} MB", found, limit)
        )
    return lines


def measure(samples: int, classes: int, replicates: int) -> float:
    """Megabytes at the peak above what is there without the scores."""
    import rankmixup as rm
    from rankmixup import random

    rng = random.stream(0, "benchmark")
    warm = torch.randn(50, 10, generator=rng)
    rm.evaluate(warm, warm.argmax(1), replicates=2)  # libraries that are loaded on first use
    scores, target = torch.empty(samples, classes), torch.empty(samples, dtype=torch.long)
    for part in torch.arange(samples).split(max(1, 1_000_000 // classes)):
        scores[part] = 2 * torch.randn(len(part), classes, generator=rng)
        target[part] = torch.multinomial(scores[part].softmax(1), 1, generator=rng).squeeze(1)
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    rm.evaluate(scores, target, replicates=replicates)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak - held + scores.nbytes) / 1e6


if __name__ == "__main__":
    print(f"{measure(*map(int, sys.argv[1:])):.1f}" if len(sys.argv) == 4 else "\n".join(main()))
