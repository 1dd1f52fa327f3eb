"""Metrics of frequent, middling and rare classes after training on a long tail."""

import torch
from jaxtyping import Int
from torch import Tensor

from rankmixup.errors import require
from rankmixup.metrics.calibration import Bins, bin_top_label
from rankmixup.metrics.inputs import Logits, Target, given_precision, scores_and_labels, top_label
from rankmixup.ops import ArrayLike, as_tensor, check_counts

GROUPS = ("head", "medium", "tail")
_PUBLISHED = {10: (3, 7), 100: (36, 71)}
"""Where medium and tail begin in the published tables, classes in order of frequency."""


def class_groups(class_counts: ArrayLike) -> Int[Tensor, " K"]:
    """Group of each class, 0 head, 1 medium, 2 tail.

    Classes in order of their training samples, most first, equal ones by index; medium begins at K / 3 and tail at 2 K / 3,
    rounded. With 10 and 100 classes they begin at 3 and 7, and at 36 and 71, as in the published tables, which name classes
    by index since there the first is the most frequent.

    >>> class_groups([5, 50, 20])
    tensor([2, 0, 1])
    """
    counts = as_tensor("class_counts", class_counts)
    require(counts.ndim == 1 and len(counts) > 0, f"class_counts must hold one number for each class, got shape {list(counts.shape)}")
    counts = check_counts("class_counts", counts, wait=True)
    classes = len(counts)
    medium, tail = _PUBLISHED.get(classes, (round(classes / 3), round(2 * classes / 3)))
    group = torch.empty(classes, dtype=torch.long, device=counts.device)
    rank = torch.arange(classes, device=counts.device)
    group[counts.argsort(descending=True, stable=True)] = (rank >= medium).long() + (rank >= tail).long()
    return group


def long_tail_metrics(
    logits: Logits, target: Target, class_counts: ArrayLike, *, from_logits: bool = True, num_bins: int = 15
) -> dict[str, dict[str, float | None]]:
    """Accuracy and ECE of the samples whose right class is frequent, middling or rare in training, and how many they are.

    A group without samples has None for both.

    >>> probs = torch.tensor([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.5, 0.1, 0.4]])
    >>> result = long_tail_metrics(probs, torch.tensor([0, 1, 2]), [100, 10, 1], from_logits=False)
    >>> result["head"]["accuracy"], result["tail"]["accuracy"], round(result["tail"]["ece"], 4)
    (1.0, 0.0, 0.5)
    """
    return group_metrics(bins_by_group(logits, target, class_groups(class_counts), num_bins, from_logits=from_logits))


def bins_by_group(logits: Logits, target: Target, group: Int[Tensor, " G"], num_bins: int, *, from_logits: bool) -> Bins:
    """Sums over bins for each group, [3, H]; they add up over batches and processes."""
    precision = given_precision(logits, from_logits)
    logits, target = scores_and_labels(logits, target, from_logits=from_logits)
    classes = logits.shape[1]
    require(len(group) == classes, f"class_counts must hold a number for each of {classes} classes, got {len(group)}")
    confidence, correct = top_label(logits, target, from_logits=from_logits)
    inside = [group.to(target.device)[target] == index for index in range(len(GROUPS))]
    return Bins(*torch.stack([bin_top_label(confidence[each], correct[each], num_bins, precision).sums for each in inside], dim=1))


def group_metrics(bins: Bins) -> dict[str, dict[str, float | None]]:
    """The figures of each group from its sums."""
    result: dict[str, dict[str, float | None]] = {}
    columns = (each.tolist() for each in (bins.count.sum(dim=1), bins.correct.sum(dim=1), bins.ece()))
    for name, samples, right, ece in zip(GROUPS, *columns, strict=True):
        result[name] = {"accuracy": right / samples if samples else None, "ece": ece if samples else None, "n": int(samples)}
    return result
