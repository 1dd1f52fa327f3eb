"""All metrics of one set of scores, as the plain numbers that logs, results and reports hold."""

from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.metrics.calibration import adaptive_from_top_label, bin_top_label
from rankmixup.metrics.inputs import probabilities
from rankmixup.metrics.proper import brier_score, nll_per_sample

__all__ = ["METRIC_KEYS", "all_metrics"]

METRIC_KEYS = ("accuracy", "nll", "brier", "ece", "aece", "mce", "oe", "ue")
"""Every key that `all_metrics` gives; accuracy is the only one of which more is better."""


def all_metrics(
    scores: Float[Tensor, "N K"], target: Int[Tensor, " N"], *, num_bins: int = 15, from_logits: bool = False
) -> dict[str, float]:
    """Every metric, from one softmax; fractions, not percent."""
    probs = probabilities(scores, target, from_logits=from_logits)
    confidence, prediction = probs.max(dim=1)
    correct = (prediction == target.to(prediction)).to(confidence.dtype)
    bins = bin_top_label(confidence, correct, num_bins)
    return {
        "accuracy": correct.double().mean().item(),
        "nll": nll_per_sample(scores, target, from_logits=from_logits).mean().item(),
        "brier": brier_score(probs, target).item(),
        "ece": bins.ece().item(),
        "aece": adaptive_from_top_label(confidence, correct, num_bins).item(),
        "mce": bins.mce().item(),
        "oe": bins.oe().item(),
        "ue": bins.ue().item(),
    }
