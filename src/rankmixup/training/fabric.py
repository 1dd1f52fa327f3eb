"""Devices, processes and precision. What a device cannot do is refused, never switched to something else."""

import os
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.accelerators.cuda import CUDAAccelerator
from lightning_fabric.accelerators.mps import MPSAccelerator
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from lightning_fabric.wrappers import _FabricModule, _FabricOptimizer
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from rankmixup.errors import InvalidInput, require
from rankmixup.hardware import Hardware
from rankmixup.methods import Objective, TrainStep
from rankmixup.runs import Optimisation
from rankmixup.training.optimisation import build_optimiser

_MEETING = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
"""Variables by which nodes find each other where neither torchrun nor SLURM has started the processes."""


def build_fabric(hardware: Hardware, optimisation: Optimisation) -> Fabric:
    """The processes of a run, not yet launched."""
    devices, nodes = _processes(hardware)
    processes = devices * nodes
    kind: str = hardware.accelerator
    if kind == "auto":
        kind = "mps" if MPSAccelerator.is_available() else "cuda" if CUDAAccelerator.is_available() else "cpu"
    precision = optimisation.precision
    if precision in ("16-mixed", "tf32"):
        require(kind == "cuda", f"precision {precision!r} must run on a CUDA device, got {kind!r}")
    if kind == "cuda" and CUDAAccelerator.is_available() and precision in ("bf16-mixed", "tf32"):
        major, minor = torch.cuda.get_device_capability()
        require(major >= 8, f"precision {precision!r} must run on a CUDA device of capability 8.0 or newer, got {major}.{minor}")
    if hardware.strategy == "fsdp":
        require(kind == "cuda", f"strategy 'fsdp' must run on CUDA devices, got {kind!r}")
        require(precision != "16-mixed", "strategy 'fsdp' must go with a precision such as 'bf16-mixed', got '16-mixed'")
    strategy = sharding(processes) if hardware.strategy == "fsdp" else "ddp" if processes > 1 or hardware.strategy == "ddp" else "auto"
    mixed: Any = precision if precision.endswith("mixed") else "32-true"
    try:
        fabric = Fabric(accelerator=kind, devices=devices, num_nodes=nodes, strategy=strategy, precision=mixed)
    except (RuntimeError, ValueError) as error:  # lightning-fabric's own are of both kinds, some of several lines
        reason = " ".join(str(error).split())
        raise InvalidInput(f"accelerator {kind!r} with {devices} devices must exist on this machine ({reason})") from error
    rule = f"batch_size must leave a sample for each of {processes} processes in each of {optimisation.accumulate} parts"
    require(optimisation.batch_size >= processes * optimisation.accumulate, f"{rule}, got {optimisation.batch_size}")
    return fabric


def set_up(
    fabric: Fabric, model: nn.Module, objective: Objective, optimisation: Optimisation, *, compiled: bool = False
) -> tuple[_FabricModule, _FabricOptimizer]:
    """The training step and its optimiser, on the devices of `fabric`."""
    if fabric.device.type == "cuda":
        torch.set_float32_matmul_precision("high" if optimisation.precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = optimisation.precision == "tf32"
    if compiled:
        model.compile()
    # One after the other, because sharding replaces the parameters.
    step = fabric.setup_module(TrainStep(model, objective))
    optimiser = fabric.setup_optimizers(build_optimiser(model, optimisation))
    assert isinstance(optimiser, _FabricOptimizer)
    return step, optimiser


def sharding(processes: int) -> ModelParallelStrategy:
    """Parameters, gradients and the optimiser's state divided among processes, and gathered layer by layer when they are needed."""

    def shard(step: TrainStep, mesh: DeviceMesh) -> TrainStep:
        for layer in step.model.children():
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh["data_parallel"])
        fully_shard(step.model, mesh=mesh["data_parallel"])
        return step

    return ModelParallelStrategy(shard, data_parallel_size=processes, tensor_parallel_size=1)


def _processes(hardware: Hardware) -> tuple[int, int]:
    """Devices on each node and nodes: what was asked for, and what has already been started."""
    if TorchElasticEnvironment.detect():
        launcher, devices = "torchrun", int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    elif SLURMEnvironment.detect():
        launcher, nodes = "SLURM", int(os.environ.get("SLURM_NNODES", "1"))
        devices = int(os.environ["SLURM_NTASKS"]) // nodes
    else:
        devices, nodes = hardware.devices or 1, hardware.nodes or 1
        absent = [name for name in _MEETING if name not in os.environ]
        rule = f"several nodes must be started by torchrun or SLURM, or know each other by {', '.join(_MEETING)}"
        require(nodes == 1 or not absent, f"{rule}, got no {', '.join(absent)}")
        return devices, nodes
    for name, asked, started in (("devices", hardware.devices, devices), ("nodes", hardware.nodes, nodes)):
        require(asked in (None, started), f"{name} must be what {launcher} has started, {started}, or left out, got {asked}")
    return devices, nodes
