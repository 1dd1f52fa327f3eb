"""Whether confidence follows lambda: the paper's hypothesis, looked at after every epoch on mixes of validation samples."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankmixup.data import Split
from rankmixup.methods import Method
from rankmixup.metrics import kendall_tau, violated_mixed_pairs, violated_raw_pairs
from rankmixup.metrics.ranking import fold_lambda
from rankmixup.ops import confidence
from rankmixup.random import stream
from rankmixup.training.predict import Predictor

RANKING_KEYS = ("tau", "violated_raw", "violated_mixed", "active_hinges")
_SAMPLES = 1000
"""At most so many validation samples are mixed: it bounds what an epoch pays."""
_MIXES = 3


def ranking_diagnostics(
    predictor: Predictor, val: Split, logits: Float[Tensor, "N K"], method: Method, seed: int
) -> dict[str, float | None]:
    """How far the confidences of mixed validation samples are ordered as the paper's hypothesis has it; `logits` are of the raw ones.

    Three mixes of each of at most 1,000 samples, inputs with inputs of another class, lambda uniform, whatever the method mixes in
    training, so that methods can be compared; and the same mixes in every epoch, so that epochs can. `tau` is Kendall's between
    max(lambda, 1 - lambda) and confidence over all mixes, `violated_raw` and `violated_mixed` are the shares of pairs of one sample
    that are ordered the wrong way, `active_hinges` is the share of mixes that do not stay behind their raw sample by the method's
    margin. None where there is nothing to count.
    """
    own, partner, lam = _drawn(val.y, stream(seed, "diagnostics"))
    if len(own) == 0:
        return dict.fromkeys(RANKING_KEYS)
    mixed = predictor.predict_mixes(val[own.repeat(_MIXES)], val[partner.flatten()], lam.flatten()).unflatten(0, lam.shape)
    if not bool(mixed.isfinite().all()):
        return dict.fromkeys(RANKING_KEYS)
    raw = logits[own]
    # In float64, where confidences of a sure network are not yet all equal to 1.
    raw_confidence, mixed_confidence = confidence(raw.double()), confidence(mixed.double())
    hinges = method.hinges(raw, mixed)
    values = {
        "tau": kendall_tau(fold_lambda(lam).flatten(), mixed_confidence.flatten()),
        "violated_raw": violated_raw_pairs(raw_confidence, mixed_confidence),
        "violated_mixed": violated_mixed_pairs(mixed_confidence, lam.double()),
        "active_hinges": torch.tensor(math.nan) if hinges is None else (hinges > 0).double().mean(),
    }
    return {key: None if value.isnan() else value.item() for key, value in values.items()}


def _drawn(target: Int[Tensor, " N"], rng: torch.Generator) -> tuple[Int[Tensor, " S"], Int[Tensor, "M S"], Float[Tensor, "M S"]]:
    """Samples, a partner of another class for each of their mixes, and lambda; no samples where all are of one class."""
    own = torch.randperm(len(target), generator=rng)[:_SAMPLES]
    by_class, counts = target.argsort(stable=True), torch.bincount(target)
    others = len(target) - counts[target[own]]
    if int(others.max()) == 0:
        own, others = own[:0], others[:0]
    draws, lam = (torch.rand(_MIXES, len(own), generator=rng) for _ in range(2))
    # The n-th of the samples in order of their class, stepping over those of the own class.
    place = (draws * others).long().clamp(max=others - 1)
    first = (counts.cumsum(0) - counts)[target[own]]
    place = torch.where(place < first, place, place + counts[target[own]])
    return own, by_class[place], lam
