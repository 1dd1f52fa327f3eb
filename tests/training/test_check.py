"""`train --show` refuses what training would refuse, and reads no images to know it."""

import re

import numpy as np
import pytest
import torch

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Npz, Synthetic
from rankmixup.errors import InvalidInput
from rankmixup.methods import RankMixupMRL
from rankmixup.training import check_run
from tests.data.original_formats import noise, write_image


def save(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return f"npz:{folder / 'a.npz'}"


def images(classes=3, **changes):
    return {"x": noise(30, 8, 8), "y": np.arange(30) % classes} | changes


@pytest.mark.parametrize(
    ("arrays", "flags", "message"),
    [
        (images(y=np.arange(30) / 2), [], "'y' of .* must hold an integer or text for each of 30 samples, got float64"),
        (images(y=np.arange(29) % 3), [], r"got int64 of shape \[29\]"),
        (images(y=np.r_[np.arange(29) % 3, 7]), [], "class '7' must have a sample for each of train, val and test"),
        (images(x=np.zeros((30, 8, 9), np.uint8)), [], r"must hold square images of 1 or 3 channels, got shape \[30, 8, 9\]"),
        (images(x=np.zeros((30, 4))), ["--model", "resnet8"], "without convolutions, such as 'mlp', .* got 'resnet8'"),
        (images(x=np.zeros((30, 4))), ["--data.augment", "crop"], "augment of images of torch.float64 must be none, got 'crop'"),
        (images(), ["--mixer", "manifold", "--mixer.layer", "nowhere"], "nowhere"),
        (images(), ["--model", "torchvision/nothing"], "unknown model of torchvision 'nothing'"),
        (images(), ["--data.imbalance", "1000"], "imbalance must leave the rarest class a sample"),
    ],
)
def test_what_training_would_refuse(arrays, flags, message, tmp_path, capsys):
    command = ["train", "mixup", "--data", save(tmp_path, **arrays), *flags]
    errors = []
    for more in (["--show"], ["--runs", str(tmp_path / "runs")]):
        assert main([*command, *more]) == 2
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1]  # the sentence of training, which is not repeated elsewhere
    assert re.search(message, errors[0])
    assert not (tmp_path / "runs").exists()


def test_too_few_classes(tmp_path, capsys):
    assert main(["train", "cpc", "--data", save(tmp_path, **images(2)), "--show"]) == 2
    assert "at least 3 classes" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="at least 3 classes"):
        check_run(rm.Run("cpc", data=Synthetic(num_classes=2)))
    check_run(rm.Run("cpc", data=Synthetic(num_classes=3)))


def test_images_are_not_read(tmp_path, monkeypatch):
    run = rm.Run("rankmixup-mrl", data=save(tmp_path, **images()))
    monkeypatch.setattr("rankmixup.data.arrays.require_finite", lambda *_: pytest.fail("read"))
    monkeypatch.setattr("torch.from_numpy", _small(torch.from_numpy))
    check_run(run)


def _small(from_numpy):
    def checked(array):
        assert array.size <= 30
        return from_numpy(array)

    return checked


def test_folders_are_listed_and_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for size, name in ((16, "small"), (70, "large")):
        for number in range(24):
            write_image(tmp_path / name / "ab"[number % 2] / f"{number}.png", noise(size, size, 3, seed=number))
        source = rm.Run("ce", data=f"folder:{tmp_path / name}").data
        loaded, outline = source.load(), source.outline()
        with monkeypatch.context() as patched:
            patched.setattr("rankmixup.data.own.decode_all", lambda *_: pytest.fail("decoded"))
            patched.setattr("rankmixup.data.own.undecodable", lambda *_: pytest.fail("decoded"))
            assert source.outline().view == loaded.view
        assert outline.manifest() == loaded.manifest()
        with pytest.raises(InvalidInput, match="at least 3 classes"):
            check_run(rm.Run("cpc", data=source))


def test_a_run_is_shown_without_its_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "ce", "--data", "imagenet", "--model", "resnet50", "--show"]) == 0
    assert main(["train", "mixup", "--data", "cifar10", "--mixer", "manifold", "--mixer.layer", "nowhere", "--show"]) == 2
    assert "nowhere" in capsys.readouterr().err
    source = Npz(path=save(tmp_path, **images())[4:])
    (tmp_path / "a.npz").unlink()
    check_run(rm.Run("ce", data=source))


def test_a_split_for_tuning_must_leave_samples(tmp_path):
    run = rm.Run(RankMixupMRL(margin="auto"), data=save(tmp_path, **images()), tune_on=0.01)
    with pytest.raises(InvalidInput, match="tune_on must leave validation samples on both sides"):
        check_run(run)
