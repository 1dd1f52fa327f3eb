"""Training a run from wherever it stands to its result. Nothing here knows a method, a data set or a network by name."""

from pathlib import Path

from lightning_fabric import Fabric
from lightning_fabric.utilities.rank_zero import rank_zero_only

from rankmixup.data.overlap import check_held_out, overlap_sentence, shared_images
from rankmixup.errors import InvalidInput, require
from rankmixup.files import write_json
from rankmixup.runs import Run, StoredRun, environment
from rankmixup.training.memory import keep_freed_memory
from rankmixup.training.progress import Silent
from rankmixup.training.trainer import Trainer

__all__ = ["is_first_process", "train"]


def train(
    run: Run,
    *,
    runs: str | Path = "runs",
    data_root: str | Path | None = None,
    download: bool = False,
    accelerator: str = "auto",
    devices: int = 1,
    workers: int | None = None,
    watcher: Silent | None = None,
) -> StoredRun:
    """Train `run`, or finish it if it was interrupted, or do nothing if it is finished; its directory is `runs/<id>`.

    `data_root` is where data sets are on disk, and where `download` puts them; `workers` processes decode image files for each device.
    """
    store = StoredRun.locate(runs, run)
    if not store.finished:
        require(devices >= 1, f"devices must be at least 1, got {devices}")
        try:
            fabric = Fabric(accelerator=accelerator, devices=devices, strategy="auto" if devices == 1 else "ddp")
        except (RuntimeError, ValueError) as error:  # lightning-fabric's own are of both kinds, some of several lines
            reason = " ".join(str(error).split())
            raise InvalidInput(f"accelerator {accelerator!r} with {devices} devices must exist on this machine ({reason})") from error
        root = None if data_root is None else Path(data_root)
        fabric.launch(lambda fabric: _train(fabric, store, root, download, workers, watcher or Silent()))
    return store


def _train(fabric: Fabric, store: StoredRun, root: Path | None, download: bool, workers: int | None, watcher: Silent) -> None:
    if fabric.device.type == "cpu":
        keep_freed_memory()
    # The first process fetches and decodes what the others then find.
    with fabric.rank_zero_first():
        dataset = store.run.data.load(root, download=download)
    check_held_out(dataset, store.run.data.protocol)
    trainer = Trainer(fabric, store, dataset, workers)
    trainer.resume()
    # Only now, when everything that can be wrong with the request has had its chance to be.
    if fabric.is_global_zero:
        if not store.created:
            shared = shared_images(dataset)
            store.create()
            write_json(store.path / "splits.json", {**dataset.manifest(), "shared_images": shared})
            if (sentence := overlap_sentence(shared)) is not None:
                watcher.warn(sentence)
            write_json(store.path / "env.json", environment())
        store.trim_log(trainer.epoch)
    else:
        watcher = Silent()
    watcher.start(store.run, trainer.epoch)
    try:
        while trainer.epoch < store.run.optimisation.epochs:
            watcher.epoch(trainer.train_epoch())
    finally:
        watcher.stop()
    trainer.finish()
    fabric.barrier()


def is_first_process() -> bool:
    """Whether this is the one of several training processes that speaks for all."""
    return getattr(rank_zero_only, "rank", 0) == 0
