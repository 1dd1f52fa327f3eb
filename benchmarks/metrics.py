"""What metrics cost beside the least that any of them must do, and beside other libraries; and what streaming keeps."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.peers import calibration_errors
from benchmarks.timing import interleaved, line
from rankmixup import evaluation, metrics, random
from rankmixup import functional as F

ROWS, CLASSES = 1_000_000, 100
IMAGENET = (50_000, 1000)
TOGETHER = "accuracy, top-5, NLL, Brier, ECE, MCE, AECE, OE, UE, AURC and the rest"


def scores(rows: int, classes: int, sharpness: float, *, softmax: bool) -> tuple[Tensor, Tensor]:
    """Calibrated random scores in float32, written batch by batch."""
    rng = random.stream(0, "benchmark")
    values, target = torch.empty(rows, classes), torch.empty(rows, dtype=torch.long)
    for part in torch.arange(rows).split(10_000):
        logits = sharpness * torch.randn(len(part), classes, generator=rng)
        probs = logits.softmax(dim=1)
        values[part], target[part] = probs if softmax else logits, torch.multinomial(probs, 1, generator=rng).squeeze(1)
    return values, target


def main(repeats: int = 9) -> list[str]:
    lines = []
    for sharpness in (2.0, 4.0):
        lines += calibration_error(sharpness, repeats)
    lines += suite(repeats)
    return [*lines, line("bytes that streaming ECE holds after 1,000,000 x 100 in batches of 1000, in kB", streamed_bytes() / 1000, 1.0)]


def calibration_error(sharpness: float, repeats: int) -> list[str]:
    probs, target = scores(ROWS, CLASSES, sharpness, softmax=True)
    steps: dict[str, Callable[[], object]] = {
        "probs.max(1)": lambda: probs.max(1),
        "ECE": lambda: F.expected_calibration_error(probs, target, from_logits=False),
    }
    median = interleaved(steps, repeats)
    peers = calibration_errors(probs, target)
    beside = interleaved({**peers, "ECE": steps["ECE"]}, 3, 1)
    accuracy = F.accuracy(probs, target, from_logits=False).item()
    return [
        f"      {ROWS:,} x {CLASSES} probabilities, accuracy {accuracy:.2f}",
        *(f"      {1000 * seconds:7.1f} ms  {name}" for name, seconds in {**beside, **median}.items()),
        line("ECE, input check included, over probs.max(1)", median["ECE"] / median["probs.max(1)"], 1.3),
        *(line(f"ECE over that of {name}", beside["ECE"] / beside[name], 1.0) for name in peers),
    ]


def suite(repeats: int) -> list[str]:
    logits, target = scores(*IMAGENET, 4.5, softmax=False)
    median = interleaved(
        {
            "softmax": lambda: logits.softmax(1),
            "all but classwise": lambda: evaluation.all_metrics(logits, target, classwise=False),
            "all": lambda: evaluation.all_metrics(logits, target),
        },
        repeats,
    )
    accuracy = F.accuracy(logits, target).item()
    return [
        f"      {IMAGENET[0]:,} x {IMAGENET[1]} logits, accuracy {accuracy:.2f}",
        *(f"      {1000 * seconds:7.1f} ms  {name}" for name, seconds in median.items()),
        line(f"{TOGETHER}, over one softmax", median["all but classwise"] / median["softmax"], 3.0),
        line("with classwise ECE, over one softmax", median["all"] / median["softmax"], 10.0),
    ]


def streamed_bytes() -> int:
    """Everything that a streaming ECE has to remember of a million samples."""
    rng, metric = random.stream(0, "benchmark"), metrics.ExpectedCalibrationError(from_logits=False)
    probs = torch.randn(1000, CLASSES, generator=rng).softmax(dim=1)
    target = torch.randint(CLASSES, (1000,), generator=rng)
    for _ in range(ROWS // 1000):
        metric.update(probs, target)
    return len(b"".join(getattr(metric, name).numpy().tobytes() for name in metric._defaults))


if __name__ == "__main__":
    print("\n".join(main()))
