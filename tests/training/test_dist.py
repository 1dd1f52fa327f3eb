"""Two processes against one: the same update, the same metrics, one history; and every way to start them."""

import dataclasses
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

import rankmixup as rm
from rankmixup.data import Dataset, Split, View, training_batches
from rankmixup.data.batches import epoch_size
from rankmixup.evaluation import Scores, all_metrics
from rankmixup.methods import CRL, CrossEntropy, Method, objective
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_best
from rankmixup.testing import two_processes
from rankmixup.training.fabric import set_up, sharding
from rankmixup.training.optimisation import update
from rankmixup.training.resume import load_training_state, training_state

pytestmark = pytest.mark.dist

EPOCHS = 4
OPTIMISATION = rm.Optimisation(epochs=EPOCHS, batch_size=10, lr=0.05)
"""Five steps in an epoch of 47 samples; the last of 7 is 4 and 3 for two processes."""


def images() -> Dataset:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randint(256, (47, 3, 8, 8), generator=rng).to(torch.uint8), torch.randint(4, (47,), generator=rng)
    split = Split(x, y, torch.arange(47))
    return Dataset(split, split, split, ("a", "b", "c", "d"), View(8, (0.5,) * 3, (0.25,) * 3, "crop", padding=2, flip=True))


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.random.default_generator.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 4))


def joined(rank: int, **options) -> Fabric:
    """One of two processes that have already met."""
    os.environ |= {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    fabric = Fabric(accelerator="cpu", devices=2, **options)
    fabric.launch()
    return fabric


def trained(fabric: Fabric, method: Method, optimisation: rm.Optimisation, model: nn.Module):
    """The step after all epochs, and what it was shown and answered."""
    dataset, seen = images(), []
    held = objective(method, 4, dataset_size=47, rank=fabric.global_rank)
    step, optimiser = set_up(fabric, model, held, optimisation)
    step.module.model.register_forward_hook(lambda _, __, logits: seen.extend(logits.argmax(1).tolist()))
    places = []
    for epoch in range(EPOCHS):
        held.epoch = epoch
        ranks = {"rank": fabric.global_rank, "world_size": fabric.world_size}
        for number, batch in enumerate(training_batches(dataset, optimisation.batch_size, seed=0, epoch=epoch, **ranks)):
            total = min(optimisation.batch_size, epoch_size(dataset) - number * optimisation.batch_size)
            update(fabric, step, optimiser, batch, total, optimisation)
            places.extend(batch.index.tolist())
    return step, optimiser, list(zip(places, seen, strict=True))


def parameters(model: nn.Module) -> list[list[float]]:
    return [parameter.detach().flatten().tolist() for parameter in model.parameters()]


def train_one_of_two(rank: int, optimisation: rm.Optimisation) -> list[list[float]]:
    model = network()
    trained(joined(rank, strategy="ddp", precision="64-true"), CrossEntropy(), optimisation, model)
    return parameters(model)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_make_the_updates_of_one(accumulate):
    """20 steps with augmentation, the last of each epoch unevenly divided."""
    first, second = two_processes(train_one_of_two, dataclasses.replace(OPTIMISATION, accumulate=accumulate))
    model = network()
    _, _, answers = trained(Fabric(accelerator="cpu", devices=1, precision="64-true"), CrossEntropy(), OPTIMISATION, model)
    assert len(answers) == EPOCHS * 47
    assert first == second
    for two, one, begun in zip(first, parameters(model), parameters(network()), strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-7)
        assert np.abs(np.array(one) - begun).max() > 1e-3


def train_one_of_two_with_history(rank: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    step, _, answers = trained(joined(rank, strategy="ddp"), CRL(), OPTIMISATION, network())
    state = step.module.objective.state
    return state.correct.tolist(), state.visits.tolist(), answers


def test_the_merged_history_is_what_both_processes_saw():
    first, second = two_processes(train_one_of_two_with_history)
    counts, labels = [0] * 47, images().train.y.tolist()
    for place, answer in first[2] + second[2]:
        counts[place] += answer == labels[place]
    assert 0 < sum(counts) < EPOCHS * 47
    assert first[0] == second[0] == counts
    assert first[1] == second[1] == [EPOCHS] * 47


def train_one_of_two_sharded(rank: int) -> tuple[list[list[float]], int, bool]:
    """Parameters, how many this process holds, and whether saving and loading changes what follows."""
    fabric = joined(rank, strategy=sharding(2))
    model, again = network(), network()
    step, optimiser, _ = trained(fabric, CrossEntropy(), OPTIMISATION, model)
    held = sum(parameter.to_local().numel() for parameter in model.parameters())
    state = fabric.broadcast(training_state(fabric, model, optimiser))
    other_step, other_optimiser = set_up(fabric, again, objective(CrossEntropy(), 4), OPTIMISATION)
    load_training_state(fabric, again, other_optimiser, state)
    batch = next(training_batches(images(), 10, seed=0, epoch=9, rank=rank, world_size=2))
    for one, its_optimiser in ((step, optimiser), (other_step, other_optimiser)):
        update(fabric, one, its_optimiser, batch, 10, OPTIMISATION)
    same = all(torch.equal(one.full_tensor(), two.full_tensor()) for one, two in zip(model.parameters(), again.parameters(), strict=True))
    return [value.flatten().tolist() for value in state["model"].values()], held, same


def test_a_network_divided_among_processes_trains_as_a_whole_one():
    (weights, held, same), (_, others, _) = two_processes(train_one_of_two_sharded)
    model = network()
    trained(Fabric(accelerator="cpu", devices=1), CrossEntropy(), OPTIMISATION, model)
    for two, one in zip(weights, parameters(model), strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-4)
    assert held + others == sum(parameter.numel() for parameter in model.parameters())
    assert same


def command(runs, *more: str, method: str = "ce", launcher: tuple[str, ...] = ("-m",)) -> list[str]:
    size = ["--model", "resnet8", "--data.train-size", "101", "--epochs", "1", "--accelerator", "cpu", "--runs", str(runs), "--json"]
    return [sys.executable, *launcher, "rankmixup", "train", method, *size, *more]


def result(done: subprocess.CompletedProcess) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_torchrun_starts_a_run_whose_metrics_are_exact(tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    done = result(subprocess.run(command(tmp_path, launcher=launcher), capture_output=True, text=True, timeout=300))
    stored = StoredRun.open(tmp_path / done["id"])
    for split in ("val", "test"):
        scores = Scores.read(stored.predictions_path(split))
        assert scores.labels.tolist() == getattr(stored.run.data.load(), split).y.tolist()
        exact = all_metrics(scores.logits, scores.labels, from_logits=True)
        told = {name: value for name, value in done["metrics"][split].items() if value is not None}
        assert told == pytest.approx({name: exact[name] for name in told})
        assert {"accuracy", "nll", "ece"} <= set(told)


def test_two_nodes_find_each_other_by_an_address(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    nodes = [
        subprocess.Popen(
            command(tmp_path, "--nodes", "2"),
            env=os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": str(number), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    (out, errors), (silence, others) = (node.communicate(timeout=300) for node in nodes)
    assert [node.returncode for node in nodes] == [0, 0], errors + others
    assert json.loads(out)["state"] == "finished"
    assert silence == ""


def train_frozen(rank: int, start: str, folder: str) -> list[str]:
    """A head by two processes, every layer by its own rate by two, and the names of what has moved in the former."""
    joined(rank, strategy="ddp")  # for the environment: the loop makes its own
    optimisation = rm.Optimisation(epochs=1, batch_size=16, optimiser="adamw", lr=0.01, layer_decay=0.5)
    data = rm.data.Digits(train_size=50)
    runs = [rm.Run("rankmixup-mrl", data, "resnet8", optimisation, init_from=start, freeze=freeze) for freeze in (True, False)]
    stored, _ = (rm.train(run, runs=folder, accelerator="cpu") for run in runs)
    before = load_best(StoredRun.open(start).checkpoints, StoredRun.open(start).run.id)
    return [name for name, value in load_best(stored.checkpoints, stored.run.id).items() if not torch.equal(value, before[name])]


def test_two_processes_train_the_head_of_a_frozen_network(tmp_path):
    run = rm.Run("ce", rm.data.Digits(train_size=50), "resnet8", rm.Optimisation(epochs=1, batch_size=16))
    start = rm.train(run, runs=tmp_path / "start")
    assert two_processes(train_frozen, str(start.path), str(tmp_path / "runs")) == (["fc.weight", "fc.bias"],) * 2


def train_every_method(rank: int, folder: str) -> list[str]:
    """Names of those that finished, through the loop of `rm.train`."""
    joined(rank, strategy="ddp")  # for the environment: the loop makes its own
    finished = []
    for name in Method.registry:
        optimisation = rm.Optimisation(epochs=1, batch_size=16, lr=0.01)
        data = rm.data.Synthetic(train_size=49, val_size=21, test_size=21, imbalance=2.0)
        stored = rm.train(rm.Run(name, data=data, model="resnet8", optimisation=optimisation), runs=folder, accelerator="cpu")
        finished += [name] if stored.finished else []
    return finished


def test_every_method_trains_an_epoch_in_two_processes(tmp_path):
    first, second = two_processes(train_every_method, str(tmp_path))
    assert first == second == list(Method.registry)
