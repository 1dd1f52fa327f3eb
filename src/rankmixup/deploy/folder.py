"""An exported folder: what is in it, and how it is read without executing any of it."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

import rankmixup
from rankmixup.data import View
from rankmixup.deploy.model import CalibratedModel, Origin
from rankmixup.errors import InvalidInput, listed, one_line, require, shown
from rankmixup.evaluation.acceptance import Threshold
from rankmixup.evaluation.score_files import errors_about
from rankmixup.files import file_hash, read_json, readable, reason, write_atomic
from rankmixup.models import build_model
from rankmixup.models.own import warn_unless_same
from rankmixup.posthoc import CALIBRATORS, Calibrator, FitReport
from rankmixup.runs.records import Positive, Record
from rankmixup.runs.trained import in_memory_format

CONFIG, WEIGHTS, CHECKSUMS, CARD, FIGURE = "config.json", "model.safetensors", "SHA256SUMS", "README.md", "reliability.png"
_LARGEST_INPUT = 8192
"""Pixels of a side, and channels: no folder may ask for more memory than its own weights need."""


@dataclass(frozen=True)
class NetworkRecord:
    """Which network it is."""

    name: str
    num_classes: Positive
    image_size: Positive
    in_channels: Positive


class StoredThreshold(Threshold, Record):
    """As config.json holds it."""


@dataclass(frozen=True)
class Description(Record):
    """config.json."""

    schema: Positive
    network: NetworkRecord
    class_names: tuple[str, ...]
    preprocessing: View
    calibration: Mapping[str, Any] = field(default_factory=dict)
    """What the calibrator is and did, see `FitReport`; nothing without one."""
    run: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    acceptance: Mapping[str, Any] = field(default_factory=dict)
    """From which confidence predictions are accepted, see `Threshold`; nothing unless it was asked for."""

    @classmethod
    def of(cls, model: CalibratedModel) -> "Description":
        """What a folder of this model says."""
        view, names = model.view, model.class_names
        network = NetworkRecord(model.origin.network, len(names), view.image_size, view.in_channels)
        calibration = {} if model.calibrator is None else dataclasses.asdict(model.calibrator.report_)
        versions = {"rankmixup": rankmixup.__version__, "torch": str(torch.__version__)}
        acceptance = {} if model.threshold is None else dataclasses.asdict(model.threshold)
        return cls(1, network, names, view, calibration, model.origin.run, versions, acceptance)

    @classmethod
    def from_dict(cls, data: Any, name: str) -> "Description":
        """From JSON; `name` is what errors call it."""
        if isinstance(data, Mapping) and isinstance(data.get("preprocessing"), Mapping) and isinstance(data.get("training"), Mapping):
            data = {**data, "preprocessing": {**data["training"], **data["preprocessing"]}}
        said: Description = super().from_dict(data, name)
        network, view = said.network, said.preprocessing
        require(said.schema == 1, f"{name}: schema must be 1, the one that this version reads, got {said.schema}")
        sizes = {"image_size": (network.image_size, view.image_size), "in_channels": (network.in_channels, len(view.mean), len(view.std))}
        sizes["num_classes"] = (network.num_classes, len(said.class_names))
        for key, values in sizes.items():
            require(len(set(values)) == 1, f"{name}: {key} of network and preprocessing must agree, got {' and '.join(map(str, values))}")
            require(values[0] <= _LARGEST_INPUT or key == "num_classes", f"{name}: {key} must be at most {_LARGEST_INPUT}, got {values[0]}")
        for each in said.class_names:
            require(one_line(each) == each, f"{name}: class_names must have no control characters, got {shown(each)}")
        require(all(each > 0 for each in view.std), f"{name}: preprocessing: std must be positive, got {shown(view.std)}")
        return said


def write_weights(model: CalibratedModel, folder: Path) -> None:
    """Write the weights of network and calibrator, which `read_folder` reads."""
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    pointers: dict[int, str] = {}
    for name, value in state.items():  # safetensors refuses tensors that share memory
        if value.numel() > 0 and pointers.setdefault(value.data_ptr(), name) != name:
            state[name] = value.clone()
    write_atomic(folder / WEIGHTS, safetensors.torch.save(state, {"format": "pt"}))


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS of every file, as sha256sum does and checks."""
    names = sorted(path.name for path in folder.iterdir() if path.name != CHECKSUMS)
    write_atomic(folder / CHECKSUMS, "".join(f"{file_hash(folder / name)}  {name}\n" for name in names).encode())


def read_folder(folder: Path, network: nn.Module | None = None, *, calibrated: bool = True) -> CalibratedModel:
    """The model in a folder, from its description and its weights alone; `network` is for weights of a module of the user's own."""
    _check_sums(folder, CONFIG, WEIGHTS)
    said = Description.from_dict(read_json(folder / CONFIG), str(folder / CONFIG))
    with readable(folder / WEIGHTS, "a safetensors file", (OSError, SafetensorError)):
        state = safetensors.torch.load_file(folder / WEIGHTS)
    parts = {part: _below(part, state) for part in ("network", "calibration")}
    require(
        sum(map(len, parts.values())) == len(state), f"{folder / WEIGHTS} must hold weights of a network and a calibration, it holds others"
    )
    given, network = network, _filled(network or _built(said.network, parts["network"]), parts["network"], folder / WEIGHTS)
    if given is not None:
        warn_unless_same(given, said.network.name)
    calibrator = _calibrator(said, parts["calibration"], folder) if calibrated and said.calibration else None
    origin = Origin(said.network.name, said.run, folder)
    # It is about calibrated confidences.
    kept = said.acceptance if calibrator or not said.calibration else {}
    with errors_about(folder / CONFIG):
        threshold = Threshold(**vars(StoredThreshold.from_dict(kept, "acceptance"))) if kept else None
    network = in_memory_format(network, said.preprocessing)
    return CalibratedModel(network, calibrator, said.class_names, said.preprocessing, origin, threshold)


def _built(record: NetworkRecord, state: Mapping[str, Tensor]) -> nn.Module:
    """The network, once it is known to have the weights' shapes: before, it takes no memory."""
    sizes = {"num_classes": record.num_classes, "image_size": record.image_size, "in_channels": record.in_channels}
    if "/" not in record.name:
        with torch.device("meta"):
            expected = build_model(record.name, **sizes).state_dict()
        _check_shapes(expected, state)
    return build_model(record.name, **sizes)


def _filled(network: nn.Module, state: Mapping[str, Tensor], path: Path) -> nn.Module:
    _check_shapes(network.state_dict(), state)
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise InvalidInput(f"{path} must hold the weights of its network ({reason(error)})") from error
    return network


def _check_shapes(expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Raise unless both have tensors of the same names and shapes."""
    wrong = [
        name
        for name in expected.keys() | state.keys()
        if name not in expected or name not in state or expected[name].shape != state[name].shape
    ]
    require(not wrong, f"weights must be those of the network that {CONFIG} names, {len(wrong)} are not: {listed(sorted(wrong), 3)}")


def _calibrator(said: Description, state: Mapping[str, Tensor], folder: Path) -> Calibrator:
    names = {each.name for each in dataclasses.fields(FitReport)}
    values = {key: value for key, value in said.calibration.items() if key in names}
    method = values.get("method")
    require(isinstance(method, str), f"{folder / CONFIG}: calibration: method must be a string, got {shown(method)}")
    try:
        report = FitReport(**values)
    except TypeError as error:
        raise InvalidInput(f"{folder / CONFIG}: calibration must have {', '.join(sorted(names))} ({reason(error)})") from error
    return CALIBRATORS[str(method)].restored(report, state, said.network.num_classes)


def _below(part: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


def own_files(folder: Path) -> set[str]:
    """Names of the files that an exported folder consists of; none of another folder."""
    return {CHECKSUMS, *_sums(folder)} if (folder / CONFIG).is_file() and (folder / CHECKSUMS).is_file() else set()


def _sums(folder: Path) -> dict[str, str]:
    with readable(folder / CHECKSUMS, "a file of checksums", (OSError, UnicodeDecodeError)):
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    return {found[2]: found[1] for line in lines if (found := re.fullmatch(r"([0-9a-f]{64})  (.+)", line))}


def _check_sums(folder: Path, *names: str) -> None:
    """Raise unless the files are what the checksums say."""
    path, sums = folder / CHECKSUMS, _sums(folder)
    for name in names:
        require(name in sums, f"{path} must have a line for {name}, it has none")
        require(
            file_hash(folder / name) == sums[name], f"{folder / name} is damaged or was changed: its SHA-256 is not the one in {CHECKSUMS}"
        )
