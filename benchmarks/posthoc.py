"""Temperature scaling beside a grid of NLL evaluations and beside the L-BFGS fit of its best-known implementation."""

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import interleaved, line
from rankmixup import random
from rankmixup.posthoc import TemperatureScaling

N, K, TEMPERATURE = 50_000, 1000, 2.4


def overconfident(samples: int = N, classes: int = K) -> tuple[Tensor, Tensor]:
    """float32 logits as ImageNet's validation set has them; the best temperature is near `TEMPERATURE`."""
    rng = random.stream(0, "benchmark")
    logits = torch.randn(samples, classes, generator=rng).mul_(2.5)
    target = torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)
    return logits.mul_(TEMPERATURE), target


def grid(logits: Tensor, target: Tensor) -> float:
    """The best of 100 temperatures by NLL."""
    return min((F.cross_entropy(logits / (step / 10), target).item(), step / 10) for step in range(1, 101))[1]


def lbfgs(logits: Tensor, target: Tensor) -> float:
    """torch's L-BFGS from 1.5 with a learning rate of 0.01 and 50 iterations, as most projects do it."""
    temperature = torch.nn.Parameter(torch.full((1,), 1.5))
    optimiser = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def closure() -> float:
        optimiser.zero_grad()
        loss = F.cross_entropy(logits / temperature, target)
        loss.backward()
        return loss.item()

    optimiser.step(closure)  # type: ignore[arg-type]
    return temperature.item()


def exact_nll(logits: Tensor, target: Tensor, temperature: float) -> float:
    """NLL in float64."""
    parts = zip(logits.split(1000), target.split(1000), strict=True)
    return sum(F.cross_entropy(part.double() / temperature, labels, reduction="sum").item() for part, labels in parts) / len(target)


def above_optimum(logits: Tensor, target: Tensor, temperature: float, width: float = 1e-3) -> float:
    """How far the NLL at `temperature` is above its minimum, by the parabola in 1/T through it and its neighbours."""
    low, here, high = (exact_nll(logits, target, temperature / scale) for scale in (1 - width, 1.0, 1 + width))
    slope, curvature = (high - low) / 2, high - 2 * here + low
    return slope**2 / (2 * curvature)


def main(repeats: int = 1) -> list[str]:
    logits, target = overconfident()
    found: dict[str, float] = {}

    def fit() -> None:
        found["rankmixup"] = TemperatureScaling().fit(logits, target).temperature_

    def search() -> None:
        found["grid"] = grid(logits, target)

    def peer() -> None:
        found["L-BFGS"] = lbfgs(logits, target)

    # The others take tens of seconds: too long for a median of many.
    median = interleaved({"rankmixup": fit, "grid": search, "L-BFGS": peer}, repeats, warm_up=0)
    gap = {name: above_optimum(logits, target, found[name]) for name in ("rankmixup", "L-BFGS")}
    lines = [f"      {median[name]:7.2f} s   {name}: T = {found[name]:.5f}" for name in median]
    lines.append(
        line("temperature scaling, report included, over a grid of 100 NLL evaluations", median["rankmixup"] / median["grid"], 1.0)
    )
    lines.append(line("temperature scaling, report included, over torch L-BFGS", median["rankmixup"] / median["L-BFGS"], 1.0))
    lines.append(line("millionths that its NLL is above the optimum", 1e6 * gap["rankmixup"], 1.0))
    lines.append(f"      {1e6 * gap['L-BFGS']:6.3f}  millionths that the NLL of L-BFGS is above the optimum")
    return lines
