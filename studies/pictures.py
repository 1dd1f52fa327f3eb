"""The pictures of docs/explanations/calibration.md, from simulated models whose true probabilities are known.

python -m studies.pictures          # writes docs/images/calibration-*.png in a few seconds, and prints the ECE of each model
"""

import sys
from pathlib import Path

import torch

from rankmixup import random
from rankmixup.evaluation import Scores
from rankmixup.evaluation.diagrams import confidence_histogram, reliability, risk_coverage_curve, temperature_curve
from rankmixup.metrics import expected_calibration_error
from rankmixup.posthoc import TemperatureScaling
from rankmixup.reports.figures import confidence_histogram_figure, reliability_figure, risk_coverage_figure, save_figure, temperature_figure

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SAMPLES, FEW, CLASSES, SPREAD = 10_000, 500, 10, 3.0


def calibrated(samples: int = SAMPLES, name: str = "test") -> Scores:
    """Logits drawn at random, and labels drawn from their probabilities: a model that is calibrated by construction."""
    rng = random.stream(0, "pictures", name)
    logits = SPREAD * torch.randn(samples, CLASSES, generator=rng, dtype=torch.float64)
    return Scores(logits, torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1))


def scaled(scores: Scores, factor: float) -> Scores:
    """The same predictions with all logits multiplied: above 1 too confident, below 1 not confident enough."""
    return Scores(factor * scores.logits, scores.labels)


def indifferent(scores: Scores) -> Scores:
    """The same predictions, each with a confidence that is the accuracy of all: calibrated, and of no use in telling right from wrong."""
    predicted = scores.logits.argmax(dim=1)
    accuracy = (predicted == scores.labels).double().mean().item()
    probs = torch.full_like(scores.logits, (1 - accuracy) / (CLASSES - 1))
    return Scores(probs.scatter(1, predicted.unsqueeze(1), accuracy), scores.labels, from_logits=False)


def models() -> dict[str, Scores]:
    """What is drawn, by name."""
    truth = calibrated()
    return {"calibrated": truth, "overconfident": scaled(truth, 2.0), "underconfident": scaled(truth, 0.5)}


def main(folder: Path = IMAGES) -> None:
    """Draw all."""
    found, few = models(), calibrated(FEW, "few")
    figures = {name: reliability_figure({name: reliability([scores])}) for name, scores in found.items()}
    figures["few"] = reliability_figure({f"calibrated, {FEW} samples": reliability([few])})
    for name in ("calibrated", "overconfident"):
        figures[f"histogram-{name}"] = confidence_histogram_figure({name: confidence_histogram([found[name]])})
    ranked = {"knows what is hard": found["calibrated"], "same confidence for all": indifferent(found["calibrated"])}
    figures["risk"] = risk_coverage_figure({name: risk_coverage_curve([scores]) for name, scores in ranked.items()})
    held_out, wrong = scaled(calibrated(name="val"), 2.0), found["overconfident"]
    fitted = TemperatureScaling().fit(held_out.logits, held_out.labels).temperature_
    figures["temperature"] = temperature_figure({"overconfident": temperature_curve(wrong.logits, wrong.labels, fitted=fitted)})
    for name, figure in figures.items():
        for path in save_figure(figure, folder / f"calibration-{name}"):
            if path.suffix != ".png":
                path.unlink()
    for name, scores in {**found, f"{FEW} samples": few, **ranked}.items():
        ece = expected_calibration_error(scores.scores, scores.labels, from_logits=scores.from_logits)
        print(f"{name}: ECE {100 * ece:.2f} %")
    print(f"temperature: {fitted:.3f}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
