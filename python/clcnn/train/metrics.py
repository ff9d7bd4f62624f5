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
    """What evaluate() and fit() ask of a metric."""

    @property
    def name(self) -> str:
        """Its key in what evaluate() returns."""

    def reset(self) -> None:
        """Forgets all batches."""

    def add(self, result: NDArray[Any], target: NDArray[Any]) -> None:
        """Counts a batch."""

    def value(self) -> Any:
        """What it found."""


class Accuracy:
    """The share of samples whose label is among the `top` largest results; of equal ones the first classes
    are the largest. Its name is "accuracy", or "top5" for 5.

    Raises ArgumentError (top below 1).
    """

    def __init__(self, top: int = 1) -> None:
        self.top = _arguments.whole(top, "Accuracy: top", 1)
        self.name = "accuracy" if self.top == 1 else f"top{self.top}"
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._right = self._count = 0

    def add(self, result: NDArray[Any], target: NDArray[Any]) -> None:
        """Counts a batch."""
        best = np.argsort(-result, axis=1, kind="stable")[:, : self.top]
        self._right += int(np.count_nonzero(best == target[:, None]))
        self._count += len(target)

    def value(self) -> float:
        """The share; not a number where nothing was counted."""
        return self._right / self._count if self._count else float("nan")


class ConfusionMatrix:
    """How often samples of each class got each answer: int64 (classes, classes), one row for each label. Its
    name is "confusion"."""

    name = "confusion"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self._counts: NDArray[np.int64] | None = None

    def add(self, result: NDArray[Any], target: NDArray[Any]) -> None:
        """Counts a batch."""
        classes = result.shape[1]
        found = np.bincount(target * classes + result.argmax(axis=1), minlength=classes**2)
        counts = found.reshape(classes, classes).astype(np.int64)
        self._counts = counts if self._counts is None else self._counts + counts

    def value(self) -> NDArray[np.int64]:
        """The counts."""
        return np.zeros((0, 0), np.int64) if self._counts is None else self._counts
