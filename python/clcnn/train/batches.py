"""Batches: what is checked of them before anything is sent, and what their losses count for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clcnn import _arrays
from clcnn.errors import ArgumentError, DtypeError, ShapeError
from clcnn.nn.module import Module
from clcnn.tensor import Tensor

Batches = Iterable[tuple[ArrayLike, ArrayLike]]


def images(x: ArrayLike | Tensor) -> Any:
    """A batch as the net takes it: float32, a tensor as it is. Raises DtypeError, ShapeError."""
    if isinstance(x, Tensor) and x.dtype == "float32":
        return x
    array = _arrays.host_array(x, "x")
    if array.dtype.kind not in "fiub":
        raise DtypeError(f"x: expected an array of real numbers, got {array.dtype}")
    if array.ndim < 2 or not array.size:
        raise ShapeError(f"x {list(array.shape)}: expected a batch (N, C, spatial...) that is not empty")
    return np.require(array, np.float32, "C")


def target(y: ArrayLike, count: int, dtype: str) -> NDArray[Any]:
    """The targets of `count` samples as the loss takes them. Raises DtypeError, ShapeError."""
    array = _arrays.host_array(y, "y")
    if array.ndim < 1 or len(array) != count:
        raise ShapeError(f"y {list(array.shape)}: expected one for each of the {count} samples")
    if dtype == "int64" and array.dtype.kind not in "iu":
        raise DtypeError(f"y: labels must be integers, got {array.dtype}")
    if array.dtype.kind not in "fiub":
        raise DtypeError(f"y: expected an array of real numbers, got {array.dtype}")
    return np.require(array, dtype, "C")


def check_labels(labels: NDArray[np.int64], classes: int, ignored: int | None) -> None:
    """Raises ArgumentError for a label that is no class and is not ignored."""
    wrong = (labels < 0) | (labels >= classes)
    if ignored is not None:
        wrong &= labels != ignored
    bad = np.argwhere(wrong)
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        where = f"sample {at[0]}" + (f" at {list(at[1:])}" if len(at) > 1 else "")
        raise ArgumentError(f"y: {where} has label {labels[at]}; there are {classes} classes, from 0 on")


def walk(data: Any, size: int) -> Batches:
    """The batches of a data set in its order, or what is batches already."""
    if hasattr(data, "batches"):
        found: Batches = data.batches(size, shuffle=False)
        return found
    return data  # type: ignore[no-any-return] # the caller's word


def counted(loss: Module, y: NDArray[Any]) -> float:
    """What the mean of a batch's losses divides by: its share of the mean over a data set."""
    count = getattr(loss, "counted", None)
    return float(count(y)) if count is not None else float(len(y))


def by_sample(
    result: NDArray[np.float32], labels: NDArray[np.int64], ignored: int | None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Results (N, C, ...) and labels (N, ...) as rows (M, C) and (M,), without the labels that are
    ignored."""
    rows = np.moveaxis(result, 1, -1).reshape(-1, result.shape[1])
    flat = labels.reshape(-1)
    if ignored is None:
        return rows, flat
    kept = flat != ignored
    return rows[kept], flat[kept]
