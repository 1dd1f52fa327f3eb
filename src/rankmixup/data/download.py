"""Published files: downloaded, continued after an interruption, checked, and unpacked all or not at all."""

import contextlib
import gzip
import http
import http.client
import os
import secrets
import shutil
import tarfile
import tomllib
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rankmixup.data.progress import progress
from rankmixup.errors import InvalidInput, WorkFailed, require
from rankmixup.files import file_hash, readable, removable

_CHUNK = 1 << 18
_TIMEOUT = 60.0
PUBLISHED: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "published.toml").read_text("utf-8"))
"""Of each data set, the names and md5 sums of its files."""


@dataclass(frozen=True)
class Remote:
    """A file that the authors of a data set publish."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """Its own name."""
        return self.url.rpartition("/")[2]


def require_present(path: Path, data_name: str) -> None:
    """Raise unless there is something at `path`."""
    require(path.exists(), f"{data_name} must have {path}, there is none; name another --data-root, or fetch it with --download")


def verify(path: Path, md5: str, data_name: str) -> None:
    """Raise unless `path` is there and has the published content."""
    require_present(path, data_name)
    require(path.is_file(), f"{path} must be a file")
    found = file_hash(path, "md5")
    require(found == md5, f"{path} must have the md5 sum {md5}, got {found}: it is damaged; remove it and fetch it with --download")


def fetch(remote: Remote, folder: Path) -> Path:
    """The file in `folder`, downloaded unless it is there and complete; an interrupted transfer continues where it ended."""
    path = folder / remote.name
    if path.exists():
        verify(path, remote.md5, remote.name)
        return path
    part = path.with_name(f"{path.name}.part")
    with _writable(folder):
        _transfer(remote, part)
        found = file_hash(part, "md5")
        if found != remote.md5:
            part.unlink()
            raise WorkFailed(f"{remote.url} must have the md5 sum {remote.md5}, got {found}; what came was removed, try again")
        part.replace(path)
    return path


def fetch_archive(remote: Remote, root: Path, folder: str) -> None:
    """`root / folder` from a tar or zip file beside it, which is kept; files of a folder that is there already are replaced."""
    archive = fetch(remote, root)
    unpacked = root / f".{folder}.{secrets.token_hex(8)}"
    with _writable(root), removable():
        try:
            _unpack(archive, unpacked)
            require((unpacked / folder).is_dir(), f"archive {archive} must hold a folder {folder!r}, it has none")
            if (root / folder).exists():
                for entry in (unpacked / folder).iterdir():
                    entry.replace(root / folder / entry.name)
            else:
                (unpacked / folder).rename(root / folder)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)


def _transfer(remote: Remote, part: Path) -> None:
    done = part.stat().st_size if part.exists() else 0
    # The addresses are the constants of this package, all of them http.
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={done}-"} if done else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            resumed = answer.status == http.HTTPStatus.PARTIAL_CONTENT
            done = done if resumed else 0
            left = int(answer.headers.get("Content-Length", 0))
            with part.open("ab" if resumed else "wb") as file, progress(f"downloading {remote.name}", done + left) as advance:
                advance(done)
                received = 0
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                    advance(len(chunk))
                file.flush()
                os.fsync(file.fileno())
    except urllib.error.HTTPError as error:
        # All of it was there already.
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return
        raise WorkFailed(f"{remote.url} could not be downloaded ({error})") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise WorkFailed(f"{remote.url} could not be downloaded ({error}); the same command continues where it broke off") from error
    if received < left:
        raise WorkFailed(f"{remote.url} broke off after {done + received} of {done + left} bytes; the same command continues from there")


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack plain files and folders; an archive that holds anything else, or a name that leads out of `folder`, is refused whole."""
    # The last two are zipfile's, for an unknown kind of compression and for encryption.
    damage = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
    with readable(archive, "a whole tar or zip archive", damage):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                _check_members(archive, folder, [(member.filename, member.file_size) for member in zipped.infolist()])
                zipped.extractall(folder)  # noqa: S202 - every name was checked
        else:
            with tarfile.open(archive) as tarred:
                for member in tarred.getmembers():
                    require(member.isfile() or member.isdir(), f"archive {archive} must hold only files and folders, got {member.name!r}")
                _check_members(archive, folder, [(member.name, member.size) for member in tarred.getmembers()])
                tarred.extractall(folder, filter="data")


def _check_members(archive: Path, folder: Path, sizes: list[tuple[str, int]]) -> None:
    for name, _ in sizes:
        # Backslashes and drives are checked as on Windows.
        path = PurePosixPath(name.replace("\\", "/"))
        inside = not path.is_absolute() and ".." not in path.parts and ":" not in name
        require(inside, f"archive {archive} must hold names that stay inside its folder, got {name!r}")
    size, free = sum(size for _, size in sizes), shutil.disk_usage(folder.parent).free
    require(size < free, f"archive {archive} unpacks to {size:,} bytes, the disk must have room for them, {free:,} are free")


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Raise `InvalidInput` where `folder` cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InvalidInput(f"data root {folder} must be a folder that can be written to, for a download ({error})") from error
