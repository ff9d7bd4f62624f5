"""The problems of the self-test: every operator on small shapes, with its definition in NumPy float64.

These are few and quick, and come with the package; the project's own tests are far wider.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """One use of an operator.

    shapes: of its inputs, None where an optional one is absent; the first `fed` are given at run time, the
    others are constants. want: the definition, called with float64 inputs. real: normal numbers instead of
    small integers, with results that float32 may round; positive: only positive ones.
    dtypes: of the inputs where they are not
    float32; draw: makes input i, None for the usual numbers.
    """

    op: str
    shapes: tuple[tuple[int, ...] | None, ...]
    want: Callable[..., Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    fed: int = 1
    real: bool = False
    positive: bool = False
    dtypes: tuple[str, ...] = ()
    draw: Callable[[np.random.Generator, int], Array | None] | None = None

    def data(self, seed: int) -> list[Array | None]:
        """The inputs. Integers are small enough for every partial sum to be exact in float32."""
        rng = np.random.default_rng(seed)
        arrays: list[Array | None] = []
        for i, shape in enumerate(self.shapes):
            if shape is None:
                arrays.append(None)
                continue
            drawn = self.draw(rng, i) if self.draw else None
            plain = rng.standard_normal(shape) if self.real else rng.integers(-4, 5, shape)
            values = np.asarray(np.abs(plain) + 0.5 if self.positive else plain) if drawn is None else drawn
            arrays.append(values.astype(self.dtypes[i] if i < len(self.dtypes) else "float32"))
        return arrays


def spread(value: Any, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Convolution in any number of dimensions, a sum over the kernel's taps."""
    n = x.ndim - 2
    steps, holes, pads = spread(stride, n), spread(dilation, n), spread(padding, n)
    begins, ends = pads[:n], pads[-n:]
    x = np.pad(x, [(0, 0), (0, 0), *zip(begins, ends, strict=True)])
    x = x.reshape(len(x), groups, -1, *x.shape[2:])
    taps = w.reshape(groups, -1, *w.shape[1:])
    size = [
        (have - hole * (k - 1) - 1) // step + 1
        for have, hole, k, step in zip(x.shape[3:], holes, w.shape[2:], steps, strict=True)
    ]
    y: Array = np.zeros((len(x), groups, taps.shape[1], *size))
    for tap in np.ndindex(*w.shape[2:]):
        window = tuple(
            slice(t * hole, t * hole + (count - 1) * step + 1, step)
            for t, hole, count, step in zip(tap, holes, size, steps, strict=True)
        )
        y += np.einsum("ngc...,gkc->ngk...", x[(slice(None),) * 3 + window], taps[(slice(None),) * 3 + tap])
    y = y.reshape(len(y), -1, *size)
    return y if b is None else y + b.reshape(-1, *(1,) * n)


def conv_transpose(x: Array, w: Array, b: Array, stride: int) -> Array:
    """Transposed convolution whose windows do not overlap (kernel = stride), in two dimensions."""
    y: Array = np.einsum("nchw,ckij->nkhiwj", x, w)
    return np.asarray(y.reshape(*y.shape[:2], x.shape[2] * stride, -1) + b.reshape(-1, 1, 1))


def pool(combine: Callable[..., Array], k: int) -> Callable[[Array], Array]:
    """Pooling by windows of k x k that tile the input."""
    return lambda x: combine(x.reshape(*x.shape[:2], x.shape[2] // k, k, x.shape[3] // k, k), axis=(3, 5))


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def batch_norm(x: Array, weight: Array, bias: Array, mean: Array, var: Array) -> Array:
    weight, bias, mean, var = (a.reshape(-1, 1, 1) for a in (weight, bias, mean, var))
    return np.asarray((x - mean) / np.sqrt(var + 1e-5) * weight + bias)


def local_response_norm(x: Array, size: int) -> Array:
    before, after = size // 2, (size - 1) // 2
    squares = np.pad(x * x, [(0, 0), (before, after), (0, 0), (0, 0)])
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return np.asarray(x / (1.0 + 1e-4 / size * total) ** 0.75)


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


MAP = ((2, 5, 7, 9),)  # one input of no convenient size


def convolutions() -> list[Problem]:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]] = [
        ((2, 8, 9, 11), (12, 8, 3, 3), True, {"padding": 1}),
        ((1, 64, 14, 14), (64, 64, 3, 3), True, {"padding": 1}),
        ((2, 32, 7, 9), (24, 32, 1, 1), True, {}),
        ((2, 16, 11, 9), (16, 1, 3, 3), True, {"padding": 1, "groups": 16}),
        ((2, 16, 11, 9), (16, 1, 5, 5), False, {"stride": 2, "padding": (1, 2, 2, 1), "groups": 16}),
        ((1, 3, 23, 21), (8, 3, 7, 7), True, {"stride": 2, "padding": 3}),
        ((2, 12, 10, 8), (18, 4, 3, 2), False, {"dilation": 2, "padding": (2, 0, 1, 3), "groups": 3}),
        ((3, 4, 17), (6, 4, 3), True, {"stride": 2, "padding": 1}),
        ((1, 3, 5, 6, 7), (4, 3, 2, 3, 3), True, {"padding": 1}),
    ]
    return [
        Problem("conv", (x, w, (w[0],) if bias else None), lambda *a, kw=attrs: conv(*a, **kw), attrs)
        for x, w, bias, attrs in cases
    ]


def products() -> list[Problem]:
    def linear(x: Array, w: Array, b: Array) -> Array:
        return np.asarray(x @ w.T + b)

    return [
        Problem(
            "conv_transpose",
            ((2, 6, 5, 4), (6, 3, 2, 2), (3,)),
            lambda x, w, b: conv_transpose(x, w, b, 2),
            {"stride": 2},
        ),
        Problem("linear", ((1, 70), (33, 70), (33,)), linear),
        Problem("linear", ((9, 70), (33, 70), (33,)), linear),
        Problem("matmul", ((3, 17, 20), (20, 9)), np.matmul, fed=2),
        Problem("matmul", ((64, 64), (64, 64)), np.matmul, fed=2),
        Problem(
            "gemm",
            ((20, 17), (9, 20), (9,)),
            lambda a, b, c: a.T @ b.T + c,
            {"trans_a": True, "trans_b": True},
            fed=3,
        ),
        Problem("gemm", ((64, 32), (32, 64), None), lambda a, b, c: a @ b, fed=2),
    ]


def reductions() -> list[Problem]:
    found = []
    for name, function in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min)):
        op = f"reduce_{name}"
        real = name == "mean"
        found.append(
            Problem(
                op,
                ((2, 8, 4, 16),),
                lambda x, f=function: f(x, axis=(2, 3), keepdims=True),
                {"axes": (2, 3)},
                real=real,
            )
        )
        found.append(
            Problem(
                op,
                ((3, 300),),
                lambda x, f=function: f(x, axis=0),
                {"axes": (0,), "keepdims": False},
                real=real,
            )
        )
    return found


def windows() -> list[Problem]:
    attrs, shape = {"kernel_size": 2, "stride": 2}, ((2, 5, 6, 8),)
    parameters = ((2, 5, 4, 4), (5,), (5,), (5,), (5,))
    nearest = {
        "scales": (2.0, 3.0),
        "mode": "nearest",
        "coordinates": "asymmetric",
        "nearest_rounding": "floor",
    }
    return [
        Problem("max_pool", shape, pool(np.max, 2), attrs),
        Problem("avg_pool", shape, pool(np.mean, 2), attrs),
        Problem("adaptive_avg_pool", shape, pool(np.mean, 2), {"output_size": (3, 4)}),
        Problem(
            "adaptive_avg_pool",
            ((2, 5, 8, 4),),
            lambda x: x.mean(axis=(2, 3), keepdims=True),
            {"output_size": 1},
        ),
        Problem("adaptive_max_pool", shape, pool(np.max, 2), {"output_size": (3, 4)}),
        Problem("adaptive_max_pool", MAP, lambda x: x.max(axis=(2, 3), keepdims=True), {"output_size": 1}),
        Problem("batch_norm", parameters, batch_norm, real=True, positive=True),
        Problem("local_response_norm", MAP, lambda x: local_response_norm(x, 5), {"size": 5}, real=True),
        Problem("softmax", ((7, 130),), lambda x: softmax(x, -1), real=True),
        Problem("log_softmax", MAP, lambda x: np.log(softmax(x, 1)), {"dim": 1}, real=True),
        Problem("resize", MAP, lambda x: x.repeat(2, 2).repeat(3, 3), nearest),
    ]


def movements() -> list[Problem]:
    def split(x: Array) -> Sequence[Array]:
        return np.split(x, [2], axis=1)

    slices = {"starts": (1, -1), "ends": (6, -100), "axes": (2, 3), "steps": (2, -2)}
    return [
        Problem(
            "concat", ((2, 3, 4, 4), (2, 5, 4, 4)), lambda a, b: np.concatenate([a, b], 1), {"dim": 1}, fed=2
        ),
        Problem("split", MAP, split, {"sizes": (2, 3), "dim": 1}),
        Problem("slice", MAP, lambda x: x[:, :, 1:6:2, ::-2], slices),
        Problem(
            "pad",
            ((2, 3, 4),),
            lambda x: np.pad(x, [(0, 0), (1, 2), (3, 0)], constant_values=5.0),
            {"pads": (0, 1, 3, 0, 2, 0), "value": 5.0},
        ),
        Problem("reshape", MAP, lambda x: x.reshape(2, -1, 5), {"shape": (0, -1, 5)}),
        Problem("flatten", MAP, lambda x: x.reshape(2, -1)),
        Problem("transpose", MAP, lambda x: x.transpose(0, 2, 3, 1), {"perm": (0, 2, 3, 1)}),
        Problem("transpose", ((70, 45),), np.transpose, {"perm": (1, 0)}),
        Problem("squeeze", ((2, 1, 5, 1),), lambda x: x[:, 0], {"axes": (1,)}),
        Problem("unsqueeze", ((2, 5),), lambda x: x[:, None], {"axes": (1,)}),
        Problem("expand", ((2, 1, 5),), lambda x: np.broadcast_to(x, (3, 2, 4, 5)), {"shape": (3, 2, 4, 5)}),
        Problem("dropout", MAP, lambda x: x),
        Problem("identity", MAP, lambda x: x),
    ]


# Element-wise: operator -> definition. Those of REAL round.
UNARY: dict[str, Callable[[Array], Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "abs": np.abs,
    "neg": np.negative,
    "clip": lambda x: x,  # no bounds
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "silu": lambda x: x * sigmoid(x),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "elu": lambda x: np.where(x >= 0, x, np.expm1(x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}
BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "div": np.divide,
    "pow": np.power,
}
INTEGER = {"relu", "relu6", "abs", "neg", "clip", "add", "sub", "mul", "minimum", "maximum"}
POSITIVE = {"log", "sqrt", "pow", "div"}
ATTRS = {"gelu": {"approximate": "tanh"}}


def elementwise() -> list[Problem]:
    def make(op: str, shapes: tuple[tuple[int, ...], ...], want: Callable[..., Any]) -> Problem:
        return Problem(op, shapes, want, ATTRS.get(op, {}), len(shapes), op not in INTEGER, op in POSITIVE)

    found = [make(op, MAP, want) for op, want in UNARY.items()]
    for op, want in BINARY.items():
        found += [make(op, MAP * 2, want), make(op, (*MAP, (5, 1, 1)), want)]
    found.append(Problem("prelu", (*MAP, (5,)), lambda x, s: np.where(x >= 0, x, s.reshape(-1, 1, 1) * x)))
    return found


def all_problems() -> list[Problem]:
    parts = (convolutions, products, windows, reductions, movements, elementwise)
    return list(itertools.chain.from_iterable(part() for part in parts))
