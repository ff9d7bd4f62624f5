"""Data to try an operator with, as its row asks for: for the tests' cases and for the self-test."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clcnn._reference import SPECS
from clcnn._reference.spec import Array, Spec


@dataclass(frozen=True)
class Input:
    """A tensor that an operator is given: a graph input, or a constant (weights, bias, statistics). `role`
    picks its data: "x", "weight", "bias" or "positive"; `fan_in` is what weights are scaled by; `dtype` is
    float32, int64, int32 or bool."""

    name: str
    shape: tuple[int, ...]
    constant: bool = False
    role: str = "x"
    fan_in: int = 1
    dtype: str = "float32"


# Another range of data for an input, None where the usual one will do.
Values = Callable[[np.random.Generator, Input], Array | None]


def _normals(rng: np.random.Generator, spec: Spec, given: Input, first: bool) -> Array:
    x = rng.standard_normal(given.shape)
    if given.role == "positive":
        return np.asarray(np.abs(x) + 0.5)
    if given.role == "weight":
        return np.asarray(x * math.sqrt(2.0 / given.fan_in))
    if given.role == "bias":
        return np.asarray(0.5 * x)
    return spec.domain(np.asarray(x), first) if spec.domain else np.asarray(x)


def _whole(rng: np.random.Generator, given: Input, unit: int) -> Array:
    if given.role == "positive":
        return rng.integers(1, 5, given.shape)
    if given.role == "weight":
        return unit * rng.choice([-2, -1, 1, 2], given.shape)
    few = math.prod(given.shape) < 8  # where a zero could be all there is
    return rng.choice([-3, -2, -1, 1, 2, 3] if few else np.arange(-3, 4), given.shape)


def _numbers(rng: np.random.Generator, spec: Spec, given: Input, first: bool, kind: str) -> Array:
    if given.dtype == "bool":
        return np.asarray(rng.random(given.shape) < 0.8)
    if given.dtype != "float32":
        return rng.integers(-9, 10, given.shape)
    if kind == "normal":
        return _normals(rng, spec, given, first)
    if kind in ("integer", "integer4"):
        return _whole(rng, given, 4 if kind == "integer4" else 1)
    raise ValueError(f"unknown kind of data {kind!r}")


def draw(
    kind: str,
    op: str,
    inputs: Sequence[Input],
    text: str,
    attrs: Mapping[str, Any],
    values: Values | None = None,
) -> list[Array]:
    """Array for every input; the generator is seeded by `kind` and `text`.

    "normal": normal numbers, in the operator's domain. "integer": small whole numbers, so that every sum
    stays below 2**24; "integer4": the same with weights that are multiples of 4, which the transforms of
    Winograd F(2x2) keep whole. Raises ValueError for another kind.
    """
    rng = np.random.default_rng(zlib.crc32(f"{kind} {text}".encode()))
    spec, arrays = SPECS[op], []
    for position, given in enumerate(inputs):
        array = None
        if position in spec.inputs:
            array = spec.inputs[position](rng, given.shape, inputs[0].shape, attrs)
        elif values:
            array = values(rng, given)
        if array is None:
            array = _numbers(rng, spec, given, position == 0, kind)
        arrays.append(np.asarray(array, dtype=given.dtype))
    return arrays
