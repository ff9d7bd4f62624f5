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


def between(low: float, high: float) -> Callable[[np.random.Generator, int], Array]:
    return lambda rng, i: rng.uniform(low, high, SHAPE)


def elementwise() -> list[Problem]:
    found = [Problem(op, MAP, want, real=True) for op, want in REAL.items()]
    for op, (want, low, high) in BOUNDED.items():
        found.append(Problem(op, MAP, want, real=True, draw=between(low, high)))
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
        Problem(
            "gather", ((5, 6), (3, 2)), lambda x, i: np.take(x, i, 0), fed=2, dtypes=("float32", "int64")
        ),
        Problem("gather_elements", ((5, 6), (2, 6)), elements, fed=2, dtypes=("float32", "int64")),
        Problem("gather_nd", ((5, 6, 3), (4, 2)), nd, fed=2, dtypes=("float32", "int64")),
        Problem("pad", ((2, 3, 4),), lambda x: np.pad(x, [(0, 0), (1, 2), (3, 1)], "reflect"), mirror),
    ]


def lines() -> list[Problem]:
    def topk(x: Array) -> list[Array]:
        order = np.argsort(-x, axis=1, kind="stable")[:, :3]
        return [np.take_along_axis(x, order, 1), order]

    return [
        Problem("argmax", ((4, 30),), lambda x: x.argmax(1, keepdims=True), {"dim": 1}),
        Problem("argmin", ((4, 30),), lambda x: x.argmin(0), {"keepdims": False}),
        Problem("cumsum", ((4, 30),), lambda x: np.cumsum(x, 1), {"dim": 1}),
        Problem("topk", ((4, 30),), topk, {"k": 3}),
        Problem("reduce_prod", ((4, 6),), lambda x: x.prod(1, keepdims=True), {"axes": 1}),
        Problem("reduce_max", ((4, 6),), lambda x: x.max(0, keepdims=True), {"axes": 0}, dtypes=("int64",)),
    ]


def rows(x: Array, axes: tuple[int, ...]) -> Array:
    spread = x.var(axis=axes, keepdims=True) + 1e-5
    return np.asarray((x - x.mean(axis=axes, keepdims=True)) / np.sqrt(spread))


def windows() -> list[Problem]:
    def grouped(x: Array) -> Array:
        return rows(x.reshape(2, 2, -1), (2,)).reshape(x.shape)

    def places(x: Array) -> list[Array]:
        parts = x.reshape(2, 3, 2, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(2, 3, 2, 4, 4)
        best = parts.argmax(-1)
        plane = np.arange(6).reshape(2, 3, 1, 1) * 32
        at = (2 * np.arange(2).reshape(2, 1) + best // 2) * 8 + 2 * np.arange(4) + best % 2
        return [parts.max(-1), plane + at]

    def unpooled(x: Array, indices: Array) -> Array:
        y = np.zeros((2, 3, 8))
        y.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
        return y

    def drawn(rng: np.random.Generator, i: int) -> Array | None:
        return rng.permutation(48)[:24].reshape(2, 3, 4) if i == 1 else None

    block = {"kernel_size": 2, "stride": 2}
    return [
        Problem(
            "lp_pool",
            ((2, 3, 4, 8),),
            lambda x: np.sqrt((x * x).reshape(2, 3, 2, 2, 4, 2).sum((3, 5))),
            block,
            real=True,
        ),
        Problem("max_pool_indices", ((2, 3, 4, 8),), places, block),
        Problem(
            "max_unpool",
            ((2, 3, 4), (2, 3, 4)),
            unpooled,
            {"output_size": 8},
            fed=2,
            dtypes=("float32", "int64"),
            draw=drawn,
        ),
        Problem("instance_norm", MAP, lambda x: rows(x, (2, 3)), real=True),
        Problem("group_norm", ((2, 6, 5),), grouped, {"groups": 2}, real=True),
        Problem("layer_norm", MAP, lambda x: rows(x, (2, 3)), {"dim": 2}, real=True),
        Problem("resize", ((1, 2, 3, 4),), cubic_doubled, {"scales": (1.0, 2.0), "mode": "cubic"}, real=True),
    ]


def cubic_doubled(x: Array) -> Array:
    """Twice as wide: the cubic of Keys at a quarter and three quarters between elements."""
    near = np.array([-27.0, 225.0, 67.0, -9.0]) / 256.0
    wide = np.pad(x, [(0, 0)] * 3 + [(2, 2)], "edge")
    left = sum(
        w * wide[..., k + 1 : k + 5] for k, w in enumerate(near)
    )  # a quarter to the right of an element
    right = sum(w * wide[..., k : k + 4] for k, w in enumerate(near[::-1]))
    y = np.empty((*x.shape[:3], 8))
    y[..., 0::2], y[..., 1::2] = right, left
    return y


def places() -> list[Problem]:
    def regions(rng: np.random.Generator, i: int) -> Array | None:
        if i == 1:
            return np.array([[0.0, 0.0, 3.0, 3.0], [2.0, 1.0, 5.0, 4.0]])
        return np.array([0, 1]) if i == 2 else None

    def rows5(rng: np.random.Generator, i: int) -> Array | None:
        return np.array([[0.0, 0.0, 0.0, 3.0, 3.0], [1.0, 2.0, 0.0, 5.0, 3.0]]) if i == 1 else None

    def pooled(x: Array, rois: Array) -> Array:
        parts = [x[0, :, 0:4, 0:4], x[1, :, 0:4, 2:6]]
        return np.stack([p.reshape(3, 2, 2, 2, 2).max((2, 4)) for p in parts])

    def aligned(x: Array, rois: Array, items: Array) -> Array:
        corners = [x[0, :, 0:4, 0:4], x[1, :, 1:5, 2:6]]
        blends = [(c[:, 1:, 1:] + c[:, 1:, :-1] + c[:, :-1, 1:] + c[:, :-1, :-1]) / 4 for c in corners]
        return np.stack(blends)

    def still(rng: np.random.Generator, i: int) -> Array | None:
        if i == 1:
            y, x = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(1, -1, 6), indexing="ij")
            return np.stack([x, y], -1)[None]
        return None

    def shifted(rng: np.random.Generator, i: int) -> Array | None:
        return np.ones((1, 18, 4, 5)) if i == 2 else None

    def moved(x: Array, w: Array, offset: Array) -> Array:
        wide = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)])
        taps = [(r, s) for r in range(3) for s in range(3)]
        return np.asarray(
            sum(
                np.einsum("nchw,kc->nkhw", wide[:, :, r + 1 : r + 5, s + 1 : s + 6], w[:, :, r, s])
                for r, s in taps
            )
        )

    def boxes(rng: np.random.Generator, i: int) -> Array:
        corners = [[0, 0, 2, 2], [0, 0, 2, 1.9], [4, 4, 6, 6], [0, 0.1, 2, 2]]
        return np.array([corners]) if i == 0 else np.array([[[0.9, 0.8, 0.3, 0.95]]])

    def kept(boxes: Array, scores: Array) -> list[Array]:
        return [np.array([[0, 0, 3], [0, 0, 2], [-1, -1, -1], [-1, -1, -1]]), np.array([2])]

    return [
        Problem(
            "grid_sample",
            ((1, 2, 5, 6), (1, 5, 6, 2)),
            lambda x, g: x[..., ::-1],
            {"align_corners": True},
            fed=2,
            real=True,
            draw=still,
        ),
        Problem("deform_conv", ((1, 2, 6, 7), (3, 2, 3, 3), (1, 18, 4, 5)), moved, fed=3, draw=shifted),
        Problem(
            "roi_align",
            ((2, 3, 6, 7), (2, 4), (2,)),
            aligned,
            {"output_size": 3, "sampling_ratio": 1, "coordinates": "output_half_pixel"},
            fed=3,
            real=True,
            dtypes=("float32", "float32", "int64"),
            draw=regions,
        ),
        Problem("max_roi_pool", ((2, 3, 6, 7), (2, 5)), pooled, {"output_size": 2}, fed=2, draw=rows5),
        Problem(
            "nms", ((1, 4, 4), (1, 1, 4)), kept, {"max_output": 4, "iou_threshold": 0.5}, fed=2, draw=boxes
        ),
    ]


def onnx_problems() -> list[Problem]:
    """Every operator that is not in `_problems`, on small shapes."""
    return [*elementwise(), *choices(), *lines(), *windows(), *places()]
