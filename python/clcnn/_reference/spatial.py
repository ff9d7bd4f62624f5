"""Arithmetic on spatial dimensions shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np


def per_dim(values: Sequence[int], n: int, what: str) -> tuple[int, ...]:
    """One value a spatial dimension: `values` has one entry for all `n` of them, or `n` entries."""
    if len(values) == 1:
        return tuple(values) * n
    if len(values) != n:
        raise ValueError(f"{what} has {len(values)} values, expected 1 or {n}")
    return tuple(values)


def begins_ends(padding: Sequence[int], n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each of `n` dimensions: `padding` has 1 or n (symmetric) or 2n values
    (all begins, then all ends)."""
    if len(padding) == 2 * n:
        return tuple(padding[:n]), tuple(padding[n:])
    both = per_dim(padding, n, "padding")
    return both, both


def window_count(size: int, kernel: int, stride: int, begin: int, end: int, dilation: int) -> int:
    """Number of windows that fit into a padded dimension (floor mode)."""
    count = (size + begin + end - dilation * (kernel - 1) - 1) // stride + 1
    if count < 1:
        raise ValueError(f"kernel {kernel} with dilation {dilation} does not fit into {size}+{begin}+{end}")
    return count


def padded(x: np.ndarray, before: Sequence[int], after: Sequence[int], value: float) -> np.ndarray:
    """`x` with its spatial dimensions (2 and up) extended by `value`."""
    return np.pad(x, [(0, 0), (0, 0), *zip(before, after)], constant_values=value)


def taps(
    x: np.ndarray, kernel: Sequence[int], out: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """For every kernel position: its index and the view of padded `x` that it meets, of spatial shape
    `out`."""
    for tap in product(*map(range, kernel)):
        first = [t * d for t, d in zip(tap, dilation)]
        yield (
            tap,
            x[
                (
                    slice(None),
                    slice(None),
                    *(slice(f, f + (o - 1) * s + 1, s) for f, o, s in zip(first, out, stride)),
                )
            ],
        )
