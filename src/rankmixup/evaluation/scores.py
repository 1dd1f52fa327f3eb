"""Scores of a set of samples: logits or probabilities, and the labels they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankmixup.errors import InvalidInput, require
from rankmixup.evaluation.csv_columns import Asked
from rankmixup.evaluation.score_files import class_indices, errors_about, read_score_file
from rankmixup.files import write_npz
from rankmixup.metrics.inputs import check_scores, given_precision, scores_and_labels
from rankmixup.ops import as_tensor


@dataclass(frozen=True)
class Scores:
    """Logits or probabilities `[N, K]` with labels `[N]`, checked when made.

    Of two classes, scores of class 1, `[N]` or `[N, 1]`, may be given; they are kept as `[N, 2]`.
    """

    scores: Tensor
    labels: Tensor
    from_logits: bool = True
    class_names: tuple[str, ...] | None = None
    part: bool = field(default=False, repr=False, compare=False)
    """Whether these are some rows of checked scores: a few rows of logits may look like probabilities and are not refused for it."""

    def __post_init__(self) -> None:
        check_scores(self.scores, self.labels, from_logits=self.from_logits, target_name="labels", part=self.part)
        scores, labels = scores_and_labels(self.scores, self.labels, from_logits=self.from_logits, target_name="labels")
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "labels", labels)
        if self.class_names is not None:
            names, classes = len(self.class_names), self.scores.shape[1]
            require(names == classes, f"class_names must name each of {classes} classes, got {names} names")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def precision(self) -> torch.dtype:
        """The type that probabilities were rounded to; those of logits were not."""
        return given_precision(self.scores, self.from_logits)

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
    def read(
        cls,
        path: str | Path,
        kind: str | None = None,
        *,
        labelled: bool = True,
        label_column: str | None = None,
        columns: Sequence[str] = (),
        other_columns: Sequence[str] = (),
    ) -> "Scores":
        """Read an npz, pt, safetensors or csv file, in float64.

        Args:
            path: The file; docs/reference/score-files.md describes the formats.
            kind: `logits` or `probs`, for scores without a name. An array named `logits` or `probs` must not contradict it.
            labelled: False for samples of unknown classes, such as out-of-distribution ones: labels are not needed, and all become 0.
            label_column: Name of the column of labels in a csv file, if its header does not show it.
            columns: Names of the columns of scores in a csv file, in the order of the classes.
            other_columns: Names of columns of a csv file that are no classes, such as groups; it may lack them.
        """
        path = Path(path)
        file = read_score_file(path, Asked(kind, labelled, label_column, tuple(columns), tuple(other_columns)))
        labels, scores = file.labels, file.scores
        if not labelled:
            labels = np.zeros(scores.shape[:1], dtype=np.int64)
        elif labels is None:
            raise InvalidInput(f"{path} must hold an array 'labels', it holds only {file.kind!r}")
        with errors_about(path):
            if labels.dtype.kind in "US" and labels.ndim == 1:
                names = np.char.decode(labels, "utf-8", "replace") if labels.dtype.kind == "S" else labels
                labels = class_indices(names.tolist(), file.class_names)
            target = as_tensor("labels", labels)
            require(np.issubdtype(scores.dtype, np.floating), f"{file.kind} must be floating point, got {scores.dtype}")
            kept = scores.dtype if file.kind == "probs" and scores.dtype == np.float16 else np.float64  # its bins depend on it
            return cls(torch.from_numpy(scores.astype(kept, order="C")), target, file.kind == "logits", file.class_names)

    def write(self, path: str | Path, **more: np.ndarray) -> None:
        """Write an npz file that `read` accepts."""
        kind = "logits" if self.from_logits else "probs"
        if self.class_names is not None:
            more["class_names"] = np.array(self.class_names)
        write_npz(Path(path), **{kind: self.scores.cpu().numpy(), "labels": self.labels.cpu().numpy(), **more})
