import gzip

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
        assert torch.equal(split.x.squeeze(1), theirs[True].data[split.source])
        assert torch.equal(split.y, theirs[True].targets[split.source])
    assert torch.equal(data.test.x.squeeze(1), theirs[False].data)
    assert torch.equal(data.test.y, theirs[False].targets)
    assert (data.image_size, data.in_channels, data.class_names) == (28, 1, tuple(theirs[True].classes))


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
        (gzip.decompress(whole)[:-1], r"must hold 3920 bytes of shape \[5, 28, 28\], it holds 3919"),
        (b"no", "must be an IDX file of bytes, it begins with b'no'"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "must be an IDX file of bytes"),
    ):
        (raw / "t10k-images-idx3-ubyte").write_bytes(content)
        with pytest.raises(InvalidInput, match=message):
            FashionMnist().load(raw.parent.parent)
    (raw / "t10k-images-idx3-ubyte").unlink()
    write_idx(path, noise(4, 28, 28))
    renew(raw, monkeypatch)
    with pytest.raises(InvalidInput, match=r"t10k files must hold images .* got shapes \[4, 28, 28\] and \[5\]"):
        FashionMnist().load(raw.parent.parent)
