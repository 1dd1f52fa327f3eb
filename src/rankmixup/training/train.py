"""Training a run from wherever it stands to its result."""

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import nn

from rankmixup.data import Dataset, GivenData
from rankmixup.data.given import given_data
from rankmixup.data.overlap import Contents, overlap_sentence, shared_images
from rankmixup.errors import WorkFailed, listed, one_line, require, shown
from rankmixup.files import write_json, write_npz
from rankmixup.hardware import Accelerator, Hardware, Strategy
from rankmixup.models import own_name
from rankmixup.runs import Run, StoredRun
from rankmixup.runs.checkpoint import CheckpointInterval
from rankmixup.runs.store import describe_environment
from rankmixup.runs.trained import copied
from rankmixup.training.check import tuned_dataset
from rankmixup.training.fabric import build_fabric
from rankmixup.training.initial import prepare_input
from rankmixup.training.loggers import EpochLogger, check_loggers
from rankmixup.training.loop import TrainingLoop
from rankmixup.training.own import check_takes
from rankmixup.training.processes import gather, keep_freed_memory, on_first_process, raise_from_one_process, settings_restored
from rankmixup.training.progress import Watcher
from rankmixup.training.result import write_result
from rankmixup.training.resume import TrainingState, resume
from rankmixup.training.signals import Signals


@dataclass(frozen=True)
class Workplace:
    """Where runs and data sets are, what runs are trained on, how often they are saved and where they are logged to."""

    runs: Path
    data_root: Path | None = None
    download: bool = False
    hardware: Hardware = Hardware()
    checkpoint_every: str = "1min"
    loggers: tuple[str | Logger, ...] = ()


def train(
    run: Run,
    *,
    model: nn.Module | None = None,
    data: Any = None,
    name: str = "",
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
    """Train `run`, continue it if it was interrupted, or do nothing if it is finished.

    A first SIGINT or SIGTERM saves the run and raises `Interrupted`. Settings of torch and signal handlers are restored at the end.

    Args:
        run: What is trained.
        model: A module of your own in the place of the run's network. It starts with the weights that it has, which are part of the
            run's id, and is left as it is: a copy is trained, which `rankmixup.load(run, model=model)` returns.
        data: Data of your own in the place of the run's, `(train, val, test)`: data sets whose samples are pairs of an input, a tensor or
            an array of floats or bytes, and an integer label; or pairs `(x, y)` of arrays or tensors. A hash of them is part of the id.
        name: Tells `model` and `data` from others where they cannot be told by their content, and is part of the run's id: data sets whose
            samples are not the same when they are made again, modules with attributes such as open files. Give another one whenever
            they change.
        runs: Folder of runs; the directory of this one is `runs/<id>`.
        data_root: Folder of the data sets that live on disk.
        download: Whether a data set that is not there is downloaded.
        accelerator: Kind of device, as the next five arguments a field of `Hardware`.
        devices: Devices on each node.
        nodes: Machines.
        strategy: How the network is divided among devices.
        compile: Whether the network is compiled.
        workers: Processes that decode image files for each device, or make the samples of `data`.
        checkpoint_every: Steps or minutes between two checkpoints, as in "200steps" or "5min"; the end of training is always saved.
        loggers: "tensorboard", "wandb", "mlflow", or loggers of lightning-fabric.
        watcher: Is told of steps, epochs and warnings.
        keep_memory: Whether training on a CPU may change how the C library frees memory, for the rest of the process, which makes
            steps faster; see `keep_freed_memory`.

    Returns:
        The finished run.
    """
    require(isinstance(run, Run), f"run must be a rankmixup.Run, got {shown(run)}")
    require(isinstance(name, str) and one_line(name) == name, f"name must be a line of text, got {shown(name)}")
    require(not name or model is not None or data is not None, f"name must go with model or data of your own, got {shown(name)} alone")
    if model is not None:
        run, model = dataclasses.replace(run, model=own_name(model, name)), copied(model)
    if data is not None:
        run = dataclasses.replace(run, data=given_data(data, run.data, name))
    _warn_of_older(StoredRun.locate(runs, run), run, name)
    hardware = Hardware(accelerator, devices, nodes, strategy, compile, workers)
    place = Workplace(Path(runs), None if data_root is None else Path(data_root), download, hardware, checkpoint_every, tuple(loggers))
    return train_at(place, run, watcher, keep_memory=keep_memory, model=model)


def _warn_of_older(store: StoredRun, run: Run, name: str) -> None:
    """Say that a run on disk is taken for this one where not all of its content says so."""
    if not store.created:
        return
    known = []
    if name or (isinstance(run.data, GivenData) and not run.data.whole):
        known_by = f"the name {name!r}" if name else "all labels and 64 samples of each split alone"
        known.append(f"it is known by {known_by}; give {'another' if name else 'a'} name= if model or data are not the same")
    parts = (run.method, getattr(run.method, "mixer", None), run.data)
    own = [type(part).__name__ for part in parts if part is not None and not type(part).__module__.startswith("rankmixup.")]
    if own:
        known.append(f"its {listed(own, 3)} is known by name and fields; remove the run if the code is not the same")
    for sentence in known:
        what = "returned" if store.finished else "continued"
        warnings.warn(f"run {store.path}, made before, is {what}: {sentence}", stacklevel=3)


def train_at(
    place: Workplace, run: Run, watcher: Watcher | None = None, *, keep_memory: bool = True, model: nn.Module | None = None
) -> StoredRun:
    """`train` with its settings as one object; `model` is the module that `run` names, if it is a user's own, and is trained itself."""
    require(isinstance(run, Run), f"run must be a rankmixup.Run, got {shown(run)}")
    store = StoredRun.locate(place.runs, run)
    if store.finished:
        return store
    check_loggers(place.loggers)
    interval, hardware = CheckpointInterval.parse(place.checkpoint_every), place.hardware

    def work(fabric: Fabric) -> None:
        with raise_from_one_process(fabric), contextlib.ExitStack() as until_done:
            if keep_memory and fabric.device.type == "cpu":
                keep_freed_memory()
            same = len(set(gather(fabric, run.id))) == 1
            require(
                same, "run must be the same in all processes: a module of your own must have the same weights, seed them before it is made"
            )
            # The first process fetches and decodes what the others then find.
            with fabric.rank_zero_first():
                dataset = tuned_dataset(run, run.data.load(place.data_root, download=place.download))
            dataset = prepare_input(dataset, store)
            if model is not None:
                check_takes(model, dataset)
            state, signals = TrainingState(fabric, store, dataset, compiled=hardware.compile, model=model), Signals()
            first = EpochLogger(store, watcher or Watcher(), place.loggers) if fabric.is_global_zero else None
            loop = TrainingLoop(state, dataset, first or Watcher(), signals, interval, hardware.workers)
            # Only now, when everything that can be wrong with the request has been checked.
            on_first_process(fabric, store.create)
            on_first_process(fabric, lambda: until_done.enter_context(store.locked()))
            if first is not None:
                _describe(store, dataset, first)
            until_done.enter_context(signals.recorded())
            with _naming_files():
                remarks = resume(state, loop.steps)
                if first is not None:
                    for warning in remarks:
                        first.warn(warning)
                    first.splits(_sizes(dataset))
                    if state.start:
                        first.note(state.start)
                    store.trim_log(state.epoch)
                loop.train_epochs()
                write_result(state, dataset, loop.predictor)
                fabric.barrier()

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


def _sizes(dataset: Dataset) -> str:
    """How many samples each split has, in words."""
    taken = " (taken from the training samples)" if dataset.val_from_train else ""
    tuning = "" if dataset.tuning is None else f", {len(dataset.tuning):,} tuning"
    return f"{len(dataset.train):,} training, {len(dataset.val):,} validation{tuning}{taken} and {len(dataset.test):,} test samples"


def _describe(store: StoredRun, dataset: Dataset, watcher: Watcher) -> None:
    """Write splits.json, samples.npz and env.json before a run trains for the first time."""
    if not (store.path / "env.json").exists():
        shared = shared_images(dataset)
        write_json(store.path / "splits.json", {**dataset.manifest(), "shared_images": shared})
        if (sentence := overlap_sentence(shared)) is not None:
            watcher.warn(sentence)
        if (contents := Contents.of(dataset, store.run.data.protocol)) is not None:
            write_npz(store.path / "samples.npz", **vars(contents))
        write_json(store.path / "env.json", describe_environment())


def is_first_process() -> bool:
    """Whether this is the first of the training processes, the one that prints and writes."""
    return getattr(rank_zero_only, "rank", 0) == 0
