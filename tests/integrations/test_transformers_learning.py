"""A text model learns an order of words, and with MRL on embeddings its confidence follows lambda more than with cross-entropy."""

from typing import Any

import pytest
import torch

from rankmixup import random
from rankmixup.metrics import kendall_tau, violated_mixed_pairs, violated_raw_pairs
from rankmixup.metrics.ranking import fold_lambda
from rankmixup.mixers import ManifoldMixup
from rankmixup.ops import confidence

pytest.importorskip("transformers", reason="transformers is not installed")

from rankmixup.integrations.transformers import RankMixupTrainer
from tests.integrations.transformers_tasks import Samples, arguments, bert, sentences

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

NOISE = 0.2
"""Share of labels drawn by lot, so that at most 90 % can be right and a network must not be sure."""
MIXES, SIZE = 3, 500


def ordering(model: torch.nn.Module, data: Samples) -> dict[str, float]:
    """The library's diagnostics on mixes of embeddings with sentences of the other class, lambda uniform."""
    rng, y = random.stream(0, "diagnostics"), data.columns["labels"]
    by_class = [(y == label).nonzero().squeeze(1) for label in range(2)]
    partner = torch.stack([by_class[1 - int(label)][torch.randint(200, (MIXES,), generator=rng)] for label in y], dim=1)
    lam = torch.rand(MIXES, len(y), generator=rng)
    x = {name: data.columns[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        mixed = ManifoldMixup(layer="embeddings")(model.eval(), x, rng, num_mixes=MIXES, lam=lam, partner=partner)
    assert mixed.raw is not None
    raw, mixes = confidence(mixed.raw.double()), confidence(mixed.logits.double())
    return {
        "tau": kendall_tau(fold_lambda(lam).flatten(), mixes.flatten()).item(),
        "violated_raw": violated_raw_pairs(raw, mixes).item(),
        "violated_mixed": violated_mixed_pairs(mixes, lam.double()).item(),
    }


@pytest.mark.parametrize("seed", range(3))
def test_confidence_follows_lambda_more_than_with_cross_entropy(seed, tmp_path):
    found: dict[str, dict[str, float]] = {}
    mixing: dict[str, Any] = {"mixer": ManifoldMixup(layer="embeddings", alpha=2.0)}
    for method, fields in (("ce", {}), ("rankmixup-mrl", mixing)):
        options = {"max_steps": 250, "per_device_train_batch_size": 64, "learning_rate": 2e-3, "logging_steps": 1000, "seed": seed}
        data = {"train_dataset": sentences(1500, seed=seed, noise=NOISE), "eval_dataset": sentences(SIZE, seed=100 + seed, noise=NOISE)}
        trained = RankMixupTrainer(bert(), arguments(tmp_path, **options), method=method, fields=fields, **data)
        trained.train()
        told = trained.evaluate()
        found[method] = ordering(trained.model, sentences(SIZE, seed=100 + seed)) | {"ece": told["eval_ece"]}
        assert told["eval_accuracy"] > 0.85
    ce, mrl = found.values()
    assert mrl["tau"] > ce["tau"] + 0.05
    assert mrl["violated_raw"] < 0.6 * ce["violated_raw"]
    assert mrl["violated_mixed"] < ce["violated_mixed"]
