"""Pooling as PyTorch defines it, with asymmetric padding and dilated averages as ONNX adds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .spatial import begins_ends, padded, per_dim, taps


class _Geometry(NamedTuple):
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]
    overhang: tuple[int, ...]


def _output_size(size: int, kernel: int, stride: int, begin: int, end: int, dilation: int, ceil: int) -> int:
    """Number of windows; with `ceil` a partial last one counts if it starts inside the input or the padding
    before it."""
    span = size + begin + end - dilation * (kernel - 1) - 1
    count = (span + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    if count < 1:
        raise ValueError(f"kernel {kernel} with dilation {dilation} does not fit into {size}+{begin}+{end}")
    return count


def _geometry(
    spatial: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: int,
) -> _Geometry:
    n = len(spatial)
    kernel = per_dim(kernel_size, n, "kernel_size")
    strides = per_dim(stride, n, "stride") if stride else kernel
    dilations = per_dim(dilation, n, "dilation")
    begin, end = begins_ends(padding, n)
    out = tuple(map(_output_size, spatial, kernel, strides, begin, end, dilations, [ceil_mode] * n))
    overhang = tuple(
        max(0, (o - 1) * s + d * (k - 1) + 1 - (size + b + e))
        for o, s, d, k, size, b, e in zip(out, strides, dilations, kernel, spatial, begin, end)
    )
    return _Geometry(kernel, strides, begin, end, dilations, out, overhang)


def _windows(x: np.ndarray, geometry: _Geometry, value: float) -> list[np.ndarray]:
    """The view of every kernel tap over `x`, with padding and overhang filled by `value`."""
    after = [e + o for e, o in zip(geometry.end, geometry.overhang)]
    wide = padded(x, geometry.begin, after, value)
    return [part for _, part in taps(wide, geometry.kernel, geometry.out, geometry.stride, geometry.dilation)]


def max_pool(
    x: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: int,
) -> np.ndarray:
    """Maximum of each window; padding never wins, NaN always does."""
    geometry = _geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    return reduce(np.maximum, _windows(x, geometry, -np.inf)).copy()


def avg_pool(
    x: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: int,
    count_include_pad: int,
) -> np.ndarray:
    """Mean of each window over its positions in the input (and, with `count_include_pad`, in the padding);
    the overhang of ceil mode is never counted."""
    spatial = x.shape[2:]
    geometry = _geometry(spatial, kernel_size, stride, padding, dilation, ceil_mode)
    counts = np.ones(())
    for i, size in enumerate(spatial):
        first = np.arange(geometry.out[i]) * geometry.stride[i] - geometry.begin[i]
        position = first[:, None] + np.arange(geometry.kernel[i]) * geometry.dilation[i]
        low, high = (-geometry.begin[i], size + geometry.end[i]) if count_include_pad else (0, size)
        counts = np.multiply.outer(counts, ((position >= low) & (position < high)).sum(axis=1))
    return sum(_windows(x, geometry, 0.0)) / counts


def _adaptive(x: np.ndarray, output_size: Sequence[int], combine: Callable[..., np.ndarray]) -> np.ndarray:
    """Bin i of a dimension covers floor(i*in/out) up to ceil((i+1)*in/out), so that bins may overlap."""
    spatial = x.shape[2:]
    sizes = per_dim(output_size, len(spatial), "output_size")
    out = np.empty((*x.shape[:2], *sizes))
    for index in product(*map(range, sizes)):
        bins = (slice(i * n // o, -(-(i + 1) * n // o)) for i, n, o in zip(index, spatial, sizes))
        out[(slice(None), slice(None), *index)] = combine(
            x[(slice(None), slice(None), *bins)], axis=tuple(range(2, x.ndim))
        )
    return out


def adaptive_avg_pool(x: np.ndarray, *, output_size: Sequence[int]) -> np.ndarray:
    """Mean over torch's adaptive bins; size 1 is global pooling."""
    return _adaptive(x, output_size, np.mean)


def adaptive_max_pool(x: np.ndarray, *, output_size: Sequence[int]) -> np.ndarray:
    """Maximum over torch's adaptive bins."""
    return _adaptive(x, output_size, np.max)


def lp_pool(x: np.ndarray, *, p: int, **geometry: Any) -> np.ndarray:
    """The p-th root of the sum of |x| ** p over each window; padding adds nothing."""
    windows = _windows(x, _geometry(x.shape[2:], **geometry), 0.0)
    return sum(np.abs(w) ** p for w in windows) ** (1.0 / p)


def max_pool_indices(x: np.ndarray, *, storage_order: int, **geometry: Any) -> list[np.ndarray]:
    """Maxima and their places in all of x, the first one of equals; NaN wins. storage_order 1: the spatial
    dimensions of a place count in column-major order."""
    order = "F" if storage_order else "C"
    places = np.arange(x[0, 0].size).reshape(x.shape[2:], order=order)
    places = (
        places + np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * places.ndim) * places.size
    )
    shape = _geometry(x.shape[2:], **geometry)
    values = np.stack(_windows(x, shape, -np.inf))
    inside = np.stack(_windows(np.ones_like(x), shape, 0.0)) > 0.0
    rank = np.where(np.isnan(values), np.inf, values)  # no infinity where a case has NaN
    best = np.argmax(np.where(inside, rank, -np.inf), axis=0)[None]
    found = np.stack(_windows(places.astype(np.float64), shape, -1.0)).astype(np.int64)
    return [np.take_along_axis(values, best, 0)[0], np.take_along_axis(found, best, 0)[0]]


def max_unpool(x: np.ndarray, indices: np.ndarray, *, output_size: Sequence[int]) -> np.ndarray:
    """Zeros, with x at the places that indices give in the whole output."""
    out = np.zeros((*x.shape[:2], *per_dim(output_size, x.ndim - 2, "output_size")))
    out.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    return out
