"""A method in Hugging Face's Trainer takes the very steps that it takes in a plain loop, whatever Trainer does around it."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import SequentialSampler

import rankmixup as rm
from rankmixup import metrics, random
from rankmixup.errors import InvalidInput
from rankmixup.evaluation import predict_batches
from rankmixup.mixers import CutMix, LogitMixup, ManifoldMixup, Mixup
from rankmixup.models.weights import head_names
from rankmixup.posthoc import TemperatureScaling
from tests.pages import blocks

pytest.importorskip("transformers", reason="transformers is not installed")

from transformers import (
    AutoModelForSequenceClassification,
    EvalPrediction,
    GPT2Config,
    PreTrainedTokenizerFast,
    RobertaConfig,
    pipeline,
)

from rankmixup.integrations.transformers import RankMixupMixin, RankMixupTrainer
from tests.integrations.transformers_tasks import SIZES, arguments, bert, images, sentences, vit

pytestmark = [pytest.mark.filterwarnings("ignore")]  # of Trainer, about devices, pinned memory and restored states

EMBEDDINGS = ManifoldMixup(layer="embeddings")
MODELS = {"bert": (bert, sentences), "vit": (vit, images)}


class InOrder(RankMixupTrainer):
    """Takes the samples in their order, as the plain loops here do."""

    def _get_train_sampler(self, *_: Any) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


def trainer(folder, model: str = "bert", method: Any = "ce", size: int = 32, cls: type = InOrder, **options: Any) -> RankMixupTrainer:
    make, data = MODELS[model]
    given = {name: options.pop(name) for name in ("fields", "compute_metrics", "num_classes", "class_counts") if name in options}
    network = options.pop("network", None) or make()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    given["optimizers"] = (optimiser, torch.optim.lr_scheduler.ConstantLR(optimiser, factor=1.0))
    return cls(network, arguments(folder, **options), train_dataset=data(size), eval_dataset=data(24, seed=1), method=method, **given)


def plain_loop(model: str, method: Any, fields: dict[str, Any], *, steps: int = 4, batch: int = 8, accumulate: int = 1, size: int = 32):
    make, data = MODELS[model]
    network, step = make().train(), rm.objective(method, 2, seed=42, dataset_size=size, class_counts=[9, 7], **fields)
    optimiser, place = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9), 0
    for _ in range(steps):
        optimiser.zero_grad()
        for _ in range(accumulate):
            rows = slice(place % size, place % size + batch)
            x = {name: column[rows] for name, column in data(size).columns.items() if name != "title"}
            (step(network, x, x["labels"], torch.arange(size)[rows]).loss / accumulate).backward()
            place += batch
        optimiser.step()
    return network, step


def assert_same_weights(one: torch.nn.Module, other: torch.nn.Module, **tolerance: float) -> None:
    for (name, first), second in zip(one.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(first, second, msg=name, **(tolerance or {"rtol": 0, "atol": 0}))


CASES = [
    ("vit", Mixup()),
    ("vit", CutMix()),
    ("vit", EMBEDDINGS),
    ("vit", LogitMixup()),
    ("bert", EMBEDDINGS),
    ("bert", ManifoldMixup(layer="embeddings", forward="separate")),
    ("bert", ManifoldMixup(layer="bert.pooler")),
    ("bert", LogitMixup()),
]
SOME = [
    (model, mixer, "rankmixup-mndcg")
    for model, mixer in (("vit", Mixup()), ("vit", EMBEDDINGS), ("bert", EMBEDDINGS), ("bert", LogitMixup()))
]


@pytest.mark.parametrize(("model", "mixer", "method"), [(*case, "rankmixup-mrl") for case in CASES] + SOME)
def test_training_takes_the_steps_of_a_plain_loop(model, mixer, method, tmp_path):
    trained = trainer(tmp_path, model, method, fields={"mixer": mixer})
    trained.train()
    network, _ = plain_loop(model, method, {"mixer": mixer})
    assert_same_weights(trained.model, network)
    told = trained.state.log_history[0]
    assert told["loss"] == pytest.approx(told["ce"] + 0.1 * told["ranking"], rel=1e-5)


@pytest.mark.parametrize("version", ["new", "old"])
@pytest.mark.parametrize("method", ["focal"])
def test_accumulated_batches_are_one_large_batch(method, version, tmp_path, monkeypatch):
    """Versions of Trainer that do not know `loss_is_scaled_for_ga` look elsewhere."""
    if version == "old":
        monkeypatch.setattr(RankMixupMixin, "loss_is_scaled_for_ga", None)
    large, parts = (trainer(tmp_path, method=method, per_device_train_batch_size=8 // n, gradient_accumulation_steps=n) for n in (1, 4))
    large.train(), parts.train()
    assert_same_weights(parts.model, large.model, rtol=0, atol=1e-6)
    for one, other in zip(large.state.log_history[:4], parts.state.log_history[:4], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-5)


@pytest.mark.parametrize("version", ["new", "old"])
def test_accumulated_batches_of_unequal_sizes_are_one_large_batch(version, tmp_path, monkeypatch):
    """Nine samples as 4, 4 and 1, twice; each counts the same."""
    if version == "old":
        monkeypatch.setattr(RankMixupMixin, "loss_is_scaled_for_ga", None)
    sizes = ({"per_device_train_batch_size": 9}, {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3})
    large, parts = (trainer(tmp_path, method="mbls", size=9, max_steps=2, **size) for size in sizes)
    large.train(), parts.train()
    assert_same_weights(parts.model, large.model, rtol=0, atol=1e-6)
    for one, other in zip(large.state.log_history[:2], parts.state.log_history[:2], strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)


def test_accumulated_mixes_are_those_of_a_plain_loop(tmp_path):
    fields = {"mixer": EMBEDDINGS}
    trained = trainer(tmp_path, method="mrl", fields=fields, max_steps=2, per_device_train_batch_size=4, gradient_accumulation_steps=2)
    trained.train()
    assert_same_weights(trained.model, plain_loop("bert", "mrl", fields, steps=2, batch=4, accumulate=2)[0])


RESUMED = [
    ("bert", "rankmixup-mndcg", {"mixer": EMBEDDINGS}, RankMixupTrainer),
    ("vit", "crl", {}, RankMixupTrainer),
    ("bert", "rankmixup-auto", {}, InOrder),
]


@pytest.mark.parametrize(("model", "method", "fields", "cls"), RESUMED)
def test_resuming_goes_on_as_if_training_had_not_stopped(model, method, fields, cls, tmp_path):
    """Shuffled and with dropout; from the middle of an epoch."""

    def made(folder: str) -> RankMixupTrainer:
        network = bert(hidden_dropout_prob=0.3) if model == "bert" else None
        more = {"save_strategy": "steps", "save_steps": 3, "eval_strategy": "steps", "eval_steps": 2}
        return trainer(tmp_path / folder, model, method, cls=cls, fields=fields, network=network, max_steps=6, **more)

    whole = made("whole")
    whole.train()
    resumed = made("resumed")
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert_same_weights(whole.model, resumed.model)
    for name, value in whole.objective.state_dict().items():
        assert torch.equal(value, resumed.objective.state_dict()[name]), name


def test_a_checkpoint_of_another_method_or_trainer_is_refused(tmp_path):
    trainer(tmp_path, save_strategy="steps", save_steps=2).train()
    with pytest.raises(InvalidInput, match=r"the method must be that of .*CrossEntropy.*got Focal"):
        trainer(tmp_path, method="focal").train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    (tmp_path / "checkpoint-2" / "rankmixup_objective_0.safetensors").write_bytes(b"\x08")
    with pytest.raises(InvalidInput, match="must be the saved state of a method, it cannot be read"):
        trainer(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    (tmp_path / "checkpoint-2" / "rankmixup_objective_0.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"must hold rankmixup_objective_0\.safetensors"):
        trainer(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


@pytest.mark.parametrize("keep", [True, False])
def test_positions_of_samples_reach_the_method(keep, tmp_path):
    """Also where Trainer removes columns that the model does not take, and in any order."""
    data = images(32)
    data.columns.pop("title") if keep else None
    trained = trainer(tmp_path, "vit", "crl", cls=RankMixupTrainer, max_steps=-1, num_train_epochs=2, remove_unused_columns=not keep)
    trained.train_dataset = data
    trained.train()
    assert trained.objective.state.visits.tolist() == [2] * 32
    _, step = plain_loop("vit", "crl", {}, steps=4)
    ordered = trainer(tmp_path, "vit", "crl")
    ordered.train()
    assert torch.equal(ordered.objective.state.correct, step.state.correct)


@pytest.mark.parametrize("method", ["remix", "unimix"])
def test_classes_are_counted_where_a_method_needs_it(method, tmp_path):
    counts = torch.bincount(images(32).columns["labels"], minlength=2)
    assert trainer(tmp_path, "vit", method).objective._class_counts.tolist() == counts.tolist()
    assert trainer(tmp_path, "vit", "ce").objective._class_counts is None
    given = trainer(tmp_path, "vit", method, class_counts=[9, 7])
    given.train()
    network, _ = plain_loop("vit", method, {})
    assert_same_weights(given.model, network)


def logits_of(trained: RankMixupTrainer, data: Any) -> torch.Tensor:
    x = {name: column for name, column in data.columns.items() if name not in ("labels", "title")}
    with torch.no_grad():
        return trained.model.eval()(**x).logits


@pytest.mark.parametrize("own", [False, True])
def test_evaluation_adds_metrics_with_their_noise_floor(own, tmp_path):
    def mine(scored: EvalPrediction) -> dict[str, float]:
        assert scored.predictions.shape == (24, 2)
        return {"accuracy": -1.0, "half": float(np.mean(scored.label_ids))}

    trained = trainer(tmp_path, compute_metrics=mine if own else None)
    told, data = trained.evaluate(), sentences(24, seed=1)
    logits, target = logits_of(trained, data), data.columns["labels"]
    assert told["eval_nll"] == pytest.approx(metrics.negative_log_likelihood(logits, target).item(), rel=1e-5)
    assert told["eval_loss"] == pytest.approx(told["eval_nll"], rel=1e-5)
    assert told["eval_ece"] == pytest.approx(metrics.expected_calibration_error(logits, target).item(), rel=1e-5)
    assert told["eval_brier"] == pytest.approx(metrics.brier_score(logits, target).item(), rel=1e-5)
    floor = rm.evaluate(logits, target).metrics["ece"].floor
    assert told["eval_ece_floor"] == pytest.approx(floor.mean, rel=0.15)
    assert told["eval_accuracy"] == (-1.0 if own else pytest.approx((logits.argmax(1) == target).float().mean().item()))
    assert ("eval_half" in told) == own
    assert trained.predict(data).metrics["test_nll"] == pytest.approx(told["eval_nll"])
    assert rm.evaluate(trained.model, trained.get_eval_dataloader(), replicates=10).value("nll") == pytest.approx(
        told["eval_nll"], rel=1e-5
    )


def test_a_model_that_diverged_is_evaluated(tmp_path):
    trained = trainer(tmp_path)
    torch.nn.init.constant_(trained.model.classifier.bias, float("nan"))
    told = trained.evaluate()
    assert np.isnan([told["eval_nll"], told["eval_ece"], told["eval_ece_floor"]]).all()


@pytest.mark.parametrize(("name", "greater"), [("ece", False), ("eval_nll", False), ("brier", False), ("accuracy", True), ("loss", False)])
def test_errors_are_minimised(name, greater, tmp_path):
    assert trainer(tmp_path, metric_for_best_model=name).args.greater_is_better == greater


@pytest.mark.parametrize("model", ["bert", "vit"])
def test_the_best_model_by_an_error_has_the_smallest(model, tmp_path):
    every = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trained = trainer(tmp_path, model, metric_for_best_model="nll", load_best_model_at_end=True, **every)
    trained.train()
    assert trained.evaluate()["eval_nll"] == pytest.approx(trained.state.best_metric)
    assert trained.state.best_metric == min(told["eval_nll"] for told in trained.state.log_history if "eval_nll" in told)


def test_evaluation_sets_the_dials(tmp_path):
    """As in a plain loop that calls `tune`, by the samples of all evaluation sets; not where nothing is trained."""
    trained = trainer(tmp_path, method="rankmixup-auto", eval_strategy="steps", eval_steps=2, eval_on_start=True)
    trained.eval_dataset = {"one": sentences(24, seed=1), "other": sentences(8, seed=2)}
    trained.objective._fit = torch.tensor([0.0, 1000.0])  # as of a network that fits its training samples
    trained.train()
    assert trained.objective._controller.updates == 2
    margins = [told["margin"] for told in trained.state.log_history if "margin" in told]
    assert len(margins) == 4
    assert margins[:2] == [-20.0, -20.0]
    assert margins[2] > -20.0
    trained.evaluate()
    assert trained.objective._controller.updates == 2


@pytest.mark.parametrize(
    ("eval_steps", "rule"),
    [(100, "at none of its 1 tunings.* on 32 samples"), (2, "at none of its 2 tunings.* on 32 samples")],
)
def test_a_dial_that_never_acted_is_said_once(eval_steps, rule, tmp_path):
    trained = trainer(tmp_path, method="rankmixup-auto", eval_strategy="steps", eval_steps=eval_steps)
    trained.eval_dataset = sentences(32, seed=1)
    with pytest.warns(UserWarning, match=rf"^margin of rankmixup-auto never acted.*{rule}") as seen:
        trained.train()
    assert len([each for each in seen if "margin" in str(each.message)]) == 1


def test_bfloat16(tmp_path):
    trained = trainer(tmp_path, "vit", "rankmixup-mndcg", bf16=True, eval_strategy="steps", eval_steps=4)
    trained.train()
    network, _ = plain_loop("vit", "rankmixup-mndcg", {})
    assert trained.model.classifier.weight.dtype == torch.float32
    assert not torch.equal(trained.model.classifier.weight, network.classifier.weight)
    assert_same_weights(trained.model, network, rtol=0.05, atol=0.05)


WRONG = [
    ({"fields": {"mixer": Mixup()}, "method": "mrl"}, r"x must hold a floating point tensor .*ManifoldMixup\(layer=\"embeddings\"\)"),
    ({"fields": {"mixer": ManifoldMixup(layer="bert.encoder.layer.0")}, "method": "mrl"}, "layer must be 'embeddings' or a layer behind"),
    ({"fields": {"mixer": ManifoldMixup(layer="nowhere")}, "method": "mrl"}, "unknown layer of BertForSequenceClassification 'nowhere'"),
    ({"label_smoothing_factor": 0.1}, "label_smoothing_factor must be 0"),
    ({"method": "rankmixup-auto"}, "eval_strategy must be 'steps' or 'epoch': evaluation sets margin of the method, got 'no'"),
    ({"method": "nothing"}, "unknown method 'nothing'"),
    ({"num_classes": 3}, "one logit for each of 3 classes"),
    ({"network": bert(problem_type="regression")}, "problem_type of the model's config must be"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_cannot_be_trained_is_refused(options, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        trainer(tmp_path, **options).train()


def test_a_batch_without_labels_is_refused(tmp_path):
    trained = trainer(tmp_path)
    trained.train_dataset.columns["label_of_another_name"] = trained.train_dataset.columns.pop("labels")
    with pytest.raises(InvalidInput, match=r"a batch must hold labels as one of \['labels'\], got \["):
        trained.train()


def test_the_model_is_never_given_labels(tmp_path):
    network, seen = bert(), []
    network.register_forward_pre_hook(lambda module, args, kwargs: seen.append(sorted(kwargs)), with_kwargs=True)
    trained = trainer(tmp_path, method="mrl", fields={"mixer": EMBEDDINGS}, network=network)
    trained.train(), trained.evaluate()
    assert seen
    assert all(keys == ["attention_mask", "input_ids"] for keys in seen)


def test_without_the_package_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for name in ("transformers", "transformers_calibration", "transformers_checkpoints"):
        monkeypatch.delitem(sys.modules, f"rankmixup.integrations.{name}")
    with pytest.raises(InvalidInput, match=r"needs the package transformers, which is missing: pip install 'rankmixup\[transformers\]'"):
        import rankmixup.integrations.transformers  # noqa: F401


@pytest.mark.slow
def test_the_examples_of_the_documents_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in blocks("guides/transformers.md", "python"):
        exec(compile(example, "guides/transformers.md", "exec"), names)
    assert names["trainer"].state.global_step > 0
    assert names["trainer"].state.log_history[-1]["eval_accuracy"] > 0.9
    assert names["step"].steps > 0


@pytest.mark.slow
def test_the_page_on_pipelines_calibrates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in blocks("guides/pipeline.md", "python"):
        exec(compile(example, "guides/pipeline.md", "exec"), names)
    assert names["report"].parameters["temperature"] > 1.5
    assert names["test"]["eval_ece"] < names["report"].before["ece"] / 2
    assert {each["label"] for each in names["classify"](["good"])[0]} == {"good", "bad"}


def overconfident(kind: str) -> torch.nn.Module:
    """Random networks with heads of several kinds, whose logits are too far apart."""
    tiny = {"vocab_size": 20, "num_labels": 2, "pad_token_id": 0}
    kinds = {
        "roberta": lambda: AutoModelForSequenceClassification.from_config(
            RobertaConfig(**tiny, max_position_embeddings=20, **SIZES), attn_implementation="eager"
        ),
        "gpt2": lambda: AutoModelForSequenceClassification.from_config(GPT2Config(**tiny, n_positions=12, n_embd=32, n_layer=1, n_head=2)),
    }
    with random.global_seed(0, "overconfident"):
        made = MODELS[kind][0]() if kind in MODELS else kinds[kind]()
    with torch.no_grad():
        made.get_submodule(head_names(made)[-1]).weight.normal_(std=5, generator=random.stream(0, "head"))
    return made


def softmax(model: torch.nn.Module, data: Any) -> torch.Tensor:
    x = {name: column for name, column in data.columns.items() if name not in ("title", "labels")}
    with torch.no_grad():
        return model.eval()(**x).logits.softmax(dim=1)


def overconfident_trainer(folder, kind: str, **options: Any) -> RankMixupTrainer:
    """With evaluation samples whose labels are drawn by the probabilities of logits that are closer together."""
    trained = trainer(folder, "vit" if kind == "vit" else "bert", network=options.pop("network", None) or overconfident(kind), **options)
    trained.eval_dataset = MODELS["vit" if kind == "vit" else "bert"][1](200, seed=1)
    logits, _ = predict_batches(trained.model, trained.get_eval_dataloader())
    gaps = logits[:, 1] - logits[:, 0]
    chosen = torch.rand(200, generator=random.stream(0, "labels")) < (1.5 * gaps / gaps.abs().mean()).sigmoid()
    trained.eval_dataset.columns["labels"] = chosen.long()
    return trained


@pytest.mark.parametrize("kind", ["bert", "vit", "roberta", "gpt2"])
def test_a_temperature_is_in_the_saved_weights(kind, tmp_path):
    trained = overconfident_trainer(tmp_path, kind)
    data, before = trained.eval_dataset, trained.evaluate()
    scaling = TemperatureScaling().fit(*predict_batches(trained.model, trained.get_eval_dataloader()))
    expected = scaling.predict_proba(predict_batches(trained.model, trained.get_eval_dataloader())[0])
    report = trained.calibrate()
    assert report.parameters["temperature"] == pytest.approx(scaling.temperature_, rel=1e-5)
    assert report.parameters["temperature"] > 1.5
    assert trained.evaluate()["eval_nll"] == pytest.approx(report.after["nll"], rel=1e-4) != before["eval_nll"]
    trained.save_model(tmp_path / "saved")
    saved = type(trained.model).from_pretrained(tmp_path / "saved")
    torch.testing.assert_close(softmax(saved, data), expected, rtol=1e-4, atol=1e-5)
    assert saved.config.rankmixup_temperature == report.parameters["temperature"]
    again = trained.calibrate(data)  # which finds next to nothing left to do, and is recorded too if it does anything
    assert again.parameters["temperature"] == pytest.approx(1, abs=1e-3)
    assert trained.model.config.rankmixup_temperature == pytest.approx(report.parameters["temperature"], rel=1e-3)


def test_a_pipeline_gives_calibrated_probabilities(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[PAD]": 0, **{f"w{number}": number for number in range(1, 20)}}, unk_token="[PAD]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    trained = overconfident_trainer(tmp_path, "bert")
    data = trained.eval_dataset
    trained.processing_class = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
    before = softmax(trained.model, data)
    trained.calibrate()
    trained.save_model(tmp_path / "saved")
    classify = pipeline("text-classification", model=str(tmp_path / "saved"), top_k=None, device="cpu")
    for row in range(4):
        ids = data.columns["input_ids"][row]
        (told,) = classify([" ".join(f"w{number}" for number in ids[ids > 0].tolist())])
        found = {each["label"]: each["score"] for each in told}
        assert found["LABEL_1"] == pytest.approx(softmax(trained.model, data)[row, 1].item(), abs=1e-5)
        assert found["LABEL_1"] != pytest.approx(before[row, 1].item(), abs=1e-3)


def test_a_temperature_that_is_no_gain_is_left_out(tmp_path):
    trained = trainer(tmp_path, network=overconfident("bert"))
    trained.eval_dataset.columns["labels"] = softmax(trained.model, trained.eval_dataset).argmax(dim=1)  # all of them right
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    with pytest.warns(UserWarning, match="the temperature is left out: its fit did not converge"):
        report = trained.calibrate()
    assert not report.converged
    assert all(torch.equal(value, before[name]) for name, value in trained.model.state_dict().items())
    assert not hasattr(trained.model.config, "rankmixup_temperature")


class Averaged(torch.nn.Module):
    """The mean of two heads, of which the last is only one."""

    def __init__(self):
        super().__init__()
        self.embedding, self.one, self.other = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 2), torch.nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        features = 30 * self.embedding(input_ids).mean(dim=1)
        return {"logits": self.one(features) + self.other(features)}


def test_what_cannot_be_calibrated_is_refused_and_left_as_it_is(tmp_path):
    with random.global_seed(0, "averaged"):
        trained = overconfident_trainer(tmp_path, "bert", network=Averaged(), num_classes=2, label_names=["labels"])
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    with pytest.raises(InvalidInput, match=r"last linear layer of the model must return its logits, .* got Averaged with"):
        trained.calibrate()
    assert all(torch.equal(value, before[name]) for name, value in trained.model.state_dict().items())
    with pytest.raises(InvalidInput, match="dataset must be one set of labelled samples, got"):
        trained.calibrate({"one": trained.eval_dataset})
    trained.is_in_train = True
    with pytest.raises(InvalidInput, match="calibrate must be called after training"):
        trained.calibrate()
