"""Published files of corrupted images: read back exactly, refused in one sentence where they are something else."""

import numpy as np
import pytest
import torch
from PIL import Image

from rankmixup.data.corruptions import published_images
from rankmixup.data.images import read_rgb
from rankmixup.errors import InvalidInput

SIZE = 6


def write_cifar_c(root, *, labels=None, names=("fog", "snow")):
    """CIFAR-10-C of a few images."""
    folder = root / "CIFAR-10-C"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in names:
        np.save(folder / f"{name}.npy", rng.integers(0, 256, (5 * SIZE, 32, 32, 3), dtype=np.uint8))
    np.save(folder / "labels.npy", np.tile(np.arange(SIZE) if labels is None else labels, 5).astype(np.uint8))
    return folder


def test_rows_of_a_severity_are_read_exactly(tmp_path):
    folder = write_cifar_c(tmp_path)
    found = published_images("cifar10", tmp_path, 10)
    assert found.names == ["fog", "snow"]
    everything = np.load(folder / "snow.npy")
    for severity in range(1, 6):
        split = found.split("snow", severity)
        rows = everything[(severity - 1) * SIZE : severity * SIZE]
        assert torch.equal(split.x, torch.from_numpy(rows).permute(0, 3, 1, 2))
        assert split.y.tolist() == list(range(SIZE))
    assert found.fingerprint("fog", 1) != found.fingerprint("fog", 2)
    before = found.fingerprint("fog", 1)
    np.save(folder / "fog.npy", np.zeros((5 * SIZE + 5, 32, 32, 3), dtype=np.uint8))
    assert found.fingerprint("fog", 1) != before


def test_no_folder_or_another_data_set_has_no_published_files(tmp_path):
    assert published_images("cifar10", tmp_path, 10) is None
    assert published_images("digits", tmp_path, 10) is None


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-1000])


def _pickle(path):
    np.save(path, np.array([Evil()], dtype=object), allow_pickle=True)


def _archive(path):
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(3))


HOSTILE = {
    "pickled": (_pickle, "must be a whole npy file of plain numbers"),
    "truncated": (_truncate, "must be a whole npy file of plain numbers"),
    "empty": (lambda path: path.write_bytes(b""), "must be a whole npy file of plain numbers"),
    "archive": (_archive, "must be an npy file, it is an archive"),
    "floats": (lambda path: np.save(path, np.zeros((30, 32, 32, 3))), r"must hold bytes \[5 N, 32, 32, 3\], got float64"),
    "shape": (lambda path: np.save(path, np.zeros((30, 3, 32, 32), np.uint8)), r"must hold bytes .* got uint8 \[30, 3, 32, 32\]"),
    "rows": (lambda path: np.save(path, np.zeros((31, 32, 32, 3), np.uint8)), "must hold bytes"),
    "none": (lambda path: np.save(path, np.zeros((0, 32, 32, 3), np.uint8)), "must hold bytes"),
    "more": (lambda path: np.save(path, np.zeros((35, 32, 32, 3), np.uint8)), "labels.npy must hold 35 integers, as many as images"),
}


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_a_file_that_is_something_else_is_refused(kind, tmp_path, capsys):
    damage, message = HOSTILE[kind]
    folder = write_cifar_c(tmp_path)
    damage(folder / "fog.npy")
    with pytest.raises(InvalidInput, match=message):
        published_images("cifar10", tmp_path, 10).split("fog", 1)
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(7, dtype=np.uint8), "must hold 30 integers, as many as images, got uint8"),
        (np.zeros(30), "must hold 30 integers, as many as images, got float64"),
        (np.full(30, 10), r"must hold labels in 0..9, got 10..10"),
        (np.array([Evil()] * 30, dtype=object), "must be a whole npy file of plain numbers"),
    ],
)
def test_labels_that_are_something_else_are_refused(labels, message, tmp_path):
    folder = write_cifar_c(tmp_path)
    np.save(folder / "labels.npy", labels, allow_pickle=True)
    with pytest.raises(InvalidInput, match=f"labels.npy {message}"):
        published_images("cifar10", tmp_path, 10).split("fog", 1)


def test_a_folder_without_corruptions_and_a_missing_one_are_refused(tmp_path):
    write_cifar_c(tmp_path, names=())
    with pytest.raises(InvalidInput, match=r"CIFAR-10-C must hold NAME.npy for at least one corruption"):
        _ = published_images("cifar10", tmp_path, 10).names
    with pytest.raises(InvalidInput, match=r"must hold fog.npy, it does not"):
        published_images("cifar10", tmp_path, 10).split("fog", 1)


def test_folders_of_tiny_imagenet_c_are_read(tmp_path):
    for number, wnid in enumerate(("n01", "n02")):
        folder = tmp_path / "Tiny-ImageNet-C" / "fog" / "3" / wnid
        folder.mkdir(parents=True)
        Image.fromarray(np.full((64, 64, 3), 50 * number, dtype=np.uint8)).save(folder / "test_1.JPEG")
    found = published_images("tiny-imagenet", tmp_path, 2)
    split = found.split("fog", 3)
    assert split.y.tolist() == [0, 1]
    assert np.asarray(read_rgb(split.x.folder / split.x.names[1]))[0, 0, 0] == 50
    with pytest.raises(InvalidInput, match="must be a folder, there is none"):
        found.split("fog", 4)
    with pytest.raises(InvalidInput, match="must hold a folder for each of 3 classes, got 2"):
        published_images("tiny-imagenet", tmp_path, 3).split("fog", 3)
    for wnid in ("n01", "n03"):
        (tmp_path / "tiny-imagenet-200" / "train" / wnid).mkdir(parents=True)
    with pytest.raises(InvalidInput, match="must be one of the training images' classes"):
        found.split("fog", 3)
