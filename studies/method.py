"""Two figures of the documents, from cross-entropy and RankMixup auto on the demo's digits, three seeds each.

python -m studies.method            # trains six runs in a minute, writes docs/images/method.png and reliability.png

method.png shows how feedback changes the gap between confidence and accuracy by epoch, reliability.png what comes out of it.
"""

import tempfile
from pathlib import Path

from rankmixup import train
from rankmixup.evaluation import Scores
from rankmixup.evaluation.diagrams import reliability
from rankmixup.experiments.demo import demo_runs
from rankmixup.methods.dials import confidence_gap
from rankmixup.reports.figures import reliability_figure, save_figure
from rankmixup.reports.figures.style import ACCENT, BLUE, finish, new_figure
from rankmixup.training import Watcher

SEEDS = 3
IMAGES = Path(__file__).parent.parent / "docs" / "images"
METHODS = {"ce": ("cross-entropy", BLUE, "-"), "rankmixup-auto": ("RankMixup auto", ACCENT, "--")}


def main() -> None:
    """Train and draw."""
    figure = new_figure(7.2, 3.0)
    left, right = figure.subplots(1, 2)
    tests: dict[str, list[Scores]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for key, (label, colour, line) in METHODS.items():
            for run in demo_runs(SEEDS)[key]:
                stored = train(run, runs=folder, watcher=Watcher())
                history = stored.history()
                # Over- and underconfidence weighted by confidence: what the log of every method has.
                gap = [100 * (record.val["oe"] - record.val["ue"]) for record in history]
                drawn = {"color": colour, "linestyle": line, "linewidth": 1.2, "label": None if run.seed else label}
                epochs = range(1, len(history) + 1)
                left.plot(epochs, gap, **drawn)
                if history[-1].dial:
                    right.plot(epochs, [record.dial["margin"] for record in history], **drawn)
                val = stored.scores("val")
                tests.setdefault(label, []).append(stored.scores("test"))
                print(f"{label}, seed {run.seed}: validation gap {100 * confidence_gap(val.logits, val.labels):+.1f} points at the end")
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xlabel="epoch", ylabel="OE - UE on validation, %")
    right.set(xlabel="epoch", ylabel="margin (log-odds)")
    finish(left)
    right.grid(alpha=0.3)
    diagrams = {label: reliability(scores) for label, scores in tests.items()}
    for name, drawing in (("method", figure), ("reliability", reliability_figure(diagrams))):
        for path in save_figure(drawing, IMAGES / name):
            if path.suffix != ".png":
                path.unlink()


if __name__ == "__main__":
    main()
