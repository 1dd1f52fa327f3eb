import hashlib
import http.server
import io
import os
import tarfile
import threading
import zipfile
from types import SimpleNamespace

import pytest

from rankmixup.data import Cifar10, ImageNet, TinyImageNet
from rankmixup.data.download import Remote, fetch, fetch_archive
from rankmixup.errors import InvalidInput, WorkFailed
from tests.data.original_formats import noise

CONTENT = noise(1_000_000).tobytes()


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; a name in `broken` is cut off after so many bytes, once."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.broken: dict[str, int] = {}
        self.resumes = True
        self.ranges: list[str | None] = []

    def remote(self, name: str, content: bytes) -> Remote:
        self.files[name] = content
        return Remote(f"http://127.0.0.1:{self.server_port}/data/{name}", hashlib.md5(content).hexdigest())


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if name not in self.server.files:
            self.send_error(404)
            return
        content, start = self.server.files[name], 0
        if asked and self.server.resumes:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.broken.pop(name, None)])

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_once(server, tmp_path):
    remote = server.remote("a.bin", CONTENT)
    path = fetch(remote, tmp_path / "new" / "root")
    assert path.read_bytes() == CONTENT
    assert fetch(remote, tmp_path / "new" / "root") == path
    assert server.ranges == [None]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_transfer_that_broke_off_goes_on(server, tmp_path, resumes):
    remote = server.remote("a.bin", CONTENT)
    server.broken, server.resumes = {"a.bin": 300_000}, resumes
    with pytest.raises(WorkFailed, match=r"a.bin broke off after 300000 of 1000000 bytes; the same command continues from there"):
        fetch(remote, tmp_path)
    assert not (tmp_path / "a.bin").exists()
    assert fetch(remote, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_transfer_that_was_whole_but_not_renamed_is_taken(server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    assert fetch(server.remote("a.bin", CONTENT), tmp_path).read_bytes() == CONTENT


def test_a_wrong_sum_leaves_nothing_and_a_second_try_works(server, tmp_path):
    remote = server.remote("a.bin", CONTENT)
    server.files["a.bin"] = CONTENT[:-1] + b"!"
    with pytest.raises(WorkFailed, match=rf"a.bin must have the md5 sum {remote.md5}, got \w+; what came was removed, try again"):
        fetch(remote, tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.files["a.bin"] = CONTENT
    assert fetch(remote, tmp_path).read_bytes() == CONTENT


def test_no_such_file_and_no_such_server(server, tmp_path):
    port = server.server_port
    with pytest.raises(WorkFailed, match=r"missing.bin could not be downloaded \(HTTP Error 404"):
        fetch(Remote(f"http://127.0.0.1:{port}/missing.bin", ""), tmp_path)
    with pytest.raises(WorkFailed, match=r"could not be downloaded .*; the same command continues where it broke off"):
        fetch(Remote("http://127.0.0.1:1/a.bin", ""), tmp_path)


def test_a_root_that_cannot_be_written_to(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"data root .*file/below must be a folder that can be written to, for a download"):
        fetch(server.remote("a.bin", CONTENT), tmp_path / "file" / "below")


def tar(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


def zipped(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(("pack", "name"), [(tar, "a.tar.gz"), (zipped, "a.zip")])
def test_an_archive_is_unpacked(pack, name, server, tmp_path):
    fetch_archive(server.remote(name, pack(("set/one", b"1"), ("set/deep/two", b"2"))), tmp_path, "set")
    found = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))]
    assert found == [name, "set", "set/deep", "set/deep/two", "set/one"]
    assert (tmp_path / "set" / "deep" / "two").read_bytes() == b"2"


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "content",
    [
        tar(("set/one", b"1"), ("../evil", b"!")),
        tar(("set/../../evil", b"!")),
        tar(("/tmp/evil", b"!")),
        tar(link("set/evil", "/etc/passwd", tarfile.SYMTYPE)),
        tar(link("set/evil", "one", tarfile.LNKTYPE)),
        tar(link("set/evil", "", tarfile.FIFOTYPE)),
        zipped(("set/one", b"1"), ("../evil", b"!")),
        zipped(("/evil", b"!")),
        zipped(("set\\..\\..\\evil", b"!")),
        zipped(("C:/evil", b"!")),
    ],
    ids=["tar-up", "tar-within-up", "tar-absolute", "symlink", "hardlink", "fifo", "zip-up", "zip-absolute", "zip-backslash", "zip-drive"],
)
def test_an_archive_that_reaches_outside_is_refused_whole(content, server, tmp_path):
    root = tmp_path / "root"
    with pytest.raises(
        InvalidInput, match=r"archive .* must hold (names that stay inside its folder|only files and folders), got '.*evil'"
    ):
        fetch_archive(server.remote("archive", content), root, "set")
    assert [path.name for path in tmp_path.rglob("*")] == ["root", "archive"]


def test_damaged_and_encrypted_archives(server, tmp_path):
    whole = tar(("set/one", bytes(1000)))
    flipped = whole[:20] + bytes([whole[20] ^ 255]) + whole[21:]
    encrypted = bytearray(zipped(("set/one", b"1")))
    encrypted[6] |= 1
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    unknown = bytearray(zipped(("set/one", b"1")))
    unknown[8] = unknown[unknown.index(b"PK\x01\x02") + 10] = 77
    for number, content in enumerate((whole[:-50], flipped, bytes(encrypted), bytes(unknown))):
        with pytest.raises(InvalidInput, match="must be a whole tar or zip archive, it cannot be read"):
            fetch_archive(server.remote(f"{number}.archive", content), tmp_path, "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("pack", [tar, zipped])
def test_an_archive_that_fills_the_disk_is_refused(pack, server, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1999))
    with pytest.raises(InvalidInput, match="unpacks to 2,000 bytes, the disk must have room for them, 1,999 are free"):
        fetch_archive(server.remote("archive", pack(("set/one", bytes(1000)), ("set/two", bytes(1000)))), tmp_path, "set")
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_a_pipe_is_no_file(server, tmp_path):
    os.mkfifo(tmp_path / "a.bin")
    with pytest.raises(InvalidInput, match=r"a.bin must be a file"):
        fetch(server.remote("a.bin", CONTENT), tmp_path)


def test_an_archive_of_something_else(server, tmp_path):
    with pytest.raises(InvalidInput, match="must hold a folder 'set', it has none"):
        fetch_archive(server.remote("a.tar.gz", tar(("other/one", b"1"))), tmp_path, "set")
    with pytest.raises(InvalidInput, match="must be a whole tar or zip archive"):
        fetch_archive(server.remote("b.tar.gz", b"no archive"), tmp_path, "set")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "b.tar.gz"]


def test_data_sets_fetch_what_they_miss(server, tmp_path, monkeypatch):
    archive = tar(*((f"cifar-10-batches-py/{name}", name.encode()) for name in Cifar10.files))
    monkeypatch.setattr(Cifar10, "archive", server.remote("cifar-10-python.tar.gz", archive))
    folder = tmp_path / "cifar-10-batches-py"
    for _ in range(2):
        with pytest.raises(InvalidInput, match="data_batch_1 must have the md5 sum"):
            Cifar10().load(tmp_path, download=True)
    (folder / "data_batch_2").unlink()
    Cifar10().download(tmp_path)
    assert (folder / "data_batch_2").read_bytes() == b"data_batch_2"
    assert server.ranges == [None]  # the archive is still there
    (folder / "data_batch_2").unlink()
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"damaged")
    with pytest.raises(InvalidInput, match=r"cifar-10-python.tar.gz must have the md5 sum .* it is damaged; remove it and fetch it"):
        Cifar10().download(tmp_path)

    monkeypatch.setattr(TinyImageNet, "archive", server.remote("tiny-imagenet-200.zip", zipped(("tiny-imagenet-200/words.txt", b""))))
    for _ in range(2):
        TinyImageNet().download(tmp_path)
    assert (tmp_path / "tiny-imagenet-200" / "words.txt").exists()
    assert len(server.ranges) == 2

    with pytest.raises(InvalidInput, match="imagenet must be fetched by hand"):
        ImageNet().load(tmp_path, download=True)
