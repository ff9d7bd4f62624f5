"""Images moved, turned and scaled at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def affine(
    x: NDArray[np.float32], matrices: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float32]:
    """Images (N, C, H, W) sampled bilinearly at `size`; outside of them all is 0.

    matrices: (N, 2, 3), from (row, column, 1) of a result to (row, column) of its image, both counted in
    pixels from the middle.
    """
    rows, columns = np.meshgrid(*(np.arange(n) - (n - 1) / 2 for n in size), indexing="ij")
    target = np.stack([rows.ravel(), columns.ravel(), np.ones(rows.size)])
    middle = (np.array(x.shape[2:]) - 1) / 2
    source = matrices @ target + middle[:, None]
    corner = np.floor(source).astype(np.int64)
    share = (source - corner).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    top = np.array(padded.shape[2:])[:, None] - 1
    result = np.zeros((len(x), x.shape[1], rows.size), np.float32)
    sample = np.arange(len(x))[:, None]
    for down in (0, 1):
        for right in (0, 1):
            r, c = np.clip(corner + np.array([[down], [right]]) + 1, 0, top).swapaxes(0, 1)
            weight = np.abs(1 - down - share[:, 0]) * np.abs(1 - right - share[:, 1])
            result += padded[sample, :, r, c].swapaxes(1, 2) * weight[:, None]
    return result.reshape(*x.shape[:2], *size)


@dataclass(frozen=True)
class RandomAffine:
    """Each image by itself moved, turned and scaled at random, all uniformly.

    Pixels are interpolated bilinearly; what comes in from outside is 0. Called on images (N, C, H, W) of
    float32 and a NumPy generator, it gives images of the same shape.

    Parameters
    ----------
    shift : float
        Most pixels that an image is moved along each axis.
    degrees : float
        Most degrees that it is turned, either way.
    scale : float
        Most that its size changes, as a share of it: 0.1 is from 90 % to 110 %.

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn import train
    >>> move = train.RandomAffine(shift=1.0, degrees=5.0)
    >>> move(np.ones((2, 1, 8, 8), np.float32), np.random.default_rng(0)).shape
    (2, 1, 8, 8)
    """

    shift: float = 2.0
    degrees: float = 10.0
    scale: float = 0.1

    def __call__(self, x: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
        angle = np.radians(rng.uniform(-self.degrees, self.degrees, len(x)))
        size = rng.uniform(1 - self.scale, 1 + self.scale, len(x))
        shift = rng.uniform(-self.shift, self.shift, (len(x), 2, 1))
        cosine, sine = np.cos(angle) / size, np.sin(angle) / size
        turn = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], -2)
        return affine(x, np.concatenate([turn, -turn @ shift], axis=2), (x.shape[2], x.shape[3]))
