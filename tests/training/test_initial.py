"""Runs that start from weights: the same start bit for bit, what is trained, how the input is prepared, and resumption without them."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import rankmixup as rm
from rankmixup.cli.main import main
from rankmixup.data import Digits
from rankmixup.errors import InvalidInput, WorkFailed
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_best
from rankmixup.runs.run import build_network
from rankmixup.training import Watcher
from tests.models.test_pretrained import put_into_cache
from tests.training.runs import At, crash, logits, same

SHORT = rm.Optimisation(epochs=2, batch_size=16, milestones=())
STILL = rm.Optimisation(epochs=1, batch_size=16, lr=1e-30, weight_decay=0.0)
"""Changes no weight that is not 0."""


class Noted(Watcher):
    def __init__(self):
        self.notes = []

    def note(self, message) -> None:
        self.notes.append(message)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> StoredRun:
    run = rm.Run("ce", data=Digits(train_size=50), model="resnet8", optimisation=SHORT)
    return rm.train(run, runs=tmp_path_factory.mktemp("runs"))


def weights(stored: StoredRun) -> dict[str, torch.Tensor]:
    return load_best(stored.checkpoints, stored.run.id)


def following(trained, method="ce", optimisation=SHORT, **changes) -> rm.Run:
    return rm.Run(method, data=Digits(train_size=50), model="resnet8", optimisation=optimisation, **changes)


def test_a_run_starts_where_the_other_was_selected_bit_for_bit(trained, tmp_path):
    watcher = Noted()
    run = following(trained, optimisation=STILL, init_from=trained.path, freeze=True, selection="last")
    stored = rm.train(run, runs=tmp_path, watcher=watcher)
    count = len(weights(trained))
    assert watcher.notes == [f"{count} of {count} tensors from run {trained.path}"]
    assert all(torch.equal(value, weights(trained)[name]) for name, value in weights(stored).items())
    assert np.array_equal(logits(stored), logits(trained))
    assert rm.train(run, runs=tmp_path, watcher=watcher).run == run  # finished: says nothing
    assert len(watcher.notes) == 1


@pytest.mark.parametrize("method", ["ce", "rankmixup-mrl", "rankmixup-auto"])
def test_a_frozen_body_does_not_move_nor_do_its_statistics(method, trained, tmp_path):
    stored = rm.train(following(trained, method, init_from=trained.path, freeze=True), runs=tmp_path)
    before = weights(trained)
    for name, value in weights(stored).items():
        assert torch.equal(value, before[name]) == (not name.startswith("fc.")), name


def test_without_freezing_everything_moves(trained, tmp_path):
    stored = rm.train(following(trained, init_from=trained.path), runs=tmp_path)
    before = weights(trained)
    assert not [name for name, value in weights(stored).items() if torch.equal(value, before[name])]


@pytest.mark.parametrize("ending", [".safetensors", ".pt", "checkpoint"])
def test_weights_of_a_run_start_a_network_with_another_head(ending, trained, tmp_path, capsys):
    from safetensors.torch import save_file

    if ending == "checkpoint":
        path = next(trained.checkpoints.glob("best-*.pt"))
    else:
        path = tmp_path / f"weights{ending}"
        (save_file if ending == ".safetensors" else torch.save)(weights(trained), path)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.integers(0, 256, (60, 8, 8), dtype=np.uint8), y=np.arange(60) % 3)
    command = ["train", "ce", "--data", f"npz:{tmp_path / 'a.npz'}", "--weights", str(path), "--freeze", "--epochs", "1"]
    assert main([*command, "--runs", str(tmp_path / "runs"), "--json"]) == 0
    printed = capsys.readouterr()
    stored = StoredRun.open(tmp_path / "runs" / json.loads(printed.out)["id"])
    assert f"{path}; fc.weight, fc.bias start at random: 3 classes instead of 10" in printed.err
    found, before = weights(stored), weights(trained)
    assert all(torch.equal(value, before[name]) for name, value in found.items() if not name.startswith("fc."))
    assert found["fc.weight"].shape == (3, 64)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "run"])
@pytest.mark.parametrize("changes", [{"freeze": True}, {}])
def test_a_run_goes_on_exactly_when_its_weights_are_gone(kind, changes, trained, tmp_path):
    other = shutil.copytree(trained.path, tmp_path / trained.run.id)
    path = tmp_path / "weights.pt"
    torch.save(weights(trained), path)
    given = {"weights": path} if kind == "file" else {"init_from": other}
    optimisation = dataclasses.replace(SHORT, optimiser="adamw", lr=1e-3, layer_decay=0.5, decay_vectors=False)
    run = following(trained, optimisation=optimisation, **given, **changes)
    with pytest.raises(KeyboardInterrupt):
        rm.train(run, runs=tmp_path / "a", watcher=At(crash, epoch=1, step=2), checkpoint_every="1steps")
    straight = rm.train(run, runs=tmp_path / "b")
    shutil.rmtree(other)
    path.unlink()
    resumed = ["train", "--resume", str(tmp_path / "a" / run.id), "--json"]
    assert main(resumed) == 0
    assert same(StoredRun.open(tmp_path / "a" / run.id), straight)
    with pytest.raises(InvalidInput, match=r"no such file|must be a run directory"):
        rm.train(run, runs=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_weights_that_do_not_fit_or_have_changed_create_nothing(trained, tmp_path):
    path = tmp_path / "weights.pt"
    torch.save(weights(trained) | {"more": torch.zeros(1)}, path)
    run = following(trained, weights=path)
    with pytest.raises(InvalidInput, match="hold no other tensors, got more"):
        rm.train(run, runs=tmp_path / "runs")
    torch.save(weights(trained), path)
    with pytest.raises(InvalidInput, match="must be unchanged since the run was made"):
        rm.train(run, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_another_run_that_has_changed_since_is_refused(trained, tmp_path):
    other = shutil.copytree(trained.path, tmp_path / trained.run.id)
    run = following(trained, init_from=other)
    for path in (other / "checkpoints").glob("best-*"):
        path.unlink()
    with pytest.raises(WorkFailed, match="has no checkpoint of the best epoch with the digest"):
        rm.train(run, runs=tmp_path / "runs")
    shutil.rmtree(other)
    shutil.copytree(rm.train(following(trained, seed=1), runs=tmp_path / "others").path, other)
    with pytest.raises(InvalidInput, match=f"must be run {trained.run.id}, which the run starts from, it is run"):
        rm.train(run, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["torchvision/shufflenet_v2_x0_5", "timm/test_resnet"])
def test_grey_images_in_memory_are_normalised_as_the_weights_expect_in_three_channels(name, tmp_path, monkeypatch):
    source = put_into_cache(name, tmp_path / "cache", monkeypatch)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.integers(0, 256, (60, 32, 32), dtype=np.uint8), y=np.arange(60) % 3)
    changes = {"data": f"npz:{tmp_path / 'a.npz'}", "model": name, "optimisation": STILL, "pretrained": True, "freeze": True}
    watcher = Noted()
    stored = rm.train(rm.Run("ce", **changes), runs=tmp_path / "runs", watcher=watcher)
    assert watcher.notes[0].endswith("fc.weight, fc.bias start at random: 3 classes instead of 1000")
    view = stored.splits().view
    timm = name.startswith("timm")
    assert (view.mean, view.std) == (((0.5,) * 3, (0.5,) * 3) if timm else ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    assert (view.image_size, view.augment) == (32, "crop")
    # The stored logits are those of this very input.
    model = build_network(stored.run, 3, view)
    model.load_state_dict(weights(stored))
    assert torch.equal(model.conv1[0].weight, source.conv1[0].weight)
    x = stored.run.data.load().test.x.float() / 255
    x = (x - torch.tensor(view.mean).view(3, 1, 1)) / torch.tensor(view.std).view(3, 1, 1)
    with torch.no_grad():
        np.testing.assert_allclose(logits(stored), model.eval()(x), rtol=1e-4, atol=1e-5)
    if timm:  # which adapts the first layer to one channel
        own = rm.train(rm.Run("ce", **changes, preprocess="data"), runs=tmp_path / "runs")
        assert own.splits().view == own.run.data.load().view
        assert own.run.id != stored.run.id


def test_images_in_files_have_the_size_of_the_weights(tmp_path, monkeypatch):
    put_into_cache("timm/test_resnet", tmp_path, monkeypatch)
    rng = np.random.default_rng(0)
    for number in range(30):
        folder = tmp_path / "photos" / str(number % 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (80, 72, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    changes = {"data": f"folder:{tmp_path / 'photos'}", "model": "timm/test_resnet", "optimisation": STILL}
    stored = rm.train(rm.Run("ce", **changes, pretrained=True), runs=tmp_path / "runs", workers=0)
    assert (stored.splits().view.image_size, stored.splits().view.mean) == (160, (0.5,) * 3)
    # From that run on, its input goes with its weights.
    after = rm.train(rm.Run("ce", **changes, init_from=stored.path), runs=tmp_path / "runs", workers=0)
    assert after.splits().view == stored.splits().view


def test_colours_are_not_made_grey(tmp_path, trained):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8), y=np.arange(60) % 3)
    run = rm.Run("ce", data=f"npz:{tmp_path / 'a.npz'}", init_from=trained.path)
    with pytest.raises(InvalidInput, match="weights of 1 channels must be given images of as many, or grey ones, got 3 channels"):
        rm.train(run, runs=tmp_path / "runs")


def test_rebuilding_the_network_of_a_finished_run_looks_for_no_weights(trained, tmp_path, monkeypatch):
    other = shutil.copytree(trained.path, tmp_path / trained.run.id)
    stored = rm.train(following(trained, init_from=other), runs=tmp_path / "runs")
    shutil.rmtree(other)
    stored = StoredRun.open(stored.path)
    model = build_network(stored.run, 10, stored.splits().view)
    assert set(model.state_dict()) == set(weights(stored))
