import copy
import json
import os
import pickle
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from rankmixup.data import DataSource, Folder, cache
from rankmixup.data.base import ImageFiles, parse_source
from rankmixup.data.cache import fingerprint_of
from rankmixup.data.images import list_images, shorter_sides
from rankmixup.errors import InvalidInput
from rankmixup.runs import Run
from tests.data.original_formats import noise, write_image


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def fill(path, classes=("cat", "dog"), count=10, size=(16, 16), suffix="png"):
    """Each image of one colour that tells class and number."""
    for label, name in enumerate(classes):
        for number in range(count):
            write_image(path / name / f"{number:02}.{suffix}", np.full((*size, 3), 100 * label + number, dtype=np.uint8))
    return path


def test_one_folder_is_split_class_by_class(tmp_path):
    data = Folder(path=str(fill(tmp_path / "own"))).load()
    assert data.class_names == ("cat", "dog")
    assert data.class_counts.tolist() == [7, 7]
    assert torch.bincount(data.val.y).tolist() == [1, 1]
    assert torch.bincount(data.test.y).tolist() == [2, 2]
    colours = []
    for split in (data.train, data.val, data.test):
        assert torch.equal(split.x[:, 0, 0, 0] // 100, split.y)
        assert torch.equal(split.x.float().amax((1, 2, 3)), split.x.float().amin((1, 2, 3)))
        colours += split.x[:, 0, 0, 0].tolist()
    assert sorted(colours) == [*range(10), *range(100, 110)]
    assert (data.view.image_size, data.view.in_channels, data.view.augment, data.view.flip) == (16, 3, "crop", True)
    assert data.val_from_train


def test_given_splits_are_kept_and_missing_ones_taken_from_train(tmp_path):
    own = tmp_path / "own"
    fill(own / "train")
    fill(own / "test", count=3)
    two = Folder(path=str(own)).load()
    assert [len(split) for split in (two.train, two.val, two.test)] == [18, 2, 6]
    fill(own / "val", classes=("dog",), count=4)
    three = Folder(path=str(own)).load()
    assert [len(split) for split in (three.train, three.val, three.test)] == [20, 4, 6]
    assert three.val.y.tolist() == [1, 1, 1, 1]
    assert (two.val_from_train, three.val_from_train) == (True, False)


def test_train_may_be_the_name_of_a_class(tmp_path):
    assert Folder(path=str(fill(tmp_path / "own", classes=("bus", "train")))).load().class_names == ("bus", "train")


def test_large_images_stay_files(tmp_path):
    own = fill(tmp_path / "own", size=(70, 90), suffix="jpg")
    source = Folder(path=str(own))
    data = source.load()
    assert source.image_size == data.view.image_size == 224
    assert isinstance(data.train.x, ImageFiles)
    assert all((own / name).is_file() for name in data.train.x.names)
    assert (data.view.augment, data.view.flip) == ("resized-crop", True)
    assert Folder(path=str(own), augment="none").load().view.augment == "none"


@pytest.mark.parametrize(("size", "expected"), [((16, 16), 16), ((70, 90), 224)])
def test_one_odd_image_does_not_decide_the_size(size, expected, tmp_path):
    """The first in the order of names: of one pixel, it would make every image one pixel and the network an mlp."""
    own = fill(tmp_path / "own", size=size)
    write_image(own / "cat" / "00.png", np.zeros((1, 1, 3), dtype=np.uint8))
    taken = f"their median is {min(size)}, and the network's input {expected}x{expected}"
    run = Run("ce", data=f"folder:{own}")
    run.data.labelled()  # without a word: a network that is there has its size
    with pytest.warns(UserWarning, match=rf"own have shorter sides from 1 to {min(size)} pixels; {taken} \(image_size sets another\)"):
        run.data.load()
    assert (run.data.image_size, run.model) == (expected, "resnet8")
    assert Folder(path=str(own), image_size=32).load().view.image_size == 32  # without a word


def test_sizes_are_those_of_images_all_over_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("rankmixup.data.images._PROBED", 4)
    own = fill(tmp_path / "own", classes=("cat",), size=(20, 20))
    fill(own, classes=("dog",), count=30, size=(30, 40))
    assert shorter_sides(list_images(own)) == [20, 30, 30, 30]


def test_nothing_is_hashed_before_the_hash_is_asked_for(tmp_path, monkeypatch):
    """A folder may hold many gigabytes, and evaluation on it needs no id."""
    own, hashed = fill(tmp_path / "own"), []
    monkeypatch.setattr("rankmixup.data.own.fingerprint_of", lambda files: hashed.append(len(files)) or fingerprint_of(files))
    source = parse_source(f"folder:{own}")
    run = Run("ce", data=source)
    source.labelled()
    run.data.outline()
    again = copy.deepcopy(source), pickle.loads(pickle.dumps(source))
    assert hashed == []
    assert len(run.id) == 12
    assert hashed == [20]
    assert Run.from_dict(run.to_dict()) == run == Run("ce", data=again[0]) == Run("ce", data=again[1])
    write_image(own / "cat" / "00.png", np.full((16, 16, 3), 7, dtype=np.uint8))
    with pytest.raises(InvalidInput, match="must be unchanged since the run was made"):
        run.data.load()


def test_a_chosen_size_beats_the_probed_one(tmp_path):
    own = fill(tmp_path / "own", size=(100, 120))
    small = Folder(path=str(own), image_size=32)
    assert small.load().train.x.shape == (14, 3, 32, 32)
    assert small.content_hash() != Folder(path=str(own)).content_hash()


@pytest.mark.filterwarnings("ignore:images in .* have shorter sides")
def test_grey_alpha_sixteen_bits_and_odd_sizes(tmp_path):
    own = fill(tmp_path / "own", count=8, size=(8, 8))
    write_image(own / "cat" / "00.png", np.full((8, 8), 50, dtype=np.uint8))
    write_image(own / "cat" / "01.png", np.full((8, 8, 4), (10, 20, 30, 255), dtype=np.uint8))
    write_image(own / "cat" / "02.png", np.full((8, 8), 257 * 60, dtype=np.uint16))
    write_image(own / "cat" / "03.png", np.full((13, 21, 3), 70, dtype=np.uint8))
    data = Folder(path=str(own), image_size=8).load()
    x = torch.cat([split.x for split in (data.train, data.val, data.test)])
    index = torch.cat([split.index for split in (data.train, data.val, data.test)])
    by_index = x[index.argsort()]
    for position, colour in enumerate(((50, 50, 50), (10, 20, 30), (60, 60, 60), (70, 70, 70))):
        assert torch.equal(by_index[position], torch.tensor(colour, dtype=torch.uint8).view(3, 1, 1).expand(3, 8, 8))


@pytest.mark.parametrize("size", [(16, 16), (80, 80)])
def test_images_that_do_not_decode_are_refused_or_skipped(size, tmp_path):
    own = fill(tmp_path / "own", size=size)
    for name in ("cat/03.png", "dog/05.png"):
        (own / name).write_bytes((own / name).read_bytes()[:60])
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"images in .*own must decode, 2 of 20 do not .*: cat/03.png \(.+\), dog/05.png \(.+\)"):
            Folder(path=str(own)).load()
    with pytest.warns(UserWarning, match=r"2 of 20 images in .*own do not decode and are skipped: cat/03.png"):
        data = Folder(path=str(own), on_bad_image="skip").load()
    index = torch.cat([split.index for split in (data.train, data.val, data.test)]).tolist()
    assert sorted(index) == [n for n in range(20) if n not in (3, 15)]
    with pytest.warns(UserWarning, match="2 of 20"):
        assert len(Folder(path=str(own), on_bad_image="skip").outside()[0]) == 18


def test_large_images_are_checked_once(tmp_path, monkeypatch):
    own = fill(tmp_path / "own", size=(80, 80))
    Folder(path=str(own)).load()
    with monkeypatch.context() as patched:
        patched.setattr(cache, "decode_each", None)
        Folder(path=str(own)).load()
    (own / "cat" / "01.png").write_bytes(b"changed")
    with pytest.raises(InvalidInput, match=r"1 of 20 do not"):
        Folder(path=str(own)).load()


def test_a_class_that_only_has_bad_images(tmp_path):
    own = tmp_path / "own"
    for part in ("train", "val", "test"):
        fill(own / part, count=2)
    for path in (own / "train" / "cat").iterdir():
        path.write_bytes(b"")
    with (
        pytest.warns(match="2 of 12"),
        pytest.raises(InvalidInput, match=r"own must have a training image of each class, it has none of 'cat'"),
    ):
        Folder(path=str(own), on_bad_image="skip").load()


def test_the_id_follows_from_the_content_not_from_the_place(tmp_path):
    one = Folder(path=str(fill(tmp_path / "one")))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    two = Folder(path=str(tmp_path / "two"))
    assert one == two
    assert one.content_hash() == two.content_hash()
    write_image(tmp_path / "two" / "cat" / "new.png", noise(16, 16, 3))
    assert Folder(path=str(tmp_path / "two")).content_hash() != one.content_hash()
    with pytest.raises(InvalidInput, match=r"two must be unchanged since the run was made, fingerprint \w{12}, got \w{12}"):
        two.load()


def test_other_pixels_in_files_of_the_same_size_are_other_data(tmp_path):
    own = fill(tmp_path / "own", suffix="bmp")
    one, before = (source := Folder(path=str(own))), source.content_hash()
    sizes = [path.stat().st_size for path in sorted(own.rglob("*.bmp"))]
    for path in own.rglob("*.bmp"):
        write_image(path, noise(16, 16, 3))
    assert [path.stat().st_size for path in sorted(own.rglob("*.bmp"))] == sizes
    assert Folder(path=str(own)).content_hash() != one.content_hash() == before
    with pytest.raises(InvalidInput, match=r"own must be unchanged since the run was made"):
        one.load()


@pytest.mark.parametrize("content", ["[1]", "3", '{"other.png": "bad"}', "[" * 100_000])
def test_a_foreign_list_of_images_that_do_not_decode_is_made_again(content, tmp_path):
    own = fill(tmp_path / "own", size=(80, 80))
    Folder(path=str(own)).load()
    (path,) = (tmp_path / "cache" / "rankmixup").glob("undecodable-*")
    path.write_text(content)
    assert len(Folder(path=str(own)).load().train) == 14
    assert json.loads(path.read_text()) == {}


def test_a_described_folder_is_not_looked_at(tmp_path):
    source = Folder(path=str(fill(tmp_path / "own")), on_bad_image="skip")
    text = json.dumps(source.to_dict())
    shutil.rmtree(tmp_path / "own")
    revived = DataSource.from_dict(json.loads(text))
    assert revived == source
    assert revived.to_dict() == source.to_dict()
    with pytest.raises(InvalidInput, match=r"own must be a folder of images, there is none"):
        revived.load()


def test_names_of_images_may_be_of_any_bytes(tmp_path):
    own = fill(tmp_path / "own")
    odd = os.fsdecode(b"\xff\n\x1b[31m.png")
    (own / "cat" / "00.png").rename(own / "cat" / odd)
    data = Folder(path=str(own)).load()
    assert data.class_counts.tolist() == [7, 7]
    assert Folder(path=str(own)).content_hash() == Folder(path=str(own)).content_hash()
    (own / "cat" / odd).write_bytes(b"")
    with pytest.raises(InvalidInput, match=re.escape(r"do not (on_bad_image can skip): cat/\udcff\n\x1b[31m.png (")):
        Folder(path=str(own)).load()
    with pytest.warns(UserWarning, match=re.escape(r"skipped: cat/\udcff\n\x1b[31m.png (")):
        Folder(path=str(own), on_bad_image="skip").load()


@pytest.mark.parametrize("name", [b"c\xe4t", b"c\na\nt"])
def test_names_of_classes_must_be_text(name, tmp_path):
    own = fill(tmp_path / "own")
    (own / "cat").rename(own / os.fsdecode(name))
    source = Folder(path=str(own))
    for read in (source.load, source.outside):
        with pytest.raises(InvalidInput, match=r"class folder .* must have a name in UTF-8 without control characters") as caught:
            read()
        assert str(caught.value).isprintable()


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    fill(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    assert Folder(path="own").path == str(tmp_path / "own")


def test_as_out_of_distribution_no_classes_are_needed(tmp_path):
    for number in range(3):
        write_image(tmp_path / "flat" / f"{number}.png", noise(16, 16, 3, seed=number))
    split, names = Folder(path=str(tmp_path / "flat")).outside()
    assert (len(split), names) == (3, ())
    assert split.x == ImageFiles(tmp_path / "flat", ("0.png", "1.png", "2.png"))  # of any size: the network that sees them has its own
    own = fill(tmp_path / "own")
    split, names = Folder(path=str(own)).outside()
    assert (len(split), names) == (20, ("cat", "dog"))
    fill(tmp_path / "parts" / "train")
    fill(tmp_path / "parts" / "test", count=4)
    assert len(Folder(path=str(tmp_path / "parts")).outside()[0]) == 8


def test_bad_folders(tmp_path):
    with pytest.raises(InvalidInput, match=r"folder must be followed by a path, as in folder:PATH, got nothing"):
        Folder()
    with pytest.raises(InvalidInput, match=r"none must be a folder of images, there is none"):
        Folder(path=str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"empty must hold images, it holds none"):
        Folder(path=str(tmp_path / "empty"))
    own = fill(tmp_path / "own")
    (own / "emu").mkdir()
    with pytest.raises(InvalidInput, match=r"class folder .*own/emu must hold at least one image, got 0"):
        Folder(path=str(own)).load()
    (own / "emu").rmdir()
    Image.new("RGB", (16, 16)).save(own / "loose.png")
    with pytest.raises(InvalidInput, match=r"image .*own/loose.png must be in the folder of its class, it is in none"):
        Folder(path=str(own)).load()
    with pytest.raises(InvalidInput, match=r"must hold a folder for each of at least 2 classes, got 1"):
        Folder(path=str(fill(tmp_path / "single", classes=("cat",)))).load()
    with pytest.raises(InvalidInput, match=r"class 'cat' must have a sample for each of train, val and test, too few are left for val"):
        Folder(path=str(fill(tmp_path / "few", count=2))).load()
    (tmp_path / "broken" / "cat").mkdir(parents=True)
    (tmp_path / "broken" / "cat" / "a.png").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"broken must hold an image that can be opened, none of 1 can"):
        Folder(path=str(tmp_path / "broken"))
    with pytest.raises(InvalidInput, match=r"image_size must be at least 0, got -1"):
        Folder(path=str(own), image_size=-1)
