import json

import pytest

from rankmixup.data import Cifar10
from rankmixup.errors import InvalidInput
from rankmixup.experiments import Task, tasks_for
from rankmixup.paper import EXPERIMENTS, SCALES, find_scale
from rankmixup.paper.published import published
from rankmixup.runs import Run
from tests.runs.records import run_result

TABLES = [f"table{number}" for number in range(1, 9)]


@pytest.mark.parametrize("key", TABLES)
def test_tables_have_the_cells_that_the_paper_prints(key):
    experiment = EXPERIMENTS[key]
    printed = {(cell.row, cell.column, cell.metric) for cell in published(key)}
    ours = {(row.key, column.key, metric) for row in experiment.rows for column in experiment.columns for metric in experiment.metrics}
    assert ours == printed


def test_points_of_figures_that_a_table_prints():
    printed = {(table, cell.row, cell.column) for table in TABLES for cell in published(table)}
    found = {
        key: {
            (row.key, column.key)
            for row in experiment.rows
            for column in experiment.columns
            if (*experiment.printed_in(row.key, column.key), column.key) in printed
        }
        for key, experiment in EXPERIMENTS.items()
        if key not in TABLES
    }
    assert {key: len(cells) for key, cells in found.items()} == {
        "figure2": 5,
        "figure3": 0,
        "figure4": 4,
        "supplement1": 5,
        "supplement2": 5,
    }
    assert ("rankmixup-mndcg/alpha=2", "cifar10/resnet50") in found["figure4"]
    assert ("rankmixup-mndcg/alpha=1", "tiny-imagenet/resnet50") in found["figure4"]
    assert EXPERIMENTS["supplement2"].printed_in("rankmixup-mndcg/q=3/alpha=1", "tiny-imagenet/resnet50") == (
        "table6",
        "rankmixup-mndcg/q=3",
    )


def test_keys_and_grids():
    assert list(EXPERIMENTS) == [*TABLES, "figure2", "figure3", "figure4", "supplement1", "supplement2"]
    margins = [row.method(Cifar10()).margin for row in EXPERIMENTS["table5"].rows]
    ranked = [1 + row.method(Cifar10()).num_mixes for row in EXPERIMENTS["table6"].rows]
    alphas = [row.method(Cifar10()).mixer.alpha for row in EXPERIMENTS["figure4"].rows]
    assert margins == [1, 2, 3, 4, 5]
    assert ranked == [2, 3, 4, 5, 6]
    assert alphas == 2 * [0.1, 0.2, 0.5, 1, 2, 3, 5, 10]
    grid = {(1 + row.method(Cifar10()).num_mixes, row.method(Cifar10()).mixer.alpha) for row in EXPERIMENTS["supplement1"].rows}
    assert grid == {(q, alpha) for q in ranked for alpha in alphas}


@pytest.mark.parametrize("scale", SCALES)
def test_what_several_experiments_show_is_trained_once(scale):
    def run(experiment, row):
        return EXPERIMENTS[experiment].cells(find_scale(scale))[row, "cifar10/resnet50"].runs[0].id

    assert run("table5", "rankmixup-mrl/margin=2") == run("figure2", "rankmixup-mrl/margin=2") == run("table1", "rankmixup-mrl")
    same = [
        run("table1", "rankmixup-mndcg"),
        run("table6", "rankmixup-mndcg/q=4"),
        run("table7", "rankmixup-mndcg/mixup"),
        run("figure4", "rankmixup-mndcg/alpha=2"),
        run("supplement1", "rankmixup-mndcg/q=4/alpha=2"),
    ]
    assert len(set(same)) == 1
    assert run("figure4", "mixup/alpha=0.2") == run("table1", "mixup")


def test_rows_are_the_recipe_but_for_what_they_change():
    cells = EXPERIMENTS["table1"].cells(find_scale("paper"), seeds=2)
    assert cells["rankmixup-mrl", "tiny-imagenet/resnet101"].runs[1] == Run(
        "rankmixup-mrl", data="tiny-imagenet", model="resnet101", seed=1
    )
    mixers = EXPERIMENTS["table7"].cells(find_scale("paper"))
    method = mixers["rankmixup-mndcg/cutmix", "tiny-imagenet/resnet50"].runs[0].method
    assert (method.mixer.name, method.mixer.alpha, method.num_mixes) == ("cutmix", 1.0, 3)
    assert mixers["regmixup/cutmix", "cifar10/resnet50"].runs[0].method.mixer.forward == "joint"
    assert EXPERIMENTS["table8"].cells(find_scale("paper"))["ce", "cifar100-lt-100/resnet32"].runs[0].data.imbalance == 100


def test_tasks_are_the_runs_once_with_all_their_unknown_samples():
    scale = find_scale("paper")
    parts = [
        EXPERIMENTS["table1"].part(["ce", "mixup"], ["cifar10/resnet50"]).cells(scale, 2),
        EXPERIMENTS["table4"].part(["ce"]).cells(scale, 2),
    ]
    tasks = tasks_for(parts)
    assert [(task.run.method.name, task.run.data.name, task.run.seed) for task in tasks] == [
        *(("ce", "cifar10", 0), ("mixup", "cifar10", 0), ("ce", "cifar10", 1), ("mixup", "cifar10", 1)),
        *(("ce", "cifar100", 0), ("ce", "cifar100", 1)),
    ]
    assert [task.unknown for task in tasks] == 2 * [("cifar100", "tiny-imagenet", "svhn"), ()] + 2 * [("cifar10", "tiny-imagenet", "svhn")]


def test_a_task_without_its_unknown_samples_is_not_done(tmp_path):
    run = Run("ce")
    (tmp_path / run.id / "predictions").mkdir(parents=True)
    for name, content in (("run.json", run.to_dict()), ("result.json", run_result(run))):
        (tmp_path / run.id / name).write_text(json.dumps(content))
    assert Task(run).done(tmp_path)
    assert not Task(run, ("folder:of/leaves",)).done(tmp_path)
    (tmp_path / run.id / "predictions" / "ood-leaves.npz").touch()
    assert Task(run, ("folder:of/leaves",)).done(tmp_path)


def test_what_there_is_not():
    experiment = EXPERIMENTS["table5"]
    with pytest.raises(InvalidInput, match=r"unknown row of table5 'margin=2'; did you mean .*rankmixup-mrl/margin=2"):
        experiment.part(rows=["margin=2"])
    with pytest.raises(InvalidInput, match="unknown column of table5 'cifar100/resnet50'"):
        experiment.part(columns=["cifar100/resnet50"])
    with pytest.raises(InvalidInput, match="seeds must be at least 1, got 0"):
        experiment.cells(find_scale("quick"), 0)
