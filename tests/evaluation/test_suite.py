import pytest
import torch

from rankmixup.evaluation import METRICS, all_metrics
from tests.oracles import metrics as oracle
from tests.oracles import unchecked


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("chunk", [77, 1 << 19])
def test_every_key_is_what_its_function_gives(from_logits, chunk, rng, monkeypatch):
    monkeypatch.setattr("rankmixup.metrics.inputs._CHUNK", chunk)
    probs, target = oracle.random_probs(200, 8, rng)
    scores = probs.log() if from_logits else probs
    values = all_metrics(scores, target, from_logits=from_logits)
    assert tuple(values) == tuple(METRICS)
    for key, metric in METRICS.items():
        assert values[key] == pytest.approx(metric.function(scores, target, from_logits=from_logits).item(), abs=1e-12), key


def test_classwise_can_be_left_out(rng):
    values = all_metrics(*oracle.random_probs(20, 8, rng), classwise=False, from_logits=False)
    assert values["classwise_ece"] is values["classwise_ece_sum"] is None
    assert values["ece"] is not None


def test_what_is_not_defined_is_none():
    one = all_metrics(torch.tensor([[0.9, 0.1]]), torch.tensor([0]), from_logits=False)
    assert {key for key, value in one.items() if value is None} == {"top5_accuracy", "debiased_ece", "auroc_correct"}
    wrong = all_metrics(torch.tensor([[1.0, 0.0]] * 3), torch.tensor([1, 1, 1]), from_logits=False)
    assert {key for key, value in wrong.items() if value is None} == {"top5_accuracy", "auroc_correct"}
    assert [wrong[key] for key in ("ece", "mce", "ks", "aurc", "oe", "debiased_ece")] == pytest.approx([1] * 6, abs=1e-12)
    assert wrong["nll"] == float("inf")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_read_in_float32(dtype, rng):
    logits, target = torch.randn(300, 10, generator=rng).to(dtype), torch.randint(10, (300,), generator=rng)
    assert all_metrics(logits, target, from_logits=True) == all_metrics(logits.float(), target, from_logits=True)


def test_labels_may_be_small_integers(rng):
    probs, target = oracle.random_probs(30, 8, rng)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        with unchecked():  # annotations call unsigned integers by another name
            assert all_metrics(probs, target.to(dtype), from_logits=False) == all_metrics(probs, target, from_logits=False)
