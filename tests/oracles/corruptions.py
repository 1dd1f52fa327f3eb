"""Corruptions of one image at a time, in loops over pixels and with scipy, from their published definitions.

What is drawn is given: numbers in the order in which the library draws them. Images are [H, W, C] in [0, 1]; results are before clipping.
"""

import colorsys
import io
import math

import numpy as np
from PIL import Image
from scipy import ndimage


def gaussian(x, sigma, mode="nearest", truncate=4.0):
    axes = (sigma, sigma) + (0,) * (x.ndim - 2)
    return ndimage.gaussian_filter(x, axes, mode=mode, truncate=truncate)


def defocus_blur(x, radius, sigma):
    reach, edge = (8, 1) if radius <= 8 else (int(radius), 2)
    kernel = np.array([[float(a * a + b * b <= radius**2) for b in range(-reach, reach + 1)] for a in range(-reach, reach + 1)])
    kernel /= kernel.sum()
    weights = np.array([math.exp(-(a**2) / (2 * sigma**2)) for a in range(-edge, edge + 1)])
    weights /= weights.sum()
    for axis in (0, 1):
        kernel = ndimage.correlate1d(kernel, weights, axis=axis, mode="mirror")
    return np.stack([ndimage.correlate(x[..., channel], kernel, mode="mirror") for channel in range(x.shape[2])], axis=2)


def glass_blur(x, sigma, reach, rounds, drawn):
    """`drawn` [rounds, 2, H, W]: steps to the right and down."""
    x = np.floor(gaussian(x, sigma) * 255 + 1e-6)
    height, width = x.shape[:2]
    for turn in range(rounds):
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                right, down = drawn[turn, :, h, w]
                x[h, w] = x[h + down, w + right]
    return gaussian(x / 255, sigma)


def motion_blur(x, radius, sigma, angle):
    height, width = x.shape[:2]
    taps = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * radius + 1)]
    total = np.zeros_like(x)
    for i, tap in enumerate(taps):
        right, down = (math.ceil(i * part - 0.5) for part in (math.cos(math.radians(angle)), math.sin(math.radians(angle))))
        for h in range(height):
            for w in range(width):
                total[h, w] += tap / sum(taps) * x[min(max(h + down, 0), height - 1), min(max(w + right, 0), width - 1)]
    return np.round(total * 255) / 255


def zoom_blur(x, end, step):
    factors = np.arange(1, end, step)
    total, size = x.copy(), x.shape[0]
    for factor in factors:
        crop = math.ceil(size / factor)
        top = (size - crop) // 2
        enlarged = ndimage.zoom(x[top : top + crop, top : top + crop], (factor, factor, 1), order=1)
        trim = (enlarged.shape[0] - size) // 2
        total += enlarged[trim : trim + size, trim : trim + size]
    return total / (len(factors) + 1)


def plasma(noise, decay):
    """Diamond-square pixel by pixel, with noise in [-1, 1] for each; neighbours wrap around."""
    side = len(noise)
    found, step, scale = np.zeros((side, side)), side, 100.0
    while step >= 2:
        half = step // 2
        for r in range(half, side, step):
            for c in range(half, side, step):
                four = [found[(r + a) % side, (c + b) % side] for a in (-half, half) for b in (-half, half)]
                found[r, c] = sum(four) / 4 + scale**2 * noise[r, c]
        for r in range(0, side, half):
            for c in range((r + half) % step, side, step):
                four = [found[(r + a) % side, (c + b) % side] for a, b in ((-half, 0), (half, 0), (0, -half), (0, half))]
                found[r, c] = sum(four) / 4 + scale**2 * noise[r, c]
        step, scale = half, scale / decay
    found -= found.min()
    return found / found.max()


def fog(x, thickness, decay, noise):
    return (x + thickness * plasma(noise, decay)[..., None]) * x.max() / (x.max() + thickness)


def with_hsv(x, change):
    """Each pixel through Python's own HSV; `change` takes and gives hue, saturation and value."""
    return np.array([[colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in row] for row in x])


def elastic_transform(x, strength, sigma, corner, corners, displacement):
    """`corners` [3, 2] and `displacement` [2, H, W], x before y, uniform in [-1, 1]."""
    size, third = x.shape[0], x.shape[0] // 3
    centre = size // 2
    points = np.array([[centre + third, centre + third], [centre + third, centre - third], [centre - third, centre - third]], dtype=float)
    moved = points + corner * corners
    forward = np.linalg.solve(np.hstack([points, np.ones((3, 1))]), moved).T  # [2, 3]: where a point (x, y) goes
    back = np.linalg.inv(np.vstack([forward, [0, 0, 1]]))
    rows, columns = np.mgrid[:size, :size]
    across, down = (back[k, 0] * columns + back[k, 1] * rows + back[k, 2] for k in (0, 1))
    x = np.stack([ndimage.map_coordinates(x[..., c], [down, across], order=1, mode="mirror") for c in range(3)], axis=2)
    dx, dy = (gaussian(each, sigma, "reflect", 3.0) * strength if sigma else each * strength for each in displacement)
    return np.stack([ndimage.map_coordinates(x[..., c], [rows + dy, columns + dx], order=1, mode="reflect") for c in range(3)], axis=2)


def pixelate(x, share):
    image = Image.fromarray(np.round(255 * x).astype(np.uint8))
    size = image.size
    small = tuple(int(side * share) for side in size)
    return np.asarray(image.resize(small, Image.Resampling.BOX).resize(size, Image.Resampling.BOX)) / 255


def jpeg_compression(x, quality):
    file = io.BytesIO()
    Image.fromarray(np.round(255 * x).astype(np.uint8)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)) / 255
