"""Before a run's first step: its input is prepared as its initial weights expect it, and they are put into the network."""

import dataclasses
from pathlib import Path

from torch import Tensor, nn

from rankmixup.data import Dataset, Split, View
from rankmixup.data.base import ImageFiles
from rankmixup.errors import InvalidInput, require
from rankmixup.files import file_hash
from rankmixup.models.libraries import find_pretrained, pretrained_weights
from rankmixup.models.weights import load_weights, read_weights
from rankmixup.runs import Run, StoredRun, Weights
from rankmixup.runs.checkpoint import load_best


def initialise(model: nn.Module, run: Run, view: View) -> str:
    """Load the weights that `run` starts with; what was loaded and what was not, in a sentence."""
    weights = run.weights
    assert weights is not None
    if weights.source == "library":
        held = pretrained_weights(run.model, weights.tag, image_size=view.image_size, in_channels=view.in_channels)
        return load_weights(model, held, f"{weights.tag} of {run.model}" if weights.tag else run.model)
    if weights.source == "run":
        stored = _other_run(weights)
        return load_weights(model, load_best(stored.checkpoints, weights.tag, weights.fingerprint), f"run {stored.path}")
    path = Path(weights.path)
    held = read_weights(path)
    made_for, found = weights.fingerprint[:12], file_hash(path)[:12]
    require(found == made_for, f"weights {path} must be unchanged since the run was made, fingerprint {made_for}, got {found}")
    return load_weights(model, held, str(path))


def prepare_input(dataset: Dataset, store: StoredRun) -> Dataset:
    """The data set as the network of a run takes it: with the mean and standard deviation of the weights that it starts with, where they
    have some, and images in files in their size; images in memory keep theirs, grey ones are repeated for weights of coloured ones.

    Floats are standardised as those of the other run that they start from, and else as they are. Of a run that has begun, all this is in
    splits.json.
    """
    run, view, x = store.run, dataset.view, dataset.train.x
    if run.weights is None or run.preprocess == "data":
        return dataset
    splits = store.splits()
    wanted = _view_of(run, view) if splits is None else splits.view
    if view.values == "floats" and (wanted.values, wanted.input_shape) != (view.values, view.input_shape):
        return dataset
    if isinstance(x, Tensor):
        rule = f"weights of {wanted.in_channels} channels must be given images of as many"
        require(wanted.in_channels == view.in_channels or view.in_channels == 1, f"{rule}, or grey ones, got {view.in_channels} channels")
        if wanted.in_channels != view.in_channels:
            dataset = _repeated(dataset, wanted.in_channels)
    size = wanted.image_size if isinstance(x, ImageFiles) else view.image_size
    return dataclasses.replace(dataset, view=dataclasses.replace(view, image_size=size, mean=wanted.mean, std=wanted.std))


def _view_of(run: Run, view: View) -> View:
    """The data set's view with the constants of the weights."""
    assert run.weights is not None
    if run.weights.source == "file":  # which says nothing about them
        return view
    if run.weights.source == "library":
        found = find_pretrained(run.model, run.weights.tag)
        return dataclasses.replace(view, image_size=found.image_size, mean=found.mean, std=found.std)
    stored = _other_run(run.weights)
    splits = stored.splits()
    if splits is None:
        raise InvalidInput(f"{stored.path} must have the splits.json that training wrote, it has none")
    return splits.view


def _other_run(weights: Weights) -> StoredRun:
    stored = StoredRun.open(weights.path)
    require(stored.run.id == weights.tag, f"{stored.path} must be run {weights.tag}, which the run starts from, it is run {stored.run.id}")
    return stored


def _repeated(dataset: Dataset, channels: int) -> Dataset:
    """The same images with as many equal channels, which take no more memory."""

    def coloured(split: Split) -> Split:
        assert isinstance(split.x, Tensor)
        return dataclasses.replace(split, x=split.x.expand(-1, channels, -1, -1))

    tuning = None if dataset.tuning is None else coloured(dataset.tuning)
    train, val, test = map(coloured, (dataset.train, dataset.val, dataset.test))
    return dataclasses.replace(dataset, train=train, val=val, test=test, tuning=tuning)
