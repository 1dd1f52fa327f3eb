import shutil

import numpy as np
import pytest
import torch

from rankmixup.data import DataSource, Npz
from rankmixup.errors import InvalidInput
from tests.data.original_formats import noise


def save(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def whole(shape, classes=3):
    x = noise(*shape)
    return {"x": x, "y": np.arange(len(x)) % classes}


@pytest.mark.parametrize(
    ("shape", "channels_first"),
    [((30, 9, 9), lambda x: x[:, None]), ((30, 9, 9, 3), lambda x: x.transpose(0, 3, 1, 2)), ((30, 3, 9, 9), lambda x: x)],
)
def test_layouts_and_splits(shape, channels_first, tmp_path):
    arrays = whole(shape)
    source = Npz(path=save(tmp_path / "a.npz", **arrays))
    data = source.load()
    expected = channels_first(arrays["x"])
    assert source.image_size == data.view.image_size == 9
    assert data.class_names == ("0", "1", "2")
    assert [len(split) for split in (data.train, data.val, data.test)] == [21, 3, 6]
    seen = []
    for split in (data.train, data.val, data.test):
        np.testing.assert_array_equal(split.x.numpy(), expected[split.index.numpy()])
        assert torch.equal(split.y, split.index % 3)
        assert torch.bincount(split.y).unique().numel() == 1  # stratified
        seen += split.index.tolist()
    assert sorted(seen) == list(range(30))
    floats = data.train.x.double() / 255
    np.testing.assert_allclose(data.view.mean, floats.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(data.view.std, floats.std((0, 2, 3), correction=0), rtol=1e-12)


def test_given_splits(tmp_path):
    parts = {"x_train": noise(12, 8, 8, seed=1), "y_train": np.arange(12) % 2, "x_test": noise(4, 8, 8, seed=2), "y_test": np.zeros(4, int)}
    data = Npz(path=save(tmp_path / "a.npz", **parts), augment="none").load()
    assert [len(split) for split in (data.train, data.val, data.test)] == [10, 2, 4]
    np.testing.assert_array_equal(data.test.x[:, 0].numpy(), parts["x_test"])
    assert (data.view.augment, data.view.flip, data.val_from_train) == ("none", False, True)
    parts |= {"x_val": noise(3, 8, 8, seed=3), "y_val": np.ones(3, int)}
    data = Npz(path=save(tmp_path / "b.npz", **parts), augment="crop").load()
    assert [len(split) for split in (data.train, data.val, data.test)] == [12, 3, 4]
    np.testing.assert_array_equal(data.val.x[:, 0].numpy(), parts["x_val"])
    assert data.test.index.tolist() == [15, 16, 17, 18]
    assert (data.view.augment, data.view.flip, data.val_from_train) == ("crop", False, False)


def test_images_of_one_colour_are_not_divided_by_nothing(tmp_path):
    view = Npz(path=save(tmp_path / "a.npz", x=np.full((20, 4, 4), 51, np.uint8), y=np.arange(20) % 2)).load().view
    assert view.mean == pytest.approx((0.2,))
    assert view.std == (1.0,)


def test_the_id_follows_from_the_content(tmp_path):
    one = Npz(path=save(tmp_path / "a.npz", **whole((30, 8, 8))))
    shutil.copy(tmp_path / "a.npz", tmp_path / "b.npz")
    two = Npz(path=str(tmp_path / "b.npz"))
    assert one == two
    assert one.content_hash() == two.content_hash()
    save(tmp_path / "b.npz", **whole((40, 8, 8)))
    with pytest.raises(InvalidInput, match="must be unchanged since the run was made"):
        two.load()
    described = two.to_dict()
    (tmp_path / "b.npz").unlink()
    assert DataSource.from_dict(described) == one


def test_as_out_of_distribution_no_labels_are_needed(tmp_path):
    x = noise(7, 8, 8)
    split, names = Npz(path=save(tmp_path / "a.npz", x=x)).outside()
    np.testing.assert_array_equal(split.x[:, 0].numpy(), x)
    assert names == ()
    assert len(Npz(path=save(tmp_path / "b.npz", x_train=x, x_test=x[:3])).outside()[0]) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((30, 8, 8), np.float32)}, r"'x' of .* must hold bytes \(uint8, 0 to 255\), got float32"),
        ({"x": np.zeros((30, 8), np.uint8)}, r"'x' of .* must be \[N, H, W\], .* got shape \[30, 8\]"),
        ({"x": np.zeros((), np.uint8)}, r"'x' of .* must be \[N, H, W\], .* got shape \[\]"),
        ({"x": np.zeros((0, 8, 8), np.uint8)}, r"'x' of .* must be \[N, H, W\], .* got shape \[0, 8, 8\]"),
        ({"x": np.zeros((30, 8, 9), np.uint8)}, r"must hold square images of 1 or 3 channels, got shape \[30, 8, 9\]"),
        ({"x": np.zeros((30, 8, 8, 2), np.uint8)}, r"must hold square images of 1 or 3 channels, got shape \[30, 8, 8, 2\]"),
        ({"x_val": noise(3, 8, 8)}, "must hold images 'x', or 'x_train' .* got x, x_val"),
        ({"y": np.arange(29) % 3}, r"'y' of .* must hold a label of at least 0 for each of 30 images, got int64 of shape \[29\]"),
        ({"y": np.arange(30) / 2}, r"'y' of .* must hold a label .* got float64"),
        ({"y": np.arange(30) % 3 - 1}, r"'y' of .* must hold a label of at least 0"),
        ({"y": np.arange(30) % 3 * 2}, r"must have a training image of each class, it has none of '1', '3'$"),
        ({"y": np.zeros(30, int)}, r"must have labels 0 to K - 1 of at least 2 classes, got 1$"),
        ({"y": np.r_[np.arange(29) % 3, 29]}, r"it has none of '3', '4', '5', '6', '7' and 21 more$"),
        ({"y": np.r_[np.arange(29) % 3, 10**6]}, r"'y' of .* must hold labels below the number of images, 30, got 1000000"),
        (
            {"y": np.r_[np.arange(29, dtype=np.uint64) % 3, np.uint64(2**64 - 1)]},
            r"below the number of images, 30, got 18446744073709551615",
        ),
        ({"y": np.array([{}] * 30)}, "must be an npz file of plain arrays, 'y.npy' holds pickled objects, which are never loaded"),
    ],
)
def test_bad_arrays(changes, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        Npz(path=save(tmp_path / "a.npz", **{**whole((30, 8, 8)), **changes})).load()


def test_bad_files(tmp_path):
    with pytest.raises(InvalidInput, match=r"npz must be followed by a path, as in npz:PATH, got nothing"):
        Npz()
    with pytest.raises(InvalidInput, match=r"a.npz must be an npz file, there is no such file"):
        Npz(path=str(tmp_path / "a.npz"))
    path = save(tmp_path / "a.npz", **whole((30, 8, 8)))
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content[:-200])
    with pytest.raises(InvalidInput, match=r"a.npz must be an npz file, it is of another kind or cut short"):
        Npz(path=path)
    (tmp_path / "a.npz").write_bytes(content)
    assert Npz(path=path).load().num_classes == 3
    with pytest.raises(InvalidInput, match=r"image_size must be that of .*a.npz's images, 8, got 16"):
        Npz(path=path, image_size=16).load()
    with pytest.raises(InvalidInput, match=r"b.npz must hold an array 'y', it holds 'x'"):
        Npz(path=save(tmp_path / "b.npz", x=noise(30, 8, 8))).load()
