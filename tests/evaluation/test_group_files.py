import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rankmixup.errors import InvalidInput
from rankmixup.evaluation.group_files import read_groups


def test_every_kind_of_file(tmp_path):
    values = ["a", "", "b"]
    np.savez(tmp_path / "one.npz", site=np.array(values))
    np.savez(tmp_path / "two.npz", groups=np.array(values), other=np.zeros(3))
    torch.save({"site": values}, tmp_path / "a.pt")
    (tmp_path / "a.txt").write_bytes(b"a\r\n\r\nb\r\n")
    (tmp_path / "b").write_text("a\n\nb")
    (tmp_path / "one.csv").write_text("site\na\n\nb\n")
    (tmp_path / "two.csv").write_text("id;site\n1;a\n2;\n3; b \n")
    for name, column in [("one.npz", None), ("two.npz", None), ("one.npz", "site"), ("a.pt", "site"), ("a.txt", None), ("b", None)]:
        assert list(read_groups(tmp_path / name, column)) == values, name
    assert read_groups(tmp_path / "one.csv") == values
    assert read_groups(tmp_path / "two.csv", "site") == values
    save_file({"groups": torch.tensor([1, 2])}, tmp_path / "a.safetensors")
    assert read_groups(tmp_path / "a.safetensors").tolist() == [1, 2]


def test_what_is_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", groups=np.array(["a", None], dtype=object))
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(2))
    torch.save({"site": {"a": 1}}, tmp_path / "a.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "two.csv").write_text("id,site\n1,a\n2\n")
    (tmp_path / "numbers.csv").write_text("1,2\n3,4\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    for name, column, message in [
        ("objects.npz", None, "holds pickled objects, which are never loaded"),
        ("two.npz", None, "must hold an array 'groups' or only one array, it holds 2"),
        ("two.npz", "c", "unknown array 'c'"),
        ("a.pt", "site", "groups must be a tensor or a list"),
        ("list.pt", "site", "must hold a dict of tensors or lists by name, got list"),
        ("two.csv", None, "there must be one column, or FILE:COLUMN must name it, got 2 columns"),
        ("two.csv", "sit", "unknown column 'sit'; did you mean 'site'"),
        ("two.csv", "site", "line 3 must have 2 cells, got 1"),
        ("numbers.csv", "1", "the first line must hold the names of columns, it holds numbers"),
        ("empty.csv", None, "the first line must hold the names of columns, it is empty"),
        ("bytes.txt", None, "it cannot be read"),
        ("bytes.txt", "site", "must be an npz, pt, safetensors or csv file where a column is named"),
        ("broken.npz", None, "broken.npz must be"),
        ("none.npz", None, "there is no such file"),
        (".", None, "it is a folder"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            read_groups(tmp_path / name, column)
