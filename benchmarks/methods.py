"""What a step of each method costs beside cross-entropy on as many forwarded samples, and what CPC needs with many classes."""

import subprocess
import sys

from benchmarks.timing import interleaved, line
from benchmarks.training_step import N, training_step
from rankmixup.methods import CrossEntropy, Method

CPC_SAMPLES, CPC_CLASSES = 256, 1000


def main(repeats: int = 11) -> list[str]:
    methods = {name: Method.registry[name]() for name in Method.registry if name != "ce"}
    widths = sorted({method.forwarded for method in methods.values()})
    steps = {f"ce x {width}": training_step(CrossEntropy(), N, times=width) for width in widths}
    steps |= {f"ce at {width} N": training_step(CrossEntropy(), width * N) for width in widths if width > 1}
    steps |= {name: training_step(method, N) for name, method in methods.items()}
    median = interleaved(steps, repeats)
    lines = []
    for name, method in methods.items():
        width = method.forwarded
        baseline = min(median[key] for key in (f"ce x {width}", f"ce at {width} N") if key in median)
        lines.append(line(f"{name}, {1000 * median[name]:.0f} ms, over cross-entropy on {width} N samples", median[name] / baseline, 1.10))
    gigabytes = cpc_peak() / 2**30
    lines.append(line(f"CPC at K = {CPC_CLASSES}, N = {CPC_SAMPLES}: gigabytes above the logits", gigabytes, 1.0))
    return lines


def cpc_peak() -> int:
    """Growth of a fresh process's peak memory through loss and gradient, in bytes."""
    code = f"""
import re, torch
from pathlib import Path
from rankmixup.functional import cpc_loss

def peak():  # unlike getrusage's, it can be told to start anew
    return 1024 * int(re.search("VmHWM:\\\\s+(\\\\d+)", Path("/proc/self/status").read_text())[1])

logits = torch.randn({CPC_SAMPLES}, {CPC_CLASSES}, generator=torch.Generator().manual_seed(0), requires_grad=True)
target = torch.arange({CPC_SAMPLES})
cpc_loss(logits[:2, :3], target[:2]).backward()
Path("/proc/self/clear_refs").write_text("5")
before = peak()
cpc_loss(logits, target).backward()
print(peak() - before)
"""
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
