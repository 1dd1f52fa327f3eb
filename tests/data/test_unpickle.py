import pickle
from pathlib import Path

import numpy as np
import pytest

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
    with pytest.raises(InvalidInput, match=r"batch must hold plain data, it names .*, which is not run"):
        read_pickle(tmp_path / "batch")
    assert not victim.exists()


@pytest.mark.parametrize(
    "content",
    [b"cos\nsystem\n(S'true'\ntR.", b"cbuiltins\neval\n(S'1'\ntR.", b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.", b"cnumpy\nload\n."],
)
def test_names_are_refused_even_if_nothing_calls_them(content, tmp_path):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(InvalidInput, match="must hold plain data, it names"):
        read_pickle(tmp_path / "batch")


def test_arrays_of_objects_are_refused(tmp_path):
    (tmp_path / "batch").write_bytes(pickle.dumps(np.array([{}, []], dtype=object), protocol=4))
    with pytest.raises(InvalidInput, match="it holds an array of object, not of numbers"):
        read_pickle(tmp_path / "batch")


def test_numpys_own_types_stay_as_they_are(tmp_path):
    (tmp_path / "batch").write_bytes(python2_pickle(np.arange(3, dtype=">i4")))
    np.testing.assert_array_equal(read_pickle(tmp_path / "batch"), [0, 1, 2])
    assert np.dtype("i4").isnative
    assert np.arange(3, dtype="i4").tolist() == [0, 1, 2]


@pytest.mark.parametrize("keep", [0, 1, 10, 50, -1])
def test_a_file_cut_short_is_refused(keep, tmp_path):
    whole = python2_pickle({b"data": np.zeros((2, 8), dtype=np.uint8)})
    (tmp_path / "batch").write_bytes(whole[:keep])
    with pytest.raises(InvalidInput, match="must be a whole pickle of plain data"):
        read_pickle(tmp_path / "batch")
