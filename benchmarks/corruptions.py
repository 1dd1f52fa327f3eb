"""Corruptions of the published benchmarks for a whole test set, beside loops over images with numpy, Pillow and torchvision."""

import time
from collections.abc import Callable

import numpy as np
import torch
from scipy import ndimage

from benchmarks.timing import line
from rankmixup import random
from rankmixup.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt

N, FEW = 10_000, 200
Loop = Callable[[torch.Tensor], object]


def images(count: int) -> torch.Tensor:
    return torch.randint(256, (count, 3, 32, 32), generator=random.stream(0, "benchmark"), dtype=torch.uint8)


def peers() -> dict[str, Loop]:
    """Severity 3 of one image at a time, as scripts for such data sets do it; imagecorruptions itself does not run with today's numpy."""
    from torchvision.transforms.v2 import functional as F

    rng = np.random.default_rng(0)

    def unit(image: torch.Tensor) -> np.ndarray:
        return image.permute(1, 2, 0).numpy() / 255

    def as_bytes(x: np.ndarray) -> np.ndarray:
        return np.uint8(np.clip(x, 0, 1) * 255)

    return {
        "gaussian_noise": lambda image: as_bytes(unit(image) + rng.normal(size=(32, 32, 3), scale=0.08)),
        "shot_noise": lambda image: as_bytes(rng.poisson(unit(image) * 100) / 100),
        "gaussian_blur": lambda image: as_bytes(ndimage.gaussian_filter(unit(image), (0.7, 0.7, 0), mode="nearest")),
        "zoom_blur": lambda image: [ndimage.zoom(unit(image)[2:-2, 2:-2], (f, f, 1), order=1) for f in np.arange(1, 1.16, 0.01)],
        "jpeg_compression": lambda image: F.jpeg(image, 58),
    }


def seconds(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> list[str]:
    everything, few = images(N), images(FEW)
    taken = {name: sum(seconds(lambda name=name, s=s: corrupt(everything, name, s)) for s in SEVERITIES) for name in CORRUPTIONS}
    lines = [f"      {each:7.1f} s   {name}, five severities of {N:,} images" for name, each in taken.items()]
    for name, loop in peers().items():
        ours = seconds(lambda name=name: corrupt(few, name, 3))
        theirs = seconds(lambda loop=loop: [loop(image) for image in few])
        lines.append(f"      {theirs / ours:7.2f}     times as long as ours: {name} image by image, {FEW} images, severity 3")
    return [*lines, line(f"minutes for {len(taken)} corruptions at five severities of {N:,} images", sum(taken.values()) / 60, 3.0)]


if __name__ == "__main__":
    print("\n".join(main()))
