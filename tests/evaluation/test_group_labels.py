import numpy as np
import pytest
import torch

from rankmixup.errors import InvalidInput
from rankmixup.evaluation.group_labels import GroupLabels, all_labels


@pytest.mark.parametrize(
    ("values", "names", "codes"),
    [
        (["b", "a", "b"], ("a", "b"), [1, 0, 1]),
        ([10, 9, -1], ("-1", "9", "10"), [2, 1, 0]),
        (["10", "9", ""], ("9", "10", "(missing)"), [1, 0, 2]),
        (np.array([1.0, np.nan, 0.0]), ("0", "1", "(missing)"), [1, 2, 0]),
        (["x", float("nan"), None], ("x", "(missing)"), [0, 1, 1]),
        (np.array([True, False, True]), ("False", "True"), [1, 0, 1]),
        (torch.tensor([3, 3, 1]), ("1", "3"), [1, 1, 0]),
        (torch.tensor([3.0, 3.0, 1.0], dtype=torch.bfloat16), ("1", "3"), [1, 1, 0]),
        (np.array([b"a", b"\xff", b"a"]), ("a", "\ufffd"), [0, 1, 0]),
        (["nan", "a\nb", "nan"], ("a\\nb", "nan"), [1, 0, 1]),
    ],
)
def test_names_and_positions(values, names, codes):
    found = GroupLabels.of("site", values, 3)
    assert (found.names, found.codes.tolist()) == (names, codes)


def test_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"site": ["a", None, "b"], "age": pandas.array([1, pandas.NA, 2], dtype="Int64")})
    assert GroupLabels.of("site", frame["site"], 3).names == ("a", "b", "(missing)")
    assert GroupLabels.of("age", frame["age"], 3).names == ("1", "2", "(missing)")
    assert GroupLabels.of("kind", pandas.Categorical(["x", "y", "x"]), 3).names == ("x", "y")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "b"], "must have one value for each of 3 samples, got 2"),
        (np.zeros((3, 1)), r"must have shape \[N\], got \[3, 1\]"),
        ([["a"], ["b"], ["c"]], r"must have shape \[N\], got \[3, 1\]"),
        ([["a"], ["b", "c"], "d"], "must hold texts or whole numbers"),
        ([object(), 1, 2], "must hold texts or whole numbers"),
        ([1.5, 2, 3], "got 1.5; cut numbers into ranges first"),
        ([float("inf"), 2, 3], "must hold texts or whole numbers"),
        ([10**400, 2, 3], "must hold texts or whole numbers"),
        (np.array([1j, 2, 3]), "got values of type complex128"),
        (np.array(["2020-01-01"] * 3, dtype="M8[D]"), "got values of type datetime64"),
        ("abc", "must be a sequence"),
        ({"a", "b", "c"}, "must be a sequence"),
        (7, "must be a sequence"),
        (np.ma.masked_array([1, 2, 3]), "must be a sequence"),
        (torch.tensor([1, 2, 3], device="meta"), "groups 'site' must hold values, got a tensor on the meta device"),
    ],
)
def test_what_cannot_be_groups_is_refused(values, message):
    with pytest.raises(InvalidInput, match=message):
        all_labels({"site": values}, 3)


def test_too_many_groups_are_refused():
    assert len(GroupLabels.of("id", range(1000), 1000).names) == 1000
    with pytest.raises(InvalidInput, match="must have at most 1,000 different values, got 1,001; join values"):
        GroupLabels.of("id", range(1001), 1001)


def test_names_of_groupings():
    assert list(all_labels([1, 2], 2)) == ["group"]
    assert all_labels(None, 2) == {}
    with pytest.raises(InvalidInput, match="groups must be named by texts, got 3"):
        all_labels({3: [1, 2]}, 2)
