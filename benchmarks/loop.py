"""What the training loop costs beside a bare one fed by the same pipeline, and what a second process brings.

An epoch is `STEPS` batches of the real CIFAR-10. The bare loop takes its turn after each epoch of `rm.train`, so that a slow moment of
the machine hits both; the first epoch of each is left out.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import rankmixup as rm
from benchmarks.timing import line
from rankmixup.data import Dataset, register, training_batches
from rankmixup.data.cifar import Cifar10
from rankmixup.training import Watcher, is_first_process, loop

BATCH, STEPS, EPOCHS = 128, 40, 6
HELD_OUT = 1000


@register("cifar10-part")
@dataclass(frozen=True)
class PartOfCifar10(Cifar10):
    """As many images of CIFAR-10 as an epoch of the benchmark needs."""

    def load(self, root: Path | None = None, *, download: bool = False) -> Dataset:
        whole = super().load(root, download=download)
        some = {"train": STEPS * BATCH, "val": HELD_OUT, "test": HELD_OUT}
        return dataclasses.replace(whole, **{name: getattr(whole, name)[torch.arange(size)] for name, size in some.items()})


def a_run(method: str) -> rm.Run:
    optimisation = rm.Optimisation(epochs=EPOCHS, batch_size=BATCH, milestones=())
    return rm.Run(method, data=PartOfCifar10(), model="resnet8", optimisation=optimisation)


class Stopwatch:
    """Seconds of each call of some functions, by name; `owners` are the class or module of each."""

    def __init__(self, **owners: Any):
        self.owners, self.seconds, self._functions = owners, defaultdict[str, list[float]](list), dict[str, Callable[..., Any]]()

    def __enter__(self) -> "Stopwatch":
        for name, owner in self.owners.items():
            self._functions[name] = getattr(owner, name)
            setattr(owner, name, self._timed(name, self._functions[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, owner in self.owners.items():
            setattr(owner, name, self._functions[name])

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                self.seconds[name].append(time.perf_counter() - began)

        return timed


class BareLoop(Watcher):
    """Cross-entropy without anything around it, an epoch after each one of the run that it watches."""

    def __init__(self, dataset: Dataset):
        self.dataset, self.seconds = dataset, list[float]()
        self.model = rm.build_model("resnet8", num_classes=10, image_size=32).to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)

    def epoch(self, record: Any) -> None:
        began = time.perf_counter()
        for batch in training_batches(self.dataset, BATCH, seed=1, epoch=len(self.seconds)):
            loss = nn.functional.cross_entropy(self.model(batch.x), batch.y)
            self.optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
            self.optimiser.step()
        self.seconds.append(time.perf_counter() - began)


def through_rm_train(method: str, dataset: Dataset) -> dict[str, float]:
    """Median seconds of an epoch's steps, of the bare loop's, of a validation and of a checkpoint."""
    bare = BareLoop(dataset)
    timed = {"train_epoch": loop.TrainingLoop, "validate": loop.TrainingLoop, "save_checkpoint": loop}
    with tempfile.TemporaryDirectory() as folder, Stopwatch(**timed) as watch:
        rm.train(a_run(method), runs=folder, watcher=bare, checkpoint_every=f"{STEPS // 2}steps")
    validation = [whole - other for whole, other in zip(watch.seconds["validate"], bare.seconds, strict=True)]
    saves = watch.seconds["save_checkpoint"]
    each = len(saves) // EPOCHS
    steps = [
        whole - validated - other - sum(saves[epoch * each : (epoch + 1) * each])
        for epoch, (whole, validated, other) in enumerate(zip(watch.seconds["train_epoch"], validation, bare.seconds, strict=True))
    ]
    ratios = [ours / theirs for ours, theirs in zip(steps[1:], bare.seconds[1:], strict=True)]
    middle = {"steps": steps[1:], "bare": bare.seconds[1:], "ratio": ratios, "validation": validation, "save": saves}
    return {name: statistics.median(values) for name, values in middle.items()}


def processes(count: int) -> float:
    """Median seconds of an epoch's steps on `count` processes that share two threads."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m", "benchmarks.loop"]
    environment = os.environ | {"OMP_NUM_THREADS": str(2 // count)}
    done = subprocess.run([sys.executable, *launch], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def as_one_of_several() -> None:
    """What `processes` starts."""
    with Stopwatch(train_step=loop.TrainingLoop) as watch:
        rm.train(a_run("ce"), runs=Path(os.environ["BENCHMARK_RUNS"]), accelerator="cpu")
    steps = watch.seconds["train_step"]
    if is_first_process():
        epochs = [sum(steps[epoch * STEPS : (epoch + 1) * STEPS]) for epoch in range(1, EPOCHS)]
        print(json.dumps(statistics.median(epochs)))


def main(repeats: int = 2) -> list[str]:
    if "RANKMIXUP_DATA" not in os.environ:
        return ["      left out: RANKMIXUP_DATA names no folder with CIFAR-10"]
    dataset = PartOfCifar10().load()
    ce, mndcg = through_rm_train("ce", dataset), through_rm_train("rankmixup-mndcg", dataset)
    pairs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            seconds = []
            for count, folder in ((1, one), (2, two)):
                os.environ["BENCHMARK_RUNS"] = folder
                seconds.append(processes(count))
            pairs.append(seconds)
    ratio = statistics.median(two / one for one, two in pairs)
    return [
        *(f"      {1000 * ce[name]:7.1f} ms  {what}" for name, what in (("steps", f"{STEPS} steps"), ("validation", "validation"))),
        f"      {1000 * ce['save']:7.1f} ms  a checkpoint",
        line("an epoch's steps through rm.train over a bare loop", ce["ratio"], 1.03),
        line("an epoch of M-NDCG, Q = 4, over one of cross-entropy", mndcg["ratio"] / ce["ratio"], 4.2),
        line("a checkpoint every minute, as a share of that minute", ce["save"] / 60, 0.01),
        line("epoch of two processes with a thread each over one process with two threads", ratio, 1 / 0.9),
    ]


if __name__ == "__main__":
    as_one_of_several()
