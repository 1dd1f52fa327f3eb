"""The figure of docs/method.md: what feedback does to the gap between confidence and accuracy, epoch by epoch, on the demo's digits.

python -m studies.method            # trains six runs in a minute, writes docs/images/method.png
"""

import tempfile
from pathlib import Path

from rankmixup import Run, train
from rankmixup.methods.dials import confidence_gap
from rankmixup.reports.figures import save_figure
from rankmixup.reports.figures.style import ACCENT, BLUE, finish, new_figure
from rankmixup.training import Watcher

SEEDS = 3
OUTPUT = Path(__file__).parent.parent / "docs" / "images" / "method"
METHODS = {"ce": ("cross-entropy", BLUE, "-"), "rankmixup-auto": ("RankMixup auto", ACCENT, "--")}


def main() -> None:
    """Train and draw."""
    figure = new_figure(7.2, 3.0)
    left, right = figure.subplots(1, 2)
    with tempfile.TemporaryDirectory() as folder:
        for key, (label, colour, line) in METHODS.items():
            for seed in range(SEEDS):
                stored = train(Run(key, seed=seed, selection="last"), runs=folder, watcher=Watcher())
                history = stored.history()
                # Over- and underconfidence weighted by confidence: what the log of every run has.
                gap = [100 * (record.val["oe"] - record.val["ue"]) for record in history]
                drawn = {"color": colour, "linestyle": line, "linewidth": 1.2, "label": None if seed else label}
                epochs = range(1, len(history) + 1)
                left.plot(epochs, gap, **drawn)
                if history[-1].dial:
                    right.plot(epochs, [record.dial["margin"] for record in history], **drawn)
                val = stored.scores("val")
                print(f"{label}, seed {seed}: validation gap {100 * confidence_gap(val.logits, val.labels):+.1f} points at the end")
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xlabel="epoch", ylabel="OE - UE on validation, %")
    right.set(xlabel="epoch", ylabel="margin (log-odds)")
    finish(left)
    right.grid(alpha=0.3)
    OUTPUT.parent.mkdir(exist_ok=True)
    for path in save_figure(figure, OUTPUT):
        if path.suffix != ".png":
            path.unlink()


if __name__ == "__main__":
    main()
