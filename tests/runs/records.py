"""What training writes into a run directory, made up."""

from typing import Any

from rankmixup.runs import Run


def metrics(**changes) -> dict[str, Any]:
    return {"accuracy": 0.5, "nll": 1.0, "ece": 0.1, "oe": 0.1, "ue": 0.0, "auroc_correct": None} | changes


def epoch_record(epoch: int = 1, **changes) -> dict[str, Any]:
    record = {"epoch": epoch, "train": {"loss": 1.5}, "val": metrics(), "ranking": {"tau": 0.5}, "lr": 0.1, "seconds": 2.0, "warnings": []}
    return record | changes


def run_result(run: Run, **changes) -> dict[str, Any]:
    result = {
        "id": run.id,
        "state": "finished",
        "selection": {"rule": "accuracy", "epoch": 1},
        "metrics": {"val": metrics(), "test": metrics()},
        "temperature": {name: {"value": 1.5, "converged": True, "test": metrics()} for name in ("nll", "ece-grid")},
        "seconds": 36.0,
    }
    return result | changes


def split_manifest(**changes) -> dict[str, Any]:
    view = {"image_size": 8, "mean": [0.5], "std": [0.25], "augment": "none", "padding": 4, "flip": False}
    parts = {name: {"size": 2, "sha256": "abcdef0123456789", "source": [0, 1]} for name in ("train", "val", "test")}
    return {**parts, "class_names": ["a", "b"], "view": view} | changes
