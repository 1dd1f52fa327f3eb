import statistics
import time
from collections.abc import Callable


def interleaved(steps: dict[str, Callable[[], object]], repeats: int, warm_up: int = 2) -> dict[str, float]:
    """Median seconds of each step; the steps take turns, so that a slow moment of the machine hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(warm_up + repeats):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def line(claim: str, ratio: float, limit: float) -> str:
    return f"{'ok  ' if ratio <= limit else 'OVER'}  {ratio:6.3f}  (at most {limit:.2f})  {claim}"
