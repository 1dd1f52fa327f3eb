"""Tens of thousands of hostile inputs: each must get the right answer or a refusal in one sentence.

    python -m studies.fuzz                      # all of it; writes results/fuzz.md; goes on where it was interrupted
    python -m studies.fuzz --only functions:123 # one input again, with its traceback

Inputs are made from a seed, an area and a number, so that every finding can be made again. Findings are tracebacks, answers that
differ from a float64 oracle (accuracy, NLL, Brier score, ECE) or from what was stored, refusals that are not one sentence, hangs, and
inputs that take gigabytes of memory.
"""

import argparse
import hashlib
import json
import os
import platform
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.fuzzing.case import Area, attempt

_AREAS = {
    "functions": ("functions", "try_function", 26_000),
    "score files": ("score_files", "try_score_file", 14_000),
    "data files": ("data_files", "try_data_file", 5_000),
    "commands": ("commands", "try_command", 5_000),
    "run directories": ("run_directories", "try_run_directory", 2_500),
    "checkpoints": ("run_directories", "try_checkpoint", 500),
    "loaded runs": ("run_directories", "try_loaded_run", 2_000),
    "exported folders": ("exported", "try_exported_folder", 12_000),
    "pictures": ("pictures", "try_picture", 12_000),
    "predict": ("pictures", "try_predict_command", 3_000),
    "groups": ("groupings", "try_grouping", 12_000),
    "shift": ("shifted", "try_shift", 8_000),
    "adapters": ("adapters", "try_adapter", 6_000),
}
"""Module, function and number of inputs."""

_CHUNK = 50
"""Inputs that are tried before the counts are written: what an interruption costs."""
_GOOD = ("agrees", "answered", "refused")
_BAD = ("difference", "traceback", "hang", "memory", "crash")


@dataclass(frozen=True)
class Chunk:
    """Consecutive inputs of an area, and what came of them."""

    area: str
    first: int
    size: int
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[list[Any]] = field(default_factory=list)
    """Number of the input, kind and reason."""


def area_named(name: str) -> Area:
    """An area, imported when it is needed."""
    module, function, cases = _AREAS[name]
    return Area(name, cases, getattr(import_module(f"studies.fuzzing.{module}"), function))


def tried(chunk: Chunk, seed: int) -> Chunk:
    """The chunk with its counts."""
    torch.set_num_threads(1)
    os.environ["COLUMNS"] = "100"
    warnings.simplefilter("ignore")  # damaged checkpoints are meant to be spoken of
    area, counts, findings = area_named(chunk.area), Counter[str](), []
    for index in range(chunk.first, chunk.first + chunk.size):
        with tempfile.TemporaryDirectory() as folder:
            outcome = attempt(area, seed, index, Path(folder))
            reason = outcome.reason.replace(folder, "FOLDER")
        counts[outcome.kind] += 1
        if outcome.kind in _BAD:
            findings.append([index, outcome.kind, reason])
    return Chunk(chunk.area, chunk.first, chunk.size, dict(counts), findings)


def study(seed: int, share: float, journal: Path | None = None, processes: int = 2) -> list[Chunk]:
    """Try `share` of the inputs of every area; chunks that the journal has for this very code are not tried again."""
    done = {(chunk.area, chunk.first): chunk for chunk in _read(journal, seed)}
    planned = list(_chunks(share))
    open_ = [chunk for chunk in planned if (chunk.area, chunk.first) not in done]
    while open_:
        with ProcessPoolExecutor(processes, mp_context=get_context("forkserver")) as pool:
            futures = {pool.submit(tried, chunk, seed): chunk for chunk in open_}
            try:
                for future in as_completed(futures):
                    chunk = future.result()
                    _append(journal, seed, chunk)
                    done[chunk.area, chunk.first] = chunk
            except BrokenProcessPool:
                # Which chunk ended its process is not known: those that were next are tried one by one, each in a process of its own.
                for chunk in [chunk for chunk in open_ if (chunk.area, chunk.first) not in done][: 2 * processes]:
                    found = _alone(chunk, seed)
                    _append(journal, seed, found)
                    done[found.area, found.first] = found
        open_ = [chunk for chunk in open_ if (chunk.area, chunk.first) not in done]
    return [done[chunk.area, chunk.first] for chunk in planned]


def _alone(chunk: Chunk, seed: int) -> Chunk:
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        try:
            return pool.submit(tried, chunk, seed).result()
        except BrokenProcessPool:
            return Chunk(
                chunk.area, chunk.first, chunk.size, {"crash": 1}, [[chunk.first, "crash", "one of these inputs ended the process"]]
            )


def _chunks(share: float) -> Iterator[Chunk]:
    """Areas in turn, so that an interrupted study has seen something of each."""
    parts = [
        [Chunk(name, first, _CHUNK) for first in range(0, max(_CHUNK, int(cases * share)), _CHUNK)]
        for name, (_, _, cases) in _AREAS.items()
    ]
    order = [(place / len(chunks), number, chunk) for number, chunks in enumerate(parts) for place, chunk in enumerate(chunks)]
    return (chunk for _, _, chunk in sorted(order, key=lambda each: each[:2]))


def _code() -> str:
    """A hash of the library and of this study: another code starts anew."""
    root = Path(__file__).resolve().parents[1]
    files = sorted([*(root / "src").rglob("*.py"), *(root / "studies").glob("fuzz*.py"), *(root / "studies/fuzzing").glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _read(journal: Path | None, seed: int) -> list[Chunk]:
    if journal is None or not journal.exists():
        return []
    records = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    return [Chunk(**record["chunk"]) for record in records if (record["code"], record["seed"]) == (_code(), seed)]


def _append(journal: Path | None, seed: int, chunk: Chunk) -> None:
    if journal is not None:
        journal.parent.mkdir(parents=True, exist_ok=True)
        with journal.open("a") as file:
            file.write(json.dumps({"code": _code(), "seed": seed, "chunk": vars(chunk)}) + "\n")


def page(chunks: Sequence[Chunk], seed: int, minutes: float) -> str:
    """The results as Markdown."""
    kinds = (*_GOOD, *_BAD)
    counts = {name: Counter[str]() for name in _AREAS}
    for chunk in chunks:
        counts[chunk.area].update(chunk.counts)
    total = sum(sum(each.values()) for each in counts.values())
    findings = [
        f"`{chunk.area}:{index}` {kind}: {' '.join(reason.split())[:200]}" for chunk in chunks for index, kind, reason in chunk.findings
    ]
    lines = [
        "# Hostile inputs",
        "",
        f"`make fuzz` (`python -m studies.fuzz`) wrote this page: {total:,} generated inputs, seed {seed}, {minutes:.0f} minutes",
        f"({platform.machine()}, torch {torch.__version__}, numpy {np.__version__}).",
        "*Agrees*: the answer is that of a float64 oracle for accuracy, NLL, Brier score and ECE, or what was stored before the damage.",
        "*Answered*: an answer for which there is no oracle. *Refused*: one sentence, exit status 2. Everything else is a finding.",
        "",
        f"| inputs | {' | '.join(kinds)} |",
        "|---|" + "---|" * len(kinds),
        *(f"| {name} | {' | '.join(f'{counts[name][kind]:,}' for kind in kinds)} |" for name in _AREAS),
        "",
        f"{len(findings)} findings." if findings else "No findings.",
        "",
        *(f"- {finding}" for finding in findings[:200]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="part of the inputs to try")
    parser.add_argument("--only", help="AREA:NUMBER, one input again")
    parser.add_argument("--journal", type=Path, default=Path("runs/fuzz.jsonl"), help="where an interrupted study goes on from")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    if options.only:
        name, _, index = options.only.rpartition(":")
        with tempfile.TemporaryDirectory() as folder:
            print(attempt(area_named(name), options.seed, int(index), Path(folder), debug=True))
        return
    began = time.monotonic()
    chunks = study(options.seed, options.share, options.journal)
    options.out.mkdir(exist_ok=True)
    (options.out / "fuzz.md").write_text(page(chunks, options.seed, (time.monotonic() - began) / 60), encoding="utf-8")
    if any(chunk.findings for chunk in chunks):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
