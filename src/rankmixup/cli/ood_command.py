"""rankmixup ood."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from rankmixup.cli.options import Json, OODOptions
from rankmixup.cli.output import answer
from rankmixup.errors import require


@dataclass(kw_only=True)
class Ood(OODOptions):
    """Measure how well out-of-distribution (OOD) samples are detected: AUROC, AUPR and FPR at 95 %, with confidence intervals.

    Larger scores mean OOD. For AUROC and "AUPR, out" OOD samples are the positive class, for "AUPR, in" test samples (ID) are. FPR at 95 %
    is the share of OOD samples accepted at the lowest threshold that accepts at least 95 % of ID samples. Images are resized
    and normalised like those of the run, and its network predicts them; the scores are stored in the run.
    """

    source: tyro.conf.Positional[Path]
    """A run directory, whose test scores are used, or a file of scores."""
    json: Json = False


def run(options: Ood) -> None:
    """Run the command."""
    options.check(options.source, *options.ood)
    require(len(options.ood) >= 1, "--ood must name at least one data set or file of scores, got none")

    from rankmixup.evaluation.detection import detect_all
    from rankmixup.evaluation.results import plain
    from rankmixup.reports.tables import ood_table

    source = options.open(options.source)
    ood, shared = options.read_ood(source.stored)
    test = source.test
    found = detect_all(test, ood, options.score, replicates=options.replicates, seed=options.seed, shared_classes=shared)
    head = {"schema": 1, "source": source.name, "n": len(test), "num_classes": test.scores.shape[1]}
    answer(options.json, lambda: {**head, "ood": plain(found)}, lambda: ood_table(found))
