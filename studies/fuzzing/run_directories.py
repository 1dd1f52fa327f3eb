"""Run directories of which a file is damaged: listed, evaluated, and resumed."""

import atexit
import contextlib
import functools
import io
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch

import rankmixup as rm
from rankmixup.data import Digits
from rankmixup.errors import InvalidInput
from rankmixup.runs import StoredRun
from rankmixup.training import Watcher
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.commands import call, require_orderly
from studies.fuzzing.damage import damage_file

__all__ = ["try_checkpoint", "try_loaded_run", "try_run_directory"]


class _StopAfter(Watcher):
    """Interrupts training after an epoch, as a signal would."""

    def epoch(self, record: dict[str, object]) -> None:
        raise KeyboardInterrupt


@functools.cache
def _originals() -> tuple[Path, Path]:
    """A finished run and the same run, interrupted, made once in each process."""
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    run = rm.Run("ce", data=Digits(train_size=50), model="mlp", optimisation=rm.Optimisation(epochs=2, batch_size=16, milestones=(1,)))
    torch.set_num_threads(1)
    finished = rm.train(run, runs=root / "finished", accelerator="cpu").path
    interrupted = StoredRun.locate(root / "interrupted", run).path
    with contextlib.suppress(KeyboardInterrupt):
        rm.train(run, runs=root / "interrupted", accelerator="cpu", checkpoint_every="1steps", watcher=_StopAfter())
    return finished, interrupted


@functools.cache
def _expected() -> dict[str, object]:
    status, out, err = call("evaluate", str(_originals()[0]), "--json", "--replicates", "10")
    if status != 0:
        raise RuntimeError(err)
    return json.loads(out)


def _copy(source: Path, folder: Path) -> Path:
    return Path(shutil.copytree(source, folder / source.name))


def try_run_directory(rng: np.random.Generator, folder: Path) -> Verdict:
    """A finished run with one or two damaged files."""
    run = _copy(_originals()[0], folder)
    files = sorted(path for path in run.rglob("*") if path.is_file() and "checkpoints" not in path.parts)
    chosen = [files[i] for i in rng.choice(len(files), size=int(rng.choice([1, 2])), replace=False)]
    for path in chosen:
        damage_file(rng, path)
    command = int(rng.integers(4))
    if command == 0:
        status, out, err = call("runs", "--runs", str(folder), "--json")
        require_orderly(status, out, err, as_json=True)
        listed = json.loads(out)
        if status != 0 or len(listed["runs"]) + len(listed["broken"]) != 1:
            raise Difference(f"a damaged run must be listed, as a run or as broken, got status {status} and {out[:200]!r}")
        return "answered"
    if command == 1:
        status, out, err = call("report", str(run), "-o", str(folder / "page.html"), "--replicates", "10")
    elif command == 2:
        status, out, err = call("runs", "--runs", str(folder))
    else:
        status, out, err = call("evaluate", str(run), "--json", "--replicates", "10")
    require_orderly(status, out, err, as_json=command == 3)
    if status == 2:
        return "refused"
    if command == 3 and json.loads(out)["metrics"] != _expected()["metrics"]:
        raise Difference(f"{', '.join(path.name for path in chosen)} damaged: other figures came out, and nothing was said")
    return "agrees" if command == 3 else "answered"


@functools.cache
def _probabilities(calibrate_with: str | None) -> torch.Tensor:
    return rm.load(_originals()[0], device="cpu", calibrate_with=calibrate_with).predict_proba(_images())


@functools.cache
def _images() -> torch.Tensor:
    x = Digits(train_size=50).load(None).test.x[:20]
    assert isinstance(x, torch.Tensor)
    return x


def try_loaded_run(rng: np.random.Generator, folder: Path) -> Verdict:
    """A finished run with one or two damaged files, which is loaded: refused, or its probabilities are those of before."""
    run = _copy(_originals()[0], folder)
    files = sorted(path for path in run.rglob("*") if path.is_file())
    for place in rng.choice(len(files), size=int(rng.choice([1, 2])), replace=False):
        damage_file(rng, files[place])
    calibrate_with = (None, "temperature", "vector")[int(rng.integers(3))]
    with contextlib.redirect_stderr(io.StringIO()):
        model = rm.load(run, device="cpu", calibrate_with=calibrate_with)
    if model.class_names != tuple("0123456789"):
        raise Difference(f"the classes must be the digits, got {model.class_names}")
    if not torch.equal(model.predict_proba(_images()), _probabilities(calibrate_with)):
        raise Difference(f"a damaged run must be refused or predict as before, files: {[path.name for path in files]}")
    return "agrees"


def try_checkpoint(rng: np.random.Generator, folder: Path) -> Verdict:
    """An interrupted run with a damaged checkpoint or file beside it, which is resumed: refused, or bit for bit the same in the end."""
    run = _copy(_originals()[1], folder)
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "run.json")
    damage_file(rng, files[int(rng.integers(len(files)))])
    try:
        stored = rm.train(StoredRun.open(run).run, runs=folder, accelerator="cpu")
    except InvalidInput:
        return "refused"
    original = StoredRun.open(_originals()[0])
    for split in ("val", "test"):
        if not torch.equal(stored.scores(split).scores, original.scores(split).scores):
            raise Difference(f"a resumed run must end as if nothing had happened, its {split} logits are others")
    return "agrees"
