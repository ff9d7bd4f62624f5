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
    """Samples and targets in memory, which it gives in batches.

    Parameters
    ----------
    x : array
        Samples (N, C, spatial...), taken as float32.
    y : array
        Targets (N, ...), such as labels (N,).
    seed : int
        Of the order of samples and of what augmentation draws.

    Attributes
    ----------
    epoch : int
        Counts the walks in random order; set it to repeat or skip some.

    Raises
    ------
    ShapeError
        x and y differ in length, or x has no dimension beside N.
    ArgumentError
        There are no samples.

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn import train
    >>> data = train.Arrays(np.zeros((10, 1, 8, 8)), np.arange(10))
    >>> [len(y) for x, y in data.batches(4)]
    [4, 4, 2]
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
        """All samples once, in batches.

        Parameters
        ----------
        size : int
            Samples of a batch; the last one may have fewer.
        shuffle : bool
            In an order that `seed` and `epoch` give; counts the epoch. False: in the order of x. Default
            True.
        augment : function, optional
            Of (x, NumPy generator): gives x changed at random, in the same shape. See RandomAffine.
        drop_last : bool
            Leaves out a last batch of fewer samples. Default False.

        Returns
        -------
        iterator of (x, y)
            float32 [n, C, *spatial], and targets [n].

        Raises
        ------
        ArgumentError, DtypeError
            size is below 1, or no whole number.

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import train
        >>> data = train.Arrays(np.zeros((10, 1, 8, 8)), np.arange(10))
        >>> [len(x) for x, y in data.batches(4)]
        [4, 4, 2]
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
    """A data set in two parts, and how its training samples are varied.

    Parameters
    ----------
    train, test : Arrays, ImageFolder, or batches
        What Trainer.fit() and evaluate() take.
    augment : function, optional
        Of (x, NumPy generator), for training alone; see RandomAffine.

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn import train
    >>> data = train.Arrays(np.zeros((10, 1, 8, 8)), np.arange(10))
    >>> split = train.Split(data, data, train.RandomAffine(shift=1.0))
    >>> len(split.train)
    10
    """

    train: Any  # Arrays, ImageFolder
    test: Any
    augment: Augment | None = None
