"""Scores of a set of samples: logits or probabilities, and the labels they belong to."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.metrics.inputs import check_scores
from rankmixup.runs.files import read_npz, write_npz

__all__ = ["Scores"]


@dataclass(frozen=True)
class Scores:
    """Logits or probabilities `[N, K]` with labels `[N]`, checked when made."""

    scores: Tensor
    labels: Tensor
    from_logits: bool = True

    def __post_init__(self) -> None:
        check_scores(self.scores, self.labels, from_logits=self.from_logits)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def logits(self) -> Float[Tensor, "N K"]:
        """Logits; the logarithms of probabilities are as good as any."""
        return self.scores if self.from_logits else self.scores.clamp(min=torch.finfo(self.scores.dtype).tiny).log()

    @property
    def probs(self) -> Float[Tensor, "N K"]:
        """Probabilities."""
        return self.scores.softmax(dim=1) if self.from_logits else self.scores

    @classmethod
    def read(cls, path: Path) -> "Scores":
        """From an npz whose array `logits` or `probs` says what it holds, in float64."""
        arrays = read_npz(path, "labels", optional=("logits", "probs"))
        kinds = [kind for kind in ("logits", "probs") if kind in arrays]
        require(len(kinds) == 1, f"{path} must hold one array named 'logits' or 'probs', got {' and '.join(kinds) or 'neither'}")
        scores, labels = arrays[kinds[0]], arrays["labels"]
        if not np.issubdtype(scores.dtype, np.floating):
            raise InvalidInput(f"{path}: {kinds[0]} must be floating point, got {scores.dtype}")
        if not np.issubdtype(labels.dtype, np.integer):
            raise InvalidInput(f"{path}: labels must be class indices, got {labels.dtype}")
        try:
            return cls(torch.from_numpy(scores.astype(np.float64)), torch.from_numpy(labels.astype(np.int64)), kinds[0] == "logits")
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    def write(self, path: Path, **more: np.ndarray) -> None:
        """To an npz that `read` understands."""
        kind = "logits" if self.from_logits else "probs"
        write_npz(path, **{kind: self.scores.cpu().numpy(), "labels": self.labels.cpu().numpy(), **more})
