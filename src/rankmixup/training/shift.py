"""Calibration of finished runs under distribution shift."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankmixup.config import content_hash
from rankmixup.data.corruptions import SEVERITIES
from rankmixup.errors import one_line, require, require_whole, shown, unknown_name
from rankmixup.evaluation.resampling import check_replicates
from rankmixup.evaluation.shift import measure_run
from rankmixup.evaluation.shift_comparison import compare_methods
from rankmixup.evaluation.shift_results import Shift
from rankmixup.hardware import Hardware
from rankmixup.metrics.rows import check_num_bins
from rankmixup.runs import StoredRun
from rankmixup.runs.naming import settings_apart
from rankmixup.training.shifted import Images, ShiftSettings, predict_shifted


def shift(
    runs: StoredRun | str | os.PathLike[str] | Sequence[StoredRun | str | os.PathLike[str]],
    *,
    corruptions: str | Sequence[str] = ("all",),
    severities: Sequence[int] = SEVERITIES,
    images: Images = "auto",
    limit: int | None = None,
    baseline: str | None = None,
    labels: Mapping[str, str] | None = None,
    num_bins: int = 15,
    replicates: int = 1000,
    seed: int = 0,
    data_root: str | os.PathLike[str] | None = None,
    hardware: Hardware = Hardware(),  # noqa: B008 - frozen
) -> Shift:
    """Accuracy, ECE and NLL of finished runs on corrupted test images, before and after the temperature of clean validation samples.

    Predictions are kept in the runs as `predictions/shift-NAME-SEVERITY.npz`, files of scores, and are not computed again. Runs that differ
    by their seed alone are one method.

    Args:
        runs: A run or several: directories, or what `rm.train` returned.
        corruptions: Names from `rm.list_corruptions()`, groups (noise, blur, weather, digital), or "all".
        severities: Some of 1 to 5.
        images: `"published"` reads CIFAR-10-C, CIFAR-100-C or Tiny-ImageNet-C below the data root, `"generated"` corrupts the test images,
            `"auto"` reads the files where their folder exists.
        limit: Use only so many images, always the same ones.
        baseline: The method that others are compared with, by its name in the result; by default that of the first run.
        labels: Names of methods by the id of a run, where the method's own name would not do.
        num_bins: Bins of ECE.
        replicates: Resamples behind every interval and noise floor.
        seed: Seed of generated images and of the resampling.
        data_root: Folder with the data sets; by default RANKMIXUP_DATA, or else `data`.
        hardware: Where the networks run.

    Returns:
        The result; print it, or see `Shift.to_dict`.
    """
    check_replicates(replicates)
    check_num_bins(num_bins)
    names = (corruptions,) if isinstance(corruptions, str) else _listed("corruptions must be names of corruptions", corruptions)
    chosen = [require_whole("severities", each) for each in _listed("severities must be a list of whole numbers", severities)]
    settings = ShiftSettings(names, tuple(sorted(set(chosen))), images, limit, seed)
    rule = "runs must be a run directory, what rm.train returned, or a list of these"
    given = (runs,) if isinstance(runs, StoredRun | str | os.PathLike) else _listed(rule, runs)
    for each in given:
        require(isinstance(each, StoredRun | str | os.PathLike), f"{rule}, got {shown(each)}")
    stored = [each if isinstance(each, StoredRun) else StoredRun.open(each) for each in given]
    require(len(stored) > 0, "runs must hold at least one run, got none")
    require(
        len({each.run.id for each in stored}) == len(stored), f"runs must hold each run once, got {shown([each.run.id for each in stored])}"
    )
    require(labels is None or isinstance(labels, Mapping), f"labels must name methods by the id of a run, got {shown(labels)}")
    groups = grouped(stored, labels or {})
    baseline = next(iter(groups)) if baseline is None else baseline
    if baseline not in groups:
        raise unknown_name("baseline", baseline, groups)
    predicted = predict_shifted(stored, settings, Path(data_root) if data_root is not None else None, hardware)
    sets = {0: ["clean"]} | {severity: list(predicted.names) for severity in settings.severities}
    options: dict[str, Any] = {"num_bins": num_bins, "replicates": replicates, "seed": seed}
    measured = {
        label: [
            measure_run(predicted.reader(run), run.scores("val"), sets, source=one_line(str(run.path)), run_seed=run.run.seed, **options)
            for run in members
        ]
        for label, members in groups.items()
    }
    methods, reversals = compare_methods(measured, baseline)
    head = (baseline, predicted.kind, predicted.size, seed, predicted.names, settings.severities)
    return Shift(*head, methods, reversals, predicted.left_out)


def _listed(rule: str, values: Any) -> tuple[Any, ...]:
    require(isinstance(values, Iterable) and not isinstance(values, str), f"{rule}, got {shown(values)}")
    return tuple(values)


def grouped(stored: Sequence[StoredRun], labels: Mapping[str, str]) -> dict[str, list[StoredRun]]:
    """Runs that differ by their seed alone, by the name of their method, and what sets it apart where several have it."""
    found: dict[str, list[StoredRun]] = {}
    for run in stored:
        described = {key: value for key, value in run.run.to_dict().items() if key != "seed"}
        found.setdefault(content_hash(described), []).append(run)
    names = [labels.get(members[0].run.id, members[0].run.method.name) for members in found.values()]
    settings = settings_apart([members[0].run for members in found.values()])
    named = [name if names.count(name) == 1 else f"{name} ({apart})" for name, apart in zip(names, settings, strict=True)]
    return dict(zip(named, found.values(), strict=True))
