"""The paper's figures 2 to 4 and those of its supplement. Figure 1 is a drawing; confidence against lambda stands for it."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rankmixup.paper.experiment import Column, Experiment, Row
from rankmixup.paper.tables import MARGIN_ROWS, Q_ROWS, column

__all__ = ["ALPHAS", "FIGURES", "beta_density"]

ALPHAS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Parameters of the Beta distribution that lambda is drawn from."""
_CIFAR10, _TINY = column("cifar10", "resnet50"), column("tiny-imagenet", "resnet50")
_PAPER_ALPHA = {_CIFAR10.key: 2.0, _TINY.key: 1.0}
"""Of M-NDCG; what tables print of it has this one."""


def _with_alpha(row: Row, alpha: float, printed_in: Mapping[str, tuple[str, str]]) -> Row:
    return Row(f"{row.key}/alpha={alpha:g}", f"{row.label}, alpha={alpha:g}", {**row.changes, "mixer.alpha": alpha}, printed_in)


def _at_paper_alpha(alpha: float, place: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return {key: place for key, papers in _PAPER_ALPHA.items() if papers == alpha}


_MIXUP_PLACES = {0.2: {each.key: ("table1", "mixup") for each in (_CIFAR10, _TINY)}}
_ALPHA_ROWS = tuple(
    _with_alpha(Row("rankmixup-mndcg", "M-NDCG"), alpha, _at_paper_alpha(alpha, ("table1", "rankmixup-mndcg"))) for alpha in ALPHAS
)

_BY_MARGIN = Experiment(
    "figure2",
    "Over- and underconfidence of MRL by margin m",
    tuple(dataclasses.replace(row, printed_in={_CIFAR10.key: ("table5", row.key)}) for row in MARGIN_ROWS),
    (_CIFAR10,),
    ("oe", "ue", "accuracy", "ece"),
    "UE rises and OE falls with the margin; accuracy falls too.",
)
_DENSITIES = Experiment(
    "figure3",
    "Density of Beta(alpha, alpha)",
    _ALPHA_ROWS,
    (),
    (),
    "Flat at alpha=1, high at the ends below, high around one half above. Drawn from its formula: nothing is trained.",
)
_BY_ALPHA = Experiment(
    "figure4",
    "M-NDCG by alpha, beside mixup's own alpha",
    _ALPHA_ROWS + tuple(_with_alpha(Row("mixup", "Mixup"), alpha, _MIXUP_PLACES.get(alpha, {})) for alpha in ALPHAS),
    (_CIFAR10, _TINY),
    ("ece", "aece"),
    "Best at alpha=2 (CIFAR10) and alpha=1 (Tiny-ImageNet); a large alpha harms less than it harms plain mixup.",
)


def _grid(key: str, where: Column) -> Experiment:
    return Experiment(
        key,
        f"M-NDCG by Q and alpha on {where.label}",
        tuple(_with_alpha(row, alpha, _at_paper_alpha(alpha, ("table6", row.key))) for row in Q_ROWS for alpha in ALPHAS),
        (where,),
        ("ece", "aece"),
        "alpha from 1 to 3 best; more samples help unless alpha is very small or very large.",
    )


FIGURES = (_BY_MARGIN, _DENSITIES, _BY_ALPHA, _grid("supplement1", _CIFAR10), _grid("supplement2", _TINY))


def beta_density(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points in (0, 1) and the density of Beta(alpha, alpha) at each: what figure 3 draws."""
    from scipy.stats import beta

    places = np.linspace(0.005, 0.995, 199)
    return places, beta(alpha, alpha).pdf(places)
