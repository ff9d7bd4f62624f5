"""Pooling as PyTorch defines it, with asymmetric padding and dilated averages as ONNX adds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np

from clcnn._reference.spatial import begins_ends, padded, per_dim, taps
from clcnn._reference.spec import EXACT, FP32, MAP, Shape, Spec, Use


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
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: int = 0,
) -> np.ndarray:
    """Maximum of each window; padding never wins, NaN always does."""
    geometry = _geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    return reduce(np.maximum, _windows(x, geometry, -np.inf)).copy()


def avg_pool(
    x: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: int = 0,
    count_include_pad: int = 1,
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
    for index in np.ndindex(*sizes):
        bins = (slice(i * n // o, -(-(i + 1) * n // o)) for i, n, o in zip(index, spatial, sizes))
        of_all: Any = (slice(None), slice(None), *bins)
        part = x[of_all]
        out[(slice(None), slice(None), *index)] = combine(part, axis=tuple(range(2, x.ndim)))
    return out


def adaptive_avg_pool(x: np.ndarray, *, output_size: Sequence[int]) -> np.ndarray:
    """Mean over torch's adaptive bins; size 1 is global pooling."""
    return _adaptive(x, output_size, np.mean)


def adaptive_max_pool(x: np.ndarray, *, output_size: Sequence[int]) -> np.ndarray:
    """Maximum over torch's adaptive bins."""
    return _adaptive(x, output_size, np.max)


def lp_pool(
    x: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: int = 0,
    p: int = 2,
) -> np.ndarray:
    """The p-th root of the sum of |x| ** p over each window; padding adds nothing."""
    geometry = _geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    return sum(np.abs(w) ** p for w in _windows(x, geometry, 0.0)) ** (1.0 / p)


def max_pool_indices(
    x: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> list[np.ndarray]:
    """Maxima and their places in all of x, the first one of equals; NaN wins. storage_order 1: the spatial
    dimensions of a place count in column-major order."""
    order: Literal["F", "C"] = "F" if storage_order else "C"
    places = np.arange(x[0, 0].size).reshape(x.shape[2:], order=order)
    places = (
        places + np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * places.ndim) * places.size
    )
    shape = _geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    values = np.stack(_windows(x, shape, -np.inf))
    inside = np.stack(_windows(np.ones_like(x), shape, 0.0)) > 0.0
    rank = np.where(np.isnan(values), np.inf, values)  # no infinity where a case has NaN
    best = np.argmax(np.where(inside, rank, -np.inf), axis=0)[None]
    found = np.stack(_windows(places.astype(np.float64), shape, -1.0)).astype(np.int64)
    return [np.take_along_axis(values, best, 0)[0], np.take_along_axis(found, best, 0)[0]]


def max_pool_grad(
    x: np.ndarray,
    dy: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: int = 0,
    rectified: int = 0,
) -> np.ndarray:
    """Each window's element of dy goes to where max_pool_indices finds its maximum, unless it is `rectified`
    and the maximum is not positive."""
    y, places = max_pool_indices(
        x,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
    )
    given = np.where(y > 0.0, dy, 0.0) if rectified else dy
    return np.bincount(places.reshape(-1), given.reshape(-1), x.size).reshape(x.shape)


def max_unpool(x: np.ndarray, indices: np.ndarray, *, output_size: Sequence[int]) -> np.ndarray:
    """Zeros, with x at the places that indices give in the whole output."""
    out = np.zeros((*x.shape[:2], *per_dim(output_size, x.ndim - 2, "output_size")))
    out.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    return out


def _places(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> np.ndarray:
    """Each value has a place of its own in the output of max_unpool."""
    sizes = attrs["output_size"]
    sizes = per_dim(sizes if hasattr(sizes, "__iter__") else (sizes,), len(shape) - 2, "output_size")
    return rng.permutation(math.prod(sizes) * math.prod(shape[:2]))[: math.prod(shape)].reshape(shape)


_TILES = {"kernel_size": 2, "stride": 2}
_WINDOWS = (Use(((2, 5, 6, 8),), _TILES), Use(((1, 3, 9, 8),), {"kernel_size": 3, "stride": 2, "padding": 1}))

SPECS: dict[str, Spec] = {
    "max_pool": Spec(max_pool, EXACT, _WINDOWS),
    "avg_pool": Spec(avg_pool, FP32, (Use(((2, 5, 6, 8),), _TILES, whole=True), *_WINDOWS[1:])),
    "adaptive_avg_pool": Spec(
        adaptive_avg_pool,
        FP32,
        (
            Use(((2, 5, 6, 8),), {"output_size": (3, 4)}, whole=True),
            Use(((2, 5, 8, 4),), {"output_size": 1}, whole=True),
        ),
    ),
    "adaptive_max_pool": Spec(
        adaptive_max_pool,
        EXACT,
        (Use(((2, 5, 6, 8),), {"output_size": (3, 4)}), Use((MAP,), {"output_size": 1})),
    ),
    "lp_pool": Spec(lp_pool, FP32, (Use(((2, 3, 4, 8),), _TILES),)),
    "max_pool_indices": Spec(max_pool_indices, EXACT, (Use(((2, 3, 4, 8),), _TILES),)),
    "max_pool_grad": Spec(
        max_pool_grad,
        FP32,
        (
            Use(((2, 5, 6, 8), (2, 5, 3, 4)), _TILES, fed=2),
            Use(((1, 3, 9, 8), (1, 3, 5, 4)), {"kernel_size": 3, "stride": 2, "padding": 1}, fed=2),
        ),
        whole=True,
        zeros=True,
    ),
    "max_unpool": Spec(
        max_unpool,
        EXACT,
        (Use(((2, 3, 4), (2, 3, 4)), {"output_size": 8}, fed=2, dtypes=("float32", "int64")),),
        inputs={1: _places},
        zeros=True,
    ),
}
