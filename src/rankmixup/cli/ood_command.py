"""rankmixup ood."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from rankmixup.cli.output import console
from rankmixup.cli.parsing import parse
from rankmixup.cli.sources import UnknownOptions, open_source, read_ood
from rankmixup.errors import require


@dataclass(kw_only=True)
class Ood(UnknownOptions):
    """How well samples of no known class are told from test samples: AUROC, AUPR and FPR at 95 %, with intervals.

    Larger scores mean unknown. AUROC and "AUPR, out" look for unknown (OOD) samples among test (ID) samples, "AUPR, in" for the opposite.
    FPR at 95 % is the share of OOD samples accepted at the lowest threshold that accepts at least 95 % of ID samples. Images are resized to
    those of the run, normalised with its constants and shown to its network; the scores are kept in the run.
    """

    source: tyro.conf.Positional[Path]
    """A run directory, whose test scores are taken, or a file of scores."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Ood, argv, prog="rankmixup ood")
    options.check(options.source, *options.ood)
    require(len(options.ood) >= 1, "--ood must name at least one data set or file of scores, got none")

    from rankmixup.evaluation.detection import detect_all
    from rankmixup.evaluation.results import plain
    from rankmixup.reports.tables import ood_table

    source = open_source(options.source, options)
    test, unknown = source.test, read_ood(options.ood, options, source.stored)
    scores = {name: samples.scores for name, samples in unknown.items()}
    shared = {name: samples.shared_classes for name, samples in unknown.items()}
    found = detect_all(test, scores, options.score, replicates=options.replicates, seed=options.seed, shared_classes=shared)
    if options.json:
        head = {"schema": 1, "source": source.name, "n": len(test), "num_classes": test.scores.shape[1]}
        print(json.dumps({**head, "ood": plain(found)}, allow_nan=False))
    else:
        console().print(ood_table(found))
    return 0
