"""Which epoch of a run is kept."""

from collections.abc import Mapping
from typing import Any, Literal

Selection = Literal["accuracy", "nll", "last"]


def improves(val: Mapping[str, Any], best: Mapping[str, Any] | None, rule: Selection) -> bool:
    """Whether an epoch with these validation metrics is selected over the best one so far, if there is any."""
    if rule == "last" or best is None:
        return True
    return val[rule] > best[rule] if rule == "accuracy" else val[rule] < best[rule]
