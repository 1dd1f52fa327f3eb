"""The three sizes of every experiment.

`paper` is the recipe of each data set as it is. `quick` trains every row for real, but on 700 embedded digits for few epochs: it shows
that everything works, not that anything holds.

`cpu` is for the direction of the claims, so cross-entropy has to be overconfident in it, which a network becomes once it fits its
training set. ResNet-8 on few images does so within half a minute if they are shown as they are (without augmentation) and small (16x16
pixels). What was measured of cross-entropy on CIFAR-10, one seed unless said; calibrated models would show an ECE of about 1 %:

| images, pixels, epochs, batch, epoch that is kept | last training loss | test accuracy | ECE | temperature |
|---|---|---|---|---|
| 2,000 of 32x32, 20 of 64, most accurate | 0.88 | 51 % | 1.6 % | 1.0 |
| 2,000 of 16x16, 20 of 64, most accurate | 0.37 | 45 % | 12 to 13 % | 1.5 |
| 2,500 of 16x16, 25 of 64, most accurate | 0.17 | 48 % | 17 % | 1.8 |
| 1,500 of 16x16, 25 of 64, most accurate | 0.12 | 41 % | 23 % | 1.9 |
| 1,500 of 16x16, 20 of 64, last (five seeds) | 0.21 to 0.36 | 41 to 43 % | 17 to 20 % | 1.6 to 1.9 |

The last is taken: it is the cheapest in which the ECE is far above chance, so that hundreds of runs fit into an afternoon, and a run takes
20 to 35 s on one core. The epoch that is kept is the last and not, as in the paper, the one with the best validation accuracy: after the
eighth epoch that hardly changes, while the ECE grows by a half, so that noise would choose the epoch and the epoch the ECE. The learning
rate falls after the same parts of the training as in the recipe. Long tails have as many images, and the recipe of long tails.
"""

import dataclasses
import os
from pathlib import Path

from rankmixup.data import Cifar10, DataSource, Digits
from rankmixup.data.base import resolve_root
from rankmixup.paper.experiment import Column, Experiment, Scale, Setting
from rankmixup.runs import Optimisation, recipe_for

SCALES = ("paper", "cpu", "quick")

_CIFAR10 = ("cifar10/resnet50", "cifar10/resnet50/cifar100")
_LONG_TAILS = {"cifar10-lt-10/resnet32": 10.0, "cifar10-lt-100/resnet32": 100.0}
_CPU_SEEDS = {"table1": 5, "table4": 5, "table7": 5, "table8": 5, "supplement1": 1}
"""Five where a difference between methods is tested by exchanging seeds, which three could never prove; table 4 has table 1's runs."""


def find_scale(key: str, data_root: Path | None = None) -> Scale:
    """The scale of this name; its summary says which data it takes.

    Args:
        key: one of `SCALES`.
        data_root: folder of CIFAR-10 for scale cpu; without it, and without RANKMIXUP_DATA, embedded digits take its place.
    """
    if key == "paper":
        summary = "the paper's data, networks and recipes; for GPUs"
        return Scale(key, summary, lambda _, column: Setting(column.data, column.model, unknown=column.unknown), lambda _: 1)
    if key == "quick":
        return Scale(key, "embedded digits for few epochs, one seed; at most two minutes a table", _quick, lambda _: 1)

    def seeds(experiment: Experiment) -> int:
        return _CPU_SEEDS.get(experiment.key, 3)

    if data_root is None and not os.environ.get("RANKMIXUP_DATA"):
        summary = "a small network on embedded digits in place of CIFAR-10, since no data is given; --data-root DATA gives CIFAR-10"
        return Scale(key, summary, lambda _, column: _on_digits(column) if column.key in (*_CIFAR10, *_LONG_TAILS) else None, seeds)
    root = resolve_root(data_root)
    summary = f"a small network on a part of CIFAR-10, from {root}; hours on two cores"
    return Scale(key, summary, lambda _, column: _small_cifar(column, root), seeds)


def _quick(experiment: Experiment, column: Column) -> Setting | None:
    """The first column alone: others would repeat it."""
    return _on_digits(column, epochs=4, milestones=(2, 3)) if column == experiment.columns[0] else None


def _on_digits(column: Column, **changes: int | tuple[int, ...]) -> Setting:
    # The rarest of ten classes of 70 digits would be left without any by the paper's ratio of 100.
    data = Digits(imbalance=min(column.data.imbalance, 20.0))
    unknown = "synthetic" if column.unknown else ""
    return Setting(data, "resnet8", _shortened(data, **changes), selection="last", unknown=unknown)


def _small_cifar(column: Column, root: Path) -> Setting | None:
    if column.key in _CIFAR10:
        data = Cifar10(train_size=1500, val_size=500, shrink=2, augment="none")
        optimisation = _shortened(data, epochs=20, batch_size=64, milestones=(8, 12))
    elif column.key in _LONG_TAILS:
        data = Cifar10(train_size=4000, shrink=2, augment="none", imbalance=_LONG_TAILS[column.key])
        optimisation = _shortened(data, epochs=20, batch_size=64, milestones=(16, 18), warmup=1)
    else:
        return None
    # A part of CIFAR-100 as images does as well as the whole of it.
    unknown = "cifar100" if (root / "cifar-100-python").is_dir() else "folder:cifar100-ood-2000"
    return Setting(data, "resnet8", optimisation, selection="last", unknown=unknown if column.unknown else "")


def _shortened(data: DataSource, **changes: int | tuple[int, ...]) -> Optimisation:
    return dataclasses.replace(recipe_for(data).build_optimisation(), **changes)  # type: ignore[arg-type]
