"""A method under Lightning's Trainer takes the very steps that it takes in a plain loop, also when it is taken up again."""

import re
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import rankmixup as rm
from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.testing import TinyNet, toy_batch

lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from rankmixup.integrations.lightning import MethodModule  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # about workers, loggers and short epochs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CLASSES, SIZE = 4, 24


def loader() -> DataLoader:
    data = toy_batch(SIZE, CLASSES)
    return DataLoader(TensorDataset(data.x, data.y, torch.arange(SIZE)), batch_size=8)


def sgd(parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def network() -> TinyNet:
    with random.global_seed(0, "tests"):
        return TinyNet(CLASSES)


def module(method: str) -> MethodModule:
    return MethodModule(network(), method, CLASSES, sgd, dataset_size=SIZE)


def trainer(folder, epochs: int) -> "lightning.Trainer":
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "enable_checkpointing": False}
    return lightning.Trainer(accelerator="cpu", devices=1, max_epochs=epochs, default_root_dir=folder, **quiet)


@pytest.mark.parametrize("validation", [True, False])
def test_a_network_of_another_width_than_num_classes_is_refused(validation, tmp_path):
    wrong = MethodModule(network(), "mixup", CLASSES + 1, sgd)
    with pytest.raises(InvalidInput, match=f"one logit for each of {CLASSES + 1} classes"):
        trainer(tmp_path, 1).fit(wrong, loader(), loader() if validation else None)


@pytest.mark.parametrize("method", ["crl", "rankmixup-mndcg"])
def test_training_and_resuming_take_the_steps_of_a_plain_loop(method, tmp_path):
    model, step = network(), rm.objective(method, CLASSES, dataset_size=SIZE)
    optimiser = sgd(model.parameters())
    for step.epoch in range(3):
        for x, y, index in loader():
            optimiser.zero_grad()
            step(model, x, y, index).loss.backward()
            optimiser.step()
    begun = trainer(tmp_path, epochs=2)
    begun.fit(module(method), loader())
    begun.save_checkpoint(tmp_path / "last.ckpt")
    resumed = module(method)
    trainer(tmp_path, epochs=3).fit(resumed, loader(), ckpt_path=tmp_path / "last.ckpt")
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), resumed.model.parameters(), strict=True))
    for name, value in step.state_dict().items():
        assert torch.equal(value, resumed.objective.state_dict()[name]), name


def test_validation_tells_nll_and_accuracy(tmp_path):
    told = trainer(tmp_path, epochs=1).validate(module("ce"), loader(), verbose=False)[0]
    data = toy_batch(SIZE, CLASSES)
    logits = network().eval()(data.x)
    assert told["val_nll"] == pytest.approx(torch.nn.functional.cross_entropy(logits, data.y).item(), rel=1e-5)
    assert told["val_accuracy"] == pytest.approx((logits.argmax(1) == data.y).float().mean().item())


def test_the_example_of_the_documents_trains():
    text = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "scaling.md", "exec"), names)
    assert names["module"].objective.steps == 4


def test_without_the_package_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.delitem(sys.modules, "rankmixup.integrations.lightning")
    with pytest.raises(InvalidInput, match="needs the package 'lightning'"):
        import rankmixup.integrations.lightning  # noqa: F401


def test_validation_sets_the_dials(tmp_path):
    """As in a plain loop that calls `tune` after each epoch; they are part of a checkpoint."""
    tuned = module("rankmixup-auto")
    fit = trainer(tmp_path, 3)
    fit.fit(tuned, loader(), loader())
    assert tuned.objective._controller.updates == 3
    assert fit.callback_metrics["margin"] == pytest.approx(tuned.objective.dials["margin"])
    checkpoint: dict = {}
    tuned.on_save_checkpoint(checkpoint)
    again = module("rankmixup-auto")
    again.objective.load_state_dict(checkpoint["objective"][0])
    assert again.objective.dials == tuned.objective.dials


def test_a_dial_without_validation_batches_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="margin must be set by feedback"):
        trainer(tmp_path, 2).fit(module("rankmixup-auto"), loader())
