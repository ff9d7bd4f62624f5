"""Sizes of resized images by torchvision's rules, and resampling without antialiasing, as on its tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clcnn import _arguments
from clcnn.errors import ArgumentError

CUBIC_TENSOR = -0.75  # torch's cubic coefficient without antialiasing; Pillow's, and torch's with it, is -0.5


def output_size(old: Sequence[int], size: int | Sequence[int]) -> tuple[int, int]:
    """(height, width) that `Resize(size)` gives an image of `old` (height, width)."""
    sizes = pair_of_sizes(size, same=False)
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    short, long = sorted(old)
    new = (sizes[0], int(sizes[0] * long / short))
    return new if old[0] <= old[1] else new[::-1]


def pair_of_sizes(size: int | Sequence[int], same: bool) -> tuple[int, ...]:
    """The one or two positive sizes of an argument; with `same`, one counts for both."""
    try:
        given = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        sizes = tuple(int(n) for n in given)
        good = len(sizes) in (1, 2) and sizes == given and min(sizes) >= 1
    except (TypeError, ValueError, OverflowError):  # no numbers
        good = False
    if not good:
        raise ArgumentError(f"a size is a positive int or (height, width), not {_arguments.shown(size)}")
    return sizes * 2 if same and len(sizes) == 1 else sizes


def resample_axis(image: np.ndarray, length: int, axis: int, cubic: bool) -> np.ndarray:
    """Interpolate along one axis at half-pixel centres with 2 or 4 taps, edges repeated."""
    old = image.shape[axis]
    position = (np.arange(length) + 0.5) * (old / length) - 0.5
    first = np.floor(position).astype(int)
    offsets = np.arange(-1, 3) if cubic else np.arange(2)
    distance = np.abs(position - first - offsets[:, None])
    taps = cubic_filter(distance) if cubic else 1 - distance
    shape = [-1 if i == axis else 1 for i in range(image.ndim)]
    result: np.ndarray = np.zeros_like(np.take(image, np.zeros(length, int), axis))
    for offset, weight in zip(offsets, taps, strict=True):
        result += weight.reshape(shape) * np.take(image, np.clip(first + offset, 0, old - 1), axis)
    return result


def cubic_filter(distance: np.ndarray) -> np.ndarray:
    """Keys' cubic convolution (1981) at distances 0..2."""
    a = CUBIC_TENSOR
    near: np.ndarray = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far: np.ndarray = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.asarray(np.where(distance <= 1, near, far))
