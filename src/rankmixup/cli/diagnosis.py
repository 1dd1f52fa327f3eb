"""Facts about this installation and machine, for a bug report. What is broken is reported and never raised."""

import importlib
import importlib.metadata
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankmixup import __version__
from rankmixup.errors import one_line

_MODULES = {"pillow": "PIL", "scikit-learn": "sklearn"}
"""Packages that are imported under another name than their own."""
_DEVELOPMENT = ("test", "dev", "docs")
"""Extras that only developers of this library install."""
_VARIABLES = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Environment variables that change what training does, beside those that begin with RANKMIXUP_."""
_LONGEST_PROBLEM = 200


def diagnose(runs: Path) -> dict[str, Any]:
    """All facts, as JSON holds them; `problems` has one sentence for each thing that is broken, too old or missing."""
    problems: list[str] = []

    def attempt(name: str, facts: Callable[[], Any]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return facts()
        except (Exception, SystemExit) as error:
            problems.append(f"{name}: {_reason(error)}")
            return None

    found = {
        "schema": 1,
        "rankmixup": {"version": __version__, "path": shown_path(Path(__file__).parent.parent)},
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "platform": attempt("platform", platform.platform),
        "packages": attempt("packages", lambda: _packages(problems)),
        "extras": attempt("extras", lambda: _extras(problems)),
        "cpu": attempt("cpu", _cpu),
        "memory": attempt("memory", _memory),
        "devices": attempt("devices", _devices),
        "plugins": attempt("plugins", _plugins),
        "data": attempt("data", _data),
        "runs": attempt("runs", lambda: _runs(runs)),
        "environment": {
            name: shown_path(value) for name, value in sorted(os.environ.items()) if name.startswith("RANKMIXUP_") or name in _VARIABLES
        },
    }
    return found | {"problems": problems}


def shown_path(path: Path | str) -> str:
    """A path for others to read: the user's home folder is `~`.

    >>> shown_path(Path.home() / "data")
    '~/data'
    """
    text, home = str(path), str(Path.home())
    return one_line(re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text) if len(home) > 1 else text)


def _reason(error: BaseException) -> str:
    text = shown_path(f"{type(error).__name__}: {error}".rstrip(": "))
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]} ..."


def _requirements() -> list[tuple[str, str, str]]:
    """What the metadata of this library asks for: the name of each package, its version and the extra that it belongs to, or ""."""
    found = []
    for line in importlib.metadata.requires("rankmixup") or []:
        match = re.fullmatch(r"([\w.-]+)(?:\[.*?\])?\s*([^;]*?)\s*(?:;.*extra\s*==\s*['\"]([\w-]+)['\"].*)?", line)
        if match:  # else it is for another system
            name, version, extra = match.groups("")
            found.append((name, version, extra))
    return found


def _version(name: str, asked: str, problems: list[str]) -> str | None:
    """The version that is installed; None if there is none."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    from packaging.specifiers import SpecifierSet

    if not SpecifierSet(asked).contains(version, prereleases=True):
        problems.append(f"{name}: {version} is installed, but {asked} is needed")
    return version


def _packages(problems: list[str]) -> dict[str, str | None]:
    """Versions of what the library cannot do without; each package is imported, to see whether it is whole."""
    versions = {}
    for name, asked, extra in _requirements():
        if extra:
            continue
        versions[name] = _version(name, asked, problems)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(_MODULES.get(name, name.replace("-", "_")))
        except (Exception, SystemExit) as error:
            problems.append(f"{name}: {'not installed' if versions[name] is None else f'broken ({_reason(error)})'}")
    return versions


def _extras(problems: list[str]) -> dict[str, dict[str, str | None]]:
    """Versions of the packages of each extra. They are not imported, since some take many seconds."""
    found: dict[str, dict[str, str | None]] = {}
    for name, asked, extra in _requirements():
        if extra and extra not in _DEVELOPMENT:
            found.setdefault(extra, {})[name] = _version(name, asked, problems)
    return found


def _cpu() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    torch = sys.modules.get("torch")
    return {"cores": os.cpu_count(), "usable": usable, "threads": torch and torch.get_num_threads()}


def _memory() -> dict[str, int | None]:
    """In bytes; None where the system does not say."""
    from rankmixup.files import available_memory

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    available = available_memory()
    return {"total": total, "available": None if available == sys.maxsize else available}


def _devices() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if cuda else []
    return {
        "cuda": torch.version.cuda if cuda else None,
        "built_for_cuda": torch.version.cuda,
        "gpus": names,
        "mps": torch.backends.mps.is_available(),
    }


def _plugins() -> list[str]:
    """Files that `--plugin` and RANKMIXUP_PLUGINS name, after they have been loaded."""
    from rankmixup.plugins import load_plugins

    load_plugins()
    return [shown_path(path) for path in os.environ.get("RANKMIXUP_PLUGINS", "").split(os.pathsep) if path]


def _data() -> dict[str, Any]:
    """Which of the data sets that are read from the data root are there; whether they are whole is not checked."""
    from rankmixup.data import DataSource
    from rankmixup.data.base import resolve_root

    folder = resolve_root(None)
    there: dict[str, bool] = {}
    for name in DataSource.registry:
        place = DataSource.registry[name].location(folder)
        if place is not None:
            there[name] = place.exists()
    return {
        "root": shown_path(folder),
        "exists": folder.is_dir(),
        "found": [name for name, found in there.items() if found],
        "missing": [name for name, found in there.items() if not found],
    }


def _runs(folder: Path) -> dict[str, Any]:
    from rankmixup.runs.listing import list_runs

    if not folder.is_dir():
        return {"path": shown_path(folder), "exists": False, "runs": 0, "broken": 0}
    listed = list_runs(folder)
    return {"path": shown_path(folder), "exists": True, "runs": len(listed.runs), "broken": len(listed.broken)}
