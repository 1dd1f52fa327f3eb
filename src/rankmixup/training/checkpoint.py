"""Checkpoints: written whole or not at all, read without executing anything."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from rankmixup.errors import WorkFailed
from rankmixup.files import write_atomic

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        raise WorkFailed(f"checkpoint {path} could not be written ({error}); the one before it is untouched") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; anything that is not tensors and plain values is refused."""
    try:
        # torch would try a file that is no zip as one of its older formats, with errors of every kind.
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise WorkFailed(f"checkpoint {path} cannot be read: it is damaged, or not one of ours") from error
