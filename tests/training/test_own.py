"""A module and data of the user's own in the place of those by name: resumed exactly, evaluated without the class."""

import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from torch import nn

import rankmixup as rm
from rankmixup import random
from rankmixup.cli.main import main
from rankmixup.errors import Interrupted, InvalidInput, WorkFailed
from rankmixup.methods import LossMethod, Method
from rankmixup.methods import register as register_method
from rankmixup.mixers import CutMix
from rankmixup.models.own import warn_unless_same
from rankmixup.runs import StoredRun
from rankmixup.runs.trained import trained_network
from rankmixup.testing import two_processes
from tests.oracles import unchecked
from tests.training.runs import EPOCHS, At, crash, logits, same, short


def network(seed=0, inputs=4) -> nn.Module:
    """With dropout and BatchNorm, so that torch's generator and buffers count too."""
    with random.global_seed(seed, "test"):
        return nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def rows(count, seed):
    """Three classes that are far apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    return (np.eye(3, 4)[y] * 2.5 + rng.normal(size=(count, 4))).astype(np.float32), y


class Augmented(torch.utils.data.Dataset):
    """Rows with noise that torch's generator draws."""

    def __init__(self, count, seed):
        self.x, self.y = rows(count, seed)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, place):
        return torch.from_numpy(self.x[place]) + torch.randn(4), int(self.y[place])


def arrays():
    return rows(60, 0), rows(30, 1), rows(90, 2)


def augmented():
    return Augmented(60, 0), Augmented(30, 1), Augmented(90, 2)


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("data", [arrays, augmented])
def test_a_run_that_crashed_again_and_again_ends_as_if_it_had_not(data, tmp_path):
    run, module = short("rankmixup-mndcg"), network()
    before = weights(module)
    whole = rm.train(run, model=module, data=data(), runs=tmp_path / "whole")
    for epoch, step in ((0, 2), (1, None), (1, 1), (2, 3), (EPOCHS, None)):
        crashing = At(crash, epoch=epoch, step=step)
        with pytest.raises(KeyboardInterrupt):
            rm.train(run, model=module, data=data(), runs=tmp_path / "crashed", watcher=crashing, checkpoint_every="2steps")
    assert same(whole, rm.train(run, model=module, data=data(), runs=tmp_path / "crashed"))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())  # the given module is left as it is
    assert whole.result().metrics["test"]["accuracy"] > 0.6


def partly_frozen(whole_mode):
    """The first layer and BatchNorm frozen in the two ways that networks have, in a network whose own mode is this one."""
    module = network().train(whole_mode)
    module[0].requires_grad_(False)
    module[1].eval()
    for part in module[2:]:
        part.train()
    return module


@pytest.mark.parametrize("whole_mode", [True, False])
def test_what_is_frozen_stays_so(whole_mode, tmp_path):
    module = partly_frozen(whole_mode)
    modes = [part.training for part in module.modules()]
    given = {"model": module, "data": arrays()}
    stored = rm.train(short("rankmixup-mrl"), **given, runs=tmp_path)
    before, after = module.state_dict(), trained_network(stored, module).state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"1.weight", "1.bias", "4.weight", "4.bias"}
    assert [part.training for part in module.modules()] == modes
    crashing = At(crash, epoch=1, step=1)
    with pytest.raises(KeyboardInterrupt):
        rm.train(short("rankmixup-mrl"), **given, runs=tmp_path / "crashed", watcher=crashing, checkpoint_every="1steps")
    assert same(stored, rm.train(short("rankmixup-mrl"), **given, runs=tmp_path / "crashed"))


def test_a_frozen_body_in_a_module_in_evaluation_mode_stays_as_it_is(tmp_path):
    """With the statistics of its BatchNorm, and without dropout; the rest is trained, though it was in evaluation mode too."""
    body = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.9)).requires_grad_(False)
    module = nn.Sequential(body, nn.Dropout(), nn.Linear(16, 3)).eval()
    seen = []
    module.register_forward_hook(lambda given, *_: seen.append(tuple(part.training for part in (given[0][2], given[1]))))
    stored = rm.train(short(), model=module, data=arrays(), runs=tmp_path)
    assert set(seen) == {(False, True), (False, False)}
    seen.clear()  # what a hook refers to is part of what it does
    before, after = module.state_dict(), trained_network(stored, module).state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"2.weight", "2.bias"}


@pytest.mark.slow
def test_worker_processes_change_nothing(tmp_path):
    one = rm.train(short(), model=network(), data=augmented(), runs=tmp_path / "one")
    assert same(one, rm.train(short(), model=network(), data=augmented(), runs=tmp_path / "two", workers=2))


def signal_all(number):
    """As a scheduler does it, or Ctrl-C: the workers get the signal too, and not from the main process."""
    everyone = [*(each.pid for each in multiprocessing.active_children()), os.getpid()]
    subprocess.run(["kill", f"-{int(number)}", *map(str, everyone)], check=True)
    time.sleep(0.3)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_worker_processes_too_saves_the_run(number, tmp_path):
    stopped, data = At(lambda: signal_all(number), epoch=1, step=2), (Augmented(240, 0), *augmented()[1:])  # more than is made ahead
    with pytest.raises(Interrupted, match=f"was stopped by {number.name} and saved after epoch 2, step 2"):
        rm.train(short(), model=network(), data=data, runs=tmp_path, workers=1, watcher=stopped)
    finished = rm.train(short(), model=network(), data=data, runs=tmp_path)
    assert same(finished, rm.train(short(), model=network(), data=data, runs=tmp_path / "whole"))


class Dies(Augmented):
    """Ends the worker process that makes its samples, as a system without memory does."""

    def __getitem__(self, place):
        if torch.utils.data.get_worker_info() is not None:
            os._exit(1)
        return super().__getitem__(place)


def test_a_worker_process_that_is_gone_is_one_sentence(tmp_path):
    with pytest.raises(WorkFailed, match=r"a worker process is gone, perhaps for want of memory \(DataLoader worker"):
        rm.train(short(), model=network(), data=(Dies(60, 0), *augmented()[1:]), runs=tmp_path, workers=1)


def test_lazily_made_and_in_memory_train_the_same(tmp_path):
    class Plain(Augmented):
        def __getitem__(self, place):
            return self.x[place], self.y[place]

    lazy = rm.train(short(), model=network(), data=(Plain(60, 0), Plain(30, 1), Plain(90, 2)), runs=tmp_path)
    eager = rm.train(short(), model=network(), data=arrays(), runs=tmp_path)
    assert lazy.run.id != eager.run.id
    assert same(lazy, eager)


def test_what_the_run_is(tmp_path):
    run = short()
    stored = rm.train(run, model=network(), data=arrays(), runs=tmp_path)
    assert stored.run == dataclasses.replace(run, model=stored.run.model, data=stored.run.data)
    assert stored.run.model.startswith("own:")
    assert (stored.run.data.name, stored.run.data.sizes, stored.run.data.num_classes) == ("own", (60, 30, 90), 3)
    assert rm.train(run, model=network(), data=arrays(), runs=tmp_path).path == stored.path
    assert len(list(tmp_path.iterdir())) == 1
    for changes in ({"model": network(1)}, {"data": (rows(60, 9), *arrays()[1:])}):
        assert rm.train(run, runs=tmp_path, **{"model": network(), "data": arrays(), **changes}).path != stored.path


class Shaken(Augmented):
    """Noise that numpy draws anew whenever a sample is made."""

    rng = np.random.default_rng(0)

    def __init__(self, count, seed, strength=0.1):
        super().__init__(count, seed)
        self.strength = strength

    def __getitem__(self, place):
        return self.x[place] + self.strength * self.rng.normal(size=4).astype(np.float32), int(self.y[place])


class Listed(Augmented):
    """Labels are read without making samples."""

    @property
    def targets(self):
        return self.y


def test_an_older_run_is_never_returned_silently(tmp_path):
    """Where the data are known by less than their content."""
    weak, strong = (tuple(Shaken(count, seed, strength) for count, seed in ((60, 0), (30, 1), (90, 2))) for strength in (0.1, 50.0))
    with pytest.raises(InvalidInput, match=r"'train' must have samples that are the same when they are made again .* a name="):
        rm.train(short(), data=weak, runs=tmp_path)
    stored = rm.train(short(), data=weak, name="weak", runs=tmp_path)
    assert stored.run.data.known_as == "weak"
    assert rm.train(short(), data=strong, name="strong", runs=tmp_path).path != stored.path
    with pytest.warns(UserWarning, match=rf"run {stored.path}, made before, is returned: it is known by the name 'weak'; give"):
        assert rm.train(short(), data=strong, name="weak", runs=tmp_path).path == stored.path
    listed = lambda: (Listed(90, 0), *augmented()[1:])  # noqa: E731
    stored = rm.train(short(), data=listed(), runs=tmp_path)
    (stored.path / "result.json").unlink()
    with pytest.warns(UserWarning, match="is continued: it is known by all labels and 64 samples of each split alone; give a name= if"):
        rm.train(short(), data=listed(), runs=tmp_path)


def test_code_of_ones_own_is_known_by_name_and_fields(tmp_path, monkeypatch):
    """A class that was edited in a notebook has the id of what it was before."""
    monkeypatch.setattr(Method.registry, "_entries", {**Method.registry._entries})

    @register_method("edited")
    class Edited(LossMethod):
        function = staticmethod(torch.nn.functional.cross_entropy)

    stored = rm.train(short(method="edited"), data=arrays(), runs=tmp_path)
    with pytest.warns(UserWarning, match=rf"run {stored.path}, made before, is returned: its Edited is known by name and fields; remove"):
        rm.train(short(method="edited"), data=arrays(), runs=tmp_path)


@pytest.mark.parametrize(
    ("given", "message"), [({"name": "a"}, "name must go with model or data of your own, got 'a'"), ({"name": "a\nb"}, "a line")]
)
def test_a_name_alone_is_refused(given, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        rm.train(short(), runs=tmp_path, **given)


def test_the_trained_weights_are_those_that_the_scores_are_of(tmp_path):
    stored = rm.train(short(), model=network(), data=arrays(), runs=tmp_path)
    trained = trained_network(stored, network(5)).eval()
    with torch.no_grad():
        np.testing.assert_allclose(trained(torch.from_numpy(arrays()[2][0])).numpy(), logits(stored), atol=1e-5)
    with pytest.raises(InvalidInput, match=r"model 'own:[0-9a-f]{6}-[0-9a-f]{12}' must be given as a module"):
        trained_network(stored)
    with pytest.raises(InvalidInput, match=r"model must have the weights of run .* \(Error\(s\) in loading state_dict"):
        trained_network(stored, nn.Linear(2, 3))


class Activated(nn.Linear):
    def __init__(self, activation):
        with random.global_seed(0, "test"):
            super().__init__(4, 3)
        self.activation = activation

    def forward(self, x):
        return self.activation(super().forward(x))


@pytest.mark.filterwarnings("ignore:temperature calibration is not applied")  # of thirty validation samples
def test_a_module_that_does_something_else_is_not_loaded_silently(tmp_path):
    """Its weights have the same names and shapes."""
    stored = rm.train(short(), model=Activated(torch.tanh), data=arrays(), runs=tmp_path)
    folder = rm.load(stored, model=Activated(torch.tanh)).export(tmp_path / "model").folder
    for place in (stored, folder):
        rm.load(place, model=Activated(torch.tanh))
        with pytest.warns(UserWarning, match=r"model must have the code and attributes of the module .* predictions are others"):
            rm.load(place, model=Activated(torch.relu))
    described = json.loads((stored.path / "run.json").read_text())
    old = rm.Run.from_dict({**described, "model": "own:1a2b3c4d5e6f"})  # as version 0.2 named it
    warn_unless_same(Activated(torch.relu), old.model)


@pytest.mark.slow
def test_evaluating_needs_no_class_and_resuming_says_what_it_needs(tmp_path, capsys):
    stored = rm.train(short(), model=network(), data=arrays(), runs=tmp_path)
    other = rm.train(short(seed=1), model=network(), data=arrays(), runs=tmp_path)
    opened = StoredRun.open(stored.path)
    assert opened.scores("test").logits.shape == (90, 3)
    assert opened.splits().class_names == ("0", "1", "2")
    for command in (
        ["evaluate", stored.path],
        ["report", stored.path, "-o", tmp_path / "report.html"],
        ["compare", stored.path, other.path, "--each"],
    ):
        assert main([*map(str, command)]) == 0
    assert main(["train", "--resume", str(stored.path), "--json"]) == 0  # finished: there is nothing to train
    (stored.path / "result.json").unlink()
    capsys.readouterr()
    assert main(["train", "--resume", str(stored.path)]) == 2
    assert "data 'own' must be given again, to rm.train(run, data=(train, val, test)), with model= too" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match=r"continue it with rm.train\(run, model=..., data=...\)$"):
        StoredRun.open(stored.path).result()


def test_a_module_alone_on_data_by_name(tmp_path, capsys):
    module = nn.Sequential(nn.Flatten(), network(inputs=64), nn.Linear(3, 10))
    stopped = At(lambda: os.kill(os.getpid(), signal.SIGTERM), epoch=1, step=2)
    with pytest.raises(Interrupted, match=r"continue it with rm.train\(run, model=...\)$"):
        rm.train(short(), model=module, runs=tmp_path, watcher=stopped)
    (path,) = tmp_path.iterdir()
    assert main(["train", "--resume", str(path)]) == 2
    error = capsys.readouterr().err
    assert "must be given as a module, since it is one of your own: give it again, rm.train(run, model=module)" in error
    finished = rm.train(short(), model=module, runs=tmp_path)
    assert finished.path == path
    assert same(finished, rm.train(short(), model=module, runs=tmp_path / "again"))


def test_a_network_by_name_on_data_of_the_users_own(tmp_path):
    stored = rm.train(short(), data=arrays(), runs=tmp_path)
    assert stored.run.model == "mlp"
    assert stored.result().metrics["test"]["accuracy"] > 0.75
    images = tuple((np.zeros((12, 2, 3, 4), np.float32), np.arange(12) % 2) for _ in range(3))
    with pytest.raises(InvalidInput, match=r"model must be a module of your own, .* for inputs of shape \[2, 3, 4\], .* got 'mlp'"):
        rm.train(short(), data=images, runs=tmp_path)


def test_frozen_weights_stay(tmp_path):
    module = network()
    module[0].requires_grad_(False)
    with pytest.raises(KeyboardInterrupt):
        rm.train(short(), model=module, data=arrays(), runs=tmp_path, watcher=At(crash, epoch=1, step=3), checkpoint_every="1steps")
    stored = rm.train(short(), model=module, data=arrays(), runs=tmp_path)
    assert same(stored, rm.train(short(), model=module, data=arrays(), runs=tmp_path / "whole"))
    trained = trained_network(stored, module)
    assert torch.equal(trained[0].weight, module[0].weight)
    assert not torch.equal(trained[4].weight, module[4].weight)


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo):
        raise TypeError("not this one")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("mlp", r"model must be a torch.nn.Module, got 'mlp'"),
        (nn.Linear(5, 3), r"model must take inputs of shape \[2, 4\] and return 3 logits for each \(RuntimeError: .*shapes"),
        (nn.Linear(4, 2), r"model must take inputs of shape \[2, 4\] and return 3 logits for each \(InvalidInput: "),
        (Uncopied(4, 3), r"model must be a module that copy.deepcopy can copy \(TypeError: not this one\)"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_before_anything_is_written(model, message, tmp_path):
    with unchecked(), pytest.raises(InvalidInput, match=message):
        rm.train(short(), model=model, data=arrays(), runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rectangles_of_rows_are_refused_before_anything_is_written(tmp_path):
    run = dataclasses.replace(short("mixup"), method=rm.Run("mixup").method.with_fields({"mixer": CutMix()}))
    with pytest.raises(InvalidInput, match=r"mixer 'cutmix' must be given images of more than one pixel, got inputs of shape \[4\]"):
        rm.train(run, model=network(), data=arrays(), runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_table_trains_with_the_defaults(tmp_path, capsys):
    x, y = rows(300, 0)
    np.savez(tmp_path / "table.npz", x=x * [1, 1000, 1e-3, 1] + 50, y=np.array(["ant", "bee", "cow"])[y])
    arguments = ["--data", f"npz:{tmp_path / 'table.npz'}", "--epochs", "5", "--runs", str(tmp_path / "runs"), "--json"]
    assert main(["train", "rankmixup-mndcg", *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    stored = StoredRun.open(tmp_path / "runs" / result["id"])
    assert stored.run.model == "mlp"
    assert result["metrics"]["test"]["accuracy"] > 0.75
    view = stored.splits().view
    assert (view.values, view.input_shape, view.in_channels) == ("floats", (4,), 4)
    np.testing.assert_allclose(view.mean[1], 50 + 1000 * 2.5 / 3, rtol=0.2)
    module = rm.train(rm.Run("ce", data=stored.run.data, optimisation=short().optimisation), model=network(), runs=tmp_path / "runs")
    assert module.result().metrics["test"]["accuracy"] > 0.75  # rows, not images of one pixel


def train_one_of_two(rank: int, seed: int, folder: str) -> str:
    os.environ |= {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    optimisation = rm.Optimisation(epochs=2, batch_size=16)
    try:
        stored = rm.train(rm.Run("ce", optimisation=optimisation), model=network(seed * rank), data=augmented(), runs=folder)
    except (InvalidInput, SystemExit) as error:
        return str(error)
    return stored.run.id


@pytest.mark.dist
def test_two_processes_train_one_module(tmp_path):
    first, second = two_processes(train_one_of_two, 0, str(tmp_path))
    assert first == second
    assert StoredRun.open(tmp_path / first).result().metrics["test"]["accuracy"] > 0.5


@pytest.mark.dist
def test_processes_with_different_modules_are_refused(tmp_path):
    first, _ = two_processes(train_one_of_two, 1, str(tmp_path))
    assert "run must be the same in all processes" in first
    assert list(tmp_path.iterdir()) == []
