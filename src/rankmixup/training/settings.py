"""Settings of torch that hold for the whole process, given back after training."""

import contextlib
from collections.abc import Iterator

import torch

__all__ = ["settings_restored"]


@contextlib.contextmanager
def settings_restored() -> Iterator[None]:
    """Put back, whatever happens in the body, what training and lightning-fabric may change: precision, cuDNN's flags, threads."""
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    flags = {name: getattr(torch.backends.cudnn, name) for name in ("allow_tf32", "benchmark", "deterministic")}
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        for name, value in flags.items():
            setattr(torch.backends.cudnn, name, value)
        torch.set_num_threads(threads)
