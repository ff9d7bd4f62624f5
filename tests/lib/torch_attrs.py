"""How the translations to PyTorch read the attributes of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Shape = Sequence[int]
Function = Callable[..., Any]


class NoEquivalent(Exception):
    """PyTorch has no such operator, or not with these attributes."""


def list_of(values: Any) -> list[Any]:
    """An attribute of kind ints as a list, whether it was given as one number or several."""
    return list(values) if isinstance(values, (tuple, list)) else [values]


def spread(values: Any, n: int) -> list[int]:
    """One value for each of n dimensions."""
    values = list_of(values)
    return values * n if len(values) == 1 else values


def pads_of(padding: Any, n: int) -> tuple[list[int], list[int]]:
    """Begins and ends of 1, n or 2n values of padding."""
    values = list_of(padding)
    if len(values) == 2 * n:
        return values[:n], values[n:]
    return spread(values, n), spread(values, n)


def pad_order(begin: Shape, end: Shape) -> list[int]:
    """F.pad's order: the last dimension first, begin and end together."""
    return [p for pair in zip(reversed(begin), reversed(end)) for p in pair]


def axes_of(axes: Any, rank: int) -> list[int]:
    return [a % rank for a in list_of(axes)]
