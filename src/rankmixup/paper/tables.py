"""The paper's tables and figures, from experiments.toml. Figure 1 is a drawing; confidence against lambda is shown in its place."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankmixup.data import DataSource
from rankmixup.mixers import CutMix, ManifoldMixup
from rankmixup.paper.experiment import Column, Experiment, Row
from rankmixup.paper.published import read_toml

ALPHAS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Parameters of the Beta distribution that lambda is drawn from."""
_VALUES = {"margin": range(1, 6), "q": range(2, 7), "alpha": ALPHAS}
_DATA = {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "tiny-imagenet": "Tiny-ImageNet", "imagenet": "ImageNet", "svhn": "SVHN"}
_MODELS = {"resnet50": "ResNet-50", "resnet101": "ResNet-101", "wrn-26-10": "Wide-ResNet-26-10", "resnet32": "ResNet-32"}


def _rows(labels: Mapping[str, str]) -> Iterator[Row]:
    for template, label in labels.items():
        names = re.findall(r"([^/]+)=\*", template)
        for values in product(*(_VALUES[name] for name in names)):
            settings = {name: f"{value:g}" for name, value in zip(names, values, strict=True)}
            key = template.replace("*", "{:g}").format(*values)
            yield Row(key, label.format(**settings), _changes(key))


def _changes(key: str) -> dict[str, Any]:
    method, *settings = key.split("/")
    changes: dict[str, Any] = {}
    for setting in settings:
        match setting.partition("="):
            case "margin", _, value:
                changes["margin"] = float(value)
            case "q", _, value:
                changes["num_mixes"] = int(value) - 1
            case "alpha", _, value:
                changes["mixer.alpha"] = float(value)
            # The paper names alpha 1 for its own losses; what it gave RegMixup here it does not say.
            case "manifold", _, _:
                changes["mixer"] = ManifoldMixup(alpha=1.0)
            case "cutmix", _, _:
                changes["mixer"] = CutMix(alpha=1.0, forward="joint" if method == "regmixup" else "separate")
    return changes


def _column(key: str) -> Column:
    data, model, *unknown = key.split("/")
    name, tail, imbalance = data.partition("-lt-")
    source = DataSource.registry[name](imbalance=float(imbalance)) if tail else DataSource.registry[name]()
    label = f"{_DATA[name]}{f'-LT, rho={imbalance}' if tail else ''} {_MODELS[model]}"
    label += "".join(f" against {_DATA[each]}" for each in unknown)
    return Column(key, label, source, model, "".join(unknown))


def _experiment(key: str, title: str, rows: Any, columns: Any, metrics: Any, expect: str, printed: Any = ()) -> Experiment:
    places = {(row, column): (table, printed_row) for row, column, table, printed_row in printed}
    return Experiment(key, title, tuple(_rows(rows)), tuple(map(_column, columns)), metrics, expect, places)


EXPERIMENTS = {key: _experiment(key, **entry) for key, entry in read_toml("experiments").items()}
"""The paper's tables and figures by key."""


def beta_density(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points in (0, 1) and the density of Beta(alpha, alpha) at each: what figure 3 draws."""
    from scipy.stats import beta

    places = np.linspace(0.005, 0.995, 199)
    return places, beta(alpha, alpha).pdf(places)
