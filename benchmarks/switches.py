"""What each switch for speed or memory does to a training step."""

import dataclasses
from collections.abc import Callable

import torch

import rankmixup as rm
from benchmarks.timing import interleaved
from rankmixup import random
from rankmixup.hardware import Hardware
from rankmixup.methods import CrossEntropy, Method, RankMixupMNDCG
from rankmixup.mixers import Mixup
from rankmixup.training.fabric import build_fabric, set_up
from rankmixup.training.optimisation import update
from rankmixup.types import Batch

N, K, SIZE = 128, 10, 32


def a_step(method: Method | None = None, layout: torch.memory_format = torch.channels_last, *, compiled: bool = False, **changes: object):
    """An update of ResNet-8, as `rm.train` makes it."""
    optimisation = dataclasses.replace(rm.Optimisation(batch_size=N), **changes)
    fabric = build_fabric(Hardware(accelerator="cpu"), optimisation)
    rng = random.stream(0, "benchmark")
    x, y = torch.randn(N, 3, SIZE, SIZE, generator=rng), torch.randint(K, (N,), generator=rng)
    batch = Batch(x.contiguous(memory_format=layout), y, torch.arange(N))
    with random.global_seed(0, "benchmark"):
        model = rm.build_model("resnet8", num_classes=K, image_size=SIZE).to(memory_format=layout)
    step, optimiser = set_up(fabric, model, rm.objective(method or CrossEntropy(), K), optimisation, compiled=compiled)
    return lambda: update(fabric, step, optimiser, batch, N, optimisation)


def main(repeats: int = 5) -> list[str]:
    joint = dataclasses.replace(RankMixupMNDCG(), mixer=Mixup(alpha=RankMixupMNDCG().mixer.alpha, forward="joint"))
    steps: dict[str, Callable[[], object]] = {
        "cross-entropy": a_step(),
        "M-NDCG": a_step(RankMixupMNDCG()),
        "channels first": a_step(layout=torch.contiguous_format),
        "compile": a_step(compiled=True),
        "accumulate 2": a_step(accumulate=2),
        "accumulate 4": a_step(accumulate=4),
        "bf16-mixed": a_step(precision="bf16-mixed"),
        "M-NDCG, joint forward": a_step(joint),
    }
    median = interleaved(steps, repeats)
    base = {name: median["M-NDCG" if name.startswith("M-NDCG") else "cross-entropy"] for name in median}
    return [f"      {1000 * seconds:7.1f} ms  {seconds / base[name]:6.2f}  {name}" for name, seconds in median.items()]
