"""Operators that only move data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def concat(*inputs: np.ndarray, dim: int) -> np.ndarray:
    return np.concatenate(inputs, axis=dim)


def split(x: np.ndarray, *, sizes: Sequence[int], dim: int) -> list[np.ndarray]:
    if sum(sizes) != x.shape[dim]:
        raise ValueError(f"sizes {sizes} do not add up to dimension {dim} of {x.shape}")
    return [part.copy() for part in np.split(x, np.cumsum(sizes)[:-1], axis=dim)]


def slice_(
    x: np.ndarray, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> np.ndarray:
    """Python's slices along `axes` (default: the first ones): negative bounds count from the end, bounds
    outside are clamped, a negative step walks backwards (an end below -size reaches element 0)."""
    axes = tuple(axes) or tuple(range(len(starts)))
    steps = steps if len(steps) == len(starts) else tuple(steps) * len(starts)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)].copy()


def pad(x: np.ndarray, *, pads: Sequence[int], value: float, mode: str) -> np.ndarray:
    """numpy.pad before and after every dimension; a negative amount removes elements first."""
    if len(pads) != 2 * x.ndim:
        raise ValueError(f"pads has {len(pads)} values, expected {2 * x.ndim}")
    before, after = pads[: x.ndim], pads[x.ndim :]
    kept = x[tuple(slice(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, x.shape))]
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(kept, [(max(0, b), max(0, a)) for b, a in zip(before, after)], mode, **options)


def reshape(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """0 copies the input's dimension of that index, -1 is inferred."""
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)]).copy()


def flatten(x: np.ndarray, *, start_dim: int, end_dim: int) -> np.ndarray:
    if x.ndim == 0:
        return x.reshape(1).copy()
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :]).copy()


def transpose(x: np.ndarray, *, perm: Sequence[int]) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(perm)) if x.ndim else x.copy()


def squeeze(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
    return np.squeeze(x, tuple(axes) or None).copy()


def unsqueeze(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
    return np.expand_dims(x, tuple(axes)).copy()


def expand(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """Broadcast x and `shape` against each other, as ONNX Expand."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))).copy()


def where(cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(cond, a, b)


def gather(x: np.ndarray, indices: np.ndarray, *, dim: int) -> np.ndarray:
    return np.take(x, indices, dim)


def gather_elements(x: np.ndarray, indices: np.ndarray, *, dim: int) -> np.ndarray:
    kept = tuple(slice(None) if d == dim % x.ndim else slice(n) for d, n in enumerate(indices.shape))
    return np.take_along_axis(x[kept], indices, dim)


def gather_nd(x: np.ndarray, indices: np.ndarray, *, batch_dims: int) -> np.ndarray:
    """ONNX GatherND: the last dimension of indices holds places in the dimensions of x behind batch_dims."""
    prefix = indices.shape[:-1]
    out = np.empty((*prefix, *x.shape[batch_dims + indices.shape[-1] :]), x.dtype)
    for at in np.ndindex(*prefix):
        out[at] = x[at[:batch_dims] + tuple(indices[at])]
    return out
