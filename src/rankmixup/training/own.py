"""A user's own module: copied, tried on a sample before anything is written, and given the weights of a run."""

import copy

import torch
from torch import nn

from rankmixup import random
from rankmixup.data import Dataset, evaluation_batches
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.files import reason
from rankmixup.ops import check_logits
from rankmixup.runs import StoredRun
from rankmixup.runs.run import build_network
from rankmixup.training.checkpoint import load_best


def copied(module: nn.Module) -> nn.Module:
    """A copy on the CPU, so that whoever gave the module still has the weights that the run began with."""
    require(isinstance(module, nn.Module), f"model must be a torch.nn.Module, got {shown(module)}")
    try:
        return copy.deepcopy(module).cpu()
    except Exception as error:  # a user's code can raise any
        raise InvalidInput(f"model must be a module that copy.deepcopy can copy ({type(error).__name__}: {reason(error)})") from error


def check_takes(model: nn.Module, dataset: Dataset) -> None:
    """Raise `InvalidInput` unless `model` returns a logit for each class of the first two training samples."""
    first = dataset.train[torch.arange(min(2, len(dataset.train)))]
    x, was_training = next(iter(evaluation_batches(first, dataset.view, workers=0))), model.training
    rule = f"model must take inputs of shape {list(x.shape)} and return {dataset.num_classes} logits for each"
    try:
        with torch.no_grad(), random.global_seed(0, "trial"):
            logits = model.eval()(x)
        check_logits(logits, rows=len(x), classes=dataset.num_classes)
    except Exception as error:
        raise InvalidInput(f"{rule} ({type(error).__name__}: {reason(error)})") from error
    finally:
        model.train(was_training)


def trained_network(stored: StoredRun, model: nn.Module | None = None) -> nn.Module:
    """The network of a finished run with the weights of its selected epoch.

    Args:
        stored: The run.
        model: Of a run that was trained with a module of your own, such a module. It is left as it is: what is returned is a copy.
    """
    stored.result()  # raises for a run that is not finished
    splits = stored.splits()
    if splits is None:
        raise InvalidInput(f"{stored.path} must have the splits.json that training wrote, it has none")
    network = build_network(stored.run, len(splits.class_names), splits.view) if model is None else copied(model)
    weights = load_best(stored.checkpoints, stored.run.id)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise InvalidInput(f"model must have the weights of run {stored.path} ({reason(error)})") from error
    return network
