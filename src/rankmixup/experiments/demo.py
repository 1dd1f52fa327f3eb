"""The demonstration: RankMixup beside cross-entropy and label mixing, on data that needs no download.

Command: rankmixup demo
Cost: fifteen runs on 700 images of 8x8 pixels, two to three minutes on two cores.
Expect: cross-entropy overconfident by 8 to 11 points of ECE; label mixing removes about half of that; at this scale neither of the
paper's ranking losses repairs it, and our variant does. It shows what each does to confidence and is no evidence about the paper.
"""

from rankmixup.runs import Run

DEMO_METHODS = {"ce": "cross-entropy", "mixup": "Mixup", "rankmixup-mrl": "RankMixup MRL", "rankmixup-mndcg": "RankMixup M-NDCG"}
DEMO_METHODS |= {"rankmixup-auto": "RankMixup auto"}
"""Registry key to the name in tables and figures."""


def demo_runs(seeds: int) -> dict[str, list[Run]]:
    """The runs of each method, with its defaults."""
    return {key: [Run(key, data="digits", model="resnet8", seed=seed) for seed in range(seeds)] for key in DEMO_METHODS}
