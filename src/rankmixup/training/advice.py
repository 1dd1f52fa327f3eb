"""Signs in the history of a run that a setting is wrong. Each rule warns once, and only where noise cannot explain what it sees."""

from collections.abc import Iterator, Sequence
from statistics import mean

from rankmixup.methods import Method
from rankmixup.runs.records import EpochRecord

_EPOCHS = 5
"""How many epochs must agree."""
_LARGE_UE = 0.05
"""More than noise causes in a few hundred validation samples."""


def advice(history: Sequence[EpochRecord], method: Method) -> list[str]:
    """A sentence for each rule that the last epoch of `history`, which has a record for each, is the first to fulfil."""
    earlier = {rule for end in range(len(history)) for rule, _ in _signs(history[:end], method)}
    return [sentence for rule, sentence in _signs(history, method) if rule not in earlier]


def _signs(history: Sequence[EpochRecord], method: Method) -> Iterator[tuple[str, str]]:
    """The rules that hold after the last epoch of `history`, and a sentence on each."""
    before, last = history[-2 * _EPOCHS : -_EPOCHS], history[-_EPOCHS:]
    if len(before) == _EPOCHS and not method.auto_dials:  # feedback corrects it by itself
        ue, oe = ([mean(record.val[key] for record in part) for part in (before, last)] for key in ("ue", "oe"))
        if ue[1] > max(_LARGE_UE, 1.5 * ue[0], oe[1]) and oe[1] < oe[0]:
            change = f"{100 * ue[0]:.1f} % to {100 * ue[1]:.1f} %, means of {_EPOCHS} epochs"
            effect = f"{method.name} makes the network underconfident; try a smaller margin or weight"
            yield "underconfident", f"validation UE rises ({change}) while OE falls: {effect}"
    if len(history) >= 3:
        *nll, last_but_one, now = (record.val["nll"] for record in history)
        if min(last_but_one, now) > max(nll[0], 3 * min(nll)):
            was = f"{nll[0]:.3g} after the first epoch and {min(nll):.3g} at best"
            yield "diverging", f"validation NLL is {now:.3g}, but {was}; try a smaller lr"
    tau, active = ([value for record in last if (value := record.ranking.get(key)) is not None] for key in ("tau", "active_hinges"))
    if method.orders_mixes and len(tau) == _EPOCHS and max(tau) <= 0:
        what = f"the ranking loss of {method.name} has no effect; look at its weight and lr"
        yield "unordered", f"confidence has not followed lambda for {_EPOCHS} epochs (Kendall tau {tau[-1]:.2f}): {what}"
    if len(active) == _EPOCHS and min(active) == 1:
        what = "it is out of reach; try a smaller margin"
        yield "margin", f"no mix has kept the margin of {method.name} for {_EPOCHS} epochs: {what}"
