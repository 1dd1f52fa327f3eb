import numpy as np
import pytest
from scipy.io import savemat

from rankmixup.data import Svhn
from rankmixup.errors import InvalidInput
from tests.data.original_formats import md5, noise


def write(folder, monkeypatch, **changes):
    """MATLAB files of [32, 32, 3, N] with labels in 1..10, and their sums in the place of the published ones."""
    folder.mkdir(exist_ok=True)
    for name, size, seed in (("train_32x32.mat", 20, 0), ("test_32x32.mat", 5, 1)):
        content = {"X": noise(32, 32, 3, size, seed=seed), "y": (np.arange(size) % 10 + 1).reshape(-1, 1).astype(np.uint8), **changes}
        savemat(folder / name, content)
        monkeypatch.setitem(Svhn.files, name, md5(folder / name))


@pytest.mark.parametrize("below", [".", "svhn"])
def test_pixels_and_labels(below, tmp_path, monkeypatch):
    write(tmp_path / below, monkeypatch)
    data = Svhn().load(tmp_path)
    assert (len(data.train), len(data.val), len(data.test)) == (18, 2, 5)
    for split in (data.train, data.val):
        for image, label, index in zip(split.x, split.y.tolist(), split.index.tolist(), strict=True):
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), noise(32, 32, 3, 20)[..., index])
            assert label == (index + 1) % 10
    np.testing.assert_array_equal(data.test.x.permute(2, 3, 1, 0).numpy(), noise(32, 32, 3, 5, seed=1))
    assert data.test.y.tolist() == [1, 2, 3, 4, 5]
    assert (data.class_names[0], data.view.flip, data.view.augment) == ("0", False, "crop")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 5))}, r"must hold 'X', bytes of shape \[32, 32, 3, N\]"),
        ({"X": {"a": 1}}, r"must hold 'X', bytes of shape \[32, 32, 3, N\]"),
        ({"y": np.zeros((5, 1))}, r"must hold 'y', a label in 1..10 for each image"),
        ({"y": np.full((20, 1), 11, np.uint8)}, r"must hold 'y', a label in 1..10 for each image"),
        ({"y": np.full((20, 1), np.nan)}, r"must hold 'y', a label in 1..10 for each image"),
        ({"y": np.array([["text"]], dtype=object)}, r"must hold 'y', a label in 1..10 for each image"),
    ],
)
def test_other_content_is_refused(changes, message, tmp_path, monkeypatch):
    write(tmp_path, monkeypatch, **changes)
    with pytest.raises(InvalidInput, match=message):
        Svhn().load(tmp_path)


def test_content_too_large_for_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    write(tmp_path, monkeypatch)
    monkeypatch.setenv("RANKMIXUP_MAX_GIB", "0.00001")
    monkeypatch.setattr("scipy.io.loadmat", None)
    with pytest.raises(InvalidInput, match=r"train_32x32.mat unpacks to .* GiB, which must be at most 1e-05 GiB"):
        Svhn().load(tmp_path)


def test_missing_and_damaged_files(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match=r"svhn must have .*svhn/train_32x32.mat, there is none"):
        Svhn().load(tmp_path)
    write(tmp_path, monkeypatch)
    path = tmp_path / "test_32x32.mat"
    whole = path.read_bytes()
    path.write_bytes(whole[:500])
    with pytest.raises(InvalidInput, match=r"test_32x32.mat must have the md5 sum"):
        Svhn().load(tmp_path)
    for keep, message in ((100, "be a whole MATLAB file"), (500, "hold 'y'"), (-4, "be a whole MATLAB file")):
        path.write_bytes(whole[:keep])
        monkeypatch.setitem(Svhn.files, path.name, md5(path))
        with pytest.raises(InvalidInput, match=rf"test_32x32.mat must {message}"):
            Svhn().load(tmp_path)
