"""The network of a finished run."""

import torch
from torch import nn

from rankmixup.data import View
from rankmixup.errors import InvalidInput
from rankmixup.files import reason
from rankmixup.runs import StoredRun
from rankmixup.runs.records import Splits
from rankmixup.runs.run import build_network
from rankmixup.training.checkpoint import load_best


def splits_of(stored: StoredRun) -> Splits:
    """The class names of a finished run, and how samples become its network's input."""
    stored.result()  # raises for a run that is not finished
    splits = stored.splits()
    if splits is None:
        raise InvalidInput(f"{stored.path} must have the splits.json that training wrote, it has none")
    return splits


def trained_network(stored: StoredRun, splits: Splits, model: nn.Module | None = None) -> nn.Module:
    """The network with the weights of the selected epoch, in evaluation mode and in the memory format that it was trained in.

    A run that was trained with a module of the user's own needs that `model` again, which takes the weights.
    """
    model = model or build_network(stored.run, len(splits.class_names), splits.view)
    try:
        model.load_state_dict(load_best(stored.checkpoints, stored.run.id))
    except RuntimeError as error:
        raise InvalidInput(f"model must be the network that run {stored.run.id} has trained ({reason(error)})") from error
    return in_memory_format(model, splits.view).eval()


def in_memory_format(model: nn.Module, view: View) -> nn.Module:
    """The network with its weights ordered as batches are: channels last where these are made of bytes."""
    return model if view.values == "floats" else model.to(memory_format=torch.channels_last)
