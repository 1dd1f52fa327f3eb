"""A user's own module: tried on a sample before anything is written."""

import torch
from torch import nn

from rankmixup import random
from rankmixup.data import Dataset, evaluation_batches
from rankmixup.errors import InvalidInput
from rankmixup.files import reason
from rankmixup.ops import check_logits
from rankmixup.types import evaluating


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
