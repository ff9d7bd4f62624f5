"""Input data of the cases: which numbers an operator is tried with."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Input:
    """A tensor that a case is given: a graph input, or a constant (weights, bias, statistics). `role` picks
    its data: "x", "weight", "bias" or "positive"; `fan_in` is what weights are scaled by; `dtype` is float32,
    int64, int32 or bool."""

    name: str
    shape: tuple[int, ...]
    constant: bool = False
    role: str = "x"
    fan_in: int = 1
    dtype: str = "float32"


SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        6.0,
        7.5,
        1e-30,
        -1e-30,
        1e30,
        -1e30,
        20.0,
        -20.0,
        80.0,
        -80.0,
        100.0,
        -100.0,
    ]
)


def _special(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Each special value once where they fit exactly (a column and a row of them meet in all pairs), else
    drawn."""
    return SPECIAL.reshape(shape) if math.prod(shape) == SPECIAL.size else rng.choice(SPECIAL, shape)


# Ranges that `values=` picks in the text of a case, whatever the kind of data.
RANGES = {
    "special": _special,
    "large": lambda rng, shape: rng.uniform(-100.0, 100.0, shape),
    "nan": lambda rng, shape: np.where(rng.random(shape) < 0.1, np.nan, rng.standard_normal(shape)),
    "negative": lambda rng, shape: -np.abs(rng.standard_normal(shape)) - 1.0,
}

# What "normal" means where an operator is undefined or ill-conditioned on part of the line, or constant on
# most of it: from a normal number, and whether it is the first input.
_DOMAINS = {
    "equal": lambda x, first: np.round(x),
    "mod": lambda x, first: 3.0 * x if first else np.sign(x) * (np.abs(x) + 0.25),
    "reciprocal": lambda x, first: np.sign(x) * (np.abs(x) + 0.25),
    "asin": lambda x, first: np.tanh(x),
    "acos": lambda x, first: 0.9 * np.tanh(x),
    "atanh": lambda x, first: 0.9 * np.tanh(x),
    "acosh": lambda x, first: 1.5 + np.abs(x),
    "floor": lambda x, first: 5.0 * x,
    "ceil": lambda x, first: 5.0 * x,
    "round": lambda x, first: 5.0 * x,
    "cast": lambda x, first: 5.0 * x,
    "thresholded_relu": lambda x, first: x + 1.0,
    "log": lambda x, first: np.abs(x) * 3.0 + 0.01,
    "sqrt": lambda x, first: np.abs(x),
    "div": lambda x, first: x if first else np.sign(x) * (np.abs(x) + 0.25),
    "pow": lambda x, first: np.abs(x) + 0.1 if first else x,
    "reduce_sum": lambda x, first: x + 0.5,
    "reduce_prod": lambda x, first: 1.0 + 0.3 * np.tanh(x),
    "cumsum": lambda x, first: x + 0.5,
    "reduce_mean": lambda x, first: x + 0.5,
    "hard_swish": lambda x, first: 3.0 * x,
    "relu6": lambda x, first: 4.0 * x + 2.0,
    "hard_sigmoid": lambda x, first: 3.0 * x + 1.0,
    "conv": lambda x, first: np.maximum(x, 0.0) if first else x,
    "conv_transpose": lambda x, first: np.maximum(x, 0.0) if first else x,
    "separable": lambda x, first: np.maximum(x, 0.0) if first else x,
}


def _normals(rng: np.random.Generator, op: str, given: Input, first: bool) -> np.ndarray:
    x = rng.standard_normal(given.shape)
    if given.role == "positive":
        return np.abs(x) + 0.5
    if given.role == "weight":
        return x * math.sqrt(2.0 / given.fan_in)
    if given.role == "bias":
        return 0.5 * x
    return _DOMAINS[op](x, first) if op in _DOMAINS else x


def _integers(rng: np.random.Generator, op: str, given: Input, first: bool, unit: int) -> np.ndarray:
    if given.role == "positive" or (op in ("log", "pow", "sqrt") and first):
        return rng.integers(1, 5, given.shape)
    if given.role == "weight" or (op == "div" and not first):
        return unit * rng.choice([-2, -1, 1, 2], given.shape)
    few = math.prod(given.shape) < 8  # where a zero could be all there is
    return rng.choice([-3, -2, -1, 1, 2, 3] if few else np.arange(-3, 4), given.shape)


# Inputs that hold indices: operator and position -> the numbers of places that they choose from, for a shape
# of theirs (one number, or one for each entry of the last dimension), from the first input's shape and the
# attributes.
_PLACES: dict[tuple[str, int], Callable[..., Any]] = {
    ("gather", 1): lambda x, attrs: x[attrs.get("dim", 0)],
    ("gather_elements", 1): lambda x, attrs: x[attrs.get("dim", 0)],
    ("roi_align", 2): lambda x, attrs: x[0],
    ("gather_nd", 1): lambda x, attrs: x[attrs.get("batch_dims", 0) :],
}


def _typed(
    rng: np.random.Generator,
    op: str,
    position: int,
    inputs: Sequence[Input],
    values: str,
    attrs: dict[str, Any],
) -> np.ndarray:
    """Whole numbers and truth values. values: "large" for all that the type holds."""
    given = inputs[position]
    if given.dtype == "bool":
        return np.asarray(rng.random(given.shape) < (0.3 if op == "logical_not" else 0.8))
    if op == "max_unpool":  # each value has a place of its own
        size = attrs["output_size"]
        places = math.prod(size * (len(given.shape) - 2) if len(size) == 1 else size) * math.prod(
            given.shape[:2]
        )
        return rng.permutation(places)[: math.prod(given.shape)].reshape(given.shape)
    if (op, position) in _PLACES:
        places = np.asarray(_PLACES[op, position](inputs[0].shape, attrs))
        places = places[: given.shape[-1]] if places.ndim else places
        return rng.integers(0 if op == "roi_align" else -places, places, given.shape)
    if values == "large":
        limits = np.iinfo(given.dtype)
        return rng.integers(limits.min, limits.max, given.shape, endpoint=True)
    return rng.integers(-9, 10, given.shape)


# Inputs of numbers that mean places: operator and position -> from the generator, the shape wanted, and the
# first input's shape.
_COORDINATES: dict[tuple[str, int], Callable[..., np.ndarray]] = {
    ("grid_sample", 1): lambda rng, shape, x: rng.uniform(-1.3, 1.3, shape),
    ("deform_conv", 2): lambda rng, shape, x: rng.uniform(-1.5, 1.5, shape),
    ("roi_align", 1): lambda rng, shape, x: _regions(rng, shape[0], x),
    ("max_roi_pool", 1): lambda rng, shape, x: np.concatenate(
        [rng.integers(0, x[0], (shape[0], 1)), np.round(_regions(rng, shape[0], x))], axis=1
    ),
    ("nms", 0): lambda rng, shape, x: rng.uniform(0.0, 10.0, shape),
}


def _regions(rng: np.random.Generator, count: int, x: tuple[int, ...]) -> np.ndarray:
    """x1, y1, x2, y2 on a map [N,C,H,W], a little beyond it too."""
    sides = np.array([x[3], x[2]], np.float64)
    first = rng.uniform(-1.0, 0.6, (count, 2)) * sides * 0.7
    return np.concatenate([first, first + rng.uniform(0.3, 0.8, (count, 2)) * sides], axis=1)


def make_data(
    kind: str, op: str, values: str, inputs: Sequence[Input], text: str, attrs: dict[str, Any]
) -> list[np.ndarray]:
    """Array for every input; the generator is seeded by `kind` and `text`. For the kinds see `Case.data`;
    `values` other than "normal" is a name of RANGES."""
    rng = np.random.default_rng(zlib.crc32(f"{kind} {text}".encode()))
    arrays: list[np.ndarray] = []
    for position, given in enumerate(inputs):
        if given.dtype != "float32":
            array = _typed(rng, op, position, inputs, values, attrs)
        elif (op, position) in _COORDINATES:
            array = _COORDINATES[op, position](rng, given.shape, inputs[0].shape)
        elif values != "normal":
            array = RANGES[values](rng, given.shape)
        elif kind == "normal":
            array = _normals(rng, op, given, position == 0)
        elif kind in ("integer", "integer4"):
            array = _integers(rng, op, given, position == 0, 4 if kind == "integer4" else 1)
        else:
            raise ValueError(f"unknown kind of data {kind!r}")
        arrays.append(np.asarray(array, dtype=given.dtype))
    return arrays
