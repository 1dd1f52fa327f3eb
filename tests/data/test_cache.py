import hashlib
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rankmixup.data import cache as module
from rankmixup.data.base import ImageFiles
from rankmixup.data.cache import _user_cache, digests, fingerprint_of
from rankmixup.errors import InvalidInput


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "own").mkdir()
    for name in ("a", "b"):
        (tmp_path / "own" / name).write_bytes(name.encode())
    return ImageFiles(tmp_path / "own", ("a", "b"))


@pytest.fixture
def later(monkeypatch):
    """An hour later."""
    now = time.time_ns
    monkeypatch.setattr(module.time, "time_ns", lambda: now() + 3600 * 10**9)


@pytest.fixture
def hashed(monkeypatch):
    """The names of files that are read."""
    names = []
    original = hashlib.file_digest

    def file_digest(file, kind):
        names.append(Path(file.name).name)
        return original(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", file_digest)
    return names


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_files_are_read_once_and_again_when_they_change(files, later, hashed):
    assert digests(files) == [sha256(b"a"), sha256(b"b")]
    assert sorted(hashed) == ["a", "b"]
    assert digests(files) == [sha256(b"a"), sha256(b"b")]
    assert len(hashed) == 2
    (files.folder / "b").write_bytes(b"c")
    assert digests(files) == [sha256(b"a"), sha256(b"c")]
    assert hashed[2:] == ["b"]
    # A part of the files does not make the others forgotten.
    assert digests(ImageFiles(files.folder, ("a",))) == [sha256(b"a")]
    digests(files)
    assert len(hashed) == 3


def test_a_file_that_has_just_changed_is_not_trusted(files, hashed):
    """Its times may be the same after the next change."""
    times = (files.folder / "a").stat()
    digests(files)
    (files.folder / "a").write_bytes(b"x")
    os.utime(files.folder / "a", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests(files)[0] == sha256(b"x")
    assert len(hashed) == 4
    assert not list(_user_cache().glob("*"))


def test_a_time_that_was_set_back_does_not_hide_a_change(files, later, hashed):
    times = (files.folder / "a").stat()
    digests(files)
    (files.folder / "a").write_bytes(b"x")
    os.utime(files.folder / "a", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests(files)[0] == sha256(b"x")


def test_another_file_under_the_same_name_is_read(files, monkeypatch):
    """Even where its size and its times are those of the one before, as when a link is set to another file."""
    original = Path.stat

    def stat(path, **options):
        found = original(path, **options)
        return SimpleNamespace(st_mtime_ns=1, st_ctime_ns=1, st_size=found.st_size, st_ino=found.st_ino, st_mode=found.st_mode)

    linked = ImageFiles(files.folder, ("link",))
    (files.folder / "link").symlink_to("a")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat)
        assert digests(linked) == [sha256(b"a")]
        (files.folder / "link").unlink()
        (files.folder / "link").symlink_to("b")
        assert digests(linked) == [sha256(b"b")]


def test_the_fingerprint_is_of_names_and_contents(files, tmp_path):
    first = fingerprint_of(files)
    (files.folder / "b").write_bytes(b"x")
    assert fingerprint_of(files) != first
    (files.folder / "b").write_bytes(b"b")
    assert fingerprint_of(files) == first
    (files.folder / "b").rename(files.folder / "c")
    assert fingerprint_of(ImageFiles(files.folder, ("a", "c"))) != first
    (files.folder / "c").rename(files.folder / "b")
    files.folder.rename(tmp_path / "moved")
    assert fingerprint_of(ImageFiles(tmp_path / "moved", files.names)) == first


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": null}', b'{"a": []}', b'{"a": [1, 2, 3, 4, 5]}', b'{"a": {"b": 1}}']
)
def test_a_damaged_or_foreign_cache_is_made_again(content, files, later):
    expected = digests(files)
    (path,) = _user_cache().iterdir()
    good = path.read_bytes()
    path.write_bytes(content)
    assert digests(files) == expected
    assert json.loads(path.read_bytes()) == json.loads(good)


def test_without_a_cache_folder(files, later, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert digests(files) == [sha256(b"a"), sha256(b"b")]


def test_names_of_any_bytes(tmp_path, later, hashed):
    name = os.fsdecode(b"\xff\n.png")
    (tmp_path / name).write_bytes(b"a")
    files = ImageFiles(tmp_path, (name,))
    assert fingerprint_of(files) == fingerprint_of(files)
    assert len(hashed) == 1


def test_a_file_that_cannot_be_read_is_named(files):
    with pytest.raises(InvalidInput, match=r"own/none must be a file, it cannot be read \(.*No such file"):
        digests(ImageFiles(files.folder, ("a", "none")))
