"""The end of a run: its scores are stored, and its result is computed from them alone."""

from typing import Any

from rankmixup.data import Dataset
from rankmixup.evaluation import Scores, all_metrics, fit_temperatures
from rankmixup.files import write_json
from rankmixup.runs.checkpoint import load_best
from rankmixup.training.predict import Predictor
from rankmixup.training.resume import TrainingState, load_model_state


def write_result(state: TrainingState, dataset: Dataset, predictor: Predictor) -> None:
    """Store the logits of the selected epoch and of mixed test samples, and write result.json; every process takes part."""
    store, run = state.store, state.run
    load_model_state(state.model, load_best(store.checkpoints, run.id))
    splits = {"val": dataset.val, "test": dataset.test}
    scores = {name: Scores(predictor.predict(split), split.y) for name, split in splits.items()}
    mixed, lam = predictor.predict_mixed(dataset.test, run.seed)
    if state.fabric.is_global_zero:
        for name, split in splits.items():
            store.write_predictions(name, logits=scores[name].scores.numpy(), labels=scores[name].labels.numpy(), index=split.index.numpy())
        store.write_predictions("mixed", logits=mixed.numpy(), lam=lam.numpy())
        result = summarise(*(Scores.read(store.predictions_path(name)) for name in splits))
        selection = {"rule": run.selection, "epoch": state.best["epoch"]}
        head = {"id": run.id, "state": "finished", "protocol": run.data.protocol, "selection": selection}
        if state.objective.dials:  # validation samples were seen in training
            tuned_on = "val" if dataset.tuning is None else "tuning"
            dials = state.best.get("dial", state.objective.dials)  # a checkpoint of version 0.2 has none
            head["tuning"] = {"split": tuned_on, "samples": len(dataset.tuning or dataset.val), "dials": dials}
        write_json(store.path / "result.json", {**head, **result, "seconds": state.seconds})


def summarise(val: Scores, test: Scores) -> dict[str, Any]:
    """Metrics of both splits, and of the test split after each kind of temperature scaling fitted on validation."""
    metrics = {name: all_metrics(scores.logits, scores.labels) for name, scores in (("val", val), ("test", test))}
    temperature = {
        objective: {
            "value": scaling.temperature_,
            "converged": scaling.report_.converged,
            "test": all_metrics(scaling.transform(test.logits), test.labels),
        }
        for objective, scaling in fit_temperatures(val).items()
    }
    return {"metrics": metrics, "temperature": temperature}
