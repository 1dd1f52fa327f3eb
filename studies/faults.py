"""Runs that are killed again and again end bit for bit as if nobody had touched them.

    python -m studies.faults            # writes results/faults.csv and results/faults.md

A run is trained once in peace. The same run, in another folder, is killed by SIGKILL at random moments and resumed each time with
the same call: a moment is a random step of the run and a random wait behind it, so that kills hit steps, validation and writing alike.
"""

import argparse
import csv
import platform
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import torch

import rankmixup as rm
from rankmixup import random
from rankmixup.data import Digits
from rankmixup.runs import StoredRun

METHODS = ("ce", "crl", "rankmixup-mndcg")
EPOCHS, STEPS = 10, 13
EVERY = 3
"""Steps between two checkpoints: most kills lose some steps, which are then taken again."""
SPLITS = ("val", "test", "mixed")


@dataclass(frozen=True)
class Outcome:
    """What became of a run that was killed."""

    method: str
    kills: int
    within_an_epoch: int
    """Kills after which training went on from within an epoch."""
    while_writing: int
    """Kills that left a checkpoint half-written."""
    identical: bool
    """Whether the logits of every split and the log are those of the undisturbed run."""


def killed(method: str, kills: int, folder: Path, *, seed: int = 0) -> Outcome:
    """Train in peace, train under fire, compare."""
    optimisation = rm.Optimisation(epochs=EPOCHS, batch_size=16, milestones=(6,))
    run = rm.Run(method, data=Digits(train_size=200), model="resnet8", optimisation=optimisation)
    whole, shot = (StoredRun.locate(folder / name, run) for name in ("whole", "killed"))
    _start(whole).join()
    rng = random.stream(seed, "faults", method)
    # Not in the last epoch: the run could be over before the kill.
    aims = (torch.rand(kills, generator=rng) * (EPOCHS - 1) * STEPS).long().sort().values.tolist()
    within, half_written = 0, set[str]()
    for aim in aims:
        process = _start(shot)
        while _position(shot) < aim - EVERY and process.is_alive():
            time.sleep(0.001)
        time.sleep(torch.rand((), generator=rng).item() * 0.1)
        process.kill()
        process.join()
        if process.exitcode != -9:
            raise RuntimeError(f"{shot.path} must be killed while it trains, but it ended by itself with {process.exitcode}")
        within += _position(shot) % STEPS > 0
        half_written |= {path.name for path in shot.checkpoints.glob(".*.pt.*")}
    _start(shot).join()
    same = all(np.array_equal(_logits(whole, split), _logits(shot, split)) for split in SPLITS)
    return Outcome(method, kills, within, len(half_written), same and _log(whole) == _log(shot))


def _start(stored: StoredRun) -> BaseProcess:
    context = get_context("forkserver")
    context.set_forkserver_preload(["rankmixup.training"])
    process = context.Process(target=_train, args=(stored.run, stored.path.parent))
    process.start()
    return process


def _train(run: rm.Run, runs: Path) -> None:
    torch.set_num_threads(1)
    rm.train(run, runs=runs, accelerator="cpu", checkpoint_every=f"{EVERY}steps")


def _position(stored: StoredRun) -> int:
    return max((int(path.name.split("-")[1]) for path in stored.checkpoints.glob("step-*.pt")), default=0)


def _logits(stored: StoredRun, split: str) -> np.ndarray:
    with np.load(stored.predictions_path(split)) as arrays:
        return arrays["logits"]


def _log(stored: StoredRun) -> list[list[object]]:
    return [[record.epoch, record.train, record.val, record.ranking, record.lr] for record in stored.history()]


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [killed(method, options.kills, Path(folder) / method) for method in METHODS]
    options.out.mkdir(exist_ok=True)
    rows = [asdict(outcome) for outcome in outcomes]
    with (options.out / "faults.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    minutes = (time.monotonic() - began) / 60
    lines = [
        "# Runs that are killed and resumed",
        "",
        f"`make faults` (`python -m studies.faults`) wrote this page and `faults.csv`, in {minutes:.1f} minutes ({platform.machine()},",
        f"torch {torch.__version__}). ResNet-8 on digits, {EPOCHS} epochs of {STEPS} steps, a checkpoint every {EVERY} steps, SIGKILL at",
        "random moments, resumed each time: the logits of all splits and the log are compared with those of a run left in peace.",
        "",
        "| method | kills | resumed within an epoch | left a checkpoint half-written | bit-identical |",
        "|---|---|---|---|---|",
        *(f"| {row['method']} | {row['kills']} | {row['within_an_epoch']} | {row['while_writing']} | {row['identical']} |" for row in rows),
        "",
    ]
    (options.out / "faults.md").write_text("\n".join(lines), encoding="utf-8")
    if not all(outcome.identical for outcome in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
