"""Crops, flips and normalisation: exact against a loop, and in distribution against torchvision."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torchvision.transforms import v2

from rankmixup import random
from rankmixup.data import DataSource, View, evaluation_batches, training_batches
from rankmixup.data.transforms import Augmentation, normalise

CIFAR = View(32, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), "crop", padding=4, flip=True)


def pictures(count: int, size: int, channels: int, rng: torch.Generator) -> torch.Tensor:
    # No zeros, so that padding can be told from the image.
    return torch.randint(1, 256, (count, channels, size, size), generator=rng).to(torch.uint8)


def back_to_bytes(x: torch.Tensor, view: View) -> torch.Tensor:
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (view.mean, view.std))
    return ((x * std + mean) * 255).round().to(torch.uint8)


def found_crop(image: torch.Tensor, result: torch.Tensor, padding: int) -> tuple[int, int, bool]:
    """Which offset and flip made `result` of `image`; there must be one and no other."""
    size = image.shape[-1]
    padded = torch.nn.functional.pad(image, (padding,) * 4)
    crops = {(y, x): padded[:, y : y + size, x : x + size] for y in range(2 * padding + 1) for x in range(2 * padding + 1)}
    matches = [(*offset, False) for offset, crop in crops.items() if torch.equal(result, crop)]
    matches += [(*offset, True) for offset, crop in crops.items() if torch.equal(result, crop.flip(2))]
    assert len(matches) == 1
    return matches[0]


def draws(view: View, count: int, rng: torch.Generator) -> np.ndarray:
    images = pictures(count, view.image_size, view.in_channels, rng)
    results = back_to_bytes(Augmentation(view, count, rng)(images, torch.arange(count)), view)
    return np.array([found_crop(image, result, view.padding) for image, result in zip(images, results, strict=True)])


def torchvision_draws(view: View, count: int, rng: torch.Generator) -> np.ndarray:
    transform = v2.Compose([v2.RandomCrop(view.image_size, view.padding), v2.RandomHorizontalFlip()])
    images = pictures(count, view.image_size, view.in_channels, rng)
    with random.global_seed(0, "torchvision"):
        return np.array([found_crop(image, transform(image), view.padding) for image in images])


def test_every_sample_is_a_padded_crop_or_its_mirror_image_uniformly_as_torchvisions(rng):
    view = View(5, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "crop", padding=1, flip=True)
    ours, theirs = (make(view, 1800, rng) for make in (draws, torchvision_draws))
    for column, values in ((0, 3), (1, 3), (2, 2)):
        counts = [np.bincount(sample[:, column], minlength=values) for sample in (ours, theirs)]
        for count in counts:
            assert len(count) == values
            assert chisquare(count).pvalue > 1e-3
    # All at once: offsets and flips are independent of one another.
    cells = ours[:, 0] * 6 + ours[:, 1] * 2 + ours[:, 2]
    assert chisquare(np.bincount(cells, minlength=18)).pvalue > 1e-3
    # And so are samples of one batch.
    assert len({tuple(draw) for draw in ours[:200].tolist()}) == 18


def test_the_real_padding_reaches_from_corner_to_corner(rng):
    found = draws(CIFAR, 200, rng)
    for column in (0, 1):
        assert set(found[:, column].tolist()) <= set(range(9))
        assert {0, 8} <= set(found[:, column].tolist())


def test_padding_is_zero_before_normalisation(rng):
    images = pictures(64, 32, 3, rng)
    results = Augmentation(CIFAR, 64, rng)(images, torch.arange(64))
    black = torch.tensor([-mean / std for mean, std in zip(CIFAR.mean, CIFAR.std, strict=True)])
    is_black = (results - black.view(1, 3, 1, 1)).abs().amax(dim=1) < 1e-6
    assert is_black.any(dim=(1, 2)).float().mean() > 0.8
    assert set(back_to_bytes(results, CIFAR)[:, :, 16, 16].flatten().tolist()) <= set(range(1, 256))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_normalisation_is_torchvisions_and_channels_last(channels, layout, rng):
    view = View(7, (0.5, 0.4, 0.3)[:channels], (0.2, 0.3, 0.4)[:channels])
    images = pictures(6, 7, channels, rng).contiguous(memory_format=layout)
    expected = v2.functional.normalize(images / 255, list(view.mean), list(view.std))
    for result in (normalise(images, view), Augmentation(view, 6, rng)(images, torch.arange(6))):
        torch.testing.assert_close(result, expected)
        assert result.dtype == torch.float32
        assert result.is_contiguous(memory_format=torch.channels_last)


def test_images_that_are_not_square_are_cropped_and_flipped_too(rng):
    view = View(4, (0.0,), (1.0,), "crop", padding=1, flip=True)
    images = pictures(40, 6, 1, rng)[:, :, :3, :]
    results = (Augmentation(view, 40, rng)(images, torch.arange(40)) * 255).round().to(torch.uint8)
    assert results.shape == images.shape
    for image, result in zip(images, results, strict=True):
        padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
        crops = [padded[:, y : y + 3, x : x + 6] for y in range(3) for x in range(3)]
        assert any(torch.equal(result, each) or torch.equal(result, each.flip(2)) for each in crops)


def test_without_flips_there_are_none(rng):
    view = View(5, (0.0,), (1.0,), "crop", padding=1)
    assert not draws(view, 100, rng)[:, 2].any()


def test_floats_are_standardised_by_hand_or_left_alone(rng):
    x = torch.tensor([[[[1.0, 3.0]], [[10.0, -10.0]]]])
    view = View(2, (1.0, 10.0), (2.0, 5.0), values="floats")
    assert normalise(x, view).tolist() == [[[[0.0, 1.0]], [[0.0, -4.0]]]]
    assert normalise(x[..., 0].double().flatten(1), view).tolist() == [[0.0, 0.0]]
    assert normalise(x.double(), view).dtype == normalise(x.half(), view).dtype == torch.float32
    for plain in (View(2, (0.0, 0.0), (1.0, 1.0), values="floats"), View(2, (1.0, 10.0), (2.0, 5.0))):
        assert normalise(x, plain) is x


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_the_data_sets_of_floats_enter_a_network_bit_for_bit(name):
    data = DataSource.registry[name]().load()
    assert (data.view.values, data.view.plain) == ("floats", True)
    for batch in training_batches(data, 100, seed=0, epoch=0):
        assert torch.equal(batch.x, data.train.x[batch.index])
    assert torch.equal(torch.cat(list(evaluation_batches(data.test, data.view))), data.test.x)
