"""What a run is trained on: no part of the run itself, and nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal

from rankmixup.config import Configured
from rankmixup.errors import require

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
    workers: int | None = None
    """Processes that decode images, for data sets that stay on disk as files; by default one for each core, at most 8."""

    def check(self) -> None:
        """Whether the machine has them, `training` checks."""
        for name, least in (("devices", 1), ("nodes", 1), ("workers", 0)):
            number = getattr(self, name)
            require(number is None or number >= least, f"{name} must be at least {least}, got {number}")
