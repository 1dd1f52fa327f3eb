"""rankmixup ood."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rankmixup.cli.parsing import parse
from rankmixup.cli.sources import OODScore, Sampling, open_source, read_ood
from rankmixup.errors import require


@dataclass(kw_only=True)
class Ood(Sampling):
    """How well samples of no known class are told from test samples: AUROC, AUPR and FPR at 95 %, with intervals.

    Unknown samples are positive, and larger scores mean unknown. They are read from files of scores; a run's network
    is not applied to images.
    """

    source: tyro.conf.Positional[Path]
    """A run directory, whose test scores are taken, or a file of scores."""
    ood: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME=]FILE ...", help_behavior_hint="(required)")] = ()
    """Files of scores of the unknown samples: npz, pt, safetensors or csv; labels are not needed."""
    score: OODScore = "entropy"
    """By what they are told; the paper's is entropy."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> int:
    """Parse and run."""
    options = parse(Ood, argv, prog="rankmixup ood")
    options.check()
    require(len(options.ood) >= 1, "--ood must name at least one file of scores, got none")

    from rich.console import Console

    from rankmixup.reports.evaluation import plain
    from rankmixup.reports.ood import detect_all
    from rankmixup.reports.tables import ood_table

    test = open_source(options.source, options.from_).test
    unknown = read_ood(options.ood, options.from_)
    found = detect_all(test, unknown, options.score, replicates=options.replicates, seed=options.seed)
    if options.json:
        head = {"schema": 1, "source": str(options.source), "n": len(test), "num_classes": test.scores.shape[1]}
        print(json.dumps({**head, "ood": plain(found)}, allow_nan=False))
    else:
        Console().print(ood_table(found))
    return 0
