import errno
import hashlib
from pathlib import Path

import pytest
import torch

from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.runs.checkpoint import CheckpointInterval, Checkpoints, load_best, load_checkpoint
from tests.test_files import Bomb

RUN = "0123456789ab"


def state(number: int) -> dict:
    return {"model": {"weight": torch.full((3,), float(number))}, "epoch": number}


def best(epoch: int) -> dict:
    return {"epoch": epoch, "val": {"accuracy": 0.5, "nll": 1.0}, "model": {"weight": torch.full((3,), float(epoch))}}


def names(folder: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[0] for path in folder.iterdir())


def test_the_last_two_are_kept_and_the_best_of_each(tmp_path):
    checkpoints = Checkpoints(tmp_path, RUN)
    for position, of in ((10, 1), (20, 2), (30, 2), (40, 2)):
        checkpoints.save(position, state(position), best(of))
        assert load_best(tmp_path, RUN)["weight"][0] == of
    assert names(tmp_path) == ["best-00000020", "step-00000030", "step-00000040"]
    checkpoints.save(50, state(50), best(5))
    assert names(tmp_path) == ["best-00000020", "best-00000050", "step-00000040", "step-00000050"]
    newest, complaints = Checkpoints(tmp_path, RUN).newest()
    assert (newest.name[:14], complaints) == ("step-00000050-", [])
    assert Checkpoints(tmp_path, RUN).load(newest)["epoch"] == 50


def test_a_run_without_a_best_epoch_yet_is_saved(tmp_path):
    Checkpoints(tmp_path, RUN).save(3, state(0), {})
    assert names(tmp_path) == ["step-00000003"]
    newest, _ = Checkpoints(tmp_path, RUN).newest()
    assert Checkpoints(tmp_path, RUN).load(newest)["best"] == {}
    with pytest.raises(WorkFailed, match="has no checkpoint of the best epoch"):
        load_best(tmp_path, RUN)


def test_a_name_tells_the_content(tmp_path):
    Checkpoints(tmp_path, RUN).save(7, state(1), best(1))
    for path in tmp_path.iterdir():
        assert path.stem.rpartition("-")[2] == hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def flip(content: bytes) -> bytes:
    return content[:500] + bytes([content[500] ^ 1]) + content[501:]


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: bytes(len(content)), flip, lambda content: b""])
@pytest.mark.parametrize("kind", ["step-00000020", "best-00000020"])
def test_a_damaged_newest_falls_back_and_is_replaced(damage, kind, tmp_path):
    checkpoints = Checkpoints(tmp_path, RUN)
    checkpoints.save(10, state(10), best(1))
    checkpoints.save(20, state(20), best(2))
    (newest,) = tmp_path.glob(f"{kind}-*")
    newest.write_bytes(damage(newest.read_bytes()))
    again = Checkpoints(tmp_path, RUN)
    found, complaints = again.newest()
    assert found.name.startswith("step-00000010-")
    assert complaints == [f"checkpoint {newest} is damaged: its content is not what its name says"]
    assert newest.exists()
    again.save(15, state(15), best(1))
    assert names(tmp_path) == ["best-00000010", "step-00000010", "step-00000015"]


def test_a_missing_best_falls_back(tmp_path):
    checkpoints = Checkpoints(tmp_path, RUN)
    checkpoints.save(10, state(10), best(1))
    checkpoints.save(20, state(20), best(2))
    next(tmp_path.glob("best-00000020-*")).unlink()
    found, complaints = Checkpoints(tmp_path, RUN).newest()
    assert found.name.startswith("step-00000010-")
    assert "cannot be read (No such file or directory)" in complaints[0]


def test_a_malicious_pickle_is_never_executed_even_under_a_true_name(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run", RUN)
    (tmp_path / "run").mkdir()
    checkpoints.save(10, state(10), best(1))
    mark = tmp_path / "mark"
    for content in (Bomb(mark), {"best": {}, "model": Bomb(mark)}, [1, 2]):
        torch.save(content, tmp_path / "bomb.pt")
        digest = hashlib.sha256((tmp_path / "bomb.pt").read_bytes()).hexdigest()[:12]
        for name in (digest, "0" * 12):
            replaced = tmp_path / "run" / f"step-00000020-{name}.pt"
            (tmp_path / "bomb.pt").rename(replaced)
            with pytest.raises(WorkFailed, match="is damaged" if name != digest else "is not one of ours"):
                load_checkpoint(replaced, RUN)
            assert Checkpoints(tmp_path / "run", RUN).newest()[0].name.startswith("step-00000010-")
            replaced.rename(tmp_path / "bomb.pt")
    assert not mark.exists()


def write(folder: Path, content: dict, kind: str = "step", position: int = 30) -> Path:
    """A file under the name that its content asks for."""
    torch.save(content, folder / "content.pt")
    digest = hashlib.sha256((folder / "content.pt").read_bytes()).hexdigest()[:12]
    return (folder / "content.pt").rename(folder / f"{kind}-{position:08d}-{digest}.pt")


def test_those_of_another_run_are_refused_and_none_is_removed(tmp_path):
    Checkpoints(tmp_path, RUN).save(10, state(10), best(1))
    Checkpoints(tmp_path, "another").save(20, state(20), best(2))
    before = sorted(tmp_path.iterdir())
    (foreign,) = tmp_path.glob("step-00000020-*")
    with pytest.raises(InvalidInput) as caught:
        Checkpoints(tmp_path, RUN).newest()
    assert str(caught.value) == f"checkpoint {foreign} must be of run {RUN}, it is of run 'another'"
    with pytest.raises(InvalidInput, match=f"best-00000020-.* must be of run {RUN}, it is of run 'another'"):
        load_best(tmp_path, RUN)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("schema", [{}, {"schema": 1}, {"schema": 99}, {"schema": torch.zeros(2)}])
def test_those_of_another_version_are_refused(schema, tmp_path):
    write(tmp_path, {**state(30), "run": RUN, "best": {}, **schema})
    with pytest.raises(InvalidInput, match=r"must have the format 2 that this version reads, it has format .*; finish the run with the"):
        Checkpoints(tmp_path, RUN).newest()


@pytest.mark.parametrize("described", [None, [], {"epoch": 1}, {"epoch": 1, "val": {"accuracy": "high", "nll": 1.0}, "file": "a"}])
def test_a_best_epoch_that_is_none_falls_back(described, tmp_path):
    Checkpoints(tmp_path, RUN).save(10, state(10), best(1))
    write(tmp_path, {**state(30), "schema": 2, "run": RUN, "best": described})
    found, complaints = Checkpoints(tmp_path, RUN).newest()
    assert found.name.startswith("step-00000010-")
    assert "is not one of ours: it does not describe the best epoch" in complaints[0]


def test_without_a_good_one_nothing_is_removed(tmp_path):
    checkpoints = Checkpoints(tmp_path, RUN)
    checkpoints.save(10, state(10), {})
    checkpoints.save(20, state(20), {})
    for path in tmp_path.iterdir():
        path.write_bytes(b"junk")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(WorkFailed, match=r"no checkpoint in .* can be read, and none was removed: .*00020.*; .*00010") as caught:
        Checkpoints(tmp_path, RUN).newest()
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_crash_left_half_written_is_removed_by_the_next_save(tmp_path):
    (tmp_path / ".step-00000010-0123456789ab.pt.0011223344556677").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    assert Checkpoints(tmp_path, RUN).newest() == (None, [])
    Checkpoints(tmp_path, RUN).save(20, state(20), {})
    assert [path.name[:13] for path in sorted(tmp_path.iterdir())] == ["notes.txt", "step-00000020"]


def test_a_full_disk_leaves_the_one_before_and_no_temporary_file(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, RUN)
    checkpoints.save(10, state(10), best(1))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(WorkFailed, match=r"could not be written \(No space left on device\); the one before it is untouched"):
            checkpoints.save(20, state(20), best(1))
    assert names(tmp_path) == ["best-00000010", "step-00000010"]
    newest, _ = Checkpoints(tmp_path, RUN).newest()
    assert Checkpoints(tmp_path, RUN).load(newest)["epoch"] == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200steps", CheckpointInterval(steps=200)),
        ("1 step", CheckpointInterval(steps=1)),
        ("5min", CheckpointInterval(seconds=300)),
        ("0.5 minutes", CheckpointInterval(seconds=30)),
    ],
)
def test_how_often(text, expected):
    assert CheckpointInterval.parse(text) == expected


@pytest.mark.parametrize("text", ["", "5", "0steps", "1.5steps", "-1min", "5 hours", "min", "1e3steps"])
def test_how_often_must_be_said_clearly(text):
    with pytest.raises(InvalidInput, match=f"checkpoint_every must be .* as in 200steps or 5min, got {text!r}"):
        CheckpointInterval.parse(text)


def test_when_it_is_time():
    assert [position for position in range(1, 10) if CheckpointInterval(steps=4).after_step(position)] == [4, 8]
    assert [CheckpointInterval(seconds=60.0).after_time(seconds) for seconds in (59.9, 60.0)] == [False, True]
    assert not CheckpointInterval(steps=4).after_time(1e9)
    assert not CheckpointInterval(seconds=60.0).after_step(4)
