import pytest
import torch

from rankmixup.data import ImageNet
from rankmixup.data.base import ImageFiles
from rankmixup.errors import InvalidInput
from tests.data.original_formats import noise, write_image


@pytest.fixture
def imagenet(tmp_path):
    """Three classes of four training images and ten validation images each, of odd sizes."""
    for part, count in (("train", 4), ("val", 10)):
        for name in ("n01", "n02", "n03"):
            for number in range(count):
                write_image(tmp_path / "imagenet" / part / name / f"{name}_{number}.JPEG", noise(20, 30 + number, 3))
    return tmp_path / "imagenet"


@pytest.mark.parametrize("inside", [True, False])
def test_validation_images_are_divided_class_by_class(inside, imagenet):
    data = ImageNet().load(imagenet.parent if inside else imagenet)
    assert data.class_counts.tolist() == [4, 4, 4]
    assert torch.bincount(data.val.y).tolist() == [2, 2, 2]
    assert torch.bincount(data.test.y).tolist() == [8, 8, 8]
    names = []
    for split, part in ((data.train, "train"), (data.val, "val"), (data.test, "val")):
        assert isinstance(split.x, ImageFiles)
        for name, label in zip(split.x.names, split.y.tolist(), strict=True):
            assert (split.x.folder / name).is_file()
            assert name.startswith(f"{part}/{data.class_names[label]}/")
        names += split.x.names
    assert len(set(names)) == 42
    assert (data.view.image_size, data.view.augment, data.view.flip) == (224, "resized-crop", True)


def test_long_tails_leave_validation_as_it_is(imagenet):
    whole, tailed = ImageNet().load(imagenet), ImageNet(imbalance=4).load(imagenet)
    assert tailed.class_counts.tolist() == [4, 2, 1]
    assert tailed.published_counts == (4, 2, 1)
    assert tailed.val.x == whole.val.x


def test_bad_folders(imagenet, tmp_path):
    with pytest.raises(InvalidInput, match=r"imagenet must be in .*elsewhere/imagenet with folders train and val, there is no train"):
        ImageNet().load(tmp_path / "elsewhere")
    (imagenet / "train" / "n04").mkdir()
    with pytest.raises(InvalidInput, match=r"class folder .*train/n04 must hold at least one image, got 0"):
        ImageNet().load(imagenet)
    (imagenet / "train" / "n04").rename(imagenet / "val" / "n04")
    with pytest.raises(InvalidInput, match=r"class folder .*val/n04 must be one of the training images' classes too, there is no 'n04'"):
        ImageNet().load(imagenet)
