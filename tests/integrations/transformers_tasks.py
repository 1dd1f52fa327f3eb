"""Tiny random models of Hugging Face and made-up data for them; nothing is downloaded."""

from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments, ViTConfig, ViTForImageClassification

from rankmixup import random

PAD, FIRST, SECOND = 0, (1, 2, 3), (4, 5, 6)
VOCABULARY, LENGTH = 20, 12
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert(num_labels: int = 2, **options: Any) -> BertForSequenceClassification:
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, num_labels=num_labels, **SIZES, **(NO_DROPOUT | options))
    with random.global_seed(0, "bert"):
        return BertForSequenceClassification(config)


def vit(num_labels: int = 2) -> ViTForImageClassification:
    with random.global_seed(0, "vit"):
        return ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, num_labels=num_labels, **SIZES, **NO_DROPOUT))


class Samples(Dataset):
    """Samples as mappings, as a tokenizer or an image processor gives them, with a column that no model takes."""

    def __init__(self, labels: torch.Tensor, **columns: torch.Tensor):
        self.columns = {**columns, "labels": labels, "title": torch.arange(len(labels))}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {name: column[place] for name, column in self.columns.items()}


def sentences(size: int, *, seed: int = 0, noise: float = 0.0) -> Samples:
    """Does a token of the first set come before one of the second? Sentences of 6 to 12 tokens; a share of labels is drawn by lot."""
    rng = random.stream(seed, "sentences")
    ids = torch.randint(7, VOCABULARY, (size, LENGTH), generator=rng)
    lengths = torch.randint(6, LENGTH + 1, (size,), generator=rng)
    labels = torch.randint(2, (size,), generator=rng)
    for row, (length, label) in enumerate(zip(lengths.tolist(), labels.tolist(), strict=True)):
        one, other = torch.randperm(length, generator=rng)[:2].sort().values.tolist()
        first, second = (int(tokens[int(torch.randint(3, (), generator=rng))]) for tokens in (FIRST, SECOND))
        ids[row, one], ids[row, other] = (first, second) if label else (second, first)
    mask = (torch.arange(LENGTH) < lengths.unsqueeze(1)).long()
    drawn = torch.rand(size, generator=rng) < noise
    return Samples(torch.where(drawn, torch.randint(2, (size,), generator=rng), labels), input_ids=ids * mask, attention_mask=mask)


def images(size: int, *, seed: int = 0) -> Samples:
    """Is the upper half brighter than the lower one?"""
    rng = random.stream(seed, "images")
    pixels = torch.randn(size, 3, 8, 8, generator=rng)
    return Samples((pixels[:, :, :4].mean(dim=(1, 2, 3)) > pixels[:, :, 4:].mean(dim=(1, 2, 3))).long(), pixel_values=pixels)


def arguments(folder: Any, **options: Any) -> TrainingArguments:
    quiet: dict[str, Any] = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no", "logging_steps": 1}
    steps = {"max_steps": 4, "per_device_train_batch_size": 8, "learning_rate": 1e-3, "max_grad_norm": 0.0}
    return TrainingArguments(output_dir=str(folder), **(quiet | steps | options))
