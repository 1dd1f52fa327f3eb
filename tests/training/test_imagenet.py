import json

import pytest
import torch
from PIL import Image

from rankmixup.cli.main import main
from rankmixup.random import stream
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_checkpoint


def write_photos(root):
    """JPEGs of odd sizes in ImageNet's folders: four to train on, four more of which two are for validation."""
    rng = stream(0, "photos")
    for part in ("train", "val"):
        for name in ("n01440764", "n01443537"):
            folder = root / "imagenet" / part / name
            folder.mkdir(parents=True)
            for number, (height, width) in enumerate(((250, 300), (240, 230))):
                pixels = torch.randint(256, (height, width, 3), generator=rng, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(folder / f"{name}_{number}.JPEG")


def test_two_steps_on_photos_with_the_imagenet_recipe(tmp_path, capsys):
    write_photos(tmp_path)
    flags = ["--data", "imagenet", "--data-root", str(tmp_path), "--model", "resnet18", "--epochs", "1", "--batch-size", "2"]
    assert main(["train", "ce", *flags, "--workers", "0", "--runs", str(tmp_path / "runs"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    stored = StoredRun.open(tmp_path / "runs" / result["id"])
    assert stored.run.model == "resnet18:imagenet"
    assert (stored.run.optimisation.optimiser, stored.run.optimisation.schedule) == ("adamw", "cosine")
    assert len(stored.scores("val").labels) == len(stored.scores("test").labels) == 2
    (last,) = stored.checkpoints.glob("step-*.pt")
    state = load_checkpoint(last, stored.run.id)["optimiser"]
    assert {moments["step"].item() for moments in state["state"].values()} == {2}
    # The second of two steps of the first epoch is half-way up the warm-up.
    assert [group["lr"] for group in state["param_groups"]] == pytest.approx([(5e-7 + 5e-4) / 2] * 2)
