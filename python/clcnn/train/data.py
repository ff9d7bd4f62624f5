"""Data sets as batches of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clcnn import _arguments
from clcnn.errors import ArgumentError, ShapeError

# (images, generator) -> images of the same shape, changed at random
Augment = Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.float32]]


class Arrays:
    """Samples and targets in memory: x (N, C, spatial...) of float32, y (N, ...).

    seed: of the order of samples and of what augmentation draws. epoch: counts the walks in random order;
    set it to repeat or skip some. Raises ArgumentError (no samples), ShapeError (x and y differ in length).
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, *, seed: int = 0) -> None:
        self.x = np.require(x, np.float32, "C")
        self.y = np.asarray(y)
        if self.x.ndim < 2 or self.y.ndim < 1 or len(self.x) != len(self.y):
            raise ShapeError(
                f"Arrays: x {list(self.x.shape)} and y {list(self.y.shape)} must be equally long"
            )
        if not len(self.x):
            raise ArgumentError("Arrays: there are no samples")
        self.seed, self.epoch = int(seed), 0

    def __len__(self) -> int:
        return len(self.x)

    def batches(
        self, size: int, *, shuffle: bool = True, augment: Augment | None = None, drop_last: bool = False
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[Any]]]:
        """All samples once, as (x, y) of `size` samples; the last one may be shorter, or is left out.

        shuffle: in an order that `seed` and `epoch` give; counts the epoch. augment: changes each batch.
        """
        return ordered_batches(self, self.x, size, shuffle, augment, drop_last)

    def __repr__(self) -> str:
        return f"<clcnn.train.Arrays: {len(self)} samples of {list(self.x.shape[1:])}>"


def ordered_batches(
    data: Any, x: Any, size: int, shuffle: bool, augment: Augment | None, drop_last: bool
) -> Iterator[tuple[Any, NDArray[Any]]]:
    """The batches of a data set with `y`, `seed` and `epoch`; x gives the samples of an array of numbers."""
    size = _arguments.whole(size, "batches(): size", 1)
    rng = np.random.default_rng((data.seed, data.epoch))
    order = rng.permutation(len(data.y)) if shuffle else np.arange(len(data.y))
    data.epoch += bool(shuffle)
    return _walk(x, data.y, order, size, rng, augment, drop_last)


def _walk(
    x: Any,
    y: NDArray[Any],
    order: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    augment: Augment | None,
    drop_last: bool,
) -> Iterator[tuple[Any, NDArray[Any]]]:
    for first in range(0, len(order), size):
        at = order[first : first + size]
        if drop_last and len(at) < size:
            return
        samples = x[at]
        yield (augment(samples, rng) if augment else samples), y[at]


@dataclass(frozen=True)
class Split:
    """A data set in two parts, and how its training samples are varied."""

    train: Any  # Arrays, ImageFolder
    test: Any
    augment: Augment | None = None
