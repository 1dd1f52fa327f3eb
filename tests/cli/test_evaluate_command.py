"""The command and `rm.evaluate` say the same of the same numbers, in whatever precision and file they are stored."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import rankmixup as rm
from rankmixup import metrics
from rankmixup.cli.main import main

PRECISIONS = ("float16", "float32", "float64")
SUFFIXES = (".npz", ".pt", ".safetensors")


def write(path: Path, kind: str, scores: np.ndarray, labels: np.ndarray) -> str:
    arrays = {kind: scores, "labels": labels}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".pt":
        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    else:
        save_file(arrays, path)
    return str(path)


def softmax(logits: np.ndarray, precision: str) -> np.ndarray:
    return torch.from_numpy(logits.astype(np.float32)).softmax(1).numpy().astype(precision)


def assert_command_and_function_agree(folder: Path, suffix: str, kind: str, test, val, capsys, **options) -> dict:
    files = [write(folder / f"{name}{suffix}", kind, *arrays) for name, arrays in (("test", test), ("val", val))]
    arguments = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["evaluate", files[0], "--calibrate-on", files[1], "--json", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    report = rm.evaluate(*test, calibrate_on=val, from_logits=kind == "logits", **options).to_dict()
    for found in (told, report):
        del found["source"], found["calibration"]["fitted_on"]
    assert told == json.loads(json.dumps(report))
    return report


def overconfident(rng, samples=300, classes=5) -> tuple[np.ndarray, np.ndarray]:
    """Half of the confidences round to 1 in float32; the right temperature is 8."""
    logits = torch.randn(samples, classes, generator=rng, dtype=torch.float64) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    return (8 * logits).numpy(), labels.numpy()


@pytest.mark.parametrize("calibrate_with", ["temperature", "isotonic"])
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_command_and_the_function_agree(precision, kind, calibrate_with, rng, tmp_path, capsys):
    suffix = SUFFIXES[PRECISIONS.index(precision)]
    test, val = (
        (scores.astype(precision) if kind == "logits" else softmax(scores, precision), labels)
        for scores, labels in (overconfident(rng), overconfident(rng))
    )
    options = {"replicates": 20, "calibrate_with": calibrate_with}
    report = assert_command_and_function_agree(tmp_path, suffix, kind, test, val, capsys, **options)
    batches = [(torch.from_numpy(test[0][rows]), torch.from_numpy(test[1][rows])) for rows in (slice(0, 100), slice(100, None))]
    for key, make in (("aurc", metrics.AURC), ("ks", metrics.KSCalibrationError), ("ece", metrics.ExpectedCalibrationError)):
        streaming = make(from_logits=kind == "logits")
        for batch in batches:
            streaming.update(*batch)
        assert streaming.compute().item() == pytest.approx(report["metrics"][key]["value"], abs=1e-12), key


def test_a_confidence_that_rounds_to_one_still_has_a_rank(rng):
    """Predictions of log-odds 20 to 60: of two, the right one is the surer one."""
    margin = torch.linspace(20, 60, 41, dtype=torch.float64)
    logits = torch.stack([margin, torch.zeros(41, dtype=torch.float64)], dim=1)
    labels = (margin < 40).long()
    for precision in (torch.float16, torch.float32, torch.float64):
        assert metrics.correctness_auroc(logits.to(precision), labels, from_logits=True).item() == 1
        assert metrics.aurc(logits.to(precision), labels, from_logits=True).item() == pytest.approx(
            sum((k - 21) / k for k in range(22, 42)) / 41
        )


def test_a_probability_rounded_to_zero_does_not_decide_the_temperature(rng):
    """Half precision has no probability between 0 and 6e-8; one right class among the zeros must not outweigh the rest."""
    logits = 3 * torch.randn(20_000, 10, generator=rng, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    held_out = (2 * logits).softmax(1).half()
    assert (held_out.gather(1, labels.unsqueeze(1)) == 0).any()
    report = rm.evaluate(held_out, labels, calibrate_on=(held_out, labels), from_logits=False, replicates=5)
    assert report.calibration.parameters["temperature"] == pytest.approx(2, abs=0.05)


@pytest.mark.data
@pytest.mark.skipif("RANKMIXUP_DATA" not in os.environ, reason="RANKMIXUP_DATA does not name a folder with logits/")
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_command_and_the_function_agree_on_published_logits(suffix, precision, kind, tmp_path, capsys):
    folder = Path(os.environ["RANKMIXUP_DATA"]) / "logits"
    splits = []
    for split in ("test", "val"):
        with np.load(folder / f"resnet110_cifar10_{split}.npz") as file:
            scores, labels = file["logits"], file["labels"]
        splits.append((scores.astype(precision) if kind == "logits" else softmax(scores, precision), labels))
    report = assert_command_and_function_agree(tmp_path, suffix, kind, *splits, capsys, replicates=20)
    assert report["metrics"]["ece"]["value"] == pytest.approx(0.0475035083, abs=1e-4 if precision == "float16" else 1e-6)
