"""Checks that layers share: numbers or tuples of them, with errors that name the layer."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from clcnn.errors import ArgumentError

Ints = int | Sequence[int]


def ntuple(owner: str, name: str, value: Any, n: int, minimum: int) -> tuple[int, ...]:
    """`value` for each of n spatial dimensions."""
    values = (value,) * n if isinstance(value, numbers.Integral) else value
    if (
        not isinstance(values, Sequence)
        or isinstance(values, str)
        or not all(isinstance(v, numbers.Integral) for v in values)
    ):
        raise ArgumentError(f"{owner}: {name}={value!r} must be an int or {n} ints")
    if len(values) != n:
        raise ArgumentError(f"{owner}: {name}={value!r} has {len(values)} entries, expected {n}")
    if any(v < minimum for v in values):
        raise ArgumentError(f"{owner}: {name}={value!r}: every entry must be at least {minimum}")
    return tuple(int(v) for v in values)


def positive(owner: str, name: str, value: Any) -> int:
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ArgumentError(f"{owner}: {name}={value!r} must be an int of at least 1")
    return int(value)
