"""What it costs to know a folder of images by its content: the first time, and once the digests are kept."""

import os
import tempfile
import time
from pathlib import Path
from unittest import mock

from benchmarks.timing import line
from rankmixup.data.base import ImageFiles
from rankmixup.data.cache import fingerprint_of

COUNT, BYTES = 20_000, 20_000


def main() -> list[str]:
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=f"{folder}/cache"):
        own = Path(folder) / "own"
        own.mkdir()
        for number in range(COUNT):
            (own / f"{number}.png").write_bytes(os.urandom(BYTES))
        time.sleep(3)  # digests of files that have just changed are not kept
        files = ImageFiles(own, tuple(f"{number}.png" for number in range(COUNT)))
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            fingerprint_of(files)
            seconds.append(time.perf_counter() - began)
    first, again = seconds
    return [
        f"      {COUNT / first:9,.0f} files of {BYTES // 1000} kB a second when they are hashed",
        f"      {COUNT / again:9,.0f} files a second when none has changed",
        line("seconds for files that have not changed over seconds the first time", again / first, 0.5),
    ]
