"""A method under Lightning's Trainer takes the very steps that it takes in a plain loop, also when it is taken up again."""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import rankmixup as rm
from rankmixup import functional as F
from rankmixup import random
from rankmixup.errors import InvalidInput
from rankmixup.methods import CrossEntropy, RankMixupMRL
from rankmixup.mixers import CutMix
from rankmixup.testing import TinyNet, toy_batch, two_processes

lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from rankmixup.integrations.lightning import MethodMixin, MethodModule  # noqa: E402

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


def trainer(folder, epochs: int, **options) -> "lightning.Trainer":
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "enable_checkpointing": False}
    return lightning.Trainer(**{"accelerator": "cpu", "devices": 1, "max_epochs": epochs, "default_root_dir": folder} | quiet | options)


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
    text = (Path(__file__).parents[2] / "docs" / "guides" / "scaling.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "guides/scaling.md", "exec"), names)
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


@pytest.mark.parametrize(("validated", "rule"), [(False, "because it was never tuned"), (True, "at none of its 1 tunings.* on 24 samples")])
def test_a_dial_that_never_acted_is_said_once(validated, rule, tmp_path):
    with pytest.warns(UserWarning, match=rf"^margin of rankmixup-auto never acted.*{rule}") as seen:
        trainer(tmp_path, 1).fit(module("rankmixup-auto"), loader(), loader() if validated else None)
    assert len([each for each in seen if "margin" in str(each.message)]) == 1


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    """Where the names of fields that feedback sets differ, but not their number, and where there are none."""
    for one, other in (("rankmixup-auto", "rankmixup-list"), ("ce", "mixup")):
        fit = trainer(tmp_path, 1)
        fit.fit(module(one), loader(), loader())
        fit.save_checkpoint(tmp_path / "one.ckpt")
        with pytest.raises(InvalidInput, match=rf"^state must be that of {other}.*, got that of '{one}"):
            trainer(tmp_path, 2).fit(module(other), loader(), loader(), ckpt_path=tmp_path / "one.ckpt")
        with pytest.raises(InvalidInput, match=rf"^state must be that of {other}"):
            MethodModule.load_from_checkpoint(tmp_path / "one.ckpt", model=network(), method=other)


def test_a_dial_without_validation_batches_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="margin must be set by feedback"):
        trainer(tmp_path, 2).fit(module("rankmixup-auto"), loader())


FIGURES = {"ece": F.expected_calibration_error, "nll": F.negative_log_likelihood, "accuracy": F.accuracy}


def exact(stage: str, model: torch.nn.Module, data=None) -> dict[str, float]:
    data = toy_batch(SIZE, CLASSES) if data is None else data
    with torch.no_grad():
        logits = model.eval()(data.x)
    return {f"{stage}_{name}": pytest.approx(function(logits, data.y).item(), rel=1e-5) for name, function in FIGURES.items()}


def test_metrics_of_validation_and_test_are_those_of_all_samples(tmp_path):
    """ECE is no mean over batches; of several loaders each has its own."""
    assert trainer(tmp_path, 1).validate(module("ce"), loader(), verbose=False)[0] == exact("val", network())
    assert trainer(tmp_path, 1).test(module("ce"), loader(), verbose=False)[0] == exact("test", network())
    few = toy_batch(5, CLASSES, seed=1)
    others = DataLoader(TensorDataset(few.x, few.y), batch_size=2)
    first, second = trainer(tmp_path, 1).test(module("ce"), [loader(), others], verbose=False)
    assert first == {f"{name}/dataloader_idx_0": value for name, value in exact("test", network()).items()}
    assert second == {f"{name}/dataloader_idx_1": value for name, value in exact("test", network(), few).items()}


def test_each_epoch_has_metrics_of_its_own(tmp_path):
    trained, fit = module("ce"), trainer(tmp_path, 3)
    fit.fit(trained, loader(), loader())
    told = {name: value.item() for name, value in fit.callback_metrics.items() if name.startswith("val_")}
    assert told == exact("val", trained.model)


@pytest.mark.parametrize("labelled", [True, False])
def test_predictions_are_logits_of_batches_with_and_without_labels(labelled, tmp_path):
    data = toy_batch(SIZE, CLASSES)
    batches = loader() if labelled else DataLoader(data.x, batch_size=8)
    logits = torch.cat(trainer(tmp_path, 1).predict(module("ce"), batches))
    torch.testing.assert_close(logits, network().eval()(data.x))


@pytest.mark.parametrize("interval", ["epoch", "step"])
def test_a_scheduler_sets_the_learning_rate(interval, tmp_path):
    def scheduler(optimiser):
        halves = torch.optim.lr_scheduler.StepLR(optimiser, step_size=1, gamma=0.5)
        return halves if interval == "epoch" else {"scheduler": halves, "interval": "step"}

    scheduled, fit = MethodModule(network(), "ce", CLASSES, sgd, scheduler=scheduler), trainer(tmp_path, 2)
    fit.fit(scheduled, loader())
    assert fit.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * 0.5 ** {"epoch": 2, "step": 6}[interval])


def test_a_checkpoint_of_a_named_network_needs_no_arguments(tmp_path):
    """Nor anything that could run code: all of it is plain data and tensors."""
    method = RankMixupMRL(margin=1.5, mixer=CutMix(alpha=0.5))
    sizes = {"image_size": 6, "in_channels": toy_batch(SIZE, CLASSES).x.shape[1], "seed": 3, "class_counts": torch.tensor([9, 8, 4, 3])}
    trained, fit = MethodModule("mlp", method, CLASSES, sgd, **sizes), trainer(tmp_path, 1)
    fit.fit(trained, loader())
    fit.save_checkpoint(tmp_path / "last.ckpt")
    torch.load(tmp_path / "last.ckpt", weights_only=True)
    loaded = MethodModule.load_from_checkpoint(tmp_path / "last.ckpt")
    assert loaded.objective.method == method
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in trained.state_dict().items())
    assert all(torch.equal(value, loaded.objective.state_dict()[name]) for name, value in trained.objective.state_dict().items())
    assert trainer(tmp_path, 1).validate(loaded, loader(), verbose=False)[0] == exact("val", trained.model)
    with pytest.raises(InvalidInput, match=r"^optimiser must be given to train"):
        trainer(tmp_path, 1).fit(loaded, loader())


def test_loggers_are_told_the_configuration_and_callbacks_watch_the_ece(tmp_path):
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    best = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, "best", monitor="val_ece")
    fit = trainer(tmp_path, 2, logger=logger, callbacks=[best], enable_checkpointing=True, log_every_n_steps=1)
    fit.fit(MethodModule("mlp", "mrl", CLASSES, sgd, image_size=6), loader(), loader())
    assert "margin: 2.0" in (Path(logger.log_dir) / "hparams.yaml").read_text()
    header, *_ = (Path(logger.log_dir) / "metrics.csv").read_text().splitlines()
    assert {"loss", "val_ece", "val_nll", "val_accuracy"} <= set(header.split(","))
    assert MethodModule.load_from_checkpoint(best.best_model_path).objective.method == RankMixupMRL()


def test_a_network_of_ones_own_is_given_again(tmp_path):
    trained, fit = module("rankmixup-auto"), trainer(tmp_path, 1)
    fit.fit(trained, loader(), loader())
    fit.save_checkpoint(tmp_path / "last.ckpt")
    with pytest.raises(InvalidInput, match="one of your own is in no checkpoint and must be given again, got None"):
        MethodModule.load_from_checkpoint(tmp_path / "last.ckpt")
    loaded = MethodModule.load_from_checkpoint(tmp_path / "last.ckpt", model=network())
    assert all(torch.equal(one, two) for one, two in zip(loaded.parameters(), trained.parameters(), strict=True))
    assert loaded.objective.dials == trained.objective.dials


def test_a_method_that_is_not_registered_trains_and_is_given_again(tmp_path):
    class Mine(CrossEntropy):
        pass

    fit = trainer(tmp_path, 1)
    fit.fit(MethodModule(network(), Mine(), CLASSES, sgd), loader())
    fit.save_checkpoint(tmp_path / "last.ckpt")
    loaded = MethodModule.load_from_checkpoint(tmp_path / "last.ckpt", model=network(), method=Mine())
    assert isinstance(loaded.objective.method, Mine)


def test_a_named_network_needs_the_size_of_the_images():
    with pytest.raises(InvalidInput, match=r"^image_size must be given with the name of a network, got model 'mlp' alone$"):
        MethodModule("mlp", "ce", CLASSES)


class Own(MethodMixin):
    """A module that someone had before: three of its lines are new."""

    def __init__(self, method: str, **fields: object):
        super().__init__()
        self.net = network()
        self.set_method(method, CLASSES, dataset_size=SIZE, **fields)

    def training_step(self, batch, batch_idx):
        return self.method_loss(self.net, *batch)

    def validation_step(self, batch, batch_idx):
        x, y, _ = batch
        self.log_metrics("val", self.net(x), y)

    def configure_optimizers(self):
        return sgd(self.net.parameters())


@pytest.mark.parametrize("method", ["crl", "rankmixup-auto"])
def test_a_module_of_ones_own_trains_tunes_and_resumes_as_the_ready_one(method, tmp_path):
    whole = module(method)
    trainer(tmp_path, 3).fit(whole, loader(), loader())
    begun = trainer(tmp_path, 2)
    begun.fit(Own(method), loader(), loader())
    begun.save_checkpoint(tmp_path / "last.ckpt")
    own, fit = Own(method), trainer(tmp_path, 3)
    fit.fit(own, loader(), loader(), ckpt_path=tmp_path / "last.ckpt")
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), own.parameters(), strict=True))
    assert all(torch.equal(value, own.objective.state_dict()[name]) for name, value in whole.objective.state_dict().items())
    assert {name: fit.callback_metrics[name].item() for name in exact("val", own.net)} == exact("val", own.net)


@pytest.mark.parametrize("often", [{}, {"val_check_interval": 1}])
def test_going_on_from_a_checkpoint_of_a_step_sets_the_dials_as_if_training_had_not_stopped(often, tmp_path, monkeypatch):
    """Steps 2, 4 and 6 of three epochs of two; Lightning saves before it validates, and leaves a validation out when it goes on."""
    monkeypatch.setattr("rankmixup.methods.step.FITS", 100.0)  # so that the dial acts from the first validation on
    data = TensorDataset(*(each[torch.arange(SIZE) % 8] for each in loader().dataset.tensors))
    batches = DataLoader(data, batch_size=8, sampler=range(16))  # all the same, since Lightning begins with the first after a stop
    saving = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    whole = module("rankmixup-auto")
    trainer(tmp_path, 3, callbacks=[saving], enable_checkpointing=True, **often).fit(whole, batches, batches)
    for step in range(1, 7):
        resumed = module("rankmixup-auto")
        trainer(tmp_path, 3, **often).fit(resumed, batches, batches, ckpt_path=tmp_path / f"step={step}.ckpt")
        assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), resumed.parameters(), strict=True)), step
        for name, value in whole.objective.state_dict().items():
            assert torch.equal(value, resumed.objective.state_dict()[name]), (step, name)


def test_fields_of_a_method_are_given_by_name():
    assert Own("mrl", margin=1.0).objective.method == RankMixupMRL(margin=1.0)


def test_only_fitting_turns_a_dial(tmp_path):
    own = Own("rankmixup-auto")
    trainer(tmp_path, 1).validate(own, loader(), verbose=False)
    assert own.objective._controller.updates == 0


def test_a_module_without_a_method_and_a_checkpoint_without_an_objective_are_refused(tmp_path):
    class Forgotten(Own):
        def __init__(self):
            MethodMixin.__init__(self)
            self.net = network()

    with pytest.raises(InvalidInput, match=r"^Forgotten must call set_method\(method, num_classes\) in __init__, got no call$"):
        trainer(tmp_path, 1).fit(Forgotten(), loader())
    own = Own("ce")
    with pytest.raises(InvalidInput, match=r"^a checkpoint must hold the objective of its method, unless .*, got one with nothing$"):
        own.on_load_checkpoint({})
    own.strict_loading = False
    own.on_load_checkpoint({})


def train_one_of_two(rank: int, folder: str) -> tuple[dict[str, float], list[int], int]:
    """What validation tells before training, the mixing stream after it, and how many objectives go on from a checkpoint."""
    started = {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= started | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    own, path = Own("mrl"), Path(folder) / "last.ckpt"
    told = trainer(folder, 1, devices=2, strategy="ddp").validate(own, loader(), verbose=False)[0]
    fit = trainer(folder, 1, devices=2, strategy="ddp")
    fit.fit(own, loader())
    fit.save_checkpoint(path)
    resumed = Own("mrl")
    trainer(folder, 1, devices=2, strategy="ddp").fit(resumed, loader(), ckpt_path=path)
    same = all(torch.equal(value, resumed.objective.state_dict()[name]) for name, value in own.objective.state_dict().items())
    held = torch.load(path, weights_only=True)["objective"]
    return told, own.objective.get_extra_state().tolist(), len(held) if same else 0


@pytest.mark.dist
def test_two_processes_have_streams_of_their_own_and_exact_metrics(tmp_path):
    (told, stream, objectives), (others_told, others_stream, others_objectives) = two_processes(train_one_of_two, str(tmp_path))
    assert told == others_told == exact("val", network())
    assert stream != others_stream
    assert objectives == others_objectives == 2
