"""What a finished run says of itself, computed from its stored logits alone."""

import warnings
from typing import Any

from rankmixup.metrics import all_metrics
from rankmixup.posthoc import TemperatureScaling
from rankmixup.runs import Scores

__all__ = ["summarise"]


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
