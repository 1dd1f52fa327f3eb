"""Files of any content are refused in one sentence, and take no more memory than is allowed."""

import contextlib
import io
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmixup import files
from rankmixup.errors import InvalidInput
from rankmixup.files import read_json, read_npz, require_fits

LOGITS = np.array([[2.0, 0.0], [0.0, 3.0]])
LABELS = np.array([0, 1])


def test_what_a_file_unpacks_to_must_fit(tmp_path, monkeypatch):
    monkeypatch.delenv("RANKMIXUP_MAX_GIB", raising=False)
    monkeypatch.setattr(files, "available_memory", lambda: 4 << 30)
    path = tmp_path / "a.npz"
    path.write_bytes(b"small")
    require_fits(path, 1 << 30)
    with pytest.raises(
        InvalidInput, match=r"a.npz unpacks to 1.5 GiB, which must be at most 1 GiB; allow more with --max-gib or RANKMIXUP_"
    ):
        require_fits(path, 3 << 29)
    with path.open("wb") as file:
        file.truncate(1 << 27)  # takes no room on disk; 20 times as much is 2.5 GiB
    require_fits(path, 5 << 29)
    with pytest.raises(InvalidInput, match=r"unpacks to 3 GiB, which must be at most 2.5 GiB"):
        require_fits(path, 3 << 30)
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", "8.5")
    require_fits(path, 3 << 30)
    with pytest.raises(InvalidInput, match=r"unpacks to 8 GiB, which must be at most the memory that is available, 4 GiB"):
        require_fits(path, 8 << 30)
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", "1e308")
    with pytest.raises(InvalidInput, match=r"unpacks to .* GiB, which must be at most the memory that is available, 4 GiB"):
        require_fits(path, 10**5000)
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", "0.5")
    with pytest.raises(InvalidInput, match=r"unpacks to 1 GiB, which must be at most 0.5 GiB"):
        require_fits(path, 1 << 30)


@pytest.mark.parametrize("setting", ["", "0", "-1", "nan", "inf", "much"])
def test_the_limit_must_be_a_positive_number(setting, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", setting)
    (tmp_path / "a").touch()
    with pytest.raises(InvalidInput, match=rf"RANKMIXUP_MAX_GIB \(--max-gib\) must be a positive number, got '{setting}'"):
        require_fits(tmp_path / "a", 1)


def testavailable_memory_is_plausible():
    assert 1 << 26 < files.available_memory() < 1 << 50


def npy(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def header(shape: str, kind: str = "<f8") -> bytes:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n".encode()


def write_members(path: Path, *members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, content in members:
            archive.writestr(name, content)
    return path


GOOD = npy(header("(2,)"), bytes(16))


def test_members_are_known_by_their_names_and_others_do_no_harm(tmp_path):
    others = [("../../evil.npy", b"x"), ("/etc/evil", b"x"), ("notes.txt", b"x"), ("notes.txt", b"y"), ("sub/a.npy", b"")]
    path = write_members(tmp_path / "a.npz", *others, ("a.npy", GOOD), ("b", npy(header("(1, 2)", "<i8"), bytes(16), version=2)))
    arrays = read_npz(path, "b", "a", optional=("c",))
    assert {name: (array.shape, array.dtype.str) for name, array in arrays.items()} == {"b": ((1, 2), "<i8"), "a": ((2,), "<f8")}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]
    many = write_members(tmp_path / "many.npz", *((f"{number}.npy", b"") for number in range(5000)))
    with pytest.raises(InvalidInput, match=r"must hold an array 'a', it holds '0', .*'9' and 4990 more$"):
        read_npz(many, "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(header("(3,)"), bytes(16)), "'a.npy' is of another size than its header says"),
        (npy(header("(1,)"), bytes(16)), "'a.npy' is of another size than its header says"),
        (npy(header(f"({10**12},)"), bytes(16)), "'a.npy' is of another size than its header says"),
        (npy(header(f"({10**12},)", "|S0")), "'a.npy' is of another size than its header says"),
        (npy(header("(-1, -2)"), bytes(16)), "it cannot be read"),
        (npy(header("(" + "9" * 9000 + ",)"), bytes(16)), "it cannot be read"),
        (npy(header("(2,)", "|O"), bytes(16)), "'a.npy' holds pickled objects, which are never loaded"),
        (npy(header("(2,)")[:-3], bytes(16)), "it cannot be read"),
        (npy(b"(" * 9000, bytes(16)), "it cannot be read"),
        (npy(b"'\n\0\xff", bytes(16)), "it cannot be read"),
        (npy(b" " * 50_000 + header("(2,)"), bytes(16)), "it cannot be read"),
        (npy(header("(2,)"), bytes(16), version=3), "'a.npy' has a header of a version that plain arrays do not need"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "it cannot be read"),
        (b"no array", "it cannot be read"),
        (b"", "it cannot be read"),
    ],
)
def test_damaged_arrays_are_refused_in_one_short_sentence(content, message, tmp_path):
    path = write_members(tmp_path / "a.npz", ("a.npy", content))
    with pytest.raises(InvalidInput, match=rf"a.npz must be an npz file of plain arrays, {message}") as caught:
        read_npz(path, "a")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_archives_of_other_kinds_are_refused(tmp_path):
    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = write_members(tmp_path / "a.npz", ("a.npy", GOOD), compression=compression)
        with pytest.raises(InvalidInput, match=r"'a.npy' is compressed in a way that numpy does not use"):
            read_npz(path, "a")
    for names in (("a.npy", "a.npy"), ("a", "a.npy")):
        path = write_members(tmp_path / "a.npz", *((name, GOOD) for name in names))
        with pytest.raises(InvalidInput, match=r"a.npz must hold each array once, it holds 'a' 2 times"):
            read_npz(path, "a")
    content = bytearray(write_members(tmp_path / "a.npz", ("a.npy", GOOD)).read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[6] |= 1
    content[directory + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"it cannot be read \(.*'a.npy'.* is encrypted"):
        read_npz(path, "a")


def test_arrays_too_large_for_memory_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    path = write_members(tmp_path / "bomb.npz", ("a.npy", npy(header(f"({1 << 18},)"), bytes(8 << 18))), ("b.npy", GOOD))
    assert read_npz(path, "a")["a"].nbytes == 2 << 20
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", str(1 / 1024))
    with monkeypatch.context() as patched:
        patched.setattr(zipfile.ZipFile, "open", None)
        with pytest.raises(InvalidInput, match=r"bomb.npz unpacks to 0.00195\d GiB, which must be at most 0.0009766 GiB; allow more with"):
            read_npz(path, "a")
    assert read_npz(path, "b")["b"].tolist() == [0, 0]
    # The directory says that there is little, the header and the content that there is much.
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 100_000)
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"'a.npy' is of another size than its header says"):
        read_npz(path, "a")


@given(edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4), cut=st.integers(0, 400))
def test_any_damage_is_one_sentence_or_does_no_harm(edits, cut, tmp_path_factory):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, logits=LOGITS, labels=LABELS)
    content = bytearray(buffer.getvalue())
    for place, value in edits:
        content[place % len(content)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content[: -cut if cut > 200 else None])
    with contextlib.suppress(InvalidInput):
        assert np.array_equal(read_npz(path, "logits", optional=("labels",))["logits"], LOGITS)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"{" * 100_000])
def test_json_of_any_content(content, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"a.json must be JSON") as caught:
        read_json(tmp_path / "a.json")
    assert len(str(caught.value)) < 500
