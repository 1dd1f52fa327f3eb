import contextlib
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmixup.data.unpickle import read_pickle
from rankmixup.errors import InvalidInput
from tests.data.original_formats import python2_pickle


def test_plain_data_comes_back(tmp_path):
    content = {b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3], b"names": [b"a", b"b"], b"none": None}
    (tmp_path / "batch").write_bytes(python2_pickle(content))
    found = read_pickle(tmp_path / "batch")
    np.testing.assert_array_equal(found.pop(b"data"), content.pop(b"data"))
    assert found == content


def test_the_file_is_what_python_2_wrote(tmp_path):
    """The helper's bytes are those that any other reader of such batches understands."""
    content = {b"data": np.eye(3, dtype=np.uint8)}
    found = pickle.loads(python2_pickle(content), encoding="bytes")
    np.testing.assert_array_equal(found[b"data"], content[b"data"])


class Malicious:
    def __init__(self, callable_, *arguments):
        self.reduced = (callable_, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_is_refused_and_not_run(protocol, tmp_path):
    victim = tmp_path / "victim"
    (tmp_path / "batch").write_bytes(pickle.dumps({b"data": Malicious(Path.touch, victim)}, protocol))
    with pytest.raises(InvalidInput, match=r"batch must hold plain data, it (names .*, which is not run|has the instruction)"):
        read_pickle(tmp_path / "batch")
    assert not victim.exists()


@pytest.mark.parametrize(
    "content",
    [b"cos\nsystem\n(S'true'\ntR.", b"cbuiltins\neval\n(S'1'\ntR.", b"cnumpy\nload\n.", b"cnumpy._core.multiarray\n_reconstruct\n."],
)
def test_names_are_refused_even_if_nothing_calls_them(content, tmp_path):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(InvalidInput, match="must hold plain data, it names"):
        read_pickle(tmp_path / "batch")


@pytest.mark.parametrize("dtype", [object, "i1", "u2", ">u4", "f8", "S1", "b1", "V1"])
def test_arrays_of_anything_but_bytes_are_refused(dtype, tmp_path):
    (tmp_path / "batch").write_bytes(python2_pickle({b"data": np.zeros(2, dtype)}))
    with pytest.raises(InvalidInput, match="must hold plain data, it holds an array that is not of bytes"):
        read_pickle(tmp_path / "batch")


def array(shape: bytes, content: bytes = b"U\x02ab", dtype: bytes = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R") -> bytes:
    """A pickled dictionary with an array of this shape, whose size takes no part in that of the file."""
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return b"\x80\x02}U\x04data" + made + b"(K\x01" + shape + dtype + b"\x89" + content + b"tbs."


LARGE = b"J\xff\xff\xff\x7f"
BOMB = b"\x80\x02}" + b"K\x00\x85" + b"q\x00h\x00\x86" * 100 + b"K\x00s."
"""A dictionary whose key is a pair of one pair twice, a hundred deep."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (array(b"K\x03\x85"), "it holds an array of another shape than that of its 2 bytes"),
        (array(LARGE + LARGE + LARGE + b"\x87"), "it holds an array of another shape than that of its 2 bytes"),
        (array(b"J\xff\xff\xff\xffJ\xfe\xff\xff\xff\x86"), "it holds an array of another shape than that of its 2 bytes"),
        (array(b"N"), "it holds an array of another shape than that of its 2 bytes"),
        (array(b"K\x02\x85", b"]"), "it holds an array that is not of bytes"),
        (array(b"K\x02\x85", dtype=b"N"), "it holds an array that is not of bytes"),
        (array(b"(" + b"K\x01" * 100 + b"K\x02t"), "must hold plain data, it cannot be read"),
        (b"cnumpy\nndarray\n" + LARGE + b"\x85R.", "must hold plain data, it cannot be read"),
        (b"cnumpy\ndtype\nN(\x7d\x7d\x86b.", "must hold plain data, it cannot be read"),
        (BOMB, "it has a dictionary with keys that are not bytes"),
        (BOMB.replace(b"}", b"}(").replace(b"s.", b"u."), "it has a dictionary with keys that are not bytes"),
        (b"T\xff\xff\xff\x7fabc.", "must hold plain data, it cannot be read"),
        (b"U\x01ar\xff\xff\xff\x7f.", "it holds no dictionary but bytes"),
        (b"\x80\x04\x95" + b"\xff" * 8, "it has the instruction '\\\\x95'"),
        (b"\x8e" + b"\xff" * 8, "it has the instruction"),
        (b"\x8b\xff\xff\xff\x7f", "it has the instruction"),
        (b"L" + b"9" * 100_000 + b"L\n.", "it has the instruction 'L'"),
        (b"(" * 100_000 + b"l" * 100_000 + b".", "it has the instruction 'l'"),
        (b"cnumpy\n" + b"x" * 100_000 + b"\n.", "it names numpy.x{50}, which is not run"),
        (b"\x80\x02]q\x00h\x00a.", "it holds no dictionary but list"),
    ],
)
def test_bombs_are_refused_at_once(content, message, tmp_path):
    (tmp_path / "batch").write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput, match=message):
        read_pickle(tmp_path / "batch")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # kilobytes


@pytest.mark.parametrize("keep", [0, 1, 10, 50, -1])
def test_a_file_cut_short_is_refused(keep, tmp_path):
    whole = python2_pickle({b"data": np.zeros((2, 8), dtype=np.uint8)})
    (tmp_path / "batch").write_bytes(whole[:keep])
    with pytest.raises(InvalidInput, match=r"batch must hold plain data"):
        read_pickle(tmp_path / "batch")


@given(edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_damage_is_one_sentence_or_gives_plain_data(edits, tmp_path_factory):
    content = bytearray(python2_pickle({b"data": np.zeros((2, 8), dtype=np.uint8), b"labels": [1, 2]}))
    for place, value in edits:
        content[place % len(content)] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    with contextlib.suppress(InvalidInput):
        assert isinstance(read_pickle(path), dict)
