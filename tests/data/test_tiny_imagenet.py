import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rankmixup.data import TinyImageNet, cache
from rankmixup.errors import InvalidInput
from tests.data.original_formats import noise, write_image

CLASSES = ("n001", "n002", "n003")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Three classes of ten training images and two validation images each, as in the published archive; one is grey."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "root" / "tiny-imagenet-200"
    lines = []
    for label, name in enumerate(CLASSES):
        for number in range(10):
            pixels = noise(64, 64, 3, seed=100 * label + number)
            write_image(folder / "train" / name / "images" / f"{name}_{number}.JPEG", pixels if number else pixels[..., 0])
        (folder / "train" / name / f"{name}_boxes.txt").write_text("")
        for number in (label, label + 3):
            write_image(folder / "val" / "images" / f"val_{number}.JPEG", noise(64, 64, 3, seed=1000 + number))
            lines.append(f"val_{number}.JPEG\t{name}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("n003\nn001\nn002\n")
    (folder / "words.txt").write_text("n000\tentity\nn001\tgoldfish, Carassius auratus\nn003\tbullfrog\n")
    write_image(folder / "test" / "images" / "test_0.JPEG", noise(64, 64, 3))
    return folder


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_splits_pixels_and_labels(tiny):
    data = TinyImageNet().load(tiny.parent)
    assert data.class_names == ("goldfish", "n002", "bullfrog")
    assert data.class_counts.tolist() == [9, 9, 9]
    assert torch.bincount(data.val.y).tolist() == [1, 1, 1]
    files = [tiny / "train" / name / "images" / f"{name}_{number}.JPEG" for name in CLASSES for number in range(10)]
    for split in (data.train, data.val):
        for image, label, index in zip(split.x, split.y.tolist(), split.index.tolist(), strict=True):
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), pixels(files[index]))
            assert label == index // 10
    assert sorted(torch.cat([data.train.index, data.val.index]).tolist()) == list(range(30))
    by_image = {pixels(tiny / "val" / "images" / f"val_{n}.JPEG").tobytes(): n % 3 for n in range(6)}
    assert [by_image[image.permute(1, 2, 0).numpy().tobytes()] for image in data.test.x] == data.test.y.tolist()
    assert sorted(data.test.y.tolist()) == [0, 0, 1, 1, 2, 2]
    assert (data.view.image_size, data.view.augment, data.view.flip, data.view.mean) == (64, "crop", True, (0.485, 0.456, 0.406))


def cached(folder):
    return sorted(folder.glob(".rankmixup-*"))


def test_images_are_decoded_once_and_again_when_they_change(tiny, monkeypatch):
    one = TinyImageNet().load(tiny.parent)
    (first,) = cached(tiny)
    assert first.stat().st_size == 128 + 36 * 3 * 64 * 64
    with monkeypatch.context() as patched:
        patched.setattr(cache, "decode_each", None)  # nothing is decoded the second time
        two = TinyImageNet().load(tiny.parent)
    assert torch.equal(one.train.x, two.train.x)
    path = tiny / "train" / "n001" / "images" / "n001_5.JPEG"
    write_image(path, noise(64, 64, 3, seed=7), quality=100)
    three = TinyImageNet().load(tiny.parent)
    assert len(cached(tiny)) == 2
    everything = torch.cat([three.train.x, three.val.x])[torch.cat([three.train.index, three.val.index]).argsort()]
    np.testing.assert_array_equal(everything[5].permute(1, 2, 0).numpy(), pixels(path))


def test_a_damaged_or_foreign_cache_is_made_again(tiny):
    expected = TinyImageNet().load(tiny.parent).train.x.clone()  # the file under it is about to change
    (path,) = cached(tiny)
    os.truncate(path, 1000)
    assert torch.equal(TinyImageNet().load(tiny.parent).train.x, expected)
    for other in (np.zeros((36, 64, 64, 3)), np.zeros((35, 64, 64, 3), np.uint8), np.array([{}])):
        np.save(path, other)
        assert torch.equal(TinyImageNet().load(tiny.parent).train.x, expected)
    path.write_bytes(b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16)
    assert torch.equal(TinyImageNet().load(tiny.parent).train.x, expected)


def test_an_image_of_the_same_size_on_disk_is_decoded_again(tiny):
    path = tiny / "train" / "n001" / "images" / "n001_5.JPEG"
    before = TinyImageNet().load(tiny.parent)
    other = (tiny / "train" / "n001" / "images" / "n001_6.JPEG").read_bytes()
    size, times = path.stat().st_size, path.stat()
    path.write_bytes(other[:size].ljust(size, b"\0"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = TinyImageNet().load(tiny.parent)
    assert not torch.equal(torch.cat([before.train.x, before.val.x]), torch.cat([after.train.x, after.val.x]))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is mapped can only be seen on Linux")
def test_the_cache_is_mapped_not_read(tiny):
    """Splits are pieces of one mapped file, and changing them in memory does not change it."""
    data = TinyImageNet().load(tiny.parent)
    (path,) = cached(tiny)
    before = path.read_bytes()
    assert data.val.x.untyped_storage().data_ptr() == data.train.x.untyped_storage().data_ptr()
    assert str(path) in Path("/proc/self/maps").read_text()
    data.train.x.zero_()
    assert path.read_bytes() == before


def test_a_root_that_cannot_be_written_to(tiny, tmp_path, monkeypatch):
    temporary = cache.tempfile.TemporaryFile

    def read_only(*folders):
        def make(**options):
            if any(str(options["dir"]).startswith(str(folder)) for folder in folders):
                raise PermissionError(f"no writing in {options['dir']}")
            return temporary(**options)

        monkeypatch.setattr(cache.tempfile, "TemporaryFile", make)

    read_only(tmp_path)
    with pytest.raises(InvalidInput, match=r"tiny-imagenet-200 or .*cache/rankmixup must be a folder that can be written to"):
        TinyImageNet().load(tiny.parent)
    read_only(tiny)
    TinyImageNet().load(tiny.parent)
    assert cached(tiny) == []
    assert len(cached(tmp_path / "cache" / "rankmixup")) == 1
    monkeypatch.setattr(cache, "decode_each", None)
    TinyImageNet().load(tiny.parent)


def test_an_image_that_does_not_decode_is_named_and_nothing_is_left(tiny):
    path = tiny / "train" / "n002" / "images" / "n002_4.JPEG"
    whole = path.read_bytes()
    path.write_bytes(whole[:300])
    with pytest.raises(InvalidInput, match=r"image .*n002_4.JPEG must be one that can be decoded"):
        TinyImageNet().load(tiny.parent)
    assert cached(tiny) == []
    path.write_bytes(whole)
    assert len(TinyImageNet().load(tiny.parent).train) == 27


def test_words_that_are_no_text_do_no_harm(tiny):
    (tiny / "words.txt").write_bytes(b"n001\tgold\xfffish, x\nn003\tbullfrog\n")
    assert TinyImageNet().load(tiny.parent).class_names == ("gold\ufffdfish", "n002", "bullfrog")
    (tiny / "val" / "val_annotations.txt").write_bytes(b"\xff\t\xff\n")
    with pytest.raises(InvalidInput, match=r"val_annotations.txt must name the class of each validation image"):
        TinyImageNet().load(tiny.parent)


def test_missing_parts(tiny, tmp_path):
    with pytest.raises(InvalidInput, match=r"tiny-imagenet must have .*tiny-imagenet-200, there is none; .*--download"):
        TinyImageNet().load(tmp_path)
    (tiny / "val" / "images" / "val_5.JPEG").unlink()
    with pytest.raises(InvalidInput, match=r"val_annotations.txt must name every image of .*images, got 6 names and 5 images"):
        TinyImageNet().load(tiny.parent)
    os.truncate(tiny / "val" / "val_annotations.txt", 11)
    with pytest.raises(InvalidInput, match=r"val_annotations.txt must name the class of each validation image"):
        TinyImageNet().load(tiny.parent)
