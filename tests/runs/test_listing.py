import json
import os

import pytest

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.errors import InvalidInput
from rankmixup.files import write_json
from rankmixup.reports.tables import runs_table, to_text
from rankmixup.runs import StoredRun
from rankmixup.runs.listing import EpochSummary, RunListing, RunSummary, list_runs
from rankmixup.runs.records import EpochRecord
from tests.oracles import unchecked
from tests.runs.records import epoch_record, metrics, run_result


def store(root, *accuracies, nll=None, **changes) -> StoredRun:
    """A run that has logged some epochs, of four."""
    stored = StoredRun.locate(root, rm.Run("ce", model="mlp", optimisation=rm.Optimisation(epochs=4), **changes))
    stored.create()
    for epoch, accuracy in enumerate(accuracies, start=1):
        val = metrics(accuracy=accuracy, nll=(nll or accuracies)[epoch - 1], ece=accuracy / 10)
        stored.log(EpochRecord.from_dict(epoch_record(epoch, val=val), "a record"))
    return stored


def test_state_epoch_best_and_last(tmp_path):
    stored = store(tmp_path, 0.5, 0.75, 0.75, 0.25)
    (found,) = list_runs(tmp_path).runs
    assert (found.id, found.method, found.data, found.model, found.seed) == (stored.run.id, "ce", "digits", "mlp", 0)
    assert (found.state, found.epoch, found.epochs) == ("interrupted", 4, 4)
    assert found.best == EpochSummary(2, 0.75, 0.75, 0.075, 0.5)  # the first of the best, as training selects
    assert found.last.epoch == 4
    with stored.locked():
        assert list_runs(tmp_path).runs[0].state == "running"
    write_json(stored.path / "result.json", run_result(stored.run))
    assert list_runs(tmp_path).runs[0].state == "finished"


@pytest.mark.parametrize(("selection", "best"), [("accuracy", 2), ("nll", 1), ("last", 3)])
def test_best_is_by_the_runs_own_rule(selection, best, tmp_path):
    store(tmp_path, 0.5, 0.75, 0.25, nll=[0.1, 0.2, 0.3], selection=selection)
    assert list_runs(tmp_path).runs[0].best.epoch == best


def test_the_epoch_that_training_selects_is_the_best_listed(tmp_path):
    optimisation = rm.Optimisation(epochs=3, batch_size=16)
    stored = rm.train(rm.Run("ce", model="mlp", optimisation=optimisation, selection="nll"), runs=tmp_path)
    (found,) = list_runs(tmp_path).runs
    assert found.state == "finished"
    assert found.best.epoch == stored.result().selection.epoch
    assert found.best.nll == pytest.approx(stored.result().metrics["val"]["nll"])


def test_runs_are_sorted_and_may_have_no_epoch_yet(tmp_path):
    for seed in (10, 2, 0):
        store(tmp_path, seed=seed)
    found = list_runs(tmp_path).runs
    assert [run.seed for run in found] == [0, 2, 10]
    assert (found[0].epoch, found[0].best, found[0].last) == (0, None, None)


def test_broken_folders_are_named_and_never_fatal(tmp_path, capsys):
    good = store(tmp_path, 0.5)
    with (good.path / "log.jsonl").open("a") as file:
        file.write('{"epoch": 2, "va')  # cut short by a crash
    other = store(tmp_path, 0.5, seed=1)
    (other.path / "log.jsonl").write_text('{"epoch": 1}\n')
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "run.json").write_text("junk")
    (tmp_path / "alien").mkdir()
    (tmp_path / "alien" / "run.json").write_text('{"method": {"name": "of-tomorrow"}, "data": {"name": "digits"}}')
    (tmp_path / "renamed").mkdir()
    (tmp_path / "renamed" / "run.json").write_bytes((good.path / "run.json").read_bytes())
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "notes.txt").touch()
    listed = list_runs(tmp_path)
    assert [run.id for run in listed.runs] == [good.run.id]
    assert listed.runs[0].epoch == 1
    assert set(listed.broken) == {"empty", "junk", "alien", "renamed", other.run.id}
    assert "no run.json" in listed.broken["empty"]
    assert f"must be named {good.run.id}" in listed.broken["renamed"]
    assert main(["runs", "--runs", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("broken:") == 5
    assert good.run.id in out
    assert main(["runs", "--runs", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"schema", "runs", "broken"}
    assert set(printed["broken"]) == set(listed.broken)
    (entry,) = printed["runs"]
    assert entry["best"] == {"epoch": 1, "accuracy": 0.5, "nll": 0.5, "ece": 0.05, "tau": 0.5}


def test_no_folder_and_no_runs(tmp_path, capsys):
    with pytest.raises(InvalidInput, match=r"runs must be a folder, .*nowhere is none"):
        list_runs(tmp_path / "nowhere")
    assert main(["runs", "--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "No runs.\n"


def test_the_table_fits_80_columns_with_the_widest_entries():
    figures = EpochSummary(200, 1.0, 1.0, 1.0, 1.0)
    widest = RunSummary(
        "0123456789ab", "rankmixup-mndcg", "tiny-imagenet", "torchvision/resnet50", 100, "interrupted", 200, 200, figures, figures
    )
    text = to_text(runs_table(RunListing((widest,), {"a[b]": "a[b] has no run.json"})), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for part in ("0123456789ab", "interrupted", "200/200", "100.00 100.00", "broken: a[b] has no run.json"):
        assert part in text


MANGLED = {
    "nested": b"[" * 100_000,
    "NaN": b'{"seconds": NaN}',
    "1e999": b'{"seconds": 1e999}',
    "no UTF-8": b"\xff\xfe",
    "another type": b"[]",
    "no keys": b"{}",
    "empty": b"",
}


@pytest.mark.parametrize("name", ["run.json", "result.json", "log.jsonl"])
@pytest.mark.parametrize("damage", MANGLED)
def test_one_mangled_file_is_named_and_leaves_the_others_listed(damage, name, tmp_path, capsys):
    good, bad = store(tmp_path, 0.5), store(tmp_path, 0.5, seed=1)
    (bad.path / name).write_bytes(MANGLED[damage] + b"\n")
    with unchecked():
        listed = list_runs(tmp_path)
        assert main(["runs", "--runs", str(tmp_path)]) == 0
    assert [run.id for run in listed.runs] == [good.run.id]
    assert name in listed.broken[bad.run.id]
    assert len(listed.broken[bad.run.id]) < 500
    out = capsys.readouterr().out
    assert good.run.id in out
    assert "broken: " in out


def test_folders_of_any_name_are_listed_in_lines_that_can_be_printed(tmp_path, capsys):
    for name in (b"a\nb", b"c\xff"):
        os.mkdir(os.fsencode(tmp_path) + b"/" + name)  # noqa: PTH102 - pathlib takes no bytes
    assert set(list_runs(tmp_path).broken) == {r"a\nb", r"c\udcff"}
    assert main(["runs", "--runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    out.encode()
    assert out.count("broken: ") == 2
    assert main(["runs", "--json", "--runs", str(tmp_path)]) == 0
    assert set(json.loads(capsys.readouterr().out)["broken"]) == {r"a\nb", r"c\udcff"}
