"""The network of a run."""

from torch import nn

from rankmixup import random
from rankmixup.data import View
from rankmixup.models import build_model
from rankmixup.runs.run import Run


def build_network(run: Run, num_classes: int, view: View) -> nn.Module:
    """The network as it is before training, without drawing from torch's global generator.

    Args:
        run: Names the network and seeds its weights.
        num_classes: Number of classes.
        view: Size and channels of its input.
    """
    with random.global_seed(run.seed, "weights"):
        return build_model(run.model, num_classes=num_classes, image_size=view.image_size, in_channels=view.in_channels)
