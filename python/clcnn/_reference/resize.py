"""Resampling of the spatial dimensions (ONNX Resize; torch.nn.functional.interpolate is a subset of it)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from clcnn._reference.spec import FP32, MAP, Spec, Use

# Input coordinate of output index i; `scale` is output over input as (numerator, denominator), so that with a
# given size i * in / out is rounded once and whole numbers come out whole.
_COORDINATES: dict[str, Callable[..., np.ndarray]] = {
    "half_pixel": lambda i, size, out, num, den: (i + 0.5) * den / num - 0.5,
    "pytorch_half_pixel": lambda i, size, out, num, den: (i + 0.5) * den / num - 0.5 if out > 1 else i * 0.0,
    "asymmetric": lambda i, size, out, num, den: i * den / num,
    "align_corners": lambda i, size, out, num, den: i * (size - 1) / (out - 1) if out > 1 else i * 0.0,
    "half_pixel_symmetric": lambda i, size, out, num, den: (
        size / 2 * (1 - out * den / (num * size)) + (i + 0.5) * den / num - 0.5
    ),
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


def _kernel(mode: str, slope: float) -> Callable[[np.ndarray], np.ndarray]:
    """Weights by the distance to the coordinate: the triangle, or the cubic of Keys."""
    if mode == "linear":
        return lambda u: np.maximum(1.0 - u, 0.0)

    def cubic(u: np.ndarray) -> np.ndarray:
        near = ((slope + 2.0) * u - (slope + 3.0)) * u**2 + 1.0
        far = slope * (u**3 - 5.0 * u**2 + 8.0 * u - 4.0)
        return np.where(u <= 1.0, near, np.where(u < 2.0, far, 0.0))

    return cubic


def _blend(
    x: np.ndarray, axis: int, at: np.ndarray, stretch: float, kernel: Callable[..., np.ndarray], exclude: int
) -> np.ndarray:
    """A matrix of weights along one dimension; an index outside goes to the edge, or is left out."""
    size = x.shape[axis]
    reach = math.ceil(2.0 / stretch) + 1
    k = np.floor(at).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
    weights = kernel(np.abs(k - at[:, None]) * stretch)
    if exclude:
        weights = np.where((k >= 0) & (k < size), weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((len(at), size))
    np.add.at(matrix, (np.arange(len(at))[:, None], np.clip(k, 0, size - 1)), weights)
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def resize(
    x: np.ndarray,
    *,
    size: Sequence[int] = (),
    scales: Sequence[float] = (),
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    nearest_rounding: str = "floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    antialias: int = 0,
    extrapolation_value: float = 0.0,
    roi: Sequence[float] = (),
) -> np.ndarray:
    """x[N,C,*spatial] to `size`, or to floor(in * scale) when only `scales` are given. Coordinates use the
    scales when given and out / in otherwise; outside the input the edge is repeated. One value serves all
    dimensions. With tf_crop_and_resize what lies outside is `extrapolation_value`."""
    n = x.ndim - 2
    if not size and not scales:
        raise ValueError("resize needs size or scales")
    factors = tuple(scales) * (n if len(scales) == 1 else 1)
    if not size:
        size = [math.floor(i * f) for i, f in zip(x.shape[2:], factors)]
    elif len(size) == 1:
        size = tuple(size) * n
    outside = np.zeros(tuple(size), bool)
    for axis, out in enumerate(size, start=2):
        inside = x.shape[axis]
        scale = (factors[axis - 2], 1.0) if factors else (out, inside)
        i = np.arange(out, dtype=np.float64)
        if coordinates == "tf_crop_and_resize":
            start, end = roi[axis - 2], roi[n + axis - 2]
            at = start + i * (end - start) / (out - 1) if out > 1 else np.full(1, 0.5 * (start + end))
            at = at * (inside - 1)
            halves = np.rint(2.0 * at) / 2.0  # what is meant to fall on them misses by a rounding
            at = np.where(np.abs(at - halves) < 1e-9, halves, at)
            beyond = (at < 0) | (at > inside - 1)
            outside |= beyond.reshape(-1, *[1] * (n + 1 - axis))
        else:
            at = _COORDINATES[coordinates](i, inside, out, *scale)
        if mode == "nearest":
            x = _nearest(x, axis, at, nearest_rounding)
        else:
            stretch = min(scale[0] / scale[1], 1.0) if antialias else 1.0
            at = at if mode == "cubic" or antialias else np.clip(at, 0.0, inside - 1)
            x = _blend(x, axis, at, stretch, _kernel(mode, cubic_coeff_a), exclude_outside)
    if mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"mode={mode!r} is neither 'nearest' nor 'linear' nor 'cubic'")
    return np.where(outside, extrapolation_value, x)


SPECS: dict[str, Spec] = {
    "resize": Spec(
        resize,
        FP32,
        (
            Use((MAP,), {"scales": (2.0, 3.0), "coordinates": "asymmetric"}, whole=True),
            Use(((1, 2, 3, 4),), {"scales": (1.0, 2.0), "mode": "cubic"}),
        ),
    ),
}
