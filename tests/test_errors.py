import os
import pickle

from rankmixup.errors import InvalidInput, one_line


def test_a_message_is_one_line_that_can_be_printed():
    name = os.fsdecode(b"a\xff")
    assert str(InvalidInput(f"{name} must be a folder\nor so, é")) == r"a\udcff must be a folder\nor so, é"
    assert str(InvalidInput("\x1b[31m")) == r"\x1b[31m"


def test_a_long_message_is_cut_in_the_middle():
    text = one_line("begin" + 10**6 * "x" + "end")
    assert len(text) < 2100
    assert text.startswith("begin")
    assert text.endswith("end")


def test_an_error_survives_the_way_to_another_process():
    error = pickle.loads(pickle.dumps(InvalidInput("a\nb")))
    assert (type(error), str(error)) == (InvalidInput, r"a\nb")
