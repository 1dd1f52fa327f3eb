"""Every corruption beside its published definition, and what holds for all: the same for an image whatever its batch, bytes, severities."""

import os

import numpy as np
import pytest
import torch

from rankmixup.data.corruptions import CONSTANTS, CORRUPTIONS, GROUPS, SEVERITIES, chosen_corruptions, corrupt
from rankmixup.data.corruptions.base import Draws
from rankmixup.errors import InvalidInput
from tests.oracles import corruptions as oracle
from tests.oracles import unchecked

SIZES = (32, 64, 224)


def natural(count: int, size: int = 32, seed: int = 0) -> torch.Tensor:
    """Images with the spectrum of photographs: noise whose amplitude falls with frequency, in three correlated channels."""
    rng = torch.Generator().manual_seed(seed)
    frequency = torch.fft.fftfreq(size).square()[:, None] + torch.fft.fftfreq(size).square()
    spectrum = torch.fft.fft2(torch.randn(count, 3, size, size, generator=rng)) / frequency.sqrt().clamp(min=1 / size)
    x = torch.fft.ifft2(spectrum).real
    x = x + x.mean(dim=1, keepdim=True)
    x = x / x.std(dim=(1, 2, 3), keepdim=True)
    return (120 + 50 * x).clamp(0, 255).to(torch.uint8)


def _expected(name: str, x: np.ndarray, constants, draws: Draws):
    """The oracle's image, from the numbers that the library draws."""
    size = len(x)
    match name:
        case "gaussian_noise":
            return x + constants * draws.normal(3, size, size)[0].permute(1, 2, 0).numpy()
        case "speckle_noise":
            return x * (1 + constants * draws.normal(3, size, size)[0].permute(1, 2, 0).numpy())
        case "shot_noise":
            rates = torch.from_numpy(x).float().permute(2, 0, 1)[None] * constants
            return draws.poisson(rates)[0].permute(1, 2, 0).numpy() / constants
        case "impulse_noise":
            drawn = draws.uniform(3, size, size)[0].permute(1, 2, 0).numpy()
            return np.where(drawn < constants / 2, 0, np.where(drawn < constants, 1, x))
        case "gaussian_blur":
            return oracle.gaussian(x, constants)
        case "glass_blur":
            sigma, reach, rounds = constants
            drawn = draws.each(lambda rng: torch.randint(-reach, reach, (rounds, 2, size, size), generator=rng))[0].numpy()
            return oracle.glass_blur(x, sigma, reach, rounds, drawn)
        case "motion_blur":
            return oracle.motion_blur(x, *constants, 90 * float(draws.uniform().double()) - 45)
        case "fog":
            return oracle.fog(x, *constants, 2 * draws.uniform(size, size)[0].double().numpy() - 1)
        case "brightness":
            return oracle.with_hsv(x, lambda h, s, v: (h, s, min(v + constants, 1)))
        case "contrast":
            mean = x.mean(axis=(0, 1))
            return (x - mean) * constants + mean
        case "saturate":
            return oracle.with_hsv(x, lambda h, s, v: (h, min(max(s * constants[0] + constants[1], 0), 1), v))
        case "elastic_transform":
            drawn = 2 * draws.uniform(6 + 2 * size * size)[0].numpy() - 1
            lengths = [size * share for share in constants]
            return oracle.elastic_transform(x, *lengths, drawn[:6].reshape(3, 2), drawn[6:].reshape(2, size, size))
    return getattr(oracle, name)(x, *(constants if isinstance(constants, list) else [constants]))


@pytest.mark.parametrize("name", list(CORRUPTIONS))
@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_corruption_is_what_its_published_definition_says(name, severity):
    images = natural(1)
    images[0, :, 0, 0], images[0, :, 0, 1], images[0, :, 1, 0] = 0, 255, torch.tensor([10, 200, 90], dtype=torch.uint8)
    index = torch.tensor([7])
    found = corrupt(images, name, severity, index=index, seed=3)[0].permute(1, 2, 0).numpy().astype(int)
    x = images[0].permute(1, 2, 0).numpy().astype(np.float64) / 255
    expected = _expected(name, x, CONSTANTS[name]["32"][severity - 1], Draws(3, (name, severity), index))
    expected = np.floor(np.clip(expected, 0, 1) * 255 + 1e-6).astype(int)
    # Float32 may fall on the other side of a whole number, and then by one grey level; never in many pixels.
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 0.02


@pytest.mark.parametrize("name", ["defocus_blur", "glass_blur", "fog", "elastic_transform", "zoom_blur"])
@pytest.mark.parametrize("severity", [2, 4])
def test_the_constants_of_larger_images_are_used(name, severity):
    images, index = natural(1, size=64), torch.tensor([1])
    found = corrupt(images, name, severity, index=index)[0].permute(1, 2, 0).numpy().astype(int)
    x = images[0].permute(1, 2, 0).numpy().astype(np.float64) / 255
    expected = _expected(name, x, CONSTANTS[name]["64"][severity - 1], Draws(0, (name, severity), index))
    expected = np.floor(np.clip(expected, 0, 1) * 255 + 1e-6).astype(int)
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 0.02


def test_every_corruption_has_constants_for_every_size_and_severity():
    assert sorted(CONSTANTS) == list(CORRUPTIONS)
    assert all(sorted(map(int, sizes)) == list(SIZES) and {len(each) for each in sizes.values()} == {5} for sizes in CONSTANTS.values())
    assert {CORRUPTIONS[name].group for name in CORRUPTIONS} == set(GROUPS)


@pytest.mark.parametrize("name", list(CORRUPTIONS))
def test_an_image_is_corrupted_alike_in_any_batch(name):
    images, index = natural(300, size=16), torch.arange(1000, 1300)
    whole = corrupt(images, name, 3, index=index, seed=1)
    parts = torch.cat([corrupt(*pair[:1], name, 3, index=pair[1], seed=1) for pair in zip(images.split(7), index.split(7), strict=True)])
    # Matrix products of other shapes may round the last bit otherwise.
    assert (whole.int() - parts.int()).abs().max() <= 1
    assert (whole != parts).float().mean() < 1e-3
    assert torch.equal(whole, corrupt(images, name, 3, index=index, seed=1))
    assert whole.dtype == torch.uint8
    assert whole.shape == images.shape


@pytest.mark.parametrize("name", ["gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "glass_blur", "motion_blur", "fog"])
def test_seed_position_and_severity_change_what_is_drawn(name):
    images = natural(1)
    of = {(seed, place): corrupt(images, name, 5, index=torch.tensor([place]), seed=seed) for seed in (0, 1) for place in (0, 1)}
    assert not torch.equal(of[0, 0], of[0, 1])
    assert not torch.equal(of[0, 0], of[1, 0])


NOT_MONOTONE = {"elastic_transform", "glass_blur", "motion_blur", "saturate"}
"""By their published constants: the affine part of elastic shrinks, glass blur 3 and 5 blur more and move less than 4, motion blur 3 and 4
have the same Gaussian, and saturation falls at 1 and 2 and rises from 3 on."""


def _distortions(images, name):
    return [(corrupt(images, name, severity).float() - images.float()).abs().mean().item() for severity in SEVERITIES]


@pytest.mark.parametrize("name", list(CORRUPTIONS))
def test_distortion_grows_with_severity(name):
    found = _distortions(natural(40), name)
    assert min(found) > 0.3
    assert (found == sorted(found)) or name in NOT_MONOTONE
    if name in ("glass_blur", "motion_blur", "saturate"):
        assert found[4] > found[0]


@pytest.mark.data
@pytest.mark.skipif("RANKMIXUP_DATA" not in os.environ, reason="needs CIFAR-10 below RANKMIXUP_DATA")
@pytest.mark.parametrize("name", list(CORRUPTIONS))
def test_distortion_of_cifar_grows_with_severity(name):
    from rankmixup.data import Cifar10

    found = _distortions(Cifar10().load().test.x[:200], name)
    assert (found == sorted(found)) or name in NOT_MONOTONE


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name != "saturate"])
def test_grey_images_are_corrupted_as_coloured_ones_of_equal_channels(name):
    grey = natural(3, size=28)[:, :1]
    found = corrupt(grey, name, 4)
    assert found.shape == grey.shape
    if name in ("gaussian_blur", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "fog", "brightness", "contrast", "pixelate"):
        coloured = corrupt(grey.expand(-1, 3, -1, -1).contiguous(), name, 4)
        assert (found.int() - coloured.int()).abs().max() <= 1


def test_positions_are_whole_numbers_of_each_image():
    images = torch.arange(3 * 3 * 16, dtype=torch.uint8).view(3, 3, 4, 4)
    with unchecked():
        assert torch.equal(corrupt(images, "gaussian_noise", 1, index=[0, 1, 2]), corrupt(images, "gaussian_noise", 1))
    for wrong in (torch.rand(3), torch.zeros(3, 1, dtype=torch.long), torch.zeros(3, dtype=torch.bool)):
        with unchecked(), pytest.raises(InvalidInput, match="index must hold one whole number for each image, got"):
            corrupt(images, "gaussian_noise", 1, index=wrong)
    for name in CORRUPTIONS:
        assert corrupt(images[:0], name, 5).shape == (0, 3, 4, 4)


def test_names_groups_and_all():
    assert set(chosen_corruptions()) == set(CORRUPTIONS)
    assert chosen_corruptions(["noise"]) == ("gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise")
    with pytest.raises(InvalidInput, match="unknown corruption 'fogg'; did you mean 'fog'"):
        chosen_corruptions(["fogg"])
    with pytest.raises(InvalidInput, match=r"corruptions must be some that can be generated \(.*\), got 'snow'"):
        chosen_corruptions(["snow"])
    with pytest.raises(InvalidInput, match=r"corruptions must be some of the published files \(brightness, snow\), got 'noise'"):
        chosen_corruptions(["noise"], known=["snow", "brightness"])
    assert "snow" in chosen_corruptions(["weather"], known=["snow", "fog"])


@pytest.mark.parametrize(
    ("images", "severity", "message"),
    [
        (torch.zeros(1, 2, 8, 8, dtype=torch.uint8), 1, "with 1 or 3 channels"),
        (torch.zeros(1, 3, 3, 8, dtype=torch.uint8), 1, "at least 4x4"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 6, "severity must be at most 5, got 6"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 0, "severity must be at least 1, got 0"),
    ],
)
def test_other_images_and_severities_are_refused(images, severity, message):
    with pytest.raises(InvalidInput, match=message):
        corrupt(images, "fog", severity)


def test_colours_of_grey_images_are_refused():
    with pytest.raises(InvalidInput, match="must have 3 channels for saturate, got 1"):
        corrupt(torch.zeros(1, 1, 8, 8, dtype=torch.uint8), "saturate", 1)
