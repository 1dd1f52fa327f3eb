"""Where the weights come from that a run starts with: a library, a file, or another run."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rankmixup.config import Configured
from rankmixup.errors import require, shown
from rankmixup.files import file_hash
from rankmixup.models.libraries import find_pretrained
from rankmixup.models.weights import check_weights_file


@dataclass(frozen=True)
class Weights(Configured):
    """Weights that a run starts with, identified by their content; the path takes no part in comparisons nor in the id of a run."""

    source: Literal["library", "file", "run"]
    """torchvision or timm, as the name of the network says; a file; or the selected epoch of another run."""
    tag: str = ""
    """The library's name of the weights, or the id of the other run."""
    fingerprint: str = ""
    """SHA-256 of the file, or its first 12 digits for the other run's checkpoint, as in the name of that file."""
    path: str = field(default="", compare=False)
    """File, or directory of the other run."""

    @classmethod
    def pretrained(cls, model: str) -> "Weights":
        """Those that torchvision or timm has for `model`; refused for any other network."""
        return cls("library", tag=find_pretrained(model).tag)

    @classmethod
    def in_file(cls, path: str | os.PathLike[str]) -> "Weights":
        """Those of a .safetensors, .pt or .pth file."""
        require(isinstance(path, (str, os.PathLike)), f"weights must be the path of a file, got {shown(path)}")
        where = Path(path).expanduser().resolve()
        check_weights_file(where)
        return cls("file", fingerprint=file_hash(where), path=str(where))

    @classmethod
    def of_run(cls, path: str | os.PathLike[str], model: str) -> "Weights":
        """Those of the selected epoch of a finished run with the same network."""
        from rankmixup.runs.store import StoredRun, checkpoint_files  # which know what a run is, and so this module

        require(isinstance(path, (str, os.PathLike)), f"init_from must be the directory of a run, got {shown(path)}")
        stored = StoredRun.open(Path(path).expanduser().resolve())
        stored.result()  # raises for a run that is not finished
        require(stored.run.model == model, f"model must be that of run {stored.path}, {stored.run.model!r}, got {model!r}")
        best = checkpoint_files(stored.checkpoints, "best")
        require(len(best) > 0, f"run {stored.path} must have a checkpoint of its selected epoch, it has none")
        return cls("run", tag=stored.run.id, fingerprint=best[0].stem.rpartition("-")[2], path=str(stored.path))
