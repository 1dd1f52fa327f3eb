import gzip
import tracemalloc

import numpy as np
import pytest
import torch
import torchvision

from rankmixup.data import FashionMnist
from rankmixup.errors import InvalidInput
from tests.data.original_formats import md5, noise, write_idx


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """Twenty training and five test images, and the sums of their files in the place of the published ones."""
    folder = tmp_path / "FashionMNIST" / "raw"
    for name, size, seed in (("train", 20, 0), ("t10k", 5, 1)):
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", noise(size, 28, 28, seed=seed))
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", np.arange(size, dtype=np.uint8) % 10)
    renew(folder, monkeypatch)
    return folder


def renew(folder, monkeypatch):
    monkeypatch.setattr(FashionMnist, "files", {name: md5(folder / f"{name}.gz") for name in FashionMnist.files})


@pytest.mark.parametrize("unpacked", [False, True])
def test_pixels_and_labels_are_those_that_torchvision_reads(unpacked, raw):
    root = raw.parent.parent
    for packed in raw.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    theirs = {train: torchvision.datasets.FashionMNIST(root, train=train) for train in (True, False)}
    for path in list(raw.iterdir()):
        if (path.suffix == ".gz") == unpacked:
            path.unlink()
    data = FashionMnist().load(root)
    assert (len(data.train), len(data.val), len(data.test)) == (18, 2, 5)
    for split in (data.train, data.val):
        assert torch.equal(split.x.squeeze(1), theirs[True].data[split.index])
        assert torch.equal(split.y, theirs[True].targets[split.index])
    assert torch.equal(data.test.x.squeeze(1), theirs[False].data)
    assert torch.equal(data.test.y, theirs[False].targets)
    assert (data.view.image_size, data.view.in_channels, data.class_names) == (28, 1, tuple(theirs[True].classes))


def test_no_more_is_unpacked_than_the_header_says(raw, monkeypatch):
    path = raw / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 5]) + bytes(200 << 20), 1))
    renew(raw, monkeypatch)
    tracemalloc.start()
    with pytest.raises(InvalidInput, match=r"must hold 5 bytes of shape \[5\], at least one, it holds more"):
        FashionMnist().load(raw.parent.parent)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_bad_files(raw, monkeypatch):
    path = raw / "t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(InvalidInput, match=r"fashion-mnist must have .*t10k-images-idx3-ubyte.gz, there is none"):
        FashionMnist().load(raw.parent.parent)
    path.write_bytes(whole[:-50])
    with pytest.raises(InvalidInput, match="must have the md5 sum"):
        FashionMnist().load(raw.parent.parent)
    renew(raw, monkeypatch)
    with pytest.raises(InvalidInput, match="must be a whole gzip file"):
        FashionMnist().load(raw.parent.parent)
    for content, message in (
        (gzip.decompress(whole)[:-1], r"must hold 3920 bytes of shape \[5, 28, 28\], at least one, it holds 3919"),
        (gzip.decompress(whole) + b"0", r"must hold 3920 bytes of shape \[5, 28, 28\], at least one, it holds more"),
        (b"no", "must be an IDX file of bytes with 1 or 3 axes, it begins with b'no'"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "must be an IDX file of bytes"),
        (bytes([0, 0, 8, 200]) + bytes(800), "must be an IDX file of bytes"),
        (bytes([0, 0, 8, 3, 0, 0]), "must be a whole IDX file, it ends within its header"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 0]), r"must hold 0 bytes of shape \[0\], at least one, it holds 0"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "unpacks to .* GiB, which must be at most 1 GiB"),
    ):
        (raw / "t10k-images-idx3-ubyte").write_bytes(content)
        with pytest.raises(InvalidInput, match=message):
            FashionMnist().load(raw.parent.parent)
    (raw / "t10k-images-idx3-ubyte").unlink()
    write_idx(path, noise(4, 28, 28))
    renew(raw, monkeypatch)
    with pytest.raises(InvalidInput, match=r"t10k files must hold images .* got shapes \[4, 28, 28\] and \[5\]"):
        FashionMnist().load(raw.parent.parent)
