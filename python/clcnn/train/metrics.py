"""Metrics: what an evaluation counts beside the loss.

A metric is any object with a `name`, reset(), add(result, target) for each batch, and value(). Where targets
are labels, add() gets results (M, C) and labels (M,): pixels of maps are samples, those ignored are left out.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments


class Metric(Protocol):
    """What evaluate() and fit() ask of a metric: any object with these methods is one.

    Examples
    --------
    >>> import numpy as np
    >>> class Mean:
    ...     name = "mean"
    ...     def reset(self):
    ...         self.found = []
    ...     def add(self, result, target):
    ...         self.found.append(result.mean())
    ...     def value(self):
    ...         return float(np.mean(self.found))
    >>> metric = Mean()
    >>> metric.reset()
    >>> metric.add(np.ones((2, 3), np.float32), np.zeros(2, np.int64))
    >>> metric.value()
    1.0
    """

    @property
    def name(self) -> str:
        """Its key in what evaluate() returns."""

    def reset(self) -> None:
        """Forgets all batches."""

    def add(self, result: NDArray[Any], target: NDArray[Any]) -> None:
        """Counts a batch.

        Parameters
        ----------
        result : array
            What the net gave: [M, C] where targets are labels.
        target : array
            Labels [M] of int64, or what the loss takes.
        """

    def value(self) -> Any:
        """What it found.

        Returns
        -------
        any
            A number, or whatever else the epoch's dict is to have.
        """


class Accuracy:
    """The share of samples whose label is among the `top` largest results.

    Of equal results the first classes are the largest. Its name is "accuracy", or "top5" for 5.

    Parameters
    ----------
    top : int
        How many results count, 1 or more.

    Raises
    ------
    ArgumentError
        top is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn import train
    >>> accuracy = train.Accuracy()
    >>> accuracy.add(np.float32([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    >>> accuracy.value()
    0.5
    """

    def __init__(self, top: int = 1) -> None:
        self.top = _arguments.whole(top, "Accuracy: top", 1)
        self.name = "accuracy" if self.top == 1 else f"top{self.top}"
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._right = self._count = 0

    def add(self, result: NDArray[Any], target: NDArray[Any]) -> None:
        """Counts a batch.

        Parameters
        ----------
        result : array [M, C]
        target : int64 array [M]
            Labels.
        """
        best = np.argsort(-result, axis=1, kind="stable")[:, : self.top]
        self._right += int(np.count_nonzero(best == target[:, None]))
        self._count += len(target)

    def value(self) -> float:
        """The share, from 0 to 1; not a number where nothing was counted.

        Returns
        -------
        float
        """
        return self._right / self._count if self._count else float("nan")


class ConfusionMatrix:
    """How often samples of each class got each answer: int64 [classes, classes].

    Row i has the samples of label i, column j those whose largest result is that of class j. Its name is
    "confusion".

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn import train
    >>> confusion = train.ConfusionMatrix()
    >>> confusion.add(np.float32([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    >>> confusion.value().tolist()
    [[0, 0], [1, 1]]
    """

    name = "confusion"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._counts: NDArray[np.int64] | None = None

    def add(self, result: NDArray[Any], target: NDArray[Any]) -> None:
        """Counts a batch.

        Parameters
        ----------
        result : array [M, C]
        target : int64 array [M]
            Labels.
        """
        classes = result.shape[1]
        found = np.bincount(target * classes + result.argmax(axis=1), minlength=classes**2)
        counts = found.reshape(classes, classes).astype(np.int64)
        self._counts = counts if self._counts is None else self._counts + counts

    def value(self) -> NDArray[np.int64]:
        """The counts; an array of no rows where nothing was counted.

        Returns
        -------
        int64 array [C, C]
        """
        return np.zeros((0, 0), np.int64) if self._counts is None else self._counts
