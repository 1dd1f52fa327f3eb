"""Names and paths of any kind are printed as they are; whatever goes wrong is one sentence and a status."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.cli.output import make_folder, require_writable
from rankmixup.errors import InvalidInput
from rankmixup.reports.tables import listing, to_text
from tests.deploy.conftest import any_temperature, stored  # noqa: F401 - fixtures

LOGITS, LABELS = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 1.0, 0.5], [4.0, 0.0, 0.0]]), np.array([0, 1, 2, 0])
FEW = ["--replicates", "5"]
ODD = os.fsdecode(b"a[/b]:bug:\n\x1b[31m\xff.npz")
SHOWN = "a[/b]:bug:\\n\\x1b[31m\\udcff.npz"


@pytest.fixture
def odd(tmp_path, monkeypatch) -> str:
    """A file of scores in the current folder whose name holds brackets, colons, a line break, a control sequence and a byte of no UTF-8."""
    monkeypatch.chdir(tmp_path)
    Path("a[").mkdir()
    for name, step in ((ODD, 1), ("same.npz", 1), ("plain.npz", -1)):
        with Path(name).open("wb") as file:
            np.savez(file, logits=LOGITS[::step], labels=LABELS[::step])
    return ODD


def test_every_command_prints_odd_names_as_they_are(odd, capsys):
    for arguments in (
        ["evaluate", odd, "--calibrate-on", odd, "--ood", odd],
        ["compare", odd, "same.npz"],
        ["ood", "plain.npz", "--ood", f"{odd}=plain.npz"],
    ):
        assert main([*arguments, *FEW]) == 0
        out = capsys.readouterr().out
        assert SHOWN.removeprefix("a[/") in out.replace("\n", "").replace(" ", "")
        assert "\x1b" not in out
    assert main(["evaluate", odd, *FEW, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == SHOWN
    assert main(["compare", odd, "plain.npz"]) == 2
    assert f"error: plain.npz and {SHOWN} must have the same labels" in capsys.readouterr().err


def test_odd_names_are_written(odd, capsys):
    class_names = np.array(["\ud800", "b\nc", "[/d]"])
    np.savez("named.npz", logits=LOGITS, labels=LABELS, class_names=class_names)
    assert main(["evaluate", odd, "--csv", odd + ".csv", "--latex", odd + ".tex", *FEW]) == 0
    assert SHOWN in Path(odd + ".csv").read_text()
    capsys.readouterr()
    assert main(["report", odd, "named.npz", "-o", odd + ".html", *FEW]) == 0
    assert capsys.readouterr().out == f"Report: {SHOWN}.html\n"
    assert SHOWN in Path(odd + ".html").read_text().replace("<wbr>", "")


def test_runs_and_values_of_a_run_are_printed_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--model", "mlp", "--epochs", "1", "--data.train-size", "50"]
    assert main(["train", "ce", *flags, "--runs", "m[/x]:bug:"]) == 0
    assert "Run: m[/x]:bug:/" in capsys.readouterr().out
    monkeypatch.setattr("rankmixup.training.check_run", lambda run, root: None)  # which would refuse such a network
    assert main(["train", "ce", "--model", "timm/[/x]", "--show"]) == 0
    assert "timm/[/x]" in capsys.readouterr().out
    (tmp_path / "m[" / "x]:bug:" / "two\nlines").mkdir()
    assert main(["runs", "--runs", "m[/x]:bug:"]) == 0
    assert "two\\nlines must be a run directory" in " ".join(capsys.readouterr().out.split())


def test_tables_as_text_take_brackets_for_themselves():
    assert "[/b] of [N, K] :bug:" in to_text(listing("methods", {"a[/b]": "[/b] of [N, K] :bug:"}))


@pytest.mark.parametrize("command", ["evaluate", "report", "compare", "ood"])
def test_paths_that_are_too_long_are_refused_in_one_sentence(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", logits=LOGITS, labels=LABELS)
    long = 5000 * "x" + ".npz"
    requests = {
        "evaluate": (
            *(["evaluate", long], ["evaluate", "a.npz", "--calibrate-on", long], ["evaluate", "a.npz", "--html", long]),
            *(["evaluate", "a.npz", "--csv", 250 * "x"], ["evaluate", "a.npz", "--latex", f"{long}/a"]),
        ),
        "report": (["report", long], ["report", "a.npz", "-o", long]),
        "compare": (["compare", "a.npz", long],),
        "ood": (["ood", "a.npz", "--ood", long],),
    }
    for arguments in requests[command]:
        assert main([*arguments, *FEW]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert "xxx" in error
        assert len(error) < 1100
        assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_outputs_are_refused_before_the_work(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match=r"must be in a folder that exists, .*missing does not"):
        require_writable(None, tmp_path / "missing" / "a.html")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InvalidInput, match=f"must be in a folder that can be written to, {tmp_path} cannot"):
        require_writable(tmp_path / "a.html")
    with pytest.raises(InvalidInput, match="write must be a folder that can be written to, got"):
        make_folder("write", tmp_path)


def test_an_output_replaces_neither_an_input_nor_another_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("test.npz").write_bytes(b"scores")
    with pytest.raises(InvalidInput, match=r"test\.npz must be a new file for the output, it is one of the inputs"):
        require_writable(Path("test.npz"), inputs=[None, tmp_path / "test.npz"])
    with pytest.raises(InvalidInput, match=r"each output must have a file of its own, got .*a\.out twice"):
        require_writable(Path("a.out"), None, tmp_path / "a.out")
    require_writable(Path("a.out"), Path("b.out"), inputs=["test.npz", "not there"])
    require_writable(Path("/dev/null"), Path("/dev/null"), inputs=["/dev/null"])


@pytest.mark.parametrize(
    "command",
    ["evaluate test.npz --csv", "evaluate test.npz --group site.txt --html", "report test.npz -o", "compare test.npz other.npz --csv"],
)
def test_files_that_are_read_are_not_overwritten(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    for name in ("test", "other"):
        np.savez(f"{name}.npz", logits=np.eye(3).repeat(5, axis=0), labels=np.arange(3).repeat(5))
    Path("site.txt").write_text("a\n" * 15)
    victim = "site.txt" if "site.txt" in command else "test.npz"
    before = Path(victim).read_bytes()
    assert main([*command.split(), victim, *FEW]) == 2
    assert capsys.readouterr().err == f"error: {victim} must be a new file for the output, it is one of the inputs\n"
    assert Path(victim).read_bytes() == before


def test_no_output_replaces_a_file_of_a_run_or_of_an_exported_folder(tmp_path, monkeypatch, capsys, stored):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    for name in ("test", "other"):
        np.savez(f"{name}.npz", logits=np.eye(3).repeat(5, axis=0), labels=np.arange(3).repeat(5))
    run, exported = Path("run"), Path("exported")
    shutil.copytree(stored.path, run)
    rm.load(stored).export(exported, data_root=tmp_path)
    Path("link").symlink_to(run)
    (run / "result.json").unlink()  # which the run will have
    names = [path for folder in (run, exported) for path in folder.rglob("*") if path.is_file()]
    names += [run / "result.json", run / "predictions" / "ood-new.npz", Path("link") / "run.json", exported / ".." / "run" / "run.json"]
    for name in names:
        folder = (exported if name.parts[:1] == ("exported",) and ".." not in name.parts else run).resolve()
        with pytest.raises(InvalidInput, match=re.escape(f"{name} must be a new file for the output, it is one of the files of {folder}")):
            require_writable(None, name)
    require_writable(run / "report.html", exported / "predictions.csv", Path("run.json"), Path("SHA256SUMS"))
    before = (run / "run.json").read_bytes()
    for command in (
        "report test.npz -o",
        "evaluate test.npz --csv",
        "compare a=test.npz b=other.npz --html",
        "predict run . -o",
        "shift run --csv",
    ):
        assert main([*command.split(), "run/run.json"]) == 2
        assert "run.json must" in capsys.readouterr().err
    assert (run / "run.json").read_bytes() == before


def test_files_hold_what_their_suffix_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("test", "other"):
        np.savez(f"{name}.npz", logits=np.eye(3).repeat(5, axis=0), labels=np.arange(3).repeat(5))
    both = ["a=test.npz", "b=other.npz"]
    for arguments, suffixes in (
        (["report", "test.npz", "-o", "x.pdf"], ".html or .htm"),
        (["report", "test.npz", "-o", "x.html.csv"], ".html or .htm"),
        (["evaluate", "test.npz", "--html", "x.pdf"], ".html or .htm"),
        (["evaluate", "test.npz", "--csv", "x.json"], ".csv"),
        (["evaluate", "test.npz", "--class-csv", "x.xlsx"], ".csv"),
        (["compare", *both, "--latex", "x.md"], ".tex or .latex"),
        (["compare", *both, "--markdown", "x.html"], ".md or .markdown"),
        (["shift", "run", "--csv", "x.md"], ".csv"),
        (["shift", "run", "--figure", "x.pdf"], ".png or .svg"),
    ):
        assert main(arguments) == 2
        assert capsys.readouterr().err == f"error: {arguments[-1]} must end in {suffixes}, which is what it will hold\n"
    assert main(["export", "run", "-o", "model.onnx"]) == 2
    assert capsys.readouterr().err == "error: --output must be the name of a folder, got model.onnx; --to names the files in it\n"
    assert main(["evaluate", "test.npz", "--csv", "without a suffix", "--html", "UPPER.HTML", *FEW]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["UPPER.HTML", "other.npz", "test.npz", "without a suffix"]


def test_a_reproduction_asks_for_its_output_first(tmp_path, capsys):
    (tmp_path / "file").touch()
    arguments = ["reproduce", "table5", "--scale", "quick", "--runs", str(tmp_path / "runs"), "--write", str(tmp_path / "file" / "x")]
    assert main(arguments) == 2
    assert "write must be a folder that can be written to" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), 1, "error: runs/x cannot be used (No space left on device)\n"),
        (PermissionError(errno.EACCES, "Permission denied", b"runs/\xff"), 2, "error: runs/\\udcff cannot be used (Permission denied)\n"),
        (OSError("of another kind"), 1, "error: of another kind\n"),
        (MemoryError("unable to allocate"), 1, "error: out of memory (unable to allocate)\n"),
        (RuntimeError("[...] can't allocate memory: [...]"), 1, "error: out of memory ([...] can't allocate memory"),
        (RecursionError("too deep"), 1, "error: the input is nested too deeply (too deep)\n"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 1, "error: 'utf-8' codec can't decode byte 0xff"),
        (InvalidInput("one\ntwo" + 10**6 * "x"), 2, "error: one\\ntwoxxx"),
        (BrokenPipeError(), 1, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_files_and_machines_do_is_one_sentence(error, status, message, monkeypatch, capsys):
    def run(argv):
        raise error

    monkeypatch.setattr("rankmixup.cli.list_command.run", run)
    assert main(["list", "methods"]) == status
    said = capsys.readouterr().err
    assert said.startswith(message)
    assert len(said) < 1100
    assert said.count("\n") == bool(message)
    if message:
        with pytest.raises(type(error)):
            main(["list", "methods", "--debug"])


@pytest.mark.parametrize("error", [KeyError("a mistake"), RuntimeError("shapes do not match"), TypeError()])
def test_mistakes_of_the_program_are_not_hidden(error, monkeypatch):
    def run(argv):
        raise error

    monkeypatch.setattr("rankmixup.cli.list_command.run", run)
    with pytest.raises(type(error)):
        main(["list", "methods"])


def test_warnings_are_sentences_each_said_once_also_when_the_command_fails(monkeypatch, capsys):
    def run(argv):
        for text in ("look out", "look out", "and\nhere"):
            warnings.warn(text, stacklevel=1)
        raise InvalidInput("the request is wrong")

    monkeypatch.setattr("rankmixup.cli.list_command.run", run)
    assert main(["list", "methods"]) == 2
    assert capsys.readouterr().err == "warning: look out\nwarning: and\\nhere\nerror: the request is wrong\n"


@pytest.mark.parametrize(("condition", "status"), [("ece>0%", 1), ("ece>99%", 0)])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_that_leaves_changes_no_exit_status(condition, status, more, tmp_path):
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS)
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does after its lines
    command = [sys.executable, "-m", "rankmixup", "evaluate", str(tmp_path / "a.npz"), "--fail-if", condition, *more, *FEW]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(writing)
    assert (done.returncode, done.stderr) == (status, "")


def test_max_gib_limits_what_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", "1")  # restored afterwards
    torch.save({"logits": torch.from_numpy(LOGITS), "labels": torch.from_numpy(LABELS)}, tmp_path / "a.pt")
    for arguments in (["--max-gib", "1e-9"], ["--max-gib=1e-9"]):
        assert main(["evaluate", str(tmp_path / "a.pt"), *arguments, *FEW]) == 2
        assert "must be at most 1e-09 GiB; allow more with --max-gib" in capsys.readouterr().err
    assert main(["--max-gib", "1", "evaluate", str(tmp_path / "a.pt"), *FEW]) == 0
    assert os.environ["RANKMIXUP_MAX_GIB"] == "1"
    for wrong in ("0", "-1", "nan", "inf", "much"):
        assert main(["runs", f"--max-gib={wrong}"]) == 2
        assert f"--max-gib must be a positive number, got '{wrong}'" in capsys.readouterr().err
    assert main(["runs", "--max-gib"]) == 2
    assert main(["--help"]) == 0
    assert "--max-gib N" in capsys.readouterr().out
