"""Runs that were never trained: scores drawn at random, stored as training would store them."""

from pathlib import Path

import torch

from rankmixup import random
from rankmixup.evaluation import Scores
from rankmixup.files import write_json
from rankmixup.runs import Run, StoredRun
from tests.runs.records import run_result


def make_scores(samples: int, sharpness: float, seed: int, name: str) -> Scores:
    """Right about two times in three; the sharper, the more confident."""
    rng = random.stream(seed, "stored", name)
    labels = torch.randint(5, (samples,), generator=rng)
    logits = torch.randn(samples, 5, generator=rng)
    logits[torch.arange(samples), labels] += 1.5
    return Scores((sharpness * logits).double(), labels)


def store(runs: Path, run: Run, sharpness: float = 2.0, *, samples: int = 300, unknown: str = "") -> StoredRun:
    """A finished run whose network is as confident as `sharpness` says."""
    stored = StoredRun.locate(runs, run)
    stored.create()
    for split in ("val", "test"):
        scores = make_scores(samples, sharpness, run.seed, split)
        stored.write_predictions(split, logits=scores.scores.numpy(), labels=scores.labels.numpy())
    if unknown:
        strange = torch.randn(samples, 5, generator=random.stream(run.seed, "stored", unknown)) * sharpness
        stored.write_predictions(f"ood-{unknown}", logits=strange.numpy())
    lam = torch.linspace(0.5, 1, samples)
    mixed = torch.zeros(samples, 5)
    mixed[:, 0] = sharpness * lam
    stored.write_predictions("mixed", logits=mixed.numpy(), lam=lam.numpy())
    write_json(stored.path / "env.json", {"devices": ["a machine"], "packages": {"torch": "9"}})
    write_json(stored.path / "result.json", run_result(run, seconds=36.0))
    return stored
