"""Training a run from wherever it stands to its result. Nothing here knows a method, a data set or a network by name."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.utilities.rank_zero import rank_zero_only

from rankmixup.data import Dataset
from rankmixup.data.overlap import check_held_out, overlap_sentence, shared_images
from rankmixup.errors import WorkFailed, require, shown
from rankmixup.files import write_json
from rankmixup.hardware import Accelerator, Hardware, Strategy
from rankmixup.runs import Run, StoredRun, describe_environment
from rankmixup.training.every import Every
from rankmixup.training.fabric import build_fabric
from rankmixup.training.journal import Journal
from rankmixup.training.loggers import check_loggers
from rankmixup.training.memory import keep_freed_memory
from rankmixup.training.processes import ask_first, speaking_once
from rankmixup.training.progress import Watcher
from rankmixup.training.settings import settings_restored
from rankmixup.training.signals import Signals
from rankmixup.training.trainer import Trainer

__all__ = ["is_first_process", "train"]


def train(
    run: Run,
    *,
    runs: str | Path = "runs",
    data_root: str | Path | None = None,
    download: bool = False,
    accelerator: Accelerator = "auto",
    devices: int | None = None,
    nodes: int | None = None,
    strategy: Strategy = "auto",
    compile: bool = False,  # noqa: A002 - the name of the flag, and of torch's function
    workers: int | None = None,
    checkpoint_every: str = "1min",
    loggers: Sequence[str | Logger] = (),
    watcher: Watcher | None = None,
    keep_memory: bool = True,
) -> StoredRun:
    """Train `run`, or finish it if it was interrupted, or do nothing if it is finished; its directory is `runs/<id>`.

    `data_root` is where data sets are on disk, and where `download` puts them; `workers` processes decode image files for each
    device. See `Hardware` for the devices. `checkpoint_every` is a number of steps or minutes, as in "200steps" or "5min"; the end of
    training is always saved. A first SIGINT or SIGTERM saves the run and raises `Interrupted`.

    Settings of torch and signal handlers are put back at the end. What cannot be is that training on a CPU has the C library keep
    freed memory for the rest of the process, see `keep_freed_memory`; `keep_memory=False` leaves it as it is, for slower steps.
    """
    require(isinstance(run, Run), f"run must be a rankmixup.Run, got {shown(run)}")
    store = StoredRun.locate(runs, run)
    if not store.finished:
        check_loggers(loggers)
        every, hardware = Every.parse(checkpoint_every), Hardware(accelerator, devices, nodes, strategy, compile)
        root = None if data_root is None else Path(data_root)

        def work(fabric: Fabric) -> None:
            with speaking_once(fabric), contextlib.ExitStack() as until_done:
                if keep_memory and fabric.device.type == "cpu":
                    keep_freed_memory()
                dataset = _load(fabric, run, root, download)
                signals = Signals()
                trainer = Trainer(fabric, store, dataset, every=every, signals=signals, workers=workers, compile=compile)
                # Only now, when everything that can be wrong with the request has had its chance to be.
                ask_first(fabric, lambda: _open(store, until_done))
                first = Journal(store, watcher or Watcher(), loggers) if fabric.is_global_zero else None
                if first is not None:
                    _describe(store, dataset, first)
                until_done.enter_context(signals)
                with _naming_files():
                    _train(trainer, first or Watcher())

        with settings_restored():
            build_fabric(hardware, run.optimisation).launch(work)
    return store


@contextlib.contextmanager
def _naming_files() -> Iterator[None]:
    """Say in one sentence which file could not be read or written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:  # of something else, such as a connection
            raise
        raise WorkFailed(f"{error.filename2 or error.filename} could not be read or written ({error.strerror})") from error


def _load(fabric: Fabric, run: Run, root: Path | None, download: bool) -> Dataset:
    # The first process fetches and decodes what the others then find.
    with fabric.rank_zero_first():
        dataset = run.data.load(root, download=download)
    check_held_out(dataset, run.data.protocol)
    return dataset


def _open(store: StoredRun, until_done: contextlib.ExitStack) -> None:
    if not store.created:
        store.create()
    until_done.enter_context(store.locked())


def _describe(store: StoredRun, dataset: Dataset, watcher: Watcher) -> None:
    """What the first process writes about a run before it trains for the first time."""
    if not (store.path / "env.json").exists():
        shared = shared_images(dataset)
        write_json(store.path / "splits.json", {**dataset.manifest(), "shared_images": shared})
        if (sentence := overlap_sentence(shared)) is not None:
            watcher.warn(sentence)
        write_json(store.path / "env.json", describe_environment())


def _train(trainer: Trainer, watcher: Watcher) -> None:
    run, fabric = trainer.run, trainer.fabric
    trainer.resume(watcher)
    if fabric.is_global_zero:
        trainer.store.trim_log(trainer.epoch)
    watcher.start(run, trainer.epoch, trainer.steps)
    try:
        while trainer.epoch < run.optimisation.epochs:
            trainer.train_epoch(watcher)
    finally:
        watcher.stop()
    trainer.finish()
    fabric.barrier()


def is_first_process() -> bool:
    """Whether this is the one of several training processes that speaks for all."""
    return getattr(rank_zero_only, "rank", 0) == 0
