"""What training refuses before it begins, and without training."""

from pathlib import Path

import torch
from torch import nn

from rankmixup import methods
from rankmixup.data import Dataset, View
from rankmixup.data.overlap import check_held_out
from rankmixup.data.splits import with_tuning_split
from rankmixup.errors import InvalidInput, require
from rankmixup.methods import Objective
from rankmixup.runs import Run
from rankmixup.runs.run import build_network

LEAST_TAKEN = 50
"""Validation samples without which a dial is refused unless they were given: its gap then has a standard error of up to 7 points."""
_SOME_CLASSES, _COLOURS = 10, 3
"""What a network is built for where the data do not say."""


def prepare(run: Run, dataset: Dataset, *, rank: int = 0, model: nn.Module | None = None) -> tuple[nn.Module, Objective]:
    """The network, unless it is given, and the objective of a run, which must fit its data and each other."""
    model = build_network(run, dataset.num_classes, dataset.view) if model is None else model
    run.method.check_model(model)
    run.method.check_input(dataset.view.input_shape)
    objective = methods.objective(
        run.method,
        dataset.num_classes,
        seed=run.seed,
        class_counts=dataset.class_counts,
        dataset_size=len(dataset.train),
        rank=rank,
    )
    objective.reminds = False  # the loop does so at the end
    return model, objective


def tuned_dataset(run: Run, dataset: Dataset) -> Dataset:
    """The data set of a run with its tuning split; refused if that is too small or test samples are in other splits too."""
    dataset = with_tuning_split(dataset, run.tune_on)
    dials, samples = ", ".join(run.method.auto_dials), len(dataset.tuning or dataset.val)
    rule = f"{dials} of {run.method.name} must be tuned on at least {LEAST_TAKEN} samples where they are taken from the training samples"
    advice = "give validation samples of your own, or train another method, such as ce"
    require(not dials or not dataset.val_from_train or samples >= LEAST_TAKEN, f"{rule}, got {samples}; {advice}")
    check_held_out(dataset, run.data.protocol)
    return dataset


def check_run(run: Run, data_root: str | Path | None = None) -> None:
    """Raise `InvalidInput` for what training would refuse, as far as the headers and labels of the data say.

    Images are not read. Where the data are not there, or take long to look at, the network and the method are checked alone.

    Args:
        run: What would be trained.
        data_root: Folder of the data sets that live on disk.
    """
    dataset = run.data.outline(None if data_root is None else Path(data_root))
    if dataset is not None:
        dataset = tuned_dataset(run, dataset)
        prepare(run, dataset, model=_outlined(run, dataset.num_classes, dataset.view))
    else:
        view = View(run.data.image_size, (0.0,) * _COLOURS, (1.0,) * _COLOURS)
        run.method.check_model(_outlined(run, _SOME_CLASSES, view))


def _outlined(run: Run, num_classes: int, view: View) -> nn.Module:
    """The network without weights, which take most of the time; with them where a network needs them to be built."""
    try:
        with torch.device("meta"):
            return build_network(run, num_classes, view)
    except InvalidInput:
        raise
    except (RuntimeError, NotImplementedError, ValueError):
        return build_network(run, num_classes, view)
