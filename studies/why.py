"""Where the paper's claims about ECE fail at scale cpu: what would have to be different for RankMixup to help there?

    python -m studies.why --data-root DATA [--runs RUNS]           # writes results/cpu/why.md

One thing at a time is changed in the setting of table 1, for cross-entropy too where the thing concerns it, with three seeds. Resumable.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rankmixup.cli.work import raise_failures
from rankmixup.evaluation import over_seeds
from rankmixup.experiments import Task, Workplace, run_tasks
from rankmixup.files import write_atomic
from rankmixup.hardware import Hardware
from rankmixup.paper import EXPERIMENTS, find_scale
from rankmixup.reports.export import Cell, DataTable, to_markdown
from rankmixup.reports.live import follow
from rankmixup.runs import Run, StoredRun, with_field

SEEDS = 3
OUTPUT = Path(__file__).parent.parent / "results" / "cpu" / "why.md"
MRL, MNDCG = "rankmixup-mrl", "rankmixup-mndcg"
LABELS = {"ce": "CE", MRL: "MRL", MNDCG: "M-NDCG"}


def _longer(run: Run) -> Run:
    recipe = run.optimisation
    milestones = tuple(2 * epoch for epoch in recipe.milestones)
    return dataclasses.replace(run, optimisation=dataclasses.replace(recipe, epochs=2 * recipe.epochs, milestones=milestones))


def _changed(path: str, value: object) -> Callable[[Run], Run]:
    return lambda run: with_field(run, path, value)


@dataclass(frozen=True)
class Variation:
    """One change, and the methods that are trained with it; those without cross-entropy are compared with the unchanged one."""

    name: str
    methods: tuple[str, ...]
    change: Callable[[Run], Run]


VARIATIONS = (
    Variation("as in table 1", ("ce", MRL, MNDCG), lambda run: run),
    Variation("weight w 0.5 instead of 0.1", (MRL, MNDCG), _changed("method.weight", 0.5)),
    Variation("weight w 2", (MRL, MNDCG), _changed("method.weight", 2.0)),
    Variation("a λ for each sample", (MRL, MNDCG), _changed("method.mixer.lam_mode", "sample")),
    Variation("40 epochs instead of 20", ("ce", MRL), _longer),
    Variation("ResNet-20", ("ce", MRL), _changed("model", "resnet20")),
    Variation("crops and mirror images, 40 epochs", ("ce", MRL), lambda run: _longer(with_field(run, "data.augment", "crop-and-flip"))),
)


def planned(data_root: Path) -> dict[tuple[str, str], tuple[Run, ...]]:
    """The runs of every variation and method."""
    column = "cifar10/resnet50"
    cells = EXPERIMENTS["table1"].cells(find_scale("cpu", data_root), SEEDS)
    return {
        (variation.name, method): tuple(variation.change(run) for run in cells[method, column].runs)
        for variation in VARIATIONS
        for method in variation.methods
    }


def table(runs: Mapping[tuple[str, str], Sequence[Run]], folder: Path) -> DataTable:
    """ECE of each that is finished, and how far it is from that of cross-entropy, seed by seed."""

    def values(variation: str, method: str, after: bool = False) -> list[float]:
        results = [StoredRun.locate(folder, run).result() for run in runs[variation, method]]
        return [100 * (each.temperature["nll"].test if after else each.metrics["test"])["ece"] for each in results]

    rows: list[list[Cell]] = []
    for variation, method in runs:
        if not all(StoredRun.locate(folder, run).finished for run in runs[variation, method]):
            rows.append([variation, LABELS[method], *["not run"] * 6])
            continue
        ours = values(variation, method)
        accuracy = [100 * StoredRun.locate(folder, run).result().metrics["test"]["accuracy"] for run in runs[variation, method]]
        row: list[Cell] = [variation, LABELS[method], *(f"{over_seeds(each).value:.1f}" for each in (accuracy, ours))]
        row.append(f"{over_seeds(values(variation, method, after=True)).value:.1f}")
        rows.append(row + _against(ours, values(variation if (variation, "ce") in runs else VARIATIONS[0].name, "ce"), method))
    columns = ["setting", "method", "accuracy", "ECE", "ECE after T", "ECE less that of CE", "95 % interval", "so"]
    return DataTable(columns, rows)


def _against(ours: Sequence[float], theirs: Sequence[float], method: str) -> list[Cell]:
    if method == "ce":
        return ["", "", ""]
    over = over_seeds([mine - other for mine, other in zip(ours, theirs, strict=True)])
    assert over.low is not None
    assert over.high is not None
    verdict = "higher than CE" if over.low > 0 else "lower than CE" if over.high < 0 else "inconclusive"
    return [f"{over.value:+.1f}", f"{over.low:+.1f} to {over.high:+.1f}", verdict]


def page(runs: Mapping[tuple[str, str], Sequence[Run]], folder: Path) -> str:
    """The section of docs/results/reproduction.md."""
    return f"""## What would have to be different

One thing at a time is changed in the setting of table 1; {SEEDS} seeds, differences paired by seed with Student's interval, not corrected
for their number; in percent. Cross-entropy is trained again where the change concerns it, and is otherwise that of the first line.

{to_markdown(table(runs, folder))}

```bash
python -m studies.why --data-root DATA
```
"""


def main() -> None:
    """Train what is missing and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    runs = planned(options.data_root)
    tasks = [Task(run) for run in dict.fromkeys(run for each in runs.values() for run in each)]
    events = run_tasks(tasks, Workplace(options.runs, options.data_root, hardware=Hardware("cpu")))
    raise_failures(follow(events, Console(stderr=True), options.runs, len(tasks)), len(tasks))
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(OUTPUT, page(runs, options.runs).encode())


if __name__ == "__main__":
    main()
