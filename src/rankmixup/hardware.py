"""What a run is trained on: no part of the run itself, and nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal

from rankmixup.config import Configured
from rankmixup.errors import require

__all__ = ["Accelerator", "Hardware", "Strategy"]

Accelerator = Literal["auto", "cpu", "cuda", "mps"]
Strategy = Literal["auto", "ddp", "fsdp"]


@dataclass(frozen=True)
class Hardware(Configured):
    """Devices and how they are used. Another choice rounds differently, but is the same run."""

    accelerator: Accelerator = "auto"
    """Kind of device; auto takes a GPU if there is one."""
    devices: int | None = None
    """Devices on each node, one process for each; by default as many as torchrun or SLURM has started, otherwise 1."""
    nodes: int | None = None
    """Machines; by default as many as torchrun or SLURM has started on, otherwise 1."""
    strategy: Strategy = "auto"
    """With several processes, whether each holds the whole network (ddp, and auto) or a share of it (fsdp, on GPUs)."""
    compile: bool = False
    """Compile the network (torch.compile): a minute or more at the start, faster steps behind it."""

    def check(self) -> None:
        """Whether the machine has them is known to `training` alone."""
        for name in ("devices", "nodes"):
            number = getattr(self, name)
            require(number is None or number >= 1, f"{name} must be at least 1, got {number}")
