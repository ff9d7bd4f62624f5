"""Softmax, reductions and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def log_softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    shifted = x - x.max(axis=dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))


def _reduction(combine: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Reduction over `axes` (none given: all of them)."""

    def reduction(x: np.ndarray, *, axes: Sequence[int], keepdims: int) -> np.ndarray:
        y = combine(x, axis=tuple(axes) or None, keepdims=bool(keepdims))
        return np.asarray(y, dtype=x.dtype)

    return reduction


REDUCTIONS = {
    "reduce_sum": _reduction(np.sum),
    "reduce_mean": _reduction(np.mean),
    "reduce_prod": _reduction(np.prod),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
}


def batch_norm(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    running_mean: np.ndarray,
    running_var: np.ndarray,
    *,
    eps: float,
) -> np.ndarray:
    """Inference form: running statistics normalise each channel (dimension 1)."""
    shape = (-1, *[1] * (x.ndim - 2))
    scale = weight / np.sqrt(running_var + eps)
    return (x - running_mean.reshape(shape)) * scale.reshape(shape) + bias.reshape(shape)


def local_response_norm(x: np.ndarray, *, size: int, alpha: float, beta: float, k: float) -> np.ndarray:
    """torch's definition: the mean square over channels c - size//2 ... c + (size-1)//2, absent ones as
    zero."""
    pads = [(0, 0)] * x.ndim
    pads[1] = (size // 2, (size - 1) // 2)
    squares = np.pad(x * x, pads)
    mean = sum(squares[:, i : i + x.shape[1]] for i in range(size)) / size
    return x / (k + alpha * mean) ** beta


def _rows_norm(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    mean = x.mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)


def group_norm(
    x: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    groups: int,
    eps: float,
) -> np.ndarray:
    """Each of `groups` runs of channels by its own mean and variance."""
    parts = x.reshape(x.shape[0], groups, -1)
    y = _rows_norm(parts, (2,), eps).reshape(x.shape)
    shape = (-1, *[1] * (x.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def instance_norm(x: np.ndarray, *parameters: np.ndarray | None, eps: float) -> np.ndarray:
    """group_norm with a group for each channel."""
    return group_norm(x, *parameters, groups=x.shape[1], eps=eps)


def layer_norm(
    x: np.ndarray, weight: np.ndarray | None = None, bias: np.ndarray | None = None, *, dim: int, eps: float
) -> np.ndarray:
    """By mean and variance over dimensions `dim` and up."""
    y = _rows_norm(x, tuple(range(dim % x.ndim, x.ndim)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias
