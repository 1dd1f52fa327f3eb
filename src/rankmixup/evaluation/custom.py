"""Registered metrics that the pass over the scores does not compute: their functions are called one by one."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import InvalidInput, require, shown
from rankmixup.evaluation.registry import METRICS, PASS_KEYS
from rankmixup.evaluation.scores import Scores


def custom_keys(num_classes: int) -> list[str]:
    """Such metrics that are defined for so many classes."""
    return [key for key, metric in METRICS.items() if key not in PASS_KEYS and num_classes >= metric.min_classes]


def custom_values(scores: Scores, keys: Sequence[str]) -> dict[str, Tensor]:
    """Of each metric its value, or a number for each sample whose mean it is."""
    return {key: custom_value(key, _given(key, scores), scores.labels) for key in keys}


def _given(key: str, scores: Scores) -> Float[Tensor, "N K"]:
    return scores.probs if METRICS[key].needs == "probs" else scores.logits.double()


def custom_value(key: str, given: Float[Tensor, "N K"], target: Tensor, *, resample: bool = False) -> Tensor:
    """What a metric's function returns, checked, in float64 on the CPU; only on a resample may it be NaN, which means undefined."""
    function = METRICS[key].function
    assert function is not None
    try:
        found = torch.as_tensor(function(given, target)).detach().double().cpu()
    except Exception as error:  # other people's code
        raise InvalidInput(f"metric {key!r} must be computed without an error, got {type(error).__name__}: {shown(str(error))}") from error
    rule = f"metric {key!r} must return one number, or one for each of {len(target)} samples"
    require(found.shape in ((), (len(target),)), f"{rule}, got shape {list(found.shape)}")
    require(resample or not bool(found.isnan().any()), f"{rule}, got NaN")
    return found


def resampled_values(key: str, models: Sequence[Scores], replicates: int, rng: torch.Generator) -> Float[Tensor, "M R"]:
    """A metric of each model on bootstrap resamples of the same rows, which only one resample of the scores is held for at a time."""
    given, target = [_given(key, scores) for scores in models], models[0].labels
    replicates = min(replicates, max(100, 2_000_000_000 // given[0].numel()))  # at most so many scores are resampled in all
    values = torch.empty(len(models), replicates, dtype=torch.float64)
    for replicate in range(replicates):
        rows = torch.randint(len(target), (len(target),), generator=rng).to(target.device)
        values[:, replicate] = torch.stack([custom_value(key, each[rows], target[rows], resample=True).mean() for each in given])
    return values
