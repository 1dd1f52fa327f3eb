"""A temperature in the weights of a model, so that whatever loads them has calibrated logits."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rankmixup.errors import InvalidInput, shown
from rankmixup.models.weights import head_names


def fold_temperature(model: nn.Module, temperature: float, logits: Callable[[], Tensor]) -> None:
    """Divide the weight and the bias of the layer that returns the logits by `temperature`.

    Args:
        model: The network. It is left as it was where the division of its last layer does not divide its logits, which is an error.
        temperature: By what.
        logits: Forwards some samples.
    """
    names = head_names(model)[-1:]
    head = [each for name in names for each in model.get_submodule(name).parameters() if each.is_floating_point()]
    expected, kept = logits() / temperature, [each.detach().clone() for each in head]
    with torch.no_grad():
        for each in head:
            each.div_(temperature)
        tolerance = torch.finfo(expected.dtype).eps ** 0.5 * expected.abs().max()
        if (logits() - expected).abs().max() <= tolerance:
            return
        for each, value in zip(head, kept, strict=True):
            each.copy_(value)
    rule = "the last linear layer of the model must return its logits, so that a temperature can be folded into it"
    raise InvalidInput(f"{rule}, got {type(model).__name__} with {shown(list(names))}; use rankmixup.posthoc.TemperatureScaling beside it")
