"""Scores of a set of samples: logits or probabilities, and the labels they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.score_csv import class_indices
from rankmixup.evaluation.score_files import ScoreFile, read_score_file
from rankmixup.files import write_npz
from rankmixup.metrics.inputs import check_scores
from rankmixup.ops import as_tensor

__all__ = ["Scores"]


@dataclass(frozen=True)
class Scores:
    """Logits or probabilities `[N, K]` with labels `[N]`, checked when made."""

    scores: Tensor
    labels: Tensor
    from_logits: bool = True
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_scores(self.scores, self.labels, from_logits=self.from_logits)
        if self.class_names is not None:
            names, classes = len(self.class_names), self.scores.shape[1]
            require(names == classes, f"class_names must name each of {classes} classes, got {names} names")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def logits(self) -> Float[Tensor, "N K"]:
        """Logits; of probabilities their logarithms, in float64.

        A probability of 0 was rounded to it: it counts as half of the smallest other one here, and at most as half of the smallest
        that half precision has.
        """
        if self.from_logits:
            return self.scores
        probs = self.scores.double()
        least = probs.where(probs > 0, 2**-24).min().clamp(max=2**-24) / 2
        return probs.clamp(min=least).log()

    @property
    def probs(self) -> Float[Tensor, "N K"]:
        """Probabilities, in float64."""
        return self.scores.double().softmax(dim=1) if self.from_logits else self.scores.double()

    @classmethod
    def read(cls, path: Path, kind: str | None = None, *, label_column: str | None = None, columns: Sequence[str] = ()) -> "Scores":
        """From an npz, pt, safetensors or csv file, in float64.

        An array named `logits` or `probs` says what it holds; `kind` says it where there is no name and must not contradict one. Labels are
        class indices, or names of classes where the file has these. `label_column` and `columns` name the column of labels and those of the
        classes in a csv file whose header does not make them plain (see docs/score-files.md).
        """
        file = read_score_file(path, kind, label_column=label_column, columns=columns)
        labels = file.labels
        if labels is None:
            raise InvalidInput(f"{path} must hold an array 'labels', it holds {file.kind!r} alone")
        if labels.dtype.kind in "US" and labels.ndim == 1:
            labels = _indices_of_names(path, labels, file.class_names)
        return cls._checked(path, file, as_tensor(f"{path}: labels", labels))

    @classmethod
    def read_unlabelled(
        cls, path: Path, kind: str | None = None, *, label_column: str | None = None, columns: Sequence[str] = ()
    ) -> "Scores":
        """As `read`, of samples that belong to no class, such as out-of-distribution ones: labels are not needed, and all are 0."""
        file = read_score_file(path, kind, labelled=False, label_column=label_column, columns=columns)
        return cls._checked(path, file, torch.zeros(file.scores.shape[:1], dtype=torch.int64))

    @classmethod
    def _checked(cls, path: Path, file: ScoreFile, labels: Tensor) -> "Scores":
        if not np.issubdtype(file.scores.dtype, np.floating):
            raise InvalidInput(f"{path}: {file.kind} must be floating point, got {file.scores.dtype}")
        try:
            return cls(torch.from_numpy(file.scores.astype(np.float64, order="C")), labels, file.kind == "logits", file.class_names)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    def write(self, path: Path, **more: np.ndarray) -> None:
        """To an npz that `read` understands."""
        kind = "logits" if self.from_logits else "probs"
        if self.class_names is not None:
            more["class_names"] = np.array(self.class_names)
        write_npz(path, **{kind: self.scores.cpu().numpy(), "labels": self.labels.cpu().numpy(), **more})


def _indices_of_names(path: Path, labels: NDArray[Any], class_names: tuple[str, ...] | None) -> NDArray[np.int64]:
    try:
        return class_indices(
            np.char.decode(labels, "utf-8", "replace").tolist() if labels.dtype.kind == "S" else labels.tolist(), class_names
        )
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
