"""The handle on a trained network: it takes images or arrays, and gives calibrated probabilities."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from rankmixup.data import DataSource, ImageFiles, View, parse_source
from rankmixup.data.base import Split
from rankmixup.data.batches import evaluation_batch_size, evaluation_batches
from rankmixup.data.transforms import normalise
from rankmixup.deploy.inputs import Input, decoded_batches, input_batches, warn_of_colours
from rankmixup.errors import InvalidInput, listed, require, require_whole, shown
from rankmixup.evaluation import Evaluation, Scores, evaluate, evaluate_scores
from rankmixup.evaluation.acceptance import Threshold
from rankmixup.evaluation.group_labels import Values
from rankmixup.posthoc import Calibrator
from rankmixup.runs import StoredRun
from rankmixup.types import evaluating

if TYPE_CHECKING:
    from rankmixup.deploy.export import Exported


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: what an export and its model card say about it."""

    network: str
    """Name that `rankmixup.build_model` takes."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """The run's id, configuration, splits and versions; see `rankmixup.reports.entry.run_protocol`."""
    place: StoredRun | Path | None = None
    """The run itself, or the exported folder."""


class CalibratedModel(nn.Module):
    """A trained network with what belongs to it: calibrator, preprocessing and class names.

    `rankmixup.load` makes one from a run or from an exported folder. As a module it maps a network's input, as `preprocess` makes it, to
    calibrated logits; `predict_proba` and `predict` take images of any kind.

    Attributes:
        network: The network, in evaluation mode.
        calibrator: What turns its logits into calibrated ones; None where it was loaded without.
        class_names: A name for each class.
        view: How images become the network's input.
        origin: Where it comes from.
        threshold: The confidence from which predictions are accepted, if one was asked for; `threshold.accepts(probabilities)` applies it.
    """

    def __init__(
        self,
        network: nn.Module,
        calibrator: Calibrator | None,
        class_names: Sequence[str],
        view: View,
        origin: Origin,
        threshold: Threshold | None = None,
    ):
        super().__init__()
        self.network, self.calibrator, self.class_names, self.view, self.origin = network, calibrator, tuple(class_names), view, origin
        self.threshold = threshold
        self.calibration: nn.Module = nn.Identity() if calibrator is None else calibrator.module()
        self.eval()

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next((each.device for each in (*self.parameters(), *self.buffers())), torch.device("cpu"))

    def forward(self, x: Float[Tensor, "B ..."]) -> Float[Tensor, "B K"]:
        """Calibrated logits of the network's input; their softmax are the probabilities."""
        logits: Tensor = self.calibration(self.network(x))
        return logits

    def preprocess(self, x: Input) -> Float[Tensor, "N ..."]:
        """The network's input for images of any kind: decoded, fitted to its size and normalised as in training, on the CPU."""
        return torch.cat(list(input_batches(x, self.view, batch_size=evaluation_batch_size(self.view))))

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Without gradients, the network in evaluation mode: in training mode, a prediction would change the statistics of BatchNorm."""
        with torch.no_grad(), evaluating(self.network):
            yield

    def predict_logits(self, x: Input, *, batch_size: int | None = None) -> Float[Tensor, "N K"]:
        """Logits of the network before calibration, on the CPU. See `predict_proba` for the arguments."""
        size = self._size(batch_size)
        with self._evaluating():
            return torch.cat([self._logits(batch) for batch in input_batches(x, self.view, batch_size=size, device=self.device)])

    def predict_proba(self, x: Input, *, batch_size: int | None = None) -> Float[Tensor, "N K"]:
        """Calibrated probabilities, a tensor of float64 on the CPU.

        Args:
            x: The path of an image or of a folder of images, a PIL image, an array or a tensor of one sample or of many, or a list of
                single samples. Bytes are colours from 0 to 255, `[H, W]`, `[H, W, C]` or `[C, H, W]`. Floats are the network's input as
                it is, such as `preprocess` returns; for a network that was trained on arrays of floats they are standardised first.
            batch_size: Samples that are predicted at once; by default 512, and fewer of large images.
        """
        return self._probabilities(self.predict_logits(x, batch_size=batch_size))

    def predict(self, x: Input, *, batch_size: int | None = None) -> list[str]:
        """The name of the most probable class of each sample. See `predict_proba` for the arguments."""
        return [self.class_names[label] for label in self.predict_proba(x, batch_size=batch_size).argmax(dim=1).tolist()]

    def predict_files(
        self, files: ImageFiles, bad: dict[str, str], *, batch_size: int | None = None, workers: int | None = None
    ) -> Iterator[tuple[list[str], Float[Tensor, "B K"]]]:
        """Names and probabilities of image files, batch by batch; why files do not decode goes to `bad`.

        `workers` threads decode, by default one for each core, while the network predicts what is decoded.
        """
        for names, logits in self._of_files(files, bad, batch_size, workers):
            yield names, self._probabilities(logits)

    def _of_files(
        self, files: ImageFiles, bad: dict[str, str] | None = None, batch_size: int | None = None, workers: int | None = None
    ) -> Iterator[tuple[list[str], Float[Tensor, "B K"]]]:
        for names, images in decoded_batches(files, self.view, self._size(batch_size), bad, workers):
            with self._evaluating():
                logits = self._logits(normalise(images.to(self.device), self.view))
            yield names, logits

    def evaluate(
        self, data: Any, *, data_root: str | Path | None = None, download: bool = False, strict: bool = False, **options: Any
    ) -> Evaluation:
        """Metrics of other labelled data, before and after calibration with this model's calibrator.

        Args:
            data: A data set, its name, `"folder:PATH"` or `"npz:PATH"`, whose classes are matched by name; a `DataLoader` or other
                iterable of batches of the network's input with labels; or a pair `(x, labels)` of what `predict_proba` takes.
            data_root: Folder of the data sets that live on disk.
            download: Whether a data set that is not there is downloaded.
            strict: Whether a data set is refused that holds samples which the run was trained or validated on. Else a warning counts them,
                and the grouping `overlap` has the metrics of the others, the group `new`.
            **options: Passed on to `rankmixup.evaluate`, such as `num_bins` and `replicates`.
        """
        options.setdefault("accept_at", self.threshold)
        if isinstance(data, str | DataSource):
            source = parse_source(data) if isinstance(data, str) else data
            root = None if data_root is None else Path(data_root)
            options.setdefault("source", data if isinstance(data, str) else data.name)
            scores, overlap = self.scores_and_overlap(source, root, download=download, strict=strict)
            if overlap:
                groups = options.get("groups")
                named = {} if groups is None else groups if isinstance(groups, Mapping) else {"group": groups}
                options["groups"] = {**overlap, **named}
            return evaluate_scores(scores, self.calibrator, **options)
        if isinstance(data, tuple) and len(data) == 2:
            return evaluate(self.predict_logits(data[0]), data[1], calibrate_on=self.calibrator, **options)
        return evaluate(self.network, data, calibrate_on=self.calibrator, **options)

    def scores(self, source: DataSource, data_root: Path | None = None, *, download: bool = False) -> Scores:
        """Logits of the labelled test samples of a data set; a warning says if the run was trained on some of them."""
        return self.scores_and_overlap(source, data_root, download=download)[0]

    def scores_and_overlap(
        self, source: DataSource, data_root: Path | None = None, *, download: bool = False, strict: bool = False
    ) -> tuple[Scores, dict[str, Values]]:
        """As `scores`, and the grouping `overlap` if the run was trained or validated on some samples, which `strict` refuses."""
        split, names = source.labelled(data_root, download=download)
        labels, places = self._own_labels(split.y, names), self._places(split, strict)
        scores = Scores(self.split_logits(split), labels, class_names=self.class_names)
        if places is None or bool((places == "new").all()):
            return scores, {}
        right, new = (scores.logits.argmax(dim=1) == labels).double(), torch.from_numpy(places == "new")
        others = f"{float(right[new].mean()):.1%} on the {int(new.sum()):,} others" if bool(new.any()) else "there are no others"
        sentence = f"{_counted(places)}: accuracy is {float(right.mean()):.1%} on all, {others}, see the groups of 'overlap'"
        warnings.warn(sentence, stacklevel=3)
        return scores, {"overlap": places}

    def _places(self, split: Split, strict: bool) -> NDArray[Any] | None:
        """Whether each sample was one of the run's training or validation samples, by content; None where this cannot be told."""
        place = self.origin.place
        if not isinstance(place, StoredRun):
            require(not strict, "strict must go with a run, which knows what it was trained on, got an exported folder")
            return None
        contents = place.contents()
        places = None if contents is None else contents.places(split.x)
        if places is None:
            why = "it keeps no hashes of them" if contents is None else "one are files, the other are not"
            unknown = f"samples cannot be compared with those that run {place.path} was trained on: {why}"
            require(not strict, f"strict must be left out where {unknown}")
            warnings.warn(unknown, stacklevel=4)
        elif strict:
            rule = "data must hold no sample that the run was trained or validated on, since strict is asked for"
            require(bool((places == "new").all()), f"{rule}, but {_counted(places)}")
        return places

    def split_logits(self, split: Split) -> Float[Tensor, "N K"]:
        """Logits of the samples of a split."""
        if isinstance(split.x, ImageFiles):
            return torch.cat([logits for _, logits in self._of_files(split.x)])
        if isinstance(split.x, Tensor):
            warn_of_colours(split.x, self.view)
        with self._evaluating():
            return torch.cat([self._logits(batch) for batch in evaluation_batches(split, self.view, device=self.device)])

    def export(self, folder: str | Path, to: Sequence[str] = ("safetensors",), **options: Any) -> "Exported":
        """Write a folder that can be served, and check it; see `rankmixup.deploy.export.export_model`."""
        from rankmixup.deploy.export import export_model

        return export_model(self, Path(folder), to, **options)

    def push_to_hub(self, repo_id: str, to: Sequence[str] = ("safetensors",), **options: Any) -> str:
        """Export and upload to the Hugging Face Hub; see `rankmixup.deploy.hub.push_to_hub`."""
        from rankmixup.deploy.hub import push_to_hub

        return push_to_hub(self, repo_id, to, **options)

    def _size(self, batch_size: int | None) -> int:
        return evaluation_batch_size(self.view) if batch_size is None else require_whole("batch_size", batch_size, least=1)

    def _logits(self, batch: Tensor) -> Tensor:
        kinds = [each.dtype for each in self.network.parameters() if each.is_floating_point()]
        logits = self.network(batch.to(self.device, kinds[0] if kinds else batch.dtype))
        shape = (len(batch), len(self.class_names))
        require(isinstance(logits, Tensor) and logits.shape == shape, f"the network must return logits {list(shape)}, got {shown(logits)}")
        logits = logits.float().cpu()
        require(bool(logits.isfinite().all()), "the network must return finite logits, its weights or its input are too large for that")
        return logits

    def _probabilities(self, logits: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """In float64, as stored scores are read, so that both give the same probabilities."""
        return logits.double().softmax(dim=1) if self.calibrator is None else self.calibrator.predict_proba(logits.double())

    def _own_labels(self, labels: Int[Tensor, " N"], names: Sequence[str]) -> Int[Tensor, " N"]:
        """Labels of another data set, as numbers of this model's classes of the same names."""
        own = {name: number for number, name in enumerate(self.class_names)}
        present = [names[label] for label in labels.unique().tolist()]
        unknown = [repr(name) for name in present if name not in own]
        if unknown:
            raise InvalidInput(f"data must have classes that the model knows, it does not know {listed(unknown, 5)}")
        return torch.tensor([own.get(name, -1) for name in names])[labels]


def _counted(places: NDArray[Any]) -> str:
    """How many samples were seen before."""
    train, val = (int((places == name).sum()) for name in ("training", "validation"))
    return f"of {len(places):,} samples {train:,} are the run's training samples and {val:,} its validation samples"
