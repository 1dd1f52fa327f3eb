"""A user's own module: copied, and tried on a sample before anything is written."""

import copy

import torch
from torch import nn

from rankmixup import random
from rankmixup.data import Dataset, evaluation_batches
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.files import reason
from rankmixup.ops import check_logits
from rankmixup.types import evaluating


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
    x = next(iter(evaluation_batches(first, dataset.view, workers=0)))
    rule = f"model must take inputs of shape {list(x.shape)} and return {dataset.num_classes} logits for each"
    try:
        with torch.no_grad(), random.global_seed(0, "trial"), evaluating(model):
            logits = model(x)
        check_logits(logits, rows=len(x), classes=dataset.num_classes)
    except Exception as error:
        raise InvalidInput(f"{rule} ({type(error).__name__}: {reason(error)})") from error
