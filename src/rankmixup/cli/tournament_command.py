"""rankmixup reproduce tournament, ablation, sweeps and shift: experiments of ours, on the columns of the tournament."""

from typing import TYPE_CHECKING, Any

from rankmixup.cli.output import answer, console, make_folder
from rankmixup.cli.work import print_estimate, raise_failures
from rankmixup.errors import require
from rankmixup.hardware import Hardware

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rankmixup.cli.reproduce_command import Reproduce
    from rankmixup.experiments.tournament import Cells


def run_ours(options: "Reproduce", name: str) -> None:
    """Train what is missing, column by column, and show what the finished runs say."""
    from rankmixup.data.base import resolve_root
    from rankmixup.experiments import tasks_for
    from rankmixup.experiments.shift import QUICK_COLUMNS, SHIFT_COLUMNS, SHIFT_ROWS
    from rankmixup.experiments.tournament import CHANGED, SWEEP_COLUMNS, cells_of, chosen_columns, grid_of

    require(options.scale != "paper", f"{name} must be at scale cpu, or quick for {', '.join(QUICK_COLUMNS)} alone, got paper")
    quick, of_shift = options.scale == "quick", name == "shift"
    rows, columns = ([key.strip() for key in text.split(",") if key.strip()] for text in (options.rows, options.columns))
    rows = rows or (SHIFT_ROWS if of_shift else CHANGED.get(name, []))
    usual = QUICK_COLUMNS if quick else {"shift": SHIFT_COLUMNS, "sweeps": SWEEP_COLUMNS}.get(name, [])
    chosen, absent = chosen_columns(columns or usual, resolve_root(options.data_root))
    if absent:
        console(stderr=True).print(f"Left out, because their data was not found (--data-root): {', '.join(absent)}.", soft_wrap=True)
    seeds = options.seeds or ((2 if of_shift else 1) if quick else 5)
    parts = [(column, cells_of(column, rows, seeds)) for column in chosen]
    tasks = tasks_for(cells for _, cells in parts)
    head = {"experiments": [name], "scale": options.scale}
    if options.dry_run:
        print_estimate(tasks, options, "core", head)
        return
    if options.write is not None:
        make_folder("write", options.write)
    failed = options.train_tasks(tasks, [grid_of(column, cells) for column, cells in parts]) if options.train else []
    cells = {where: cell for _, part in parts for where, cell in part.items()}
    found, view = _shift(options, cells) if of_shift else _standings(options, cells, name)
    failures = {event.task.run.id: event.reason for event in failed}
    answer(options.json, lambda: {**head, "failed": failures, name: found}, lambda: view)
    raise_failures(failed, len(tasks))


def _standings(options: "Reproduce", cells: "Cells", name: str) -> "tuple[dict[str, Any], RenderableType]":
    """How the methods stand, or some with one thing changed at a time; the cost of each is measured side by side."""
    from rankmixup.experiments.costs import step_costs
    from rankmixup.experiments.tournament import BASELINE, COLUMNS, tournament
    from rankmixup.reports.tournament import add_to_tournament, tournament_view

    methods = {row: next(iter(COLUMNS.values())).run(row, 0).method for row in dict.fromkeys(row for row, _ in cells)}
    found = tournament(cells, options.runs, step_costs(methods, BASELINE))
    if options.write is not None:
        add_to_tournament(found, options.write, name)
    return found.to_dict(), tournament_view(found)


def _shift(options: "Reproduce", cells: "Cells") -> "tuple[dict[str, Any], RenderableType]":
    """How calibration changes on corrupted images, which are predicted where they were not."""
    from rankmixup.experiments.shift import shift_study
    from rankmixup.reports.shift_study import add_to_study, study_view

    found = shift_study(cells, options.runs, options.data_root, hardware=Hardware(options.accelerator))
    if options.write is not None and found.columns:
        add_to_study(found, options.write)
    return found.to_dict(), study_view(found)
