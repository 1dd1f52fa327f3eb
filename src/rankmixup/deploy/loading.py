"""Models from run directories and from exported folders."""

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rankmixup.deploy.model import CalibratedModel, Origin
from rankmixup.errors import InvalidInput, require, shown
from rankmixup.evaluation import fit_calibrator
from rankmixup.evaluation.acceptance import asked_accuracy, choose_threshold
from rankmixup.runs import StoredRun


def load(
    path: str | os.PathLike[str] | StoredRun,
    *,
    calibrate_with: str | None = "temperature",
    objective: str | None = None,
    device: str | torch.device = "auto",
    model: nn.Module | None = None,
    accept_at: str | float | None = None,
) -> CalibratedModel:
    """A trained, calibrated model from a run directory or from a folder that `export` has written.

    Args:
        path: The run, its directory, or the exported folder.
        calibrate_with: Name of the calibrator that is fitted on the run's validation scores; None for none. An exported folder has a
            fitted one, which None leaves out.
        objective: What the calibrator minimises, by default the first of its `objectives`.
        device: Where the network is put; "auto" takes a GPU if there is one.
        model: The network of a run that was trained with a module of your own, which takes the weights of the run.
        accept_at: An accuracy, such as 0.95 or "accuracy=95%": the model's `threshold` is the confidence above which predictions have it,
            chosen on the run's validation scores. An exported folder has the one that it was exported with.

    >>> import rankmixup as rm
    >>> model = rm.load(rm.train(rm.Run("ce", optimisation=rm.Optimisation(epochs=1))))  # doctest: +SKIP
    >>> model.predict(["photo.jpg"])  # doctest: +SKIP
    """
    place, accept_at = _device(device), None if accept_at is None else asked_accuracy(accept_at)
    if isinstance(path, StoredRun):
        return _from_run(path, calibrate_with, objective, model, accept_at).to(place)
    require(isinstance(path, str | os.PathLike), f"path must be a run, its directory or an exported folder, got {shown(path)}")
    folder = Path(path)
    require(folder.is_dir(), f"path must be a run directory or an exported folder, there is none at {shown(str(folder))}")
    if (folder / "run.json").is_file():
        return _from_run(StoredRun.open(folder), calibrate_with, objective, model, accept_at).to(place)
    if not (folder / "config.json").is_file():
        raise InvalidInput(f"{folder} must be a run directory or an exported folder, it has neither run.json nor config.json")
    chosen = calibrate_with not in (None, "temperature") or objective is not None
    require(
        not chosen, f"calibrate_with must be left out, or None, for an exported folder, whose calibrator is fitted, got {calibrate_with!r}"
    )
    require(accept_at is None, f"accept_at must be given when a folder is exported, which then has a threshold, got {shown(accept_at)}")
    from rankmixup.deploy.folder import read_folder

    return read_folder(folder, model, calibrated=calibrate_with is not None).to(place)


def _device(name: str | torch.device) -> torch.device:
    """A device that this machine has."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInput(f"device must be auto or one that this machine has, such as cpu, got {shown(str(name))}") from error
    return device


def _from_run(
    stored: StoredRun, calibrate_with: str | None, objective: str | None, model: nn.Module | None, accept_at: str | float | None
) -> CalibratedModel:
    from rankmixup.reports.entry import run_protocol
    from rankmixup.runs.trained import splits_of, trained_network

    splits = splits_of(stored)
    calibrator: Any = None
    threshold = None
    if calibrate_with is not None:
        val = stored.scores("val")
        calibrator = fit_calibrator(val, calibrate_with, objective=objective, fitted_on="val", warn=False)
        if harm := calibrator.harm(val.logits, val.labels):
            warnings.warn(f"{calibrate_with} calibration is not applied: on the {len(val)} validation samples it {harm}", stacklevel=3)
            calibrator = None
    if accept_at is not None:
        threshold = choose_threshold(stored.scores("val"), accept_at, calibrator=calibrator, chosen_on="val")
    origin = Origin(stored.run.model, run_protocol(stored), stored)
    return CalibratedModel(trained_network(stored, model), calibrator, splits.class_names, splits.view, origin, threshold)
