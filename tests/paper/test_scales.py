from types import SimpleNamespace

import numpy as np
import pytest

from rankmixup.data import Digits, FashionMnist, Folder
from rankmixup.experiments import Task, tasks_for
from rankmixup.experiments.estimate import _SIZES, cost_of, training_work
from rankmixup.paper import EXPERIMENTS, find_scale
from rankmixup.runs import Run

ORDER = ("table1", "table5", "table6", "figure4", "table7", "table4", "table8", "supplement1")


@pytest.mark.parametrize("key", [key for key in EXPERIMENTS if key != "figure3"])
def test_quick_trains_every_row_of_the_first_column_on_embedded_data(key):
    experiment = EXPERIMENTS[key]
    cells = experiment.cells(find_scale("quick"))
    assert set(cells) == {(row.key, experiment.columns[0].key) for row in experiment.rows}
    for cell in cells.values():
        (run,) = cell.runs
        assert run.data.name == "digits"
        assert run.optimisation.epochs <= 5
        assert bool(cell.unknown) == (key == "table4")


def test_figure3_is_a_formula():
    assert all(EXPERIMENTS["figure3"].cells(find_scale(scale)) == {} for scale in ("paper", "cpu", "quick"))


def test_cpu_fills_the_columns_of_cifar10_from_a_part_of_it(tmp_path):
    scale = find_scale("cpu", tmp_path)
    filled = {key: list(dict.fromkeys(column for _, column in EXPERIMENTS[key].cells(scale))) for key in EXPERIMENTS}
    plain = {key for key, columns in filled.items() if columns == ["cifar10/resnet50"]}
    assert plain == {"table1", "table5", "table6", "table7", "figure2", "figure4", "supplement1"}
    assert filled["table4"] == ["cifar10/resnet50/cifar100"]
    assert filled["table8"] == ["cifar10-lt-10/resnet32", "cifar10-lt-100/resnet32"]
    seeds = {
        key: {len(cell.runs) for cell in EXPERIMENTS[key].cells(scale).values()} for key in ("table1", "table4", "table5", "supplement1")
    }
    assert seeds == {"table1": {5}, "table4": {5}, "table5": {3}, "supplement1": {1}}
    run = EXPERIMENTS["table1"].cells(scale)["ce", "cifar10/resnet50"].runs[0]
    assert (run.data.name, run.data.image_size, run.data.augment) == ("cifar10", 16, "none")


def test_cpu_takes_what_there_is_of_cifar100(tmp_path):
    place = ("ce", "cifar10/resnet50/cifar100")
    assert EXPERIMENTS["table4"].cells(find_scale("cpu", tmp_path))[place].unknown == "folder:cifar100-ood-2000"
    (tmp_path / "cifar-100-python").mkdir()
    assert EXPERIMENTS["table4"].cells(find_scale("cpu", tmp_path))[place].unknown == "cifar100"


def test_cpu_without_a_data_root_takes_digits(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKMIXUP_DATA", raising=False)
    run = EXPERIMENTS["table5"].cells(find_scale("cpu"))["rankmixup-mrl/margin=1", "cifar10/resnet50"].runs[0]
    assert run.data == Digits()
    monkeypatch.setenv("RANKMIXUP_DATA", str(tmp_path))
    run = EXPERIMENTS["table5"].cells(find_scale("cpu"))["rankmixup-mrl/margin=1", "cifar10/resnet50"].runs[0]
    assert run.data.name == "cifar10"


def test_long_tails_of_digits_leave_every_class_a_sample():
    for scale in ("cpu", "quick"):
        for data in {cell.runs[0].data for cell in EXPERIMENTS["table8"].cells(find_scale(scale)).values()}:
            assert int(data.load().class_counts.min()) >= 3


def test_the_whole_study_fits_a_night_on_two_cores(tmp_path):
    scale = find_scale("cpu", tmp_path)
    tasks = tasks_for(EXPERIMENTS[key].cells(scale) for key in ORDER)
    assert len(tasks) == len({task.run.id for task in tasks})
    assert cost_of(tasks, tmp_path, "core").seconds / 2 < 6 * 3600
    (ce, *_) = tasks
    assert ce.run.method.name == "ce"
    assert cost_of([ce], tmp_path, "core").seconds < 45


def test_work_counts_what_is_forwarded():
    # ResNet-50 for CIFAR multiplies and adds 1.3 billion times for an image, as is known of it; two operations each.
    ce, mndcg = (training_work(Run(key, data="cifar10", model="resnet50")) for key in ("ce", "rankmixup-mndcg"))
    once = 200 * 45_000 * 3 * 2 * 1.3e9
    assert ce == pytest.approx(once, rel=0.06)
    assert mndcg - ce == pytest.approx(3 * once, rel=0.02)


def test_what_is_done_costs_nothing_and_tells_the_pace(tmp_path, monkeypatch):
    tasks = tasks_for([EXPERIMENTS["table5"].cells(find_scale("quick"))])
    whole = cost_of(tasks, tmp_path, "core")
    done = tasks[0]
    monkeypatch.setattr("rankmixup.experiments.grid.Task.done", lambda task, runs: task == done)
    monkeypatch.setattr("rankmixup.runs.StoredRun.result", lambda stored: SimpleNamespace(seconds=1000.0))
    rest = cost_of(tasks, tmp_path, "core")
    assert (rest.runs, rest.done, rest.measured) == (5, 1, 1)
    assert rest.seconds == pytest.approx(4000.0)
    assert whole.seconds < 400
    assert "1 finished runs" in rest.assumptions
    assert "finished" not in whole.assumptions


def test_data_of_unknown_size_is_not_counted(tmp_path):
    gone = Folder(path=str(tmp_path / "gone"), fingerprint="of what it was", image_size=8, augment="none")
    cost = cost_of([Task(Run("ce", data=gone)), Task(Run("ce"))], tmp_path, "core")
    assert (cost.runs, cost.unknown) == (2, 1)
    assert 0 < cost.seconds < 60
    assert "nothing for 1 runs" in cost.assumptions


@pytest.mark.parametrize("name", ["fashion-mnist", "svhn", "cifar10", "tiny-imagenet"])
def test_published_data_have_a_size_before_they_are_read(name, tmp_path):
    assert cost_of([Task(Run("ce", data=name, model=None if name != "tiny-imagenet" else "resnet50:tiny"))], tmp_path, "core").unknown == 0


def test_the_size_of_data_of_ones_own_is_that_of_its_files(tmp_path):
    x, y = np.zeros((100, 8, 8), dtype=np.uint8), np.arange(100) % 2
    np.savez(tmp_path / "few.npz", x=x, y=y)
    np.savez(tmp_path / "many.npz", x=np.tile(x, (9, 1, 1)), y=np.tile(y, 9))
    few, many = (training_work(Run("ce", data=f"npz:{tmp_path / name}.npz")) for name in ("few", "many"))
    assert many == pytest.approx(9 * few)


@pytest.mark.data
def test_the_sizes_are_those_of_the_data():
    data = FashionMnist().load()
    assert (len(data.train), len(data.val), len(data.test)) == _SIZES["fashion-mnist"][2:]
