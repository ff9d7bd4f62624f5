"""What `value[key]` comes to: a slice, a gather, and a shape."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments
from clcnn.errors import ArgumentError, ShapeError


@dataclass
class Indexed:
    """The operators that a key stands for.

    axes, starts, ends, steps: of the slice, empty without one. indices, indexed: what is gathered along which
    dimension. shape: of the result, which is reshaped to where dimensions go or come.
    """

    axes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    indices: NDArray[Any] | None = None
    indexed: int = 0
    shape: tuple[int, ...] = ()
    added: int = 0  # dimensions

    @classmethod
    def of(cls, shape: tuple[int, ...], key: Any) -> Indexed:
        """Raises ShapeError, ArgumentError."""
        found = cls()
        axis = 0
        for item in _whole(shape, key):
            if item is None:
                found.shape += (1,)
                found.added += 1
                continue
            found._take(axis, shape[axis], item)
            axis += 1
        if found.indices is not None and len(found.shape) - found.indices.ndim + 1 < len(shape) + found.added:
            raise ArgumentError(f"[]: {_arguments.shown(key)}: ints beside a list or array are not taken")
        return found

    def _take(self, axis: int, n: int, item: Any) -> None:
        """One dimension of n elements."""
        if isinstance(item, slice):
            self._slice(axis, n, item)
        elif isinstance(item, (list, np.ndarray)):
            self._gather(axis, n, item)
        else:
            at = _position(item, axis, n)
            self._cut(axis, at, at + 1, 1)

    def _slice(self, axis: int, n: int, item: slice) -> None:
        try:
            start, stop, step = item.indices(n)
        except (TypeError, ValueError) as error:  # no whole numbers, a step of 0
            raise ArgumentError(f"[]: {item} of dimension {axis}: {error}") from error
        count = len(range(start, stop, step))
        if not count:
            raise ShapeError(f"[]: {item} leaves nothing of dimension {axis}, which has {n} elements")
        if count < n or step != 1:
            self._cut(axis, start, stop if stop >= 0 else -n - 1, step)
        self.shape += (count,)

    def _gather(self, axis: int, n: int, item: Any) -> None:
        indices = np.asarray(item)
        if indices.dtype.kind not in "iu" or not indices.size:
            raise ArgumentError(f"[]: {_arguments.shown(item)} is no list or array of whole numbers")
        if self.indices is not None:
            raise ArgumentError("[]: one list or array of indices is taken, not two")
        if indices.min() < -n or indices.max() >= n:
            raise ShapeError(f"[]: {_arguments.shown(item)} goes outside of dimension {axis} of size {n}")
        self.indices, self.indexed = np.require(indices, np.int64, "C"), axis
        self.shape += indices.shape

    def _cut(self, axis: int, start: int, end: int, step: int) -> None:
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)


def _whole(shape: tuple[int, ...], key: Any) -> list[Any]:
    """The key with an item for each dimension, and its None."""
    items = list(key) if isinstance(key, tuple) else [key]
    named = sum(item is not None and item is not ... for item in items)
    dots = [at for at, item in enumerate(items) if item is ...]
    if named > len(shape) or len(dots) > 1:
        raise ShapeError(f"[]: {_arguments.shown(key)} names more dimensions than {shape} has")
    rest: list[Any] = [slice(None)] * (len(shape) - named)
    at = dots[0] if dots else len(items)
    return items[:at] + rest + items[at + len(dots) :]


def _position(item: Any, axis: int, n: int) -> int:
    try:
        at = operator.index(item)
    except TypeError as error:
        raise ArgumentError(
            "[]: expected ints, slices, None, ... and one list or array of ints, got "
            f"{_arguments.shown(item)}; ops.where() and ops.gather() take values"
        ) from error
    if isinstance(item, (bool, np.bool_)) or not -n <= at < n:
        raise ShapeError(f"[]: {item} is outside of dimension {axis} of size {n}")
    return at % n
