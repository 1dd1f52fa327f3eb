"""What is exported as a graph: the network, its calibration, the softmax, and optionally the normalisation of bytes."""

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rankmixup.deploy.model import CalibratedModel
from rankmixup.errors import WorkFailed, import_extra
from rankmixup.files import reason

_LARGEST_FILE = 1_900_000_000
"""Bytes that an ONNX file can hold; weights beyond them are written beside it."""
INPUT, OUTPUT = "images", "probabilities"


class ServedModel(nn.Module):
    """Probabilities `[B, K]` in float32 for a network's input, or for bytes `[B, C, S, S]` of its size where it normalises them itself."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: CalibratedModel, *, normalises: bool):
        super().__init__()
        self.model = model
        self.normalises = normalises
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(getattr(model.view, name)).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Float[Tensor, "B K"]:
        """Calibrated probabilities."""
        x = (images.float() / 255 - self.mean) / self.std if self.normalises else images
        return self.model(x).softmax(dim=1).float()


def exported_program(served: ServedModel, example: Tensor) -> "torch.export.ExportedProgram":
    """The graph, for any number of samples; `example` must have two or more, because one would be taken for a constant."""
    with _failing_as("the network"):
        return torch.export.export(served.eval(), (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))


def write_pt2(program: "torch.export.ExportedProgram", path: Path, about: dict[str, Any]) -> None:
    """Write what `torch.export.load` reads, with a description inside."""
    with _failing_as("pt2"):
        torch.export.save(program, path, extra_files={"config.json": json.dumps(about)})


def write_onnx(program: "torch.export.ExportedProgram", path: Path, about: dict[str, Any]) -> None:
    """Write an ONNX file with a description in its metadata."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        import_extra(package, "exporting to ONNX", "onnx")
    with _failing_as("ONNX"):
        graph = torch.onnx.export(program, dynamo=True, verbose=False, input_names=[INPUT], output_names=[OUTPUT])
        assert graph is not None
        graph.model.metadata_props.update({key: json.dumps(value) for key, value in about.items()})
        size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
        graph.save(path, external_data=size > _LARGEST_FILE)


def run_pt2(path: Path, batches: list[Tensor]) -> list[Tensor]:
    """Probabilities that the file gives."""
    with _failing_as("pt2"), torch.no_grad():
        module = torch.export.load(path).module()
        return [module(batch) for batch in batches]


def run_onnx(path: Path, batches: list[Tensor]) -> list[Tensor]:
    """Probabilities that the file gives under onnxruntime."""
    runtime = import_extra("onnxruntime", "checking an ONNX file", "onnx")
    with _failing_as("ONNX"):
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return [torch.from_numpy(session.run([OUTPUT], {INPUT: batch.contiguous().numpy()})[0]) for batch in batches]


@contextlib.contextmanager
def _failing_as(what: str) -> Iterator[None]:
    """Turn every error of an exporter into one sentence; their remarks on their own code are of no use to a user."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        raise WorkFailed(f"{what} could not be exported ({type(error).__name__}: {reason(error)})") from error
