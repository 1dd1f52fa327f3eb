import pytest

from rankmixup.errors import InvalidInput
from rankmixup.evaluation.names import find_model, short_names


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["/x/a.npz", "/x/b.npz"], ["a.npz", "b.npz"]),
        (["/x/one/test.npz", "/x/two/test.npz"], ["one/test.npz", "two/test.npz"]),
        (["/a/test.npz", "test.npz"], ["a/test.npz", "test.npz"]),
        (["a/./b", "a/b"], ["a/./b", "a/b"]),  # what paths take for equal stays apart
        (["same", "same"], ["same", "same"]),
        (["runs/0123456789ab/"], ["0123456789ab"]),
        (["ce, seed 0", "a (2)"], ["ce, seed 0", "a (2)"]),
        (["", "/"], ["", "/"]),
        ([], []),
    ],
)
def test_names_without_folders_that_tell_nothing(names, short):
    assert short_names(names) == short


MODELS = ["out/a.npz", "one/test.npz", "two/test.npz", "v1.5", "runs/0123456789ab", "b", "out/b.npz"]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("a", "out/a.npz"),
        ("a.npz", "out/a.npz"),
        ("out/a", "out/a.npz"),
        ("two/test", "two/test.npz"),
        ("v1.5", "v1.5"),
        ("0123456789ab", "runs/0123456789ab"),
        ("b", "b"),  # the name itself goes before the end of a path
        ("b.npz", "out/b.npz"),
    ],
)
def test_a_name_is_the_end_of_a_path(name, model):
    assert find_model(name, MODELS) == model


def test_unknown_and_ambiguous_names_are_refused():
    with pytest.raises(InvalidInput, match=r"'test' could be one/test.npz or two/test.npz; NAME=PATH gives a model a name"):
        find_model("test", MODELS)
    with pytest.raises(InvalidInput, match="unknown model 'tset'; did you mean 'test'"):
        find_model("tset", MODELS)
    for name in ("", ".", "..", "npz", "t.npz", "est"):
        with pytest.raises(InvalidInput, match="unknown model"):
            find_model(name, MODELS)
