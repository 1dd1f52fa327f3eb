"""Two versions of the library give the same numbers: what `evaluate`, `compare`, `ood` and `reproduce` print is compared key by key.

    git worktree add --detach /some/where REVISION
    python -m studies.same_numbers /some/where --logits DATA/logits     # writes results/same_numbers.md

The runs of `reproduce all --scale quick` are trained once, by the older version, and evaluated by both with `--no-train`. Stored runs of a
larger study can be given with `--runs` and `--scale`. Keys that only the newer version has are listed, and so is every value that differs.
Exits with 1 if a value differs or a key is missing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent.parent / "results" / "same_numbers.md"
HERE = Path(__file__).parent.parent


def commands(logits: Path, runs: Path, scale: str, data_root: Path | None) -> dict[str, list[str]]:
    """The command lines by name; each prints one JSON object."""
    small, large = logits / "resnet50_cifar10_test.npz", logits / "resnet110_cifar10_test.npz"
    held_out = logits / "resnet50_cifar10_val.npz"
    root = [] if data_root is None else ["--data-root", str(data_root)]
    calibrators = ("temperature", "vector", "histogram", "isotonic", "ensemble-temperature")
    return {
        "evaluate": ["evaluate", str(large)],
        **{
            f"evaluate, {each}": ["evaluate", str(small), "--calibrate-on", str(held_out), "--calibrate-with", each] for each in calibrators
        },
        "evaluate, ece-grid": ["evaluate", str(small), "--calibrate-on", str(held_out), "--objective", "ece-grid"],
        **{f"compare, {key}": ["compare", str(small), str(large), "--metric", key] for key in ("ece", "aece", "nll", "aurc")},
        "ood": ["ood", str(small), "--ood", f"resnet110={held_out}"],
        "reproduce": ["reproduce", "all", "--scale", scale, "--no-train", "--runs", str(runs), *root],
    }


def call(tree: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the command of one version."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    return subprocess.run([sys.executable, "-m", "rankmixup", *arguments, "--json"], env=environment, capture_output=True, text=True)


def flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, string and null with its place."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else None
    if items is None:
        yield path, data
        return
    for key, value in items:
        yield from flat(value, f"{path}.{key}" if path else str(key))


def compared(before: Any, after: Any) -> tuple[int, list[str], list[str]]:
    """How many values are the same; which differ or are missing, alike ones together; which are new."""
    old, new = dict(flat(before)), dict(flat(after))
    differ = {key: f"{value!r}, now {new.get(key, 'missing')!r}" for key, value in old.items() if key not in new or new[key] != value}
    alike: dict[str, list[str]] = {}
    for key, change in differ.items():
        alike.setdefault(re.sub(r"\.\d+\b", ".#", key), []).append(change)
    lines = [f"{key}: {changes[0]}" + (f" (first of {len(changes)})" if len(changes) > 1 else "") for key, changes in alike.items()]
    return len(old) - len(differ), lines, [key for key in new if key not in old]


def main() -> int:
    """Compare and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path, help="checkout of the older version")
    parser.add_argument("--logits", type=Path, required=True, help="folder with the npz files of logits")
    parser.add_argument("--runs", type=Path, help="stored runs; trained at scale quick unless given")
    parser.add_argument("--scale", default="quick")
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = options.runs or Path(folder)
        if options.runs is None:
            call(options.before, ["reproduce", "all", "--scale", "quick", "--runs", str(runs)]).check_returncode()
        revision = subprocess.run(["git", "-C", str(options.before), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        lines = [
            "# Numbers before and after",
            "",
            f"Written by `python -m studies.same_numbers`; before: revision {revision.stdout.strip()}.",
            "",
            "| command | same values | different or missing | new keys |",
            "|---|---|---|---|",
        ]
        details, failed = [], False
        for name, arguments in commands(options.logits, runs, options.scale, options.data_root).items():
            outputs = [call(tree, arguments) for tree in (options.before.resolve(), HERE)]
            if any(output.returncode for output in outputs):
                details += [f"{name}: {' | '.join(output.stderr.strip()[-300:] for output in outputs)}"]
                failed = True
                continue
            before, after = (json.loads(output.stdout) for output in outputs)
            same, differ, new = compared(before, after)
            total = len(dict(flat(before)))
            lines.append(f"| {name} | {same:,} | {total - same} | {len(new)} |")
            print(lines[-1], file=sys.stderr, flush=True)
            details += [f"{name}: {each}".replace(str(options.logits), "LOGITS") for each in differ]
            if new:
                details.append(f"{name}: new keys {', '.join(sorted({key.rpartition('.')[2] for key in new}))}")
            failed |= bool(differ)
    lines += ["", *(f"- {detail}" for detail in details)] if details else []
    print("\n".join(lines))
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
