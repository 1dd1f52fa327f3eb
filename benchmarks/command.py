"""`rankmixup evaluate FILE` beside `import torch`, each in a process of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import interleaved, line
from rankmixup import random

SAMPLES, CLASSES, REPEATS, LIMIT = 10_000, 10, 9, 2.0


def main() -> list[str]:
    rng = random.stream(0, "benchmark")
    logits = 2 * torch.randn(SAMPLES, CLASSES, generator=rng)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scores.npz"
        np.savez(file, logits=logits.numpy(), labels=labels.numpy())
        commands = {"torch": ["-c", "import torch"], "evaluate": ["-m", "rankmixup", "evaluate", str(file)]}
        seconds = interleaved({name: lambda command=command: _run(command) for name, command in commands.items()}, REPEATS)
    return [
        line(
            f"`rankmixup evaluate` of {SAMPLES:,} x {CLASSES} logits, {seconds['evaluate']:.2f} s, over `import torch`",
            seconds["evaluate"] / seconds["torch"],
            LIMIT,
        )
    ]


def _run(command: list[str]) -> None:
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    print("\n".join(main()))
