"""Problems of the self-test, continued: the operators that ONNX models ask for besides those of networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clcnn._problems import MAP, Array, Problem

SHAPE = MAP[0]

# Element-wise: operator -> definition.
REAL: dict[str, Callable[[Array], Any]] = {
    "selu": lambda x: 1.0507009873554805 * np.where(x >= 0, x, 1.6732632423543772 * np.expm1(x)),
    "celu": lambda x: np.where(x >= 0, x, np.expm1(x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "reciprocal": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
}
# Those of a part of the line: the definition, and the ends of that part.
BOUNDED: dict[str, tuple[Callable[[Array], Any], float, float]] = {
    "tan": (np.tan, -1.5, 1.5),
    "asin": (np.arcsin, -0.9, 0.9),
    "acos": (np.arccos, -0.9, 0.9),
    "acosh": (np.arccosh, 1.5, 9.0),
    "atanh": (np.arctanh, -0.9, 0.9),
}
WHOLE: dict[str, Callable[[Array], Any]] = {
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "thresholded_relu": lambda x: np.where(x > 1, x, 0),
    "cast": lambda x: x,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
}
COMPARISONS: dict[str, Callable[[Array, Array], Any]] = {
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
LOGIC: dict[str, Callable[[Array, Array], Any]] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def elementwise() -> list[Problem]:
    found = [Problem(op, MAP, want, real=True) for op, want in REAL.items()]
    for op, (want, low, high) in BOUNDED.items():
        found.append(
            Problem(op, MAP, want, real=True, draw=lambda rng, i, a=low, b=high: rng.uniform(a, b, SHAPE))
        )
    found += [Problem(op, MAP, want) for op, want in WHOLE.items()]
    found.append(Problem("mod", MAP * 2, np.mod, fed=2, positive=True, real=True))
    found.append(Problem("add", MAP * 2, np.add, fed=2, dtypes=("int64", "int64")))
    found += [Problem(op, MAP * 2, want, fed=2) for op, want in COMPARISONS.items()]
    found += [Problem(op, MAP * 2, want, fed=2, dtypes=("bool", "bool")) for op, want in LOGIC.items()]
    found.append(Problem("logical_not", MAP, np.logical_not, dtypes=("bool",)))
    return found


def choices() -> list[Problem]:
    def nd(x: Array, i: Array) -> Array:
        return np.asarray(x[i[..., 0], i[..., 1]])

    def elements(x: Array, i: Array) -> Array:
        return np.take_along_axis(x, i % 5, 0)

    mirror = {"pads": (0, 1, 3, 0, 2, 1), "mode": "reflect"}
    return [
        Problem("where", (SHAPE, SHAPE, (9,)), np.where, fed=3, dtypes=("bool",)),
        Problem("gather", ((5, 6), (3, 2)), lambda x, i: np.take(x, i, 0), fed=2, dtypes=("float32", "int64")),
        Problem("gather_elements", ((5, 6), (2, 6)), elements, fed=2, dtypes=("float32", "int64")),
        Problem("gather_nd", ((5, 6, 3), (4, 2)), nd, fed=2, dtypes=("float32", "int64")),
        Problem("pad", ((2, 3, 4),), lambda x: np.pad(x, [(0, 0), (1, 2), (3, 1)], "reflect"), mirror),
    ]


def onnx_problems() -> list[Problem]:
    """Every operator that is not in `_problems`, on small shapes."""
    return [*elementwise(), *choices()]
