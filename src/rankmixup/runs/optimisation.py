"""How a run is optimised: optimiser, learning rate over time, weight decay and clipping."""

from dataclasses import dataclass
from typing import Literal

from rankmixup.config import Configured, added_field
from rankmixup.errors import require


@dataclass(frozen=True)
class Optimisation(Configured):
    """One optimiser with one schedule of its learning rate. The defaults are the paper's for CIFAR; recipes say where each comes from."""

    epochs: int = 200
    """Passes over the training set."""
    batch_size: int = 128
    """Samples in a step, over all devices."""
    optimiser: Literal["sgd", "adamw"] = "sgd"
    """SGD with (plain, not Nesterov) momentum, or AdamW."""
    lr: float = 0.1
    """Highest learning rate: at the start, or after the warm-up."""
    schedule: Literal["steps", "cosine"] = "steps"
    """Drops at milestones, changing between epochs; or a half cosine down to `final_lr`, changing in every step."""
    milestones: tuple[int, ...] = (80, 120)
    """Epochs after which the learning rate is multiplied by `decay` (steps)."""
    decay: float = 0.1
    """Factor of the learning rate at each milestone (steps)."""
    final_lr: float = 0.0
    """Learning rate at the end (cosine)."""
    warmup: int = 0
    """Epochs in which the learning rate rises to `lr` in a straight line."""
    warmup_lr: float = 0.0
    """Where that line begins."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 5e-4
    """Weight decay."""
    decay_vectors: bool = True
    """Whether biases and the parameters of normalisation, all of one dimension, decay too."""
    clip: float = 2.0
    """Largest norm of the whole gradient; 0 does not clip."""
    accumulate: int = 1
    """Parts in which a process forwards its share of a batch, to save memory; BatchNorm and mixing see one part at a time."""
    precision: Literal["32", "tf32", "bf16-mixed", "16-mixed"] = "32"
    """Numbers of the training forwards: float32, its products rounded to 10 bits (tf32), or bfloat16 or float16 where that is safe."""
    layer_decay: float = added_field(1.0)
    """Factor of the learning rate from each layer to the one before it, so that the first layers of a trained network change least
    (ELECTRA, BEiT); the head has the whole rate. 1 gives it to all."""

    def check(self) -> None:
        require(0 < self.layer_decay <= 1, f"layer_decay must lie in (0, 1], got {self.layer_decay}")
        for name in ("epochs", "batch_size", "accumulate"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")
        require(self.lr > 0, f"lr must be positive, got {self.lr}")
        require(0 <= self.momentum < 1, f"momentum must lie in [0, 1), got {self.momentum}")
        for name in ("decay", "weight_decay", "clip", "warmup", "warmup_lr", "final_lr"):
            require(getattr(self, name) >= 0, f"{name} must be at least 0, got {getattr(self, name)}")
        require(all(epoch >= 1 for epoch in self.milestones), f"milestones must be epochs, got {self.milestones}")
