"""The scikit-learn estimator against scikit-learn's own network, on two of its data sets.

python -m studies.sklearn_study     # 250 fits, ten minutes on one core, writes results/sklearn.json
python -m studies.results           # from it: the table in docs/guides/sklearn.md

Everything has its defaults but the seed; `MLPClassifier` stands behind a `StandardScaler` and may train for as long as it wants. The
defaults of `RankMixupClassifier` were chosen on other data (wine, iris and three made by `make_classification`) before any of these fits.
"""

import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankmixup.files import read_json, write_json
from rankmixup.functional import expected_calibration_error
from rankmixup.reports.export import DataTable, to_markdown
from rankmixup.sklearn import RankMixupClassifier

OUTPUT = Path(__file__).parent.parent / "results" / "sklearn.json"
DATA = {"digits": load_digits, "breast cancer": load_breast_cancer}
SEEDS = 5
FOLDS = 5
METHODS = ("ce", "rankmixup-mrl", "rankmixup-auto")
METRICS = {"accuracy": "accuracy %", "nll": "NLL", "ece": "ECE %", "seconds": "seconds per fit"}


def models(seed: int) -> dict[str, Any]:
    """Every classifier by its name in the table."""
    peers = {
        "MLPClassifier": MLPClassifier(max_iter=1000, random_state=seed),
        "MLPClassifier, early stopping": MLPClassifier(max_iter=1000, early_stopping=True, random_state=seed),
    }
    ours = {f"RankMixupClassifier, {method}": RankMixupClassifier(method, random_state=seed) for method in METHODS}
    return {name: make_pipeline(StandardScaler(), peer) for name, peer in peers.items()} | ours


def study() -> list[dict[str, Any]]:
    """One record for each data set, classifier and seed."""
    records = []
    for data, load in DATA.items():
        x, y = load(return_X_y=True)
        for seed in range(SEEDS):
            folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y))
            for name, model in models(seed).items():
                records.append({"data": data, "model": name, "seed": seed} | measured(model, x, y, folds))
                print(records[-1], flush=True)
    return records


def measured(model: Any, x: np.ndarray, y: np.ndarray, folds: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Metrics of the predictions of all folds, each by the classifier that was not trained on it, and the mean time of a fit."""
    probs, seconds = np.zeros((len(y), len(np.unique(y)))), 0.0
    for train, test in folds:
        start = time.perf_counter()
        model.fit(x[train], y[train])
        seconds += time.perf_counter() - start
        found = model.predict_proba(x[test]).astype(np.float64)
        probs[test] = found / found.sum(1, keepdims=True)
    ece = expected_calibration_error(probs, y, from_logits=False).item()
    return {"accuracy": float((probs.argmax(1) == y).mean()), "nll": log_loss(y, probs), "ece": ece, "seconds": seconds / len(folds)}


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds, with standard deviations."""
    rows = []
    for data in DATA:
        for name in models(0):
            own = [record for record in records if (record["data"], record["model"]) == (data, name)]
            rows.append([data, name, *(_cell(metric, [record[metric] for record in own]) for metric in METRICS)])
    return to_markdown(DataTable(["data", "classifier", *METRICS.values()], rows))


def _cell(metric: str, values: Sequence[float]) -> str:
    if metric == "seconds":
        return f"{statistics.mean(values):.1f}"
    factor, digits = (1, 3) if metric == "nll" else (100, 1)
    return f"{factor * statistics.mean(values):.{digits}f} ± {factor * statistics.stdev(values):.{digits}f}"


def read_study() -> list[dict[str, Any]]:
    """What was stored."""
    records: list[dict[str, Any]] = read_json(OUTPUT)["records"]
    return records


if __name__ == "__main__":
    warnings.simplefilter("error", ConvergenceWarning)  # or the peer would not be trained to its end
    write_json(OUTPUT, {"schema": 1, "records": study()})
    print(table(read_study()))
