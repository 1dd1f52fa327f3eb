"""What files hold, as one hash: every file is read once, and again only if it may have changed since."""

import contextlib
import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rankmixup.config import content_hash
from rankmixup.data.base import ImageFiles
from rankmixup.data.progress import progress
from rankmixup.errors import InvalidInput
from rankmixup.files import read_json, readable, write_atomic

__all__ = ["digests", "fingerprint_of", "user_cache"]

_SETTLED_NS = 2_000_000_000
"""The coarsest clock of a file system, FAT's: a file may change once more without a change of its times for as long as this."""


def user_cache() -> Path:
    """The user's folder for what this library can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankmixup"


def fingerprint_of(files: ImageFiles) -> str:
    """A hash of the names and contents of files, wherever their folder lies."""
    return content_hash(list(zip(files.names, digests(files), strict=True)))


def digests(files: ImageFiles) -> list[str]:
    """SHA-256 of each file.

    They are kept in the user's cache folder with the sizes and times of the files; one whose size and times are the same is not
    read again. A file that had just changed when it was read is not kept, since its times would not tell another change.
    """
    path = user_cache() / f"digests-{content_hash(str(files.folder.resolve()))[:16]}.json"
    known, now = _read(path), time.time_ns()
    states = {name: _state(files.folder / name) for name in files.names}
    changed = [name for name, state in states.items() if not _holds(known.get(name), state)]
    with ThreadPoolExecutor(os.cpu_count()) as pool, progress(f"hashing {files.folder.name}", len(changed)) as advance:

        def sha256(name: str) -> str:
            with readable(files.folder / name), (files.folder / name).open("rb") as file:
                value = hashlib.file_digest(file, "sha256").hexdigest()
            advance(1)
            return value

        fresh = dict(zip(changed, pool.map(sha256, changed), strict=True))
    settled = {name: [*states[name], value] for name, value in fresh.items() if max(states[name][:2]) < now - _SETTLED_NS}
    if settled:
        # Without a cache folder, files are read again next time.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(known | settled).encode())
    return [fresh[name] if name in fresh else known[name][-1] for name in files.names]


def _state(path: Path) -> list[int]:
    """What changes with a file: time of its content, time of its entry, which nobody can set back, size, and which file it is."""
    with readable(path):
        stat = path.stat()
    return [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def _holds(entry: Any, state: list[int]) -> bool:
    """Whether an entry of the cache is one, and of a file in this state."""
    return isinstance(entry, list) and entry[:-1] == state and isinstance(entry[-1], str)


def _read(path: Path) -> dict[str, Any]:
    """What is kept; nothing where the file is damaged or another's."""
    with contextlib.suppress(InvalidInput):
        held = read_json(path)
        if isinstance(held, dict):
            return held
    return {}
