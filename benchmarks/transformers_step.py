"""What a step of `RankMixupTrainer` costs beside the same step in a plain loop: same network, method, batches and optimiser.

The plain loop takes its step after each one of Trainer, so that a slow moment of the machine hits both. A step is everything between two
steps: the batch, the forwards, the loss, backward, clipping, the optimiser and, for Trainer, what it does around them.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import rankmixup as rm
from benchmarks.timing import line
from rankmixup import random
from rankmixup.methods import Method, RankMixupMNDCG, RankMixupMRL
from rankmixup.mixers import LogitMixup, ManifoldMixup

BATCH, LENGTH, CLASSES, WARM_UP = 16, 64, 4, 3


def main(steps: int = 25) -> list[str]:
    try:
        import transformers  # noqa: F401
    except ImportError:
        return ["      transformers is not installed"]
    methods: dict[str, Method] = {
        "MRL, embeddings": RankMixupMRL(mixer=ManifoldMixup(layer="embeddings")),
        "M-NDCG, logits": RankMixupMNDCG(mixer=LogitMixup()),
    }
    lines = []
    for name, method in methods.items():
        trainer, plain = step_seconds(method, steps)
        lines += [f"      {1000 * trainer:7.1f} ms  {name}, Trainer", f"      {1000 * plain:7.1f} ms  {name}, plain loop"]
        lines.append(line(f"RankMixupTrainer over a plain loop, {name}", trainer / plain, 1.05))
    return lines


def samples(size: int) -> list[dict[str, Tensor]]:
    rng = random.stream(0, "benchmark")
    ids, labels = torch.randint(3, 100, (size, LENGTH), generator=rng), torch.randint(CLASSES, (size,), generator=rng)
    return [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": label} for row, label in zip(ids, labels, strict=True)]


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
    with random.global_seed(0, "benchmark"):
        return BertForSequenceClassification(BertConfig(vocab_size=100, max_position_embeddings=LENGTH, num_labels=CLASSES, **sizes))


def plain_steps(method: Method, data: Any) -> Iterator[None]:
    """The loop, a step at a time."""
    model, step = bert().train(), rm.objective(method, num_classes=CLASSES)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    while True:
        for batch in DataLoader(data, batch_size=BATCH, shuffle=True):
            optimiser.zero_grad()
            step(model, batch, batch["labels"]).loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            yield


def step_seconds(method: Method, steps: int) -> tuple[float, float]:
    """Median seconds of a step of Trainer and of the plain loop."""
    from transformers import TrainerCallback, TrainingArguments

    from rankmixup.integrations.transformers import RankMixupTrainer

    data = samples(4 * BATCH)
    plain = plain_steps(method, data)
    seconds: dict[str, list[float]] = {"trainer": [], "plain": []}

    class Turns(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            ended = time.perf_counter()
            next(plain)
            after = time.perf_counter()
            seconds["trainer"].append(ended - self.began)
            seconds["plain"].append(after - ended)
            self.began = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        quiet: dict[str, Any] = {"report_to": "none", "disable_tqdm": True, "use_cpu": not torch.cuda.is_available(), "save_strategy": "no"}
        rate = {"learning_rate": 1e-4, "lr_scheduler_type": "constant", "logging_steps": 10_000}
        args = TrainingArguments(folder, max_steps=WARM_UP + steps, per_device_train_batch_size=BATCH, **rate, **quiet)
        RankMixupTrainer(bert(), args, train_dataset=data, method=method, callbacks=[Turns()]).train()
    trainer, bare = (statistics.median(values[WARM_UP:]) for values in seconds.values())
    return trainer, bare
