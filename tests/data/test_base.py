import re

import numpy as np
import pytest

from rankmixup.data import Cifar10, Digits, Folder, Npz, parse_source
from rankmixup.errors import InvalidInput
from tests.data.original_formats import noise, write_image


def test_names_and_paths(tmp_path):
    write_image(tmp_path / "a:b" / "cat" / "1.png", noise(8, 8, 3))
    np.savez(tmp_path / "a.npz", x=noise(4, 8, 8))
    assert parse_source("digits") == Digits()
    assert parse_source("cifar10") == Cifar10()
    assert parse_source(f"folder:{tmp_path}/a:b") == Folder(path=str(tmp_path / "a:b"))
    assert parse_source(f"npz:{tmp_path}/a.npz") == Npz(path=str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cifar", "unknown data set 'cifar'; did you mean 'cifar10'"),
        ("folder", "folder must be followed by a path, as in folder:PATH, got nothing"),
        ("npz:", "npz must be followed by a path"),
        ("cifar10:/data", "cifar10 must be given without a path, got 'cifar10:/data'"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_source(text)


def test_a_path_without_its_kind_is_recognised(tmp_path):
    for text, meant in ((str(tmp_path), f"folder:{tmp_path}"), ("table.npz", "npz:table.npz")):
        with pytest.raises(InvalidInput, match=re.escape(f"did you mean {meant}?")):
            parse_source(text)
