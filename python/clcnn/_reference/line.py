"""Operators that look at the elements along one dimension in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clcnn._reference.spec import EXACT, FP32, Spec, Use


def _arg(find: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def arg(x: np.ndarray, *, dim: int = 0, keepdims: int = 1, select_last_index: int = 0) -> np.ndarray:
        if not select_last_index:
            return find(x, axis=dim, keepdims=bool(keepdims))
        return x.shape[dim] - 1 - find(np.flip(x, dim), axis=dim, keepdims=bool(keepdims))

    return arg


argmax, argmin = _arg(np.argmax), _arg(np.argmin)


def cumsum(x: np.ndarray, *, dim: int = 0, exclusive: int = 0, reverse: int = 0) -> np.ndarray:
    turned = np.flip(x, dim) if reverse else x
    sums = np.cumsum(turned, axis=dim, dtype=x.dtype)
    if exclusive:
        sums = np.roll(sums, 1, axis=dim)
        sums[tuple(0 if d == dim % x.ndim else slice(None) for d in range(x.ndim))] = 0
    return np.flip(sums, dim).copy() if reverse else sums


def topk(x: np.ndarray, *, k: int, dim: int = -1, largest: int = 1, sorted: int = 1) -> list[np.ndarray]:
    """In order, whatever `sorted`; equals by index; NaN is above all numbers."""
    del sorted
    if largest:  # a stable sort of what is turned round, from its end
        order = x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    else:
        order = np.argsort(x, axis=dim, kind="stable")
    order = np.take(order, np.arange(k), dim)
    return [np.take_along_axis(x, order, dim), order]


SPECS: dict[str, Spec] = {
    "argmax": Spec(argmax, EXACT, (Use(((4, 30),), {"dim": 1}),)),
    "argmin": Spec(argmin, EXACT, (Use(((4, 30),), {"keepdims": False}),)),
    "cumsum": Spec(cumsum, FP32, (Use(((4, 30),), {"dim": 1}),), whole=True, domain=lambda x, first: x + 0.5),
    "topk": Spec(topk, EXACT, (Use(((4, 30),), {"k": 3}),)),
}
