import json
import os
from types import SimpleNamespace

import pytest

from rankmixup.cli.main import main
from rankmixup.cli.sweep_command import _combinations, _divided, _sequences
from rankmixup.paper import EXPERIMENTS, find_scale
from tests.paper.stored import store


def answer(capsys, *argv):
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_experiments_are_listed(capsys):
    listed = answer(capsys, "list", "experiments")["experiments"]
    assert [entry["name"] for entry in listed] == [*EXPERIMENTS, "tournament", "ablation", "sweeps", "shift"]


def test_a_dry_run_tells_runs_and_cost(capsys, tmp_path):
    found = answer(capsys, "reproduce", "table1", "--dry-run", "--runs", str(tmp_path))
    assert (found["experiments"], found["scale"], found["runs"], found["done"]) == (["table1"], "paper", 78, 0)
    assert 200 < found["gpu_hours"] < 1000
    assert "A100" in found["assumptions"]
    assert answer(capsys, "reproduce", "table1", "--dry-run", "--seeds", "3")["runs"] == 3 * 78
    one = answer(capsys, "reproduce", "table1", "--dry-run", "--rows", "ce,mixup", "--columns", "cifar10/resnet50")
    assert one["runs"] == 2
    assert main(["reproduce", "table5", "--scale", "quick", "--dry-run", "--runs", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "5 runs, 0 of them finished" in text
    assert "table5, MRL by margin m. In the paper: Small margins best" in text
    assert "core hours" in text
    assert list(tmp_path.iterdir()) == []


def test_scale_cpu_says_which_data_it_takes(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("RANKMIXUP_DATA", raising=False)
    argv = ["reproduce", "table5", "--scale", "cpu", "--dry-run", "--runs", str(tmp_path)]
    assert main(argv) == 0
    said = capsys.readouterr().err
    assert "embedded digits in place of CIFAR-10" in said
    assert "--data-root" in said
    assert main([*argv, "--data-root", str(tmp_path)]) == 0
    assert f"a part of CIFAR-10, from {tmp_path}" in capsys.readouterr().err


def test_shared_runs_are_counted_once(capsys):
    counts = [answer(capsys, "reproduce", *keys, "--scale", "quick", "--dry-run")["runs"] for keys in (["table5"], ["figure2", "table5"])]
    assert counts == [5, 5]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["table9"], "unknown experiment 'table9'; did you mean"),
        ([], "reproduce must be given a name"),
        (["table5", "--rows", "margin=9"], "unknown row of table5 'margin=9'"),
        (["table5", "--columns", "x"], "unknown column of table5 'x'"),
        (["table5", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["table5", "--address", "somewhere"], "--address must go with --on ray, got 'somewhere'"),
        (["table5", "--workers", "-1"], "workers must be at least 0, got -1"),
    ],
)
def test_wrong_requests(capsys, argv, message):
    assert main(["reproduce", *argv]) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_trained_where_that_is_asked_for(capsys, tmp_path):
    found = answer(capsys, "reproduce", "table5", "--scale", "paper", "--no-train", "--runs", str(tmp_path))
    assert {score["verdict"] for score in found["scorecard"]["scores"]} == {"not run"}
    assert [claim["outcome"] for claim in found["scorecard"]["claims"]] == ["not run", "not run"]
    assert list(tmp_path.iterdir()) == []


def test_the_papers_scale_wants_a_gpu(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["reproduce", "table5"]) == 2
    assert "scale must be cpu or quick on a machine without a GPU, got paper" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("key", EXPERIMENTS)
def test_every_experiment_in_quick_scale(key, tmp_path_factory, capsys):
    runs = tmp_path_factory.getbasetemp() / "quick"
    found = answer(capsys, "reproduce", key, "--scale", "quick", "--runs", str(runs), "--accelerator", "cpu")
    assert found["failed"] == {}
    assert answer(capsys, "reproduce", key, "--scale", "quick", "--runs", str(runs), "--dry-run")["core_hours"] == 0


@pytest.mark.data
def test_the_cpu_scale_on_the_real_cifar10(tmp_path, capsys):
    if "RANKMIXUP_DATA" not in os.environ:
        pytest.skip("RANKMIXUP_DATA names no folder of data")
    part = ["--rows", "rankmixup-mrl/margin=1", "--columns", "cifar10/resnet50", "--seeds", "1", "--accelerator", "cpu"]
    where = ["--data-root", os.environ["RANKMIXUP_DATA"], "--runs", str(tmp_path / "runs"), "--write", str(tmp_path / "out")]
    found = answer(capsys, "reproduce", "table5", "--scale", "cpu", *part, *where)
    (score,) = found["scorecard"]["scores"]
    assert (score["stands_for_column"], score["paper"], score["verdict"]) == ("cifar10 resnet8", 0.0154, "other scale")
    assert score["ours"]["floor"] < score["ours"]["low"] < score["ours"]["value"] < score["ours"]["high"]
    assert (tmp_path / "out" / "scorecard.html").exists()


@pytest.mark.slow
def test_failures_are_told_at_the_end(capsys, tmp_path):
    where = ["--runs", str(tmp_path / "runs"), "--data-root", str(tmp_path), "--accelerator", "cpu"]
    assert main(["reproduce", "table5", "--scale", "cpu", "--seeds", "1", *where]) == 1
    error = capsys.readouterr().err
    assert "5 of 5 runs failed; run the same command to try them again: cifar10 must have" in error
    assert "(5 runs)" in error


def test_options_of_a_sweep_and_of_training():
    own, grid = _divided(["--margin", "1", "2", "--seeds", "3", "--mixer.alpha=1", "2", "--data-root", "/data", "--milestones", "1", "2"])
    assert own == ["--seeds", "3", "--data-root", "/data"]
    assert grid == {"--margin": ["1", "2"], "--mixer.alpha": ["1", "2"], "--milestones": ["1", "2"]}
    assert _combinations(grid, {"--milestones"}) == {
        f"margin={margin} mixer.alpha={alpha}": ["--milestones", "1", "2", "--margin", margin, "--mixer.alpha", alpha]
        for margin in "12"
        for alpha in "12"
    }
    assert _combinations({"--margin": ["1"]}, set()) == {"as given": ["--margin", "1"]}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--margin", "1"], "METHOD must come first"),
        (["rankmixup-mrl", "1"], "unknown method '1'"),
        (["rankmixup-mrl", "mrl"], "a sweep must be given each method once, got rankmixup-mrl, mrl"),
        (["ce", "rankmixup-mrl", "--margin", "1", "2"], "--margin"),
        (["rankmixup-mrl", "--seed", "1"], "a sweep must be given --seeds N"),
        (["rankmixup-mrl", "--margin", "1", "--margin", "2"], "--margin must be given once"),
        (["rankmixup-mrl", "--margin", "1", "2", "--metric", "eec"], "unknown metric 'eec'; did you mean 'ece'"),
        (["rankmixup-mrl", "--margin", "1", "-2"], "margin must be at least 0, got -2"),
        (["rankmixup-mrl", "--magin", "1", "2"], "--magin"),
        (["rankmixup-mrl", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["rankmixup-mrl", "--margin", "1", "2", "--devices", "2"], "--devices must be left out of a sweep"),
        (["rankmixup-mrl", "--nodes", "2", "--strategy", "ddp"], "--nodes, --strategy must be left out of a sweep"),
        (["rankmixup-mrl", "--margin", "1", "2", "--show"], "--show must be left out of a sweep"),
        (["rankmixup-mrl", "--on", "ray", "--workers", "2"], "--workers must go with --on local"),
    ],
)
def test_wrong_sweeps(capsys, argv, message):
    assert main(["sweep", *argv]) == 2
    assert message in capsys.readouterr().err


def test_options_of_several_values_are_no_axes(capsys):
    assert _sequences("mixup") == {"--log", "--milestones", "--mixer.layers", "--mixer.mixes", "--data.sizes"}
    argv = ["mixup", "--mixer", "manifold", "--mixer.layer", "random", "--mixer.layers", "stage1", "stage2", "--milestones", "1", "2"]
    found = answer(capsys, "sweep", *argv, "--lr", "0.1", "0.2", "--dry-run")
    assert found["settings"] == ["lr=0.1", "lr=0.2"]
    assert found["runs"] == 6


def test_what_a_sweep_and_a_reproduction_are_trained_with(capsys, tmp_path, monkeypatch):
    """What cannot be honoured is refused; the rest reaches the training of every run."""
    places = []

    def record(tasks, place, **options):
        places.append((place, [task.run.optimisation.precision for task in tasks]))
        return iter(())

    monkeypatch.setattr("rankmixup.experiments.run_tasks", record)
    metrics = {split: {"nll": 1.0, "accuracy": 0.5, "ece": 0.1} for split in ("val", "test")}
    monkeypatch.setattr("rankmixup.runs.StoredRun.result", lambda stored: SimpleNamespace(metrics=metrics))
    flags = ["--compile", "--log", "tensorboard", "mlflow", "--runs", str(tmp_path), "--accelerator", "cpu"]
    answer(capsys, "sweep", "mixup", "--seeds", "1", *flags, "--precision", "bf16-mixed")
    answer(capsys, "reproduce", "table5", "--scale", "quick", *flags)
    assert [(place.hardware.compile, place.loggers, place.hardware.accelerator) for place, _ in places] == [
        (True, ("tensorboard", "mlflow"), "cpu")
    ] * 2
    assert places[0][1] == ["bf16-mixed"]
    for flag in ("--devices", "--nodes", "--strategy", "--precision"):
        assert main(["reproduce", "table5", "--scale", "quick", flag, "2"]) == 2
        assert flag in capsys.readouterr().err


def test_a_sweep_ranks_on_validation_and_tests_the_best_alone(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("rankmixup.experiments.run_tasks", lambda tasks, place, **options: iter(()))
    values = {1.0: 0.3, 2.0: 0.1, 3.0: 0.2}

    def result(stored):
        value = values[stored.run.method.margin] + 0.02 * stored.run.seed
        metrics = {"val": {"nll": value, "accuracy": None, "ece": value}, "test": {"nll": 2 * value, "accuracy": 0.5, "ece": 0.0}}
        return SimpleNamespace(metrics=metrics)

    monkeypatch.setattr("rankmixup.runs.StoredRun.result", result)
    argv = ["sweep", "rankmixup-mrl", "--margin", "1", "2", "3", "--seeds", "2", "--runs", str(tmp_path)]
    found = answer(capsys, *argv)
    assert [entry["setting"] for entry in found["ranked"]] == ["margin=2", "margin=3", "margin=1"]
    assert found["ranked"][0]["val"]["nll"]["value"] == pytest.approx(0.11)
    assert [len(entry["runs"]) for entry in found["ranked"]] == [2, 2, 2]
    assert all("test" not in entry for entry in found["ranked"])
    assert (found["best"], found["test"]["nll"]["value"]) == ("margin=2", pytest.approx(0.22))
    assert main(argv) == 0
    table = capsys.readouterr().out
    assert table.index("margin=2") < table.index("margin=3") < table.index("margin=1") < table.index("margin=2, on test")
    assert answer(capsys, *argv, "--dry-run")["runs"] == 6


def test_a_sweep_of_several_methods_ranks_them_together(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("rankmixup.experiments.run_tasks", lambda tasks, place, **options: iter(()))

    def result(stored):
        value = stored.run.optimisation.lr + (stored.run.method.name == "mbls")
        return SimpleNamespace(metrics={split: {"nll": value, "accuracy": 0.5, "ece": value} for split in ("val", "test")})

    monkeypatch.setattr("rankmixup.runs.StoredRun.result", result)
    found = answer(capsys, "sweep", "mbls", "ce", "--lr", "0.2", "0.1", "--seeds", "2", "--runs", str(tmp_path))
    assert (found["methods"], found["best"]) == (["mbls", "ce"], "ce lr=0.1")
    assert [entry["setting"] for entry in found["ranked"]] == ["ce lr=0.1", "ce lr=0.2", "mbls lr=0.1", "mbls lr=0.2"]
    assert len({run for entry in found["ranked"] for run in entry["runs"]}) == 8
    assert answer(capsys, "sweep", "mbls", "ce", "--dry-run")["settings"] == ["mbls", "ce"]


def test_a_damaged_run_is_shown_beside_the_others(capsys, tmp_path):
    cells = EXPERIMENTS["table5"].cells(find_scale("quick"), 1)
    bad, good = (store(tmp_path, next(iter(cell.runs)), samples=50) for cell in list(cells.values())[:2])
    (bad.path / "result.json").write_bytes(b'{"seconds": NaN}')
    argv = ["reproduce", "table5", "--scale", "quick", "--seeds", "1", "--runs", str(tmp_path)]
    card = answer(capsys, *argv, "--no-train")["scorecard"]
    assert (card["runs_done"], list(card["damaged"])) == (1, [bad.run.id])
    assert main([*argv, "--no-train"]) == 0
    out = capsys.readouterr().out
    assert "damaged: " in out
    assert "numbers must be finite" in " ".join(out.split())
    assert answer(capsys, *argv, "--dry-run")["done"] == 1
    assert good.finished
