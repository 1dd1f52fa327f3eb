"""Is RankMixup worth it where a trained model of Hugging Face is fine-tuned for three epochs? The table of `docs/guides/pipeline.md`.

Fixed beforehand: a small BERT is trained on 8,000 reviews of the kind that the tutorial makes up, and then fine-tuned, with a new head,
on 600 others, one in ten of which has the wrong label, for three epochs, with five seeds. Methods are compared on 2,000 test reviews,
before and after `calibrate` on 400 validation reviews. "Worth it" means: a lower NLL after `calibrate` than cross-entropy in each of the
five seeds.

python -m studies.short_finetune    # three minutes on one core; prints the table
"""

import copy
import tempfile
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, TrainingArguments
from transformers.utils import logging

from rankmixup import random
from rankmixup.integrations.transformers import RankMixupTrainer
from rankmixup.mixers import ManifoldMixup

KINDS, WORDS, LENGTH = 8, 42, 12
"""Words for and against, words in all (0 is padding), and words of a review."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "ce": ("ce", {}),
    "label smoothing": ("label-smoothing", {}),
    "rankmixup-mrl": ("rankmixup-mrl", {"mixer": ManifoldMixup(layer="embeddings")}),
    "rankmixup-mndcg": ("rankmixup-mndcg", {"mixer": ManifoldMixup(layer="embeddings")}),
    "rankmixup-auto": ("rankmixup-auto", {}),
}
SEEDS, FIGURES = 5, ("accuracy", "nll", "ece")


def reviews(size: int, seed: int, shares: tuple[float, float], noise: float) -> list[dict[str, Any]]:
    """Reviews of words for and against; `shares` of them are of the review's own kind and of the other."""
    rng, samples = np.random.default_rng(seed), []
    for _ in range(size):
        label = int(rng.integers(2))
        kinds = rng.choice([label, 1 - label, 2], size=LENGTH, p=[*shares, 1 - sum(shares)])
        ids = torch.tensor([int(rng.integers(1 + KINDS * kind, 1 + KINDS * (kind + 1) if kind < 2 else WORDS)) for kind in kinds])
        label = 1 - label if rng.random() < noise else label
        samples.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": label})
    return samples


def trained(model: Any, method: str, fields: dict[str, Any], epochs: int, lr: float, train: Any, val: Any, seed: int) -> RankMixupTrainer:
    """A trainer after `epochs`."""
    quiet: dict[str, Any] = {"save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "report_to": "none", "use_cpu": True}
    length = {"num_train_epochs": epochs, "learning_rate": lr, "per_device_train_batch_size": 16, "per_device_eval_batch_size": 200}
    arguments = TrainingArguments(tempfile.mkdtemp(), eval_strategy="epoch", seed=seed, **quiet, **length)
    trainer = RankMixupTrainer(model, arguments, train_dataset=train, eval_dataset=val, method=method, fields=fields)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


def main() -> None:
    """Print the table."""
    logging.set_verbosity_error()
    config = BertConfig(vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_labels=2)
    val, test = reviews(400, 1, (0.35, 0.15), 0.1), reviews(2000, 2, (0.35, 0.15), 0.1)
    with random.global_seed(0, "base"):
        base = BertForSequenceClassification(config)
    base = trained(base, "ce", {}, 3, 1e-3, reviews(8000, 3, (0.3, 0.2), 0.0), val, 0).model
    found: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    for seed in range(SEEDS):
        train = reviews(600, 10 + seed, (0.35, 0.15), 0.1)
        for name, (method, fields) in METHODS.items():
            model = copy.deepcopy(base)
            with random.global_seed(seed, "head"):
                model.classifier.reset_parameters()
            trainer = trained(model, method, fields, 3, 3e-4, train, val, seed)
            before = trainer.evaluate(test)
            trainer.calibrate()
            after = trainer.evaluate(test)
            found[name].append([before[f"eval_{key}"] for key in FIGURES] + [after[f"eval_{key}"] for key in FIGURES[1:]])
            print(seed, name, [round(each, 4) for each in found[name][-1]], trainer.objective.dials, flush=True)
    print("| method | accuracy % | NLL | ECE % | NLL, calibrated | ECE %, calibrated |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, rows in found.items():
        columns = np.array(rows)
        cells = [
            f"{100 * mean:.1f} ± {100 * deviation:.1f}" if place in (0, 2, 4) else f"{mean:.3f} ± {deviation:.3f}"
            for place, (mean, deviation) in enumerate(zip(columns.mean(0), columns.std(0, ddof=1), strict=True))
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
