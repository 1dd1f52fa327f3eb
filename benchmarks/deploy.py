"""Predicting with the handle beside the bare network, and exporting a ResNet-50."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.timing import interleaved, line
from rankmixup.data import View
from rankmixup.deploy import CalibratedModel, Origin
from rankmixup.models import build_model
from rankmixup.posthoc import TemperatureScaling

SIZE, CLASSES, IMAGES = 32, 10, 512
_LIMIT = 60.0


def model_of(name: str, size: int) -> CalibratedModel:
    network = build_model(name, num_classes=CLASSES, image_size=size).eval().to(memory_format=torch.channels_last)
    scaling = TemperatureScaling().fit(torch.randn(100, CLASSES), torch.arange(100) % CLASSES, warn=False)
    view = View(size, (0.5,) * 3, (0.25,) * 3)
    return CalibratedModel(network, scaling, [str(label) for label in range(CLASSES)], view, Origin(name))


def main() -> list[str]:
    """Images a second of `predict_proba` from bytes over those of the bare network's forward on tensors that are ready."""
    model = model_of("resnet8", SIZE)
    images = torch.randint(256, (IMAGES, 3, SIZE, SIZE), dtype=torch.uint8)
    ready = model.preprocess(images)

    @torch.no_grad()
    def bare() -> object:
        return model.network(ready)

    steps: dict[str, Callable[[], object]] = {"bare": bare, "predict": lambda: model.predict_proba(images)}
    seconds = interleaved(steps, 15)
    rates = f"{IMAGES / seconds['predict']:,.0f} images a second, the bare network {IMAGES / seconds['bare']:,.0f}"
    lines = [
        line(f"predict_proba over the bare network's forward, ResNet-8, {SIZE}x{SIZE}, {rates}", seconds["predict"] / seconds["bare"], 1.1)
    ]
    large, began = model_of("resnet50", 224), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        large.export(Path(folder) / "model", ["safetensors", "onnx", "pt2"])
    lines.append(line("seconds to export ResNet-50 for 224x224 to all formats, over a minute", (time.perf_counter() - began) / _LIMIT, 1.0))
    return lines


if __name__ == "__main__":
    print("\n".join(main()))
