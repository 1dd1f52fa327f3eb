"""rankmixup reproduce tournament."""

from typing import TYPE_CHECKING

from rankmixup.cli.output import answer, console, make_folder
from rankmixup.cli.work import print_estimate, raise_failures
from rankmixup.errors import require

if TYPE_CHECKING:
    from rankmixup.cli.reproduce_command import Reproduce


def run_tournament(options: "Reproduce", name: str) -> None:
    """Train what is missing, column by column, and show how all methods stand, or some with one thing changed at a time."""
    from rankmixup.data.base import resolve_root
    from rankmixup.experiments import tasks_for
    from rankmixup.experiments.costs import step_costs
    from rankmixup.experiments.tournament import BASELINE, CHANGED, COLUMNS, SWEEP_COLUMNS, cells_of, chosen_columns, grid_of, tournament
    from rankmixup.reports.tournament import add_to_tournament, tournament_view

    require(options.scale != "paper", f"{name} must be at scale cpu, or quick for digits alone with one seed, got paper")
    rows, columns = ([key.strip() for key in text.split(",") if key.strip()] for text in (options.rows, options.columns))
    rows = rows or CHANGED.get(name, [])
    quick = options.scale == "quick"
    default = ["digits"] if quick else SWEEP_COLUMNS if name == "sweeps" else []
    chosen, absent = chosen_columns(columns or default, resolve_root(options.data_root))
    if absent:
        console(stderr=True).print(f"Left out, because their data was not found (--data-root): {', '.join(absent)}.", soft_wrap=True)
    seeds = options.seeds or (1 if quick else 5)
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
    methods = {row: next(iter(COLUMNS.values())).run(row, 0).method for row in dict.fromkeys(row for row, _ in cells)}
    found = tournament(cells, options.runs, step_costs(methods, BASELINE))
    if options.write is not None:
        add_to_tournament(found, options.write, name)
    failures = {event.task.run.id: event.reason for event in failed}
    answer(options.json, lambda: {**head, "failed": failures, name: found.to_dict()}, lambda: tournament_view(found))
    raise_failures(failed, len(tasks))
