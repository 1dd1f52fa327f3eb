"""Predictions of corrupted test images by the networks of finished runs, kept in the runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from lightning_fabric import Fabric
from torch import Tensor

from rankmixup import random
from rankmixup.config import content_hash
from rankmixup.data import View
from rankmixup.data.base import ImageFiles, resolve_root
from rankmixup.data.corruptions import (
    CONSTANTS,
    CORRUPTIONS,
    SEVERITIES,
    VERSION,
    Originals,
    PublishedImages,
    chosen_corruptions,
    published_images,
    published_size,
)
from rankmixup.data.images import SMALL
from rankmixup.data.progress import progress
from rankmixup.errors import InvalidInput, require, require_choice, require_whole
from rankmixup.evaluation import Scores
from rankmixup.evaluation.shift_results import ImageKind
from rankmixup.hardware import Hardware
from rankmixup.runs import StoredRun
from rankmixup.runs.trained import splits_of, trained_network
from rankmixup.training.predict import Predictor

Images = Literal["auto", "published", "generated"]
_TOGETHER, _FILES_TOGETHER = 2000, 512
"""Images that are corrupted before the networks see them; fewer of those in files, which are large."""


@dataclass(frozen=True)
class ShiftSettings:
    """Which images are predicted."""

    corruptions: tuple[str, ...] = ("all",)
    """Names and groups (noise, blur, weather, digital) of corruptions."""
    severities: tuple[int, ...] = SEVERITIES
    images: Images = "auto"
    """Published files, images that are generated, or (auto) published files where their folder is below the data root."""
    limit: int | None = None
    """Only so many images, always the same ones."""
    seed: int = 0
    """Of what is drawn for generated images."""

    def __post_init__(self) -> None:
        for severity in self.severities:
            require_whole("severities", severity, least=1, most=5)
        require(len(self.severities) > 0, "severities must be at least one of 1 to 5, got none")
        require_choice("images", self.images, ("auto", "published", "generated"))
        require_whole("seed", self.seed)
        if self.limit is not None:
            require_whole("limit", self.limit, least=1)

    def subset(self, size: int) -> Int[Tensor, " M"]:
        """Positions of the images that are used among `size`: all, or the first of a fixed order."""
        if self.limit is None or self.limit >= size:
            return torch.arange(size)
        return torch.randperm(size, generator=random.stream(0, "shift subset"))[: self.limit].sort().values


@dataclass(frozen=True)
class _Source:
    """Where the corrupted images of some runs come from: they share a data set."""

    settings: ShiftSettings
    stored: StoredRun
    """One of the runs."""
    published: PublishedImages | None
    root: Path
    originals: list[Originals]
    """The clean images, once they were read."""

    def describe(self, name: str, severity: int) -> str:
        """What identifies the images of one corruption: where it changes, they are predicted again."""
        if self.published is not None:
            return content_hash([self.published.fingerprint(name, severity), self.settings.limit])
        # Larger images were cropped twice by 0.2, whose predictions of them must not be taken for these.
        version = [VERSION, "prepared once"] if self.stored.run.data.image_size > SMALL else VERSION
        drawn = [version, name, severity, CONSTANTS[name], self.settings.seed, self.settings.limit]
        return content_hash([self.stored.run.data.content_hash(), drawn])

    def clean(self, name: str, severity: int) -> Originals:
        """The images before they are corrupted; of published files those themselves."""
        if self.published is not None:
            return Originals.given(self.published.split(name, severity), getattr(self.stored.run.data, "shrink", 1))
        if not self.originals:
            self.originals.append(Originals.of(self.stored.run.data, self.root))
        return self.originals[0]


@dataclass(frozen=True)
class Predicted:
    """What `predict_shifted` left in the runs."""

    names: tuple[str, ...]
    kind: ImageKind
    size: int
    """Published size of images whose constants were used."""
    left_out: tuple[str, ...]
    settings: ShiftSettings

    def reader(self, stored: StoredRun) -> Callable[[str, int], Scores]:
        """Gives the scores of one run by corruption and severity."""

        def read(name: str, severity: int) -> Scores:
            if name != "clean":
                return stored.scores(file_name(name, severity))
            test = stored.scores("test")
            where = self.settings.subset(len(test))
            return Scores(test.scores[where], test.labels[where])

        return read


def file_name(name: str, severity: int) -> str:
    """Under which predictions are kept."""
    return f"shift-{name}-{severity}"


def predict_shifted(stored: Sequence[StoredRun], settings: ShiftSettings, data_root: Path | None, hardware: Hardware) -> Predicted:
    """Predict what is not kept in the runs yet. Each set of images is made once for all runs of a data set."""
    root, first = resolve_root(data_root), stored[0]
    labels, splits = first.scores("test").labels, splits_of(first)
    if settings.limit is not None and settings.limit >= len(labels):  # all images, whose predictions may be there
        settings = replace(settings, limit=None)
    for run in stored[1:]:
        same = run.run.data.name == first.run.data.name and torch.equal(run.scores("test").labels, labels)
        require(same, f"runs must have the same test samples, those of {run.path} and {first.path} differ")
    published = published_images(first.run.data.name, root, len(splits.class_names)) if settings.images != "generated" else None
    if published is None and settings.images == "published":
        raise InvalidInput(f"images must be 'auto' or 'generated' for {first.run.data.name}, no published files of it are in {root}")
    names = chosen_corruptions(settings.corruptions, known=None if published is None else published.names)
    left_out = tuple(name for name in names if published is None and splits.view.in_channels != 3 and CORRUPTIONS[name].colour)
    names = tuple(name for name in names if name not in left_out)
    require(len(names) > 0, f"corruptions must be such that grey images can have, got only {', '.join(left_out)}")
    of_data: dict[str, list[StoredRun]] = {}
    for run in stored:
        of_data.setdefault(run.run.data.content_hash(), []).append(run)
    for runs in of_data.values():
        _predict_all(runs, _Source(settings, runs[0], published, root, []), names, labels, hardware)
    size = splits.view.image_size * getattr(first.run.data, "shrink", 1)
    return Predicted(names, "generated" if published is None else "published files", published_size(size), left_out, settings)


def _predict_all(runs: Sequence[StoredRun], source: _Source, names: Sequence[str], labels: Int[Tensor, " N"], hardware: Hardware) -> None:
    """For runs of one data set, every corruption at every severity that is missing, or kept of other images."""
    missing: dict[tuple[str, int], list[StoredRun]] = {}
    for name in names:
        for severity in source.settings.severities:
            wanted, file = source.describe(name, severity), file_name(name, severity)
            lacking = [run for run in runs if not run.predictions_path(file).exists()]
            lacking += [run for run in runs if run not in lacking and str(run.read_predictions(file, "source")["source"]) != wanted]
            if lacking:
                missing[name, severity] = lacking
    fabric = Fabric(accelerator=hardware.accelerator, devices=1)
    ids = {run.run.id for lacking in missing.values() for run in lacking}
    predictors = {
        run.run.id: Predictor(fabric, trained_network(run).to(fabric.device), splits_of(run).view, hardware.workers)
        for run in runs
        if run.run.id in ids
    }
    with progress("predicting corrupted images", len(missing)) as advance:
        for (name, severity), lacking in missing.items():
            of_view: dict[View, list[StoredRun]] = {}
            for run in lacking:
                of_view.setdefault(predictors[run.run.id].view, []).append(run)
            for members in of_view.values():
                _predict(members, predictors, source, name, severity, labels)
            advance(1)


def _predict(
    runs: Sequence[StoredRun], predictors: Mapping[str, Predictor], source: _Source, name: str, severity: int, labels: Int[Tensor, " N"]
) -> None:
    """For runs whose networks take the same input."""
    clean = source.clean(name, severity)
    where = source.settings.subset(len(clean.split))
    if source.published is None or source.published.in_arrays:
        rule = f"images of {name} at severity {severity} must have the labels of the run's test samples, in the same order"
        require(torch.equal(clean.split.y, labels), f"{rule}, they have others")
    first = predictors[runs[0].run.id]
    logits: dict[str, list[Tensor]] = {run.run.id: [] for run in runs}
    for part in where.split(_FILES_TOGETHER if isinstance(clean.split.x, ImageFiles) else _TOGETHER):
        images = clean.bytes_at(part, first.view, first.workers)
        if source.published is None:
            images = CORRUPTIONS[name](images, severity, index=clean.split.index[part], seed=source.settings.seed)
        split = clean.as_split(images, part, first.view)
        for run in runs:
            logits[run.run.id].append(predictors[run.run.id].predict(split))
    described = np.array(source.describe(name, severity))
    for run in runs:
        arrays = {"labels": clean.split.y[where].numpy(), "index": clean.split.index[where].numpy(), "source": described}
        run.write_predictions(file_name(name, severity), logits=torch.cat(logits[run.run.id]).numpy(), **arrays)
