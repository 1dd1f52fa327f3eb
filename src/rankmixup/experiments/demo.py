"""The demonstration: RankMixup beside cross-entropy and label mixing, on data that needs no download.

Command: rankmixup demo
Cost: twelve runs on 700 images of 8x8 pixels, two to three minutes on two cores.
Expect: cross-entropy overconfident by about 12 points of ECE; label mixing removes more than half of that; at this scale neither
ranking loss repairs it. It is a demonstration of what each does to confidence, not evidence about the paper.
"""

from rankmixup.runs import Run

DEMO_METHODS = {"ce": "cross-entropy", "mixup": "Mixup", "rankmixup-mrl": "RankMixup MRL", "rankmixup-mndcg": "RankMixup M-NDCG"}
"""Registry key to the name in tables and figures."""


def demo_runs(seeds: int) -> dict[str, list[Run]]:
    """The runs of each method, with its defaults."""
    return {key: [Run(key, data="digits", model="resnet8", seed=seed) for seed in range(seeds)] for key in DEMO_METHODS}
