"""The end of a run: its scores are stored, and its result is computed from them alone."""

import warnings
from typing import Any

from rankmixup.data import Dataset
from rankmixup.evaluation import Scores, all_metrics
from rankmixup.files import write_json
from rankmixup.posthoc import TemperatureScaling
from rankmixup.training.checkpoint import load_best
from rankmixup.training.predict import store_predictions
from rankmixup.training.resume import load_model_state
from rankmixup.training.state import TrainingState

__all__ = ["summarise", "write_result"]


def write_result(state: TrainingState, dataset: Dataset, workers: int | None) -> None:
    """Store the logits of the selected epoch, and write result.json; every process takes part."""
    store, run = state.store, state.run
    load_model_state(state.model, load_best(store.checkpoints, run.id))
    store_predictions(state.fabric, state.model, dataset, store, workers=workers)
    if state.fabric.is_global_zero:
        result = summarise(*(Scores.read(store.predictions_path(name)) for name in ("val", "test")))
        selection = {"rule": run.selection, "epoch": state.best["epoch"]}
        head = {"id": run.id, "state": "finished", "protocol": run.data.protocol, "selection": selection}
        write_json(store.path / "result.json", {**head, **result, "seconds": state.seconds})


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
