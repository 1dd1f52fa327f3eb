"""What a RankMixup step costs beside the cross-entropy steps that forward as many samples."""

import statistics
from collections.abc import Callable

import torch
from torch import nn

import rankmixup as rm
from benchmarks.timing import interleaved, line
from rankmixup import random
from rankmixup.methods import CrossEntropy, Method, RankMixupAuto, RankMixupMNDCG, RankMixupMRL
from rankmixup.mixers import ManifoldMixup

N, K, SIZE = 128, 100, 32


def training_step(method: Method, samples: int, times: int = 1, classes: int = K) -> Callable[[], None]:
    """Forward, loss, backward, clip, step on ResNet-8; `times` of them. A dial acts from the first step."""
    rng = random.stream(0, "benchmark")
    x, y = torch.randn(samples, 3, SIZE, SIZE, generator=rng), torch.randint(classes, (samples,), generator=rng)
    with random.global_seed(0, "benchmark"):
        model = rm.build_model("resnet8", num_classes=classes, image_size=SIZE)
    optimiser = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, weight_decay=5e-4)
    objective = rm.objective(method, num_classes=classes, class_counts=[1] * classes, dataset_size=samples)
    objective.tune(9 * torch.eye(classes), torch.arange(classes).roll(1))
    index = torch.arange(samples)

    def step() -> None:
        for _ in range(times):
            optimiser.zero_grad()
            objective(model, x, y, index).loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimiser.step()

    return step


def cost_of_auto(samples: int, classes: int, repeats: int, networks: int = 6) -> float:
    """Its step over one of cross-entropy, these two alone in turn.

    Such narrow bounds need more than one pair of networks: where a network happens to lie in memory is worth up to 0.03, and the step
    that comes second a hundredth, so the first one changes too.
    """
    ratios = []
    for number in range(networks):
        methods = [("ce", CrossEntropy()), ("auto", RankMixupAuto())]
        steps = {name: training_step(method, samples, classes=classes) for name, method in (methods if number % 2 else methods[::-1])}
        median = interleaved(steps, repeats)
        ratios.append(median["auto"] / median["ce"])
    return statistics.median(ratios)


def main(repeats: int = 15) -> list[str]:
    median = interleaved(
        {
            "ce at N": training_step(CrossEntropy(), N),
            "ce at 2N": training_step(CrossEntropy(), 2 * N),
            "ce at 4N": training_step(CrossEntropy(), 4 * N),
            "2 ce at N": training_step(CrossEntropy(), N, times=2),
            "4 ce at N": training_step(CrossEntropy(), N, times=4),
            "mrl": training_step(RankMixupMRL(), N),
            "mndcg": training_step(RankMixupMNDCG(), N),
            "mndcg shared": training_step(RankMixupMNDCG(mixer=ManifoldMixup(layer="stage3", forward="shared")), N),
        },
        repeats,
    )
    lines = [f"      {1000 * seconds:7.1f} ms  {name}" for name, seconds in median.items()]
    for samples, classes, limit in ((N, K, 1.03), (2 * N, 1000, 1.05)):
        claim = f"RankMixup auto over cross-entropy, N = {samples}, K = {classes}"
        lines.append(line(claim, cost_of_auto(samples, classes, 2 * repeats), limit))
    lines.append(
        line(
            "M-NDCG, Q = 4, over the cheaper of cross-entropy at 4N and four times at N",
            median["mndcg"] / min(median["ce at 4N"], median["4 ce at N"]),
            1.05,
        )
    )
    lines.append(
        line(
            "MRL over the cheaper of cross-entropy at 2N and twice at N", median["mrl"] / min(median["ce at 2N"], median["2 ce at N"]), 1.05
        )
    )
    lines.append(
        line(
            "M-NDCG, manifold mixup at the last stage, shared trunk, over cross-entropy at N",
            median["mndcg shared"] / median["ce at N"],
            1.10,
        )
    )
    return lines
