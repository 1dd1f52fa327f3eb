import shutil

import numpy as np
import pytest
import torch

from rankmixup import Run
from rankmixup.data import DataSource, Npz, Split, evaluation_batches, training_batches
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
        (
            {"x": np.zeros((30, 8, 8), np.int64)},
            r"'x' of .* must hold bytes \(uint8, 0 to 255\) or floats, or be a table of numbers, got int64",
        ),
        ({"x": np.zeros((30, 8), np.complex64)}, r"'x' of .* must hold bytes .* got complex64"),
        ({"x": np.full((30, 8), "a")}, r"'x' of .* must hold bytes .* got <U1"),
        ({"x": np.zeros((), np.uint8)}, r"'x' of .* must be a table \[N, D\] or images \[N, H, W\], .* got shape \[\]"),
        ({"x": np.zeros(30)}, r"'x' of .* must be a table \[N, D\] or images .* got shape \[30\]"),
        ({"x": np.zeros((30, 0))}, r"'x' of .* must be a table \[N, D\] or images .* got shape \[30, 0\]"),
        ({"x": np.zeros((0, 8, 8), np.uint8)}, r"'x' of .* must be a table .* got shape \[0, 8, 8\]"),
        ({"x": np.zeros((30, 8, 9), np.uint8)}, r"must hold square images of 1 or 3 channels, got shape \[30, 8, 9\]"),
        ({"x": np.zeros((30, 8, 8, 2), np.uint8)}, r"must hold square images of 1 or 3 channels, got shape \[30, 8, 8, 2\]"),
        ({"x": np.zeros((30, 5, 8, 9))}, r"must hold square images, got shape \[30, 5, 8, 9\]"),
        ({"x_val": noise(3, 8, 8)}, "must hold samples 'x', or 'x_train' .* got x, x_val"),
        ({"y": np.arange(29) % 3}, r"'y' of .* must hold an integer or text for each of 30 samples, got int64 of shape \[29\]"),
        ({"y": np.arange(30) / 2}, r"'y' of .* must hold an integer or text .* got float64"),
        ({"y": np.zeros(30, int)}, r"'y' of .* must have labels of at least 2 classes, got 1$"),
        ({"y": np.r_[np.arange(29) % 3, 29]}, r"class '29' must have a sample for each of train, val and test"),
        (
            {"y": np.r_[np.arange(29, dtype=np.uint64) % 3, np.uint64(2**64 - 1)]},
            r"must hold integers of 64 bits, got 18446744073709551615",
        ),
        ({"y": np.array(["a", "b\n"] * 15)}, r"must hold text without control characters that is not empty, got 'b\\n'"),
        ({"y": np.array(["a", ""] * 15)}, r"must hold text without control characters that is not empty, got ''"),
        ({"y": np.array([b"a", b"\xff"] * 15)}, r"'y' of .* must hold text in UTF-8, got bytes that are not"),
        ({"x": np.array([{}] * 30)}, "must be an npz file of plain arrays, 'x.npy' holds pickled objects, which are never loaded"),
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


def test_the_id_and_the_batches_of_bytes_are_those_of_earlier_versions(tmp_path):
    path = save(tmp_path / "a.npz", x=np.arange(30 * 8 * 8).reshape(30, 8, 8).astype(np.uint8), y=np.arange(30) % 3)
    assert Run("ce", data=f"npz:{path}").id == "84766dc2953d"
    assert Run("ce", data=Npz(path=path, augment="none")).id == "fa27873089b9"
    assert Run("ce", data=f"npz:{path}").model == "resnet8"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["dog", "cat", "Zebra"])[np.arange(30) % 3], ("Zebra", "cat", "dog")),
        (np.array([b"dog", b"caf\xc3\xa9"])[np.arange(30) % 2], ("caf\u00e9", "dog")),
        (np.array([10, -1, 2])[np.arange(30) % 3], ("-1", "2", "10")),
        (np.array([2**40, 0], dtype=np.uint64)[np.arange(30) % 2], ("0", "1099511627776")),
        (np.arange(30) % 2 == 0, ("False", "True")),
    ],
)
def test_labels_of_any_kind(labels, names, tmp_path):
    data = Npz(path=save(tmp_path / "a.npz", x=noise(30, 8, 8), y=labels)).load()
    assert data.class_names == names
    for split in (data.train, data.val, data.test):
        found = [names[label] for label in split.y.tolist()]
        assert found == [each.decode() if isinstance(each, bytes) else str(each) for each in labels[split.index.numpy()].tolist()]


def test_labels_that_training_lacks_are_refused(tmp_path):
    parts = {"x_train": noise(12, 8, 8), "y_train": np.arange(12) % 2, "x_val": noise(4, 8, 8), "y_val": np.array([0, 1, 7, -3])}
    with pytest.raises(InvalidInput, match=r"'y_val' of .* must hold labels that 'y_train' of .* has too, which it has not for -3, 7$"):
        Npz(path=save(tmp_path / "a.npz", **parts)).load()
    parts["y_val"] = np.array(["a"] * 4)
    with pytest.raises(InvalidInput, match=r"'y_val' of .* must hold integers, as 'y_train' of .* does, got text"):
        Npz(path=save(tmp_path / "b.npz", **parts)).load()


def table(count=40, dtype=np.float64):
    x = np.random.default_rng(0).normal(size=(count, 3))
    return {"x": (x * [1, 100, 1] + [0, 7, 0]).astype(dtype), "y": np.arange(count) % 2}


def test_a_table_is_standardised_by_its_training_rows(tmp_path):
    arrays = table()
    arrays["x"][:, 2] = 0.1  # has nothing to scale, and its mean is not exact
    data = Npz(path=save(tmp_path / "a.npz", **arrays)).load()
    train = arrays["x"][data.train.index.numpy()]
    assert (data.view.image_size, data.view.in_channels, data.view.input_shape) == (1, 3, (3,))
    assert (data.view.values, data.view.augment, data.view.flip) == ("floats", "none", False)
    np.testing.assert_allclose(data.view.mean, train.mean(0), rtol=1e-12)
    np.testing.assert_allclose(data.view.std, [*train[:, :2].std(0), 1.0], rtol=1e-12)
    expected = (arrays["x"] - train.mean(0)) / [*train[:, :2].std(0), 1.0]
    seen = torch.cat([batch.x for batch in training_batches(data, 8, seed=0, epoch=0)])
    order = torch.cat([batch.index for batch in training_batches(data, 8, seed=0, epoch=0)])
    assert seen.dtype == torch.float32
    np.testing.assert_allclose(seen.numpy(), expected[data.train.index[order].numpy()], rtol=1e-6, atol=1e-7)
    assert (seen[:, 2] == 0).all()
    (test,) = evaluation_batches(data.test, data.view)
    np.testing.assert_allclose(test.numpy(), expected[data.test.index.numpy()], rtol=1e-6, atol=1e-7)
    (pixels,) = evaluation_batches(Split(data.test.x[:, :, None, None], data.test.y, data.test.index), data.view)
    assert torch.equal(pixels, test)  # rows given as images of one pixel


def test_large_numbers_that_differ_little_are_not_rounded_away(tmp_path):
    """Seconds since 1970, which float32 knows to 128 seconds."""
    seconds = 1.7e9 + np.arange(40.0)
    data = Npz(path=save(tmp_path / "a.npz", x=seconds[:, None], y=np.arange(40) % 2)).load()
    (seen,) = evaluation_batches(data.train, data.view)
    assert len(seen.unique()) == len(data.train)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.longdouble, np.int8, np.uint8, np.int64, bool])
def test_tables_of_any_numbers(dtype, tmp_path):
    arrays = table(dtype=np.float64)
    arrays["x"] = np.abs(arrays["x"]).clip(0, 100).astype(dtype)
    data = Npz(path=save(tmp_path / "a.npz", **arrays)).load()
    np.testing.assert_array_equal(data.train.x.double().numpy(), arrays["x"][data.train.index.numpy()].astype(np.float64))
    (seen,) = evaluation_batches(data.train, data.view)
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "channels_first"),
    [
        ((30, 9, 9), lambda x: x[:, None]),
        ((30, 5, 9, 9), lambda x: x),
        ((30, 9, 9, 5), lambda x: x.transpose(0, 3, 1, 2)),
        ((30, 3, 3, 3), lambda x: x),
    ],
)
def test_images_of_floats(shape, channels_first, tmp_path):
    x = np.random.default_rng(0).normal(3, 5, size=shape).astype(np.float32)
    source = Npz(path=save(tmp_path / "a.npz", x=x, y=np.arange(30) % 3))
    data, expected = source.load(), channels_first(x)
    assert source.image_size == data.view.image_size == expected.shape[-1]
    assert source.augment == "none"
    assert data.view.input_shape == expected.shape[1:]
    train = expected[data.train.index.numpy()].astype(np.float64)
    np.testing.assert_allclose(data.view.mean, train.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(data.view.std, train.std((0, 2, 3)), rtol=1e-6)
    (seen,) = evaluation_batches(data.val, data.view)
    by_hand = (expected - train.mean((0, 2, 3))[:, None, None]) / train.std((0, 2, 3))[:, None, None]
    np.testing.assert_allclose(seen.numpy(), by_hand[data.val.index.numpy()], rtol=1e-4, atol=1e-5)


def test_floats_are_not_augmented(tmp_path):
    with pytest.raises(InvalidInput, match=r"augment of images of torch.float64 must be none, got 'crop'"):
        Npz(path=save(tmp_path / "a.npz", **table()), augment="crop-and-flip").load()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_numbers_that_are_not_finite_are_refused_with_their_place(value, tmp_path):
    arrays = table(5000)
    arrays["x"][4321, 2] = value
    source = Npz(path=save(tmp_path / "a.npz", **arrays))
    with pytest.raises(
        InvalidInput, match=rf"'x' of .* must hold finite numbers that float32 can hold, got {value} at \[4321, 2\]$".replace("+", r"\+")
    ):
        source.load()


def test_bytes_and_floats_do_not_mix(tmp_path):
    parts = {"x_train": noise(12, 8, 8), "y_train": np.arange(12) % 2, "x_val": np.zeros((4, 8, 8)), "y_val": np.zeros(4, int)}
    with pytest.raises(InvalidInput, match=r"must hold samples of one kind, got bytes and floats"):
        Npz(path=save(tmp_path / "a.npz", **parts))


@pytest.mark.parametrize("arrays", [whole((30, 8, 8)), whole((30, 8, 8, 3)), table()], ids=["grey", "colour", "table"])
def test_the_outline_is_the_data_set_without_its_samples(arrays, tmp_path):
    source = Npz(path=save(tmp_path / "a.npz", **arrays), imbalance=2)
    loaded, outline = source.load(), source.outline()
    assert outline.class_names == loaded.class_names
    for name in ("train", "val", "test"):
        one, other = getattr(outline, name), getattr(loaded, name)
        assert one.x.is_meta
        assert (one.x.shape, one.x.dtype) == (other.x.shape, other.x.dtype)
        assert torch.equal(one.y, other.y)
    assert outline.view.input_shape == loaded.view.input_shape
    (tmp_path / "a.npz").unlink()
    assert source.outline() is None


def test_bytes_are_not_shown_to_a_network_of_a_table(tmp_path):
    view = Npz(path=save(tmp_path / "a.npz", **table())).load().view
    split, _ = Npz(path=save(tmp_path / "b.npz", x=noise(7, 8, 8))).outside()
    with pytest.raises(
        InvalidInput, match=r"samples must be floats of shape \(3,\), as those that the network was trained on, got images of bytes"
    ):
        next(evaluation_batches(split, view))
    floats, _ = Npz(path=save(tmp_path / "c.npz", x=np.zeros((7, 4)))).outside()
    with pytest.raises(InvalidInput, match=r"must have the shape that the network takes, \(3,\), got \(4,\)"):
        next(evaluation_batches(floats, view))
