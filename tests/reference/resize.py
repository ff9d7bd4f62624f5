"""Resampling of the spatial dimensions (ONNX Resize; torch.nn.functional.interpolate is a subset of it)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

# Input coordinate of output index i; `scale` is output over input as (numerator, denominator), so that with a
# given size i * in / out is rounded once and whole numbers come out whole.
_COORDINATES: dict[str, Callable[..., np.ndarray]] = {
    "half_pixel": lambda i, size, out, num, den: (i + 0.5) * den / num - 0.5,
    "pytorch_half_pixel": lambda i, size, out, num, den: (i + 0.5) * den / num - 0.5 if out > 1 else i * 0.0,
    "asymmetric": lambda i, size, out, num, den: i * den / num,
    "align_corners": lambda i, size, out, num, den: i * (size - 1) / (out - 1) if out > 1 else i * 0.0,
}

_ROUNDING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


def _nearest(x: np.ndarray, axis: int, at: np.ndarray, rounding: str) -> np.ndarray:
    index = np.clip(_ROUNDING[rounding](at), 0, x.shape[axis] - 1).astype(np.int64)
    return x.take(index, axis=axis)


def _linear(x: np.ndarray, axis: int, at: np.ndarray) -> np.ndarray:
    last = x.shape[axis] - 1
    at = np.clip(at, 0.0, last)
    low = np.minimum(np.floor(at).astype(np.int64), last)
    part = (at - low).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return x.take(low, axis=axis) * (1.0 - part) + x.take(np.minimum(low + 1, last), axis=axis) * part


def resize(
    x: np.ndarray,
    *,
    size: Sequence[int],
    scales: Sequence[float],
    mode: str,
    coordinates: str,
    nearest_rounding: str,
) -> np.ndarray:
    """x[N,C,*spatial] to `size`, or to floor(in * scale) when only `scales` are given. Coordinates use the
    scales when given and out / in otherwise; outside the input the edge is repeated. One value serves all
    dimensions."""
    n = x.ndim - 2
    if not size and not scales:
        raise ValueError("resize needs size or scales")
    factors = tuple(scales) * (n if len(scales) == 1 else 1)
    if not size:
        size = [math.floor(i * f) for i, f in zip(x.shape[2:], factors)]
    elif len(size) == 1:
        size = tuple(size) * n
    for axis, out in enumerate(size, start=2):
        inside = x.shape[axis]
        scale = (factors[axis - 2], 1.0) if factors else (out, inside)
        at = _COORDINATES[coordinates](np.arange(out, dtype=np.float64), inside, out, *scale)
        x = _nearest(x, axis, at, nearest_rounding) if mode == "nearest" else _linear(x, axis, at)
    if mode not in ("nearest", "linear"):
        raise ValueError(f"mode={mode!r} is neither 'nearest' nor 'linear'")
    return x
