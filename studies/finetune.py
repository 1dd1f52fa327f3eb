"""A few epochs of RankMixup behind cross-entropy, against training with it from the beginning: cost and calibration on the demo's digits.

python -m studies.finetune          # trains 36 runs in five minutes on one core, writes results/cpu/finetune.json
python -m studies.results           # from it: the table in docs/guides/finetune.md

The column is the tournament's, `digits`, with three seeds. A network that was trained with cross-entropy is trained for six epochs more by
SGD at a tenth of the recipe's learning rate, falling to 0 along a half cosine, by each method and, as a control, by cross-entropy. The last
epoch is kept. All this was fixed before any of these runs; the whole learning rate, in place of a tenth, was added when they were done.
"""

import dataclasses
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankmixup import Run, StoredRun, train
from rankmixup.experiments.tournament import COLUMNS, ROWS
from rankmixup.files import read_json, write_json
from rankmixup.reports.export import DataTable, to_markdown
from rankmixup.training import Watcher

OUTPUT = Path(__file__).parent.parent / "results" / "cpu" / "finetune.json"
METHODS = ("ce", "rankmixup-mrl", "rankmixup-mndcg", "rankmixup-auto")
SEEDS = 3
EPOCHS = 6
RATES = {"a tenth of the rate": 0.1, "the whole rate": 1.0}
"""Shares of the recipe's learning rate."""
METRICS = {"accuracy": "accuracy %", "ece": "ECE %", "nll": "NLL"}


def finetuned(method: str, start: StoredRun, share: float) -> Run:
    """The run that goes on from the selected epoch of `start` with a share of the learning rate."""
    run = COLUMNS["digits"].run(method, start.run.seed)
    short = dataclasses.replace(run.optimisation, epochs=EPOCHS, lr=share * run.optimisation.lr, schedule="cosine", milestones=())
    return Run(run.method, run.data, run.model, short, run.seed, run.selection, init_from=start.path)


def study(folder: Path) -> list[dict[str, Any]]:
    """Train everything; one record for each way of training and seed."""
    records: list[dict[str, Any]] = []
    for seed in range(SEEDS):
        full = {method: train(COLUMNS["digits"].run(method, seed), runs=folder, watcher=Watcher()) for method in METHODS}
        start = full["ce"]
        for method, stored in full.items():
            records.append(_record(method, "whole", [stored]))
            for name, share in RATES.items():
                records.append(_record(method, name, [start, train(finetuned(method, start, share), runs=folder, watcher=Watcher())]))
    return records


def _record(method: str, kind: str, runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Metrics of the last of `runs` on test samples, and the cost of all."""
    forwarded = sum(stored.run.method.forwarded * stored.run.optimisation.epochs for stored in runs)
    result = runs[-1].result()
    return {
        "method": method,
        "training": kind,
        "seed": runs[-1].run.seed,
        "forwarded": forwarded,
        "seconds": sum(stored.result().seconds for stored in runs),
        "ece_after_ts": result.content["temperature"]["nll"]["test"]["ece"],
        **{metric: result.metrics["test"][metric] for metric in METRICS},
    }


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds, with standard deviations; cost relative to cross-entropy of the same seed."""
    baseline = {record["seed"]: record for record in records if (record["method"], record["training"]) == ("ce", "whole")}
    rows = []
    for kind in ("whole", *RATES):
        for method in METHODS:
            own = [record for record in records if (record["method"], record["training"]) == (method, kind)]
            cost = [statistics.mean(each[name] / baseline[each["seed"]][name] for each in own) for name in ("forwarded", "seconds")]
            cells = [_cell([each[name] for each in own], 1 if name == "nll" else 100) for name in (*METRICS, "ece_after_ts")]
            how = f"{ROWS[method]}, from scratch" if kind == "whole" else f"CE, then {EPOCHS} epochs of {ROWS[method]} at {kind}"
            rows.append([how, *(f"{each:.2f}" for each in cost), *cells])
    columns = ["training", "samples forwarded / CE", "seconds / CE", *METRICS.values(), "ECE after TS %"]
    return to_markdown(DataTable(columns, rows))


def _cell(values: Sequence[float], factor: int) -> str:
    digits = 3 if factor == 1 else 1
    return f"{factor * statistics.mean(values):.{digits}f} ± {factor * statistics.stdev(values):.{digits}f}"


def read_study() -> list[dict[str, Any]]:
    """What was stored."""
    records: list[dict[str, Any]] = read_json(OUTPUT)["records"]
    return records


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write_json(OUTPUT, {"schema": 1, "records": study(Path(place))})
    print(table(read_study()))
