"""Signs in the history of a run that a setting is wrong. Each rule waits until chance is no explanation, and speaks once."""

from collections.abc import Sequence
from statistics import mean

from rankmixup.methods import Method
from rankmixup.runs.records import EpochRecord

History = Sequence[EpochRecord]
"""One for each epoch."""

_EPOCHS = 5
"""How many epochs must agree."""
_LARGE_UE = 0.05
"""A few hundred validation samples show less by chance."""


def advice(history: History, method: Method) -> list[str]:
    """A sentence for each rule that the last epoch of `history` is the first to fulfil."""
    found = []
    for rule in (_underconfident, _diverging, _unordered, _margin_out_of_reach):
        sentence = rule(history, method)
        if sentence and not any(rule(history[:end], method) for end in range(len(history))):
            found.append(sentence)
    return found


def _underconfident(history: History, method: Method) -> str | None:
    if len(history) < 2 * _EPOCHS:
        return None
    before, last = history[-2 * _EPOCHS : -_EPOCHS], history[-_EPOCHS:]
    ue, oe = ([mean(record.val[key] for record in part) for part in (before, last)] for key in ("ue", "oe"))
    if ue[1] > max(_LARGE_UE, 1.5 * ue[0], oe[1]) and oe[1] < oe[0]:
        return (
            f"validation UE rises ({100 * ue[0]:.1f} % to {100 * ue[1]:.1f} %, means of {_EPOCHS} epochs) while OE falls: {method.name} "
            "makes the network underconfident; try a smaller margin or weight"
        )
    return None


def _diverging(history: History, method: Method) -> str | None:
    if len(history) < 3:
        return None
    *before, last_but_one, last = (record.val["nll"] for record in history)
    bound = max(before[0], 3 * min(before))
    if min(last_but_one, last) > bound:
        return f"validation NLL is {last:.3g}, but {before[0]:.3g} after the first epoch and {min(before):.3g} at best; try a smaller lr"
    return None


def _unordered(history: History, method: Method) -> str | None:
    tau = _ranking(history, "tau")
    if method.orders_mixes and len(tau) == _EPOCHS and max(tau) <= 0:
        return (
            f"confidence has not followed lambda for {_EPOCHS} epochs (Kendall tau {tau[-1]:.2f}): the ranking loss of {method.name} "
            "does not do what it is for; look at its weight and lr"
        )
    return None


def _margin_out_of_reach(history: History, method: Method) -> str | None:
    active = _ranking(history, "active_hinges")
    if len(active) == _EPOCHS and min(active) == 1:
        return f"no mix has kept the margin of {method.name} for {_EPOCHS} epochs: it is out of reach; try a smaller margin"
    return None


def _ranking(history: History, key: str) -> list[float]:
    """A diagnostic of the last epochs, as far as it is there."""
    values = [record.ranking.get(key) for record in history[-_EPOCHS:]]
    return [value for value in values if value is not None]
