"""A finished run's network, shown images of classes it does not know."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lightning_fabric import Fabric

from rankmixup.data import DataSource
from rankmixup.data.base import resolve_root
from rankmixup.data.overlap import shared_classes
from rankmixup.errors import require
from rankmixup.evaluation import Scores
from rankmixup.hardware import Hardware
from rankmixup.runs import StoredRun
from rankmixup.runs.trained import splits_of, trained_network
from rankmixup.training.predict import Predictor


@dataclass(frozen=True)
class UnknownSamples:
    """Scores of out-of-distribution samples."""

    scores: Scores
    """Their labels have no meaning."""
    shared_classes: tuple[str, ...] = ()
    """Classes of the run that are classes of these samples too, by name: such samples are not unknown."""


def predict_unknown(
    stored: StoredRun,
    source: DataSource,
    name: str,
    *,
    data_root: Path | None = None,
    download: bool = False,
    hardware: Hardware = Hardware(),  # noqa: B008 - frozen
) -> UnknownSamples:
    """Scores of another data set under the network of the run's selected epoch, kept in the run as `predictions/ood-NAME.npz`.

    Images are resized to those the network was trained on and normalised with the same constants. What is kept is not computed
    again, unless it is of another data set.
    """
    require(name == Path(name).name and name not in ("", ".", ".."), f"the name of a data set must be one of a file, got {name!r}")
    file, splits = f"ood-{name}", splits_of(stored)
    if not stored.predictions_path(file).exists() or str(stored.read_predictions(file, "source")["source"]) != source.content_hash():
        if download:
            source.download(resolve_root(data_root))
        split, class_names = source.outside(data_root)
        fabric = Fabric(accelerator=hardware.accelerator, devices=1)
        model = trained_network(stored).to(fabric.device)
        logits = Predictor(fabric, model, splits.view, hardware.workers).predict(split)
        texts = {"source": np.array(source.content_hash()), "of_classes": np.array(class_names, dtype=np.str_)}
        stored.write_predictions(file, logits=logits.numpy(), index=split.index.numpy(), **texts)
    others = [str(other) for other in np.atleast_1d(stored.read_predictions(file, "of_classes")["of_classes"])]
    return UnknownSamples(stored.scores(file), tuple(shared_classes(splits.class_names, others)))
