import json
import math
import subprocess
import sys

import pytest
import torch
from lightning_fabric import Fabric
from scipy import stats
from torch import nn

import rankmixup as rm
from rankmixup.data import Digits, Synthetic
from rankmixup.methods import CrossEntropy, RankMixupMNDCG, RankMixupMRL
from rankmixup.random import stream
from rankmixup.runs import StoredRun
from rankmixup.runs.checkpoint import load_best
from rankmixup.training import diagnostics
from rankmixup.training.diagnostics import RANKING_KEYS, ranking_diagnostics
from rankmixup.training.predict import Predictor

FABRIC = Fabric(accelerator="cpu", devices=1)


@pytest.fixture(scope="module")
def dataset():
    return Digits(train_size=50).load()


class Nearest(nn.Module):
    """Logits that are higher the nearer an input is to the mean image of a class: it is the less sure, the more a sample is mixed."""

    def __init__(self, dataset):
        super().__init__()
        self.means = nn.Parameter(torch.stack([dataset.val.x[dataset.val.y == label].mean(dim=0).flatten() for label in range(10)]))

    def forward(self, x):
        return -torch.cdist(x.flatten(1), self.means).square() / 10


def diagnosed(model, dataset, method=None, seed=0):
    predictor = Predictor(FABRIC, model, dataset.view)
    return ranking_diagnostics(predictor, dataset.val, predictor.predict(dataset.val), method or CrossEntropy(), seed)


def test_the_figures_are_those_of_the_very_mixes(dataset):
    model, method = Nearest(dataset), RankMixupMRL(margin=1.0)
    found = diagnosed(model, dataset, method)
    own, partner, lam = diagnostics._drawn(dataset.val.y, stream(0, "diagnostics"))
    with torch.no_grad():
        scores = [
            [model((weight * dataset.val.x[i] + (1 - weight) * dataset.val.x[j]).unsqueeze(0)).squeeze(0) for i, j, weight in each]
            for each in (zip(own.tolist(), mates, weights, strict=True) for mates, weights in zip(partner.tolist(), lam, strict=True))
        ]
        raw = model(dataset.val.x[own])
    mixed = torch.stack([torch.stack(each) for each in scores])
    certain, sure = mixed.double().softmax(dim=-1).amax(dim=-1), raw.double().softmax(dim=-1).amax(dim=-1)
    folded = torch.maximum(lam, 1 - lam)
    assert found["tau"] == pytest.approx(stats.kendalltau(folded.flatten().numpy(), certain.flatten().numpy()).statistic, abs=1e-4)
    assert found["violated_raw"] == pytest.approx((certain > sure).double().mean().item(), abs=2e-3)
    wrong = [(folded[a] > folded[b]) & (certain[a] < certain[b]) for a in range(3) for b in range(3) if a != b]
    assert found["violated_mixed"] == pytest.approx(torch.stack(wrong).sum().item() / (3 * len(own)), abs=2e-3)
    active = mixed.amax(dim=-1) - raw.amax(dim=-1) + 1.0 > 0
    assert found["active_hinges"] == pytest.approx(active.double().mean().item(), abs=2e-3)
    assert found["tau"] > 0.1
    assert 0 < found["violated_mixed"] < 0.5


def test_partners_are_of_another_class_and_every_one_of_those_can_be_drawn():
    target = torch.tensor([0, 2, 2, 5, 0, 5, 5])
    seen = set()
    for seed in range(200):
        own, partner, lam = diagnostics._drawn(target, stream(seed, "diagnostics"))
        assert (target[partner] != target[own]).all()
        assert own.sort().values.tolist() == list(range(7))
        assert ((lam >= 0) & (lam <= 1)).all()
        seen |= {(i, j) for row in partner.tolist() for i, j in zip(own.tolist(), row, strict=True)}
    assert seen == {(i, j) for i in range(7) for j in range(7) if target[i] != target[j]}


def test_at_most_a_thousand_samples_are_mixed():
    own, partner, lam = diagnostics._drawn(torch.arange(5000) % 10, stream(0, "diagnostics"))
    assert (own.shape, partner.shape, lam.shape) == ((1000,), (3, 1000), (3, 1000))
    assert len(own.unique()) == 1000


def test_only_a_method_with_hinges_has_active_ones(dataset):
    model = Nearest(dataset)
    assert diagnosed(model, dataset, RankMixupMNDCG())["active_hinges"] is None
    shares = [diagnosed(model, dataset, RankMixupMRL(margin=margin))["active_hinges"] for margin in (0.0, 2.0, 1e6)]
    assert shares[0] < shares[1] < shares[2] == 1
    out_of_reach = diagnosed(model, dataset, RankMixupMRL(margin=1.0, space="probability"))
    assert out_of_reach["active_hinges"] > 0.99  # confidences differ by less than 1


def test_the_same_mixes_in_every_epoch_and_others_for_another_seed(dataset):
    model = Nearest(dataset)
    assert diagnosed(model, dataset) == diagnosed(model, dataset)
    assert diagnosed(model, dataset) != diagnosed(model, dataset, seed=1)


def test_a_network_that_knows_nothing_and_one_class_have_no_order(dataset):
    constant = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    nn.init.zeros_(constant[1].weight)
    found = diagnosed(constant, dataset)
    assert found == {"tau": None, "violated_raw": 0.0, "violated_mixed": 0.0, "active_hinges": None}
    synthetic = Synthetic(val_size=40).load()
    alike = synthetic.val[(synthetic.val.y == synthetic.val.y[0]).nonzero().squeeze(1)]
    object.__setattr__(synthetic, "val", alike)
    model = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(alike.x.shape[1:]), 10))
    assert diagnosed(model, synthetic) == dict.fromkeys(RANKING_KEYS)


def test_nothing_global_is_drawn_and_the_network_stays_in_training_mode(dataset):
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(), nn.Linear(64, 10)).train()
    before, state = torch.random.get_rng_state(), {name: value.clone() for name, value in model.state_dict().items()}
    diagnosed(model, dataset)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert model.training


@pytest.mark.dist
def test_two_processes_log_what_one_computes_from_their_network(tmp_path):
    command = [sys.executable, "-m", "rankmixup", "train", "rankmixup-mrl", "--model", "mlp", "--data.train-size", "50", "--epochs", "1"]
    command += ["--accelerator", "cpu", "--devices", "2", "--runs", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    stored = StoredRun.open(tmp_path / json.loads(done.stdout)["id"])
    dataset = stored.run.data.load()
    model = rm.build_model("mlp", num_classes=10, image_size=8, in_channels=1)
    model.load_state_dict(load_best(stored.checkpoints, stored.run.id))
    assert stored.history()[0].ranking == pytest.approx(diagnosed(model, dataset, stored.run.method), abs=2e-3)
