import os
import socket
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from rankmixup.data.base import ImageFiles
from rankmixup.data.images import BadImage, decode_each, fitted, image_names, read_rgb
from rankmixup.errors import InvalidInput
from tests.data.original_formats import noise, write_image


def rgb(path):
    return np.asarray(read_rgb(path))


def test_colour_is_as_it_is_and_grey_is_repeated(tmp_path):
    colour, grey = noise(5, 7, 3), noise(5, 7)
    write_image(tmp_path / "colour.png", colour)
    write_image(tmp_path / "grey.png", grey)
    np.testing.assert_array_equal(rgb(tmp_path / "colour.png"), colour)
    np.testing.assert_array_equal(rgb(tmp_path / "grey.png"), np.stack([grey] * 3, axis=-1))


def test_transparent_pixels_lie_over_black(tmp_path):
    pixels = np.array([[[200, 100, 50, 255], [200, 100, 50, 0], [200, 100, 50, 128]]], dtype=np.uint8)
    write_image(tmp_path / "a.png", pixels)
    found = rgb(tmp_path / "a.png")[0]
    assert found[:2].tolist() == [[200, 100, 50], [0, 0, 0]]
    np.testing.assert_allclose(found[2], [100, 50, 25], atol=1)
    Image.fromarray(np.array([[[90, 0]]], dtype=np.uint8), "LA").save(tmp_path / "la.png")
    assert rgb(tmp_path / "la.png").tolist() == [[[0, 0, 0]]]
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putdata([0, 1])
    palette.save(tmp_path / "p.png", transparency=b"\xff\x00")
    assert rgb(tmp_path / "p.png").tolist() == [[[10, 20, 30], [0, 0, 0]]]


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    values = np.array([[0, 128, 129, 257, 1000, 32768, 65535]], dtype=np.uint16)
    write_image(tmp_path / "a.png", values)
    assert rgb(tmp_path / "a.png")[0, :, 0].tolist() == [0, 0, 1, 1, 4, 128, 255]
    assert rgb(tmp_path / "a.png").shape == (1, 7, 3)


def test_other_kinds_of_pixels_are_refused(tmp_path):
    write_image(tmp_path / "f.tiff", np.array([[0.5, 1e9]], dtype=np.float32))
    with pytest.raises(BadImage, match="must have 8 or 16 bits, they are floats"):
        read_rgb(tmp_path / "f.tiff")
    write_image(tmp_path / "i.tiff", np.array([[-1, 70000]], dtype=np.int32))
    with pytest.raises(BadImage, match="must have 8 or 16 bits, they run from -1 to 70000"):
        read_rgb(tmp_path / "i.tiff")


def test_damaged_files(tmp_path):
    write_image(tmp_path / "whole.jpg", noise(50, 50, 3))
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:900])
    write_image(tmp_path / "whole.png", noise(50, 50, 3))
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:900])
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty.png").write_bytes(b"")
    for name in ("cut.jpg", "cut.png", "text.png", "empty.png", "missing.png"):
        with pytest.raises(BadImage, match=r"."):
            read_rgb(tmp_path / name)


def test_the_middle_square_is_taken_and_resized():
    pixels = np.zeros((4, 8, 3), dtype=np.uint8)
    pixels[:, 2:6] = 200
    np.testing.assert_array_equal(fitted(Image.fromarray(pixels), 4), np.full((4, 4, 3), 200))
    np.testing.assert_array_equal(fitted(Image.fromarray(pixels), 2), np.full((2, 2, 3), 200))
    exact = noise(6, 6, 3)
    np.testing.assert_array_equal(fitted(Image.fromarray(exact), 6), exact)


def test_names_are_sorted_and_others_are_not_seen(tmp_path):
    for name in ("b/x.png", "a/deep/y.JPG", "z.jpeg", ".hidden/c.png", "a/.hidden.png", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert image_names(tmp_path) == ["a/deep/y.JPG", "b/x.png", "z.jpeg"]


def test_links_to_files_are_followed(tmp_path):
    write_image(tmp_path / "elsewhere" / "x.png", noise(2, 2, 3))
    (tmp_path / "own" / "cat").mkdir(parents=True)
    (tmp_path / "own" / "cat" / "y.png").symlink_to(tmp_path / "elsewhere" / "x.png")
    (tmp_path / "linked").symlink_to(tmp_path / "own")
    assert image_names(tmp_path / "own") == image_names(tmp_path / "linked") == ["cat/y.png"]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("loop", lambda path: path.symlink_to("..")),
        ("dogs", lambda path: path.symlink_to("cat")),
        ("dogs.png", lambda path: path.symlink_to("dogs.png")),
        ("gone.png", lambda path: path.symlink_to("nowhere")),
        ("pipe.png", os.mkfifo),
        ("linked.png", lambda path: (os.mkfifo(path.with_name(".pipe")), path.symlink_to(".pipe"))),
        ("null.png", lambda path: path.symlink_to("/dev/null")),
        ("socket.png", lambda path: socket.socket(socket.AF_UNIX).bind(str(path))),
    ],
)
def test_links_to_folders_and_special_files_are_refused(name, make, tmp_path, monkeypatch):
    write_image(tmp_path / "cat" / "x.png", noise(2, 2, 3))
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        make(Path(name))
    with pytest.raises(InvalidInput, match=rf"{name} must be a file, a link to a file or a folder; links to folders, .* are refused"):
        image_names(tmp_path)


def test_two_folders_that_link_to_each_other_are_refused(tmp_path):
    for one, other in (("cat", "dog"), ("dog", "cat")):
        (tmp_path / one).mkdir()
        (tmp_path / one / "other").symlink_to(tmp_path / other)
    with pytest.raises(InvalidInput, match=r"/other must be a file, a link to a file or a folder"):
        image_names(tmp_path)


def test_each_image_in_order_whatever_the_threads(tmp_path):
    for number in range(300):
        write_image(tmp_path / f"{number:03}.png", np.full((2, 2, 3), number % 256, dtype=np.uint8))
    (tmp_path / "007.png").write_bytes(b"")
    files = ImageFiles(tmp_path, tuple(image_names(tmp_path)))
    results = list(decode_each(files, lambda image: fitted(image, 2).getpixel((0, 0))[0], "decoding"))
    assert isinstance(results[7], BadImage)
    assert [int(value) for number, value in enumerate(results) if number != 7] == [n % 256 for n in range(300) if n != 7]


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_as_the_camera_notes_it(orientation, ending, tmp_path):
    """Against Pillow's own; a TIFF turns itself when it is read, and is not turned twice."""
    pixels = np.kron(np.arange(12, dtype=np.uint8).reshape(3, 4) * 20, np.ones((16, 16), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).convert("RGB").save(tmp_path / f"a.{ending}", exif=exif)
    with Image.open(tmp_path / f"a.{ending}") as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert expected.shape[:2] == ((48, 64) if orientation < 5 else (64, 48))
    np.testing.assert_array_equal(rgb(tmp_path / f"a.{ending}"), expected)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # which Pillow says
def test_damaged_notes_of_a_camera_do_not_cost_the_photo(tmp_path):
    for number, exif in enumerate([b"Exif\x00\x00MM\x00*\xff\xff\xff\xff", b"Exif\x00\x00nothing", b"\xff" * 40]):
        Image.new("RGB", (4, 6), (200, 0, 0)).save(tmp_path / f"{number}.jpg", exif=exif)
        assert rgb(tmp_path / f"{number}.jpg").shape == (6, 4, 3)


def test_what_is_no_image_file_can_be_left_out_by_name(tmp_path):
    write_image(tmp_path / "a" / "x.png", noise(2, 2, 3))
    (tmp_path / "gone.png").symlink_to("nowhere")
    (tmp_path / "a" / "loop").symlink_to("..")
    bad: dict[str, str] = {}
    assert image_names(tmp_path, bad) == ["a/x.png"]
    assert sorted(bad) == ["a/loop", "gone.png"]
    assert "gone.png must be a file, a link to a file or a folder" in bad["gone.png"]
