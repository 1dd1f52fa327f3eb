"""Export: a folder with the calibrated model in formats that others can serve, checked against the source before it is kept."""

import contextlib
import copy
import dataclasses
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rankmixup import random
from rankmixup.data import ImageFiles, evaluation_batches
from rankmixup.data.base import Samples
from rankmixup.data.transforms import decoded, normalise, prepared_bytes, preprocessing
from rankmixup.deploy.card import write_card
from rankmixup.deploy.folder import CONFIG, Description, read_folder, write_checksums, write_weights
from rankmixup.deploy.graph import INPUT, OUTPUT, ServedModel, exported_program, run_onnx, run_pt2, write_onnx, write_pt2
from rankmixup.deploy.model import CalibratedModel
from rankmixup.errors import InvalidInput, WorkFailed, require, require_choice, shown
from rankmixup.evaluation.results import plain
from rankmixup.files import removable, write_json
from rankmixup.runs import StoredRun

Format = Literal["safetensors", "onnx", "pt2"]
FORMATS: tuple[Format, ...] = ("safetensors", "onnx", "pt2")
TOLERANCE = 1e-4
"""Largest difference of a probability between an exported file and its source."""
_GRAPHS = {"onnx": (write_onnx, run_onnx), "pt2": (write_pt2, run_pt2)}
_SAMPLES = 64


@dataclass(frozen=True)
class Exported:
    """What was written, and how far it is from the source."""

    folder: Path
    files: tuple[str, ...]
    differences: dict[str, float]
    """Largest difference of a probability, by format."""
    compared_on: str
    """What the files were run on."""
    seconds: float


def export_model(
    model: CalibratedModel,
    folder: Path,
    to: Sequence[str] = ("safetensors",),
    *,
    normalise_inside: bool = False,
    data_root: Path | str | None = None,
    licence: str | None = None,
) -> Exported:
    """Write a folder with a model, its description, its card and checksums; `rankmixup.load` reads it without the run.

    Weights are always written as safetensors. Graphs (onnx, pt2) give calibrated probabilities for any number of samples. Each file is
    then read and run on held-out samples: if a probability differs from the source's by more than 1e-4, nothing is left.

    Args:
        model: What is exported.
        folder: Where; it must be empty or not exist.
        to: Formats: "safetensors", "onnx", "pt2".
        normalise_inside: Whether graphs take bytes of the network's size and normalise them, instead of normalised floats.
        data_root: Folder of the data sets that live on disk, for samples to compare on; random ones are used where they are not found.
        licence: Licence of the model as the Hugging Face Hub names it, for the card.
    """
    began = time.monotonic()
    require(not isinstance(to, str) and len(to) > 0, f"to must be a list of formats, got {shown(to)}")
    for name in to:
        require_choice("to", name, FORMATS)
    takes_bytes = model.view.values == "bytes"
    require(takes_bytes or not normalise_inside, "normalise_inside must be False for a network that does not take images of bytes")
    # On the CPU, where graphs are traced; the user's own model stays where it is.
    source = copy.deepcopy(model).cpu().eval()
    samples, compared_on = _held_out_samples(source, None if data_root is None else Path(data_root))
    inputs = normalise(samples, source.view)
    with torch.no_grad():
        probabilities = source(inputs).softmax(dim=1)
    parts = (slice(None), slice(0, 1), slice(1, 4))  # of several sizes
    served, expected = samples if normalise_inside else inputs, [probabilities[part] for part in parts]
    described = plain(dataclasses.asdict(Description.of(model)))
    graphs = [name for name in FORMATS if name in to and name in _GRAPHS]
    kind = "bytes (uint8)" if normalise_inside else "normalised (float32)"
    # Augmentation is no step before a graph, but belongs to what `rankmixup.load` reads.
    described["training"] = {key: described["preprocessing"][key] for key in ("augment", "padding", "flip")}
    described["preprocessing"] = plain(preprocessing(model.view))
    described["graphs"] = {"formats": graphs, "input": {"name": INPUT, "values": kind}, "output": {"name": OUTPUT}} if graphs else {}
    differences: dict[str, float] = {}
    with _all_or_nothing(folder) as place:
        if graphs:
            program = exported_program(ServedModel(source, normalises=normalise_inside), served[:2].contiguous())
        for name in graphs:
            write, run = _GRAPHS[name]
            write(
                program, place / f"model.{name}", {key: described[key] for key in ("class_names", "preprocessing", "graphs", "acceptance")}
            )
            differences[name] = _compare(name, expected, run(place / f"model.{name}", [served[part] for part in parts]))
        write_weights(source, place)
        write_json(place / CONFIG, described)
        write_checksums(place)
        own_network = copy.deepcopy(source.network) if source.origin.network.startswith("own:") else None
        with torch.no_grad():
            again = read_folder(place, own_network)(inputs).softmax(dim=1)
        differences["safetensors"] = _compare("safetensors", expected[:1], [again])
        parity: dict[str, Any] = {"compared_on": compared_on, "tolerance": TOLERANCE, "largest_difference": differences}
        write_json(place / CONFIG, {**described, "parity": parity})
        write_card(model, place, {**described, "parity": parity}, licence)
        write_checksums(place)
        files = tuple(sorted(path.name for path in place.iterdir()))
    return Exported(folder, files, differences, compared_on, time.monotonic() - began)


def _held_out_samples(model: CalibratedModel, data_root: Path | None) -> tuple[Tensor, str]:
    """Test samples of the run, prepared but not normalised, or random ones where the data is not there, and what they are."""
    view, place = model.view, model.origin.place
    if isinstance(place, StoredRun):
        with contextlib.suppress(InvalidInput, WorkFailed, OSError):
            split = place.run.data.load(data_root).test
            few = split[torch.arange(min(_SAMPLES, len(split)))]
            require(len(few) >= 4, "too few to compare batches of several sizes")
            if isinstance(few.x, ImageFiles):
                x = next(decoded(few.x, view, [torch.arange(len(few))], 0))
            elif isinstance(few.x, Samples):  # which are the network's input as they are
                x = torch.cat(list(evaluation_batches(few, view, workers=0)))
            else:
                x = few.x if view.values == "floats" else prepared_bytes(few.x, view)
            return x, f"{len(few)} test samples"
    shape, rng = (_SAMPLES, *view.input_shape), random.stream(0, "export")
    drawn = torch.randn(shape, generator=rng) if view.values == "floats" else torch.randint(256, shape, dtype=torch.uint8, generator=rng)
    return drawn, f"{_SAMPLES} random samples"


def _compare(name: str, expected: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """The largest difference, which must be within the tolerance."""
    largest = 0.0
    for own, other in zip(expected, found, strict=True):
        difference = float((own.double() - other.double()).abs().max()) if own.shape == other.shape else float("inf")
        if not difference <= TOLERANCE:  # NaN too
            rule = f"probabilities of the {name} file must be within {TOLERANCE:g} of the source's"
            raise WorkFailed(f"{rule}, the largest difference is {difference:.2g}; nothing was written")
        largest = max(largest, difference)
    return largest


@contextlib.contextmanager
def _all_or_nothing(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that takes its place once it is complete; nothing is left of it otherwise."""
    folder = folder.absolute()
    free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(free, f"{folder} must be a new folder or an empty one, something is there already")
    require(folder.parent.is_dir(), f"{folder} must be in a folder that exists, {folder.parent} does not")
    require(os.access(folder.parent, os.W_OK), f"{folder} must be in a folder that can be written to, {folder.parent} cannot")
    place = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    with removable():
        try:
            place.mkdir()
            yield place
            if folder.exists():
                folder.rmdir()
            place.replace(folder)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
