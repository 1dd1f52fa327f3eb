"""The network of a finished run."""

import copy

import torch
from torch import nn

from rankmixup.data import View
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.files import reason
from rankmixup.models.own import warn_unless_same
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_best
from rankmixup.runs.records import Splits
from rankmixup.runs.run import build_network


def splits_of(stored: StoredRun) -> Splits:
    """The class names of a finished run, and how samples become its network's input."""
    stored.result()  # raises for a run that is not finished
    splits = stored.splits()
    if splits is None:
        raise InvalidInput(f"{stored.path} must have the splits.json that training wrote, it has none")
    return splits


def trained_network(stored: StoredRun, model: nn.Module | None = None) -> nn.Module:
    """The network with the weights of the selected epoch, in evaluation mode and in the memory format that it was trained in.

    Args:
        stored: The run.
        model: Of a run that was trained with a module of your own, such a module. It is left as it is: what is returned is a copy.
    """
    splits = splits_of(stored)
    network = build_network(stored.run, len(splits.class_names), splits.view) if model is None else copied(model)
    weights = load_best(stored.checkpoints, stored.run.id)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise InvalidInput(f"model must have the weights of run {stored.path} ({reason(error)})") from error
    if model is not None:
        warn_unless_same(model, stored.run.model)
    return in_memory_format(network, splits.view).eval()


def in_memory_format(model: nn.Module, view: View) -> nn.Module:
    """The network with its weights ordered as batches are: channels last where these are made of bytes."""
    return model if view.values == "floats" else model.to(memory_format=torch.channels_last)


def copied(module: nn.Module) -> nn.Module:
    """A copy on the CPU, so that whoever gave the module still has the weights that the run began with."""
    require(isinstance(module, nn.Module), f"model must be a torch.nn.Module, got {shown(module)}")
    try:
        return copy.deepcopy(module).cpu()
    except Exception as error:  # a user's code can raise any
        raise InvalidInput(f"model must be a module that copy.deepcopy can copy ({type(error).__name__}: {reason(error)})") from error
