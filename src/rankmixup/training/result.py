"""What a finished run says of itself, computed from its stored logits alone."""

import warnings
from collections.abc import Mapping
from typing import Any

from rankmixup.evaluation import Scores, all_metrics
from rankmixup.posthoc import TemperatureScaling
from rankmixup.runs.run import Selection

__all__ = ["improves", "summarise"]


def improves(val: Mapping[str, Any], best: Mapping[str, Any] | None, rule: Selection) -> bool:
    """Whether an epoch with these validation metrics is selected over the best one so far, if there is any."""
    if rule == "last" or best is None:
        return True
    return val[rule] > best[rule] if rule == "accuracy" else val[rule] < best[rule]


def summarise(val: Scores, test: Scores) -> dict[str, Any]:
    """Metrics of both splits, and of the test split after each kind of temperature scaling fitted on validation."""
    temperature = {}
    for objective in ("nll", "ece-grid"):
        scaling = TemperatureScaling(objective)
        with warnings.catch_warnings():
            # A fit on its boundary is recorded below; a run that finished is no place to warn of it.
            warnings.simplefilter("ignore")
            scaling.fit(val.logits, val.labels)
        assert scaling.report_ is not None
        after = all_metrics(scaling.transform(test.logits), test.labels, from_logits=True)
        temperature[objective] = {"value": scaling.temperature_, "converged": scaling.report_.converged, "test": after}
    metrics = {name: all_metrics(scores.scores, scores.labels, from_logits=True) for name, scores in (("val", val), ("test", test))}
    return {"metrics": metrics, "temperature": temperature}
