"""rankmixup doctor."""

import json as json_format
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankmixup.cli.parsing import parse

_WIDTH = 100
_GIB = 1 << 30


@dataclass
class Doctor:
    """Show versions, devices, data (in RANKMIXUP_DATA, or data) and runs of this installation, and its problems, for a bug report."""

    runs: Path = Path("runs")
    """Folder that contains the runs."""
    json: bool = False
    """Print one JSON object on standard output, and nothing else there."""


def run(argv: list[str]) -> None:
    """Run the command. It needs neither tyro nor rich, so that it can say that they are broken."""
    try:
        options = parse(Doctor, argv, prog="rankmixup doctor")
    except ImportError:
        options = Doctor(json="--json" in argv)
    from rankmixup.cli.diagnosis import diagnose

    found = diagnose(options.runs)
    if options.json:
        print(json_format.dumps(found, allow_nan=False))
    else:
        for name, text in _lines(found):
            print(textwrap.fill(text, _WIDTH, initial_indent=f"{name:<10}", subsequent_indent=" " * 10, break_on_hyphens=False))


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What each line is about, and what it says; facts that could not be found are left out, since the problems name them."""
    yield "rankmixup", f"{found['rankmixup']['version']} ({found['rankmixup']['path']})"
    yield "python", f"{found['python']['version']} ({found['python']['implementation']}), {found['platform']}"
    if found["packages"]:
        yield "packages", ", ".join(f"{name} {version or '(none)'}" for name, version in found["packages"].items())
    if found["extras"]:
        yield "extras", "; ".join(map(_extra, found["extras"].items()))
    if cpu := found["cpu"]:
        threads = "" if cpu["threads"] is None else f", {cpu['threads']} used by torch"
        yield "cpu", f"{cpu['cores']} cores, {cpu['usable']} usable{threads}"
    if memory := found["memory"]:
        yield "memory", ", ".join(f"{size / _GIB:.1f} GiB {name}" for name, size in memory.items() if size is not None)
    if devices := found["devices"]:
        built = f" (torch is built for {devices['built_for_cuda']})" if devices["built_for_cuda"] else " (torch is built without)"
        yield (
            "devices",
            f"CUDA {devices['cuda']}: {', '.join(devices['gpus'])}"
            if devices["cuda"]
            else f"no CUDA{built}, MPS: {'yes' if devices['mps'] else 'no'}",
        )
    if data := found["data"]:
        where = data["root"] if data["exists"] else f"{data['root']} (no such folder)"
        yield "data", f"{where}: found {_names(data['found'])}; missing {_names(data['missing'])}"
    if runs := found["runs"]:
        yield (
            "runs",
            f"{runs['path']}: {runs['runs']} runs, {runs['broken']} broken" if runs["exists"] else f"{runs['path']} (no such folder)",
        )
    if found["plugins"]:
        yield "plugins", _names(found["plugins"])
    if found["environment"]:
        yield "variables", ", ".join(f"{name}={value}" for name, value in found["environment"].items())
    for problem in found["problems"] or ["none"]:
        yield "problem", problem


def _extra(extra: tuple[str, dict[str, str | None]]) -> str:
    name, packages = extra
    if None in packages.values():
        return f"{name}: not installed"
    return f"{name}: {', '.join(f'{package} {version}' for package, version in packages.items())}"


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
