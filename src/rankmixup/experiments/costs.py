"""What a training step of each method costs beside one of cross-entropy, measured in turn so that a slow moment of a machine hits all."""

import statistics
import time
from collections.abc import Mapping

import torch

from rankmixup import random
from rankmixup.methods import Method, objective
from rankmixup.models import build_model

_BATCH, _CLASSES, _SIZE = 64, 10, 16


def step_costs(methods: Mapping[str, Method], baseline: str, *, repeats: int = 40) -> dict[str, float]:
    """Median seconds of a step of ResNet-8 on 64 images of 16x16 pixels, forward, backward and update, over the baseline's, by name."""
    rng = random.stream(0, "costs")
    x, y = torch.randn(_BATCH, 3, _SIZE, _SIZE, generator=rng), torch.randint(_CLASSES, (_BATCH,), generator=rng)
    index, counts = torch.arange(_BATCH), [_BATCH] * _CLASSES
    parts = []
    for name, method in methods.items():
        with random.global_seed(0, "costs"):
            model = build_model("resnet8", num_classes=_CLASSES, image_size=_SIZE, in_channels=3)
        step = objective(method, _CLASSES, class_counts=counts, dataset_size=_BATCH)
        step.reminds = False
        step.tune(torch.eye(_CLASSES) * 9, torch.arange(_CLASSES).roll(1))  # a dial that acts
        parts.append((name, model, step, torch.optim.SGD(model.parameters(), 0.01)))
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(3 + repeats):
        for name, model, step, optimiser in parts:
            began = time.perf_counter()
            optimiser.zero_grad()
            step(model, x, y, index).loss.backward()
            optimiser.step()
            if turn >= 3:
                seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {name: value / medians[baseline] for name, value in medians.items()}
