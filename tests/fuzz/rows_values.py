"""Rows of operators that go element by element, reduce, or pick elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from fuzz.net import ROWS, Net, Skip

# ---- one input ---------------------------------------------------------------------------------------------


@ROWS("Abs", "Asinh", "Atan", "Ceil", "Erf", "Floor", "Identity", "Neg", "Relu", "Round", "Sigmoid", "Sign")
def _anything(net: Net, op: str) -> str:
    return net.node(op, net.pick())


@ROWS("Cos", "Sin", "Softplus", "Softsign", "Tanh", "Selu")
def _more(net: Net, op: str) -> str:
    return net.node(op, net.pick())


@ROWS("Mish", first=18)
def _mish(net: Net) -> str:
    return net.node("Mish", net.pick())


@ROWS("HardSwish", first=14)
def _hard_swish(net: Net) -> str:
    return net.node("HardSwish", net.pick())


@ROWS("Swish", first=24)
def _swish(net: Net) -> str:
    return net.node("Swish", net.pick(), alpha=net.one(None, 0.5, 1.702))


@ROWS("Gelu", first=20)
def _gelu(net: Net) -> str:
    return net.node("Gelu", net.pick(), approximate=net.one(None, "none", "tanh"))


@ROWS("Exp", "Sinh", "Cosh", "Tan")
def _steep(net: Net, op: str) -> str:
    return net.node(op, net.tame(net.pick(), 1.2 if op == "Tan" else 4.0))


@ROWS("Acos", "Asin", "Atanh")
def _unit(net: Net, op: str) -> str:
    x = net.node("Mul", net.node(net.one("Sin", "Tanh", "Softsign"), net.pick()), net.const(np.float32(0.9)))
    return net.node(op, x)


@ROWS("Acosh")
def _acosh(net: Net) -> str:
    return net.node("Acosh", net.node("Add", net.positive(net.pick()), net.const(np.float32(1.0))))


@ROWS("Log", "Sqrt", "Reciprocal")
def _above_zero(net: Net, op: str) -> str:
    return net.node(op, net.positive(net.pick()))


@ROWS("Celu", "Elu", "LeakyRelu", "ThresholdedRelu", first=12)
def _alpha(net: Net, op: str) -> str:
    return net.node(op, net.pick(), alpha=net.one(None, 0.1, 0.5, 1.5))


@ROWS("HardSigmoid")
def _hard_sigmoid(net: Net) -> str:
    return net.node("HardSigmoid", net.pick(), alpha=net.one(None, 0.25, 1 / 6), beta=net.one(None, 0.4))


@ROWS("Shrink", first=9)
def _shrink(net: Net) -> str:
    return net.node("Shrink", net.pick(), lambd=net.one(None, 0.3), bias=net.one(None, 0.1))


@ROWS("Not")
def _not(net: Net) -> str:
    return net.node("Not", net.pick(kind="bool"))


@ROWS("IsNaN", "IsInf", first=10)
def _is_odd(net: Net, op: str) -> str:
    array = net.random(net.some_shape(net.rng.randint(1, 4)))
    flat = array.reshape(-1)
    for i in range(0, flat.size, 3):
        flat[i] = net.one(np.nan, np.inf, -np.inf, 3e38)
    attrs = {} if op == "IsNaN" else {"detect_negative": net.one(0, 1), "detect_positive": net.one(0, 1)}
    x = net.input(array)
    net.values.remove(x)  # what others make of NaN, no two runtimes agree on
    return net.node(op, x, **attrs)


@ROWS("Clip", first=11)
def _clip(net: Net) -> str:
    kind = net.one("float32", "float32", "int32", "int64") if net.opset >= 12 else "float32"
    low, high = net.one((-1, 1), (0, 6), (-3, 2), (0, None), (None, 1))
    given = ["" if n is None else net.const(np.array(n, kind)) for n in (low, high)]
    return net.node("Clip", net.pick(kind=kind), *given)


@ROWS("Dropout", first=12)
def _dropout(net: Net) -> Any:
    ratio = net.const(np.float32(net.one(0.0, 0.3))) if net.maybe(0.7) else ""
    training = net.const(np.array(False)) if net.maybe(0.5) else ""
    return net.many("Dropout", [net.pick(), ratio, training], [True, net.maybe(0.3)])


KINDS = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


def _cast_source(net: Net) -> str:
    """Now and then an input of a type that is held in another one."""
    if net.maybe(0.7):
        return net.pick(kind="any")
    shape, kind = net.some_shape(net.one(2, 4)), net.one("uint8", "int8", "int16", "float16", "float64")
    x = net.input(net.random(shape, kind))
    return net.node("Transpose", x) if net.maybe(0.3) else x


@ROWS("Cast")
def _cast(net: Net) -> str:
    return net.node("Cast", _cast_source(net), to=KINDS[net.one(*KINDS, "float32", "float32")])


@ROWS("CastLike", first=15)
def _cast_like(net: Net) -> str:
    return net.node("CastLike", _cast_source(net), net.const(net.random((1,), net.one(*KINDS))))


# ---- two inputs --------------------------------------------------------------------------------------------


def beside(net: Net, x: str, above: float | None = None) -> str:
    """Something that broadcasts with x: another value, or a constant. above: its least element."""
    array = net.arrays[x]

    def fits(other: Any) -> bool:
        try:
            shape = np.broadcast_shapes(array.shape, other.shape)
        except ValueError:
            return False
        return int(np.prod(shape)) <= 4 * array.size and (above is None or other.min() > above)

    if net.maybe(0.5):
        found = [n for n in net.values if net.arrays[n].dtype == array.dtype and fits(net.arrays[n])]
        if found:
            return net.one(*found)
    shape = list(array.shape)
    how = net.one("whole", "one", "scalar", "some", "tail", "channel", "longer")
    if how == "one":
        shape = [1]
    elif how == "scalar":
        shape = []
    elif how == "some":
        shape = [n if net.maybe(0.5) else 1 for n in shape]
    elif how == "tail":
        shape = shape[net.rng.randint(0, len(shape)) :]
    elif how == "channel" and len(shape) > 1:
        shape = [n if i == 1 else 1 for i, n in enumerate(shape)][net.rng.randint(0, 1) :]
    elif how == "longer":
        shape = [net.one(1, 1, 2), *shape] if len(shape) < 5 else shape
    made = net.random(shape, array.dtype.name)
    if above is not None and made.dtype.kind != "b":
        made = np.abs(made) + np.asarray(1 + above, made.dtype)
    return net.either(np.asarray(made, array.dtype))


def swapped(net: Net, a: str, b: str) -> tuple[str, str]:
    return (a, b) if net.maybe(0.7) else (b, a)


@ROWS("Add", "Sub", "Mul", first=7)
def _arithmetic(net: Net, op: str) -> str:
    x = net.pick(kind=net.one("float32", "float32", "float32", "float32", "int64", "int32"))
    return net.node(op, *swapped(net, x, beside(net, x)))


@ROWS("Div", first=7)
def _div(net: Net) -> str:
    x = net.pick(kind=net.one("float32", "float32", "float32", "int64", "int32"))
    return net.node("Div", x, beside(net, x, above=0.1 if net.arrays[x].dtype.kind == "f" else 0))


@ROWS("Mod", first=10)
def _mod(net: Net) -> str:
    x = net.pick(kind=net.one("float32", "int64", "int32"))
    whole = net.arrays[x].dtype.kind == "i"
    fmod = net.one(0, 1) if whole else 1
    return net.node("Mod", x, beside(net, x, above=0 if whole else 0.1), fmod=fmod)


@ROWS("Pow", first=7)
def _pow(net: Net) -> str:
    if net.maybe(0.5):
        return net.node("Pow", net.pick(), net.const(np.float32(net.one(2.0, 3.0, 1.0))))
    x = net.positive(net.tame(net.pick()))
    if net.maybe(0.3) and net.opset >= 12:
        return net.node("Pow", x, net.const(np.array(net.one(2, 3, -1)), net.one("int64", "int32")))
    return net.node("Pow", x, net.tame(beside(net, x)))


@ROWS("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", first=12)
def _compare(net: Net, op: str) -> str:
    x = net.pick(kind=net.one("float32", "float32", "int64", "int32"))
    return net.node(op, *swapped(net, x, beside(net, x)))


@ROWS("And", "Or", "Xor", first=7)
def _logic(net: Net, op: str) -> str:
    x = net.pick(kind="bool")
    return net.node(op, *swapped(net, x, beside(net, x)))


@ROWS("PRelu", first=9)
def _prelu(net: Net) -> str:
    x = net.pick(2, 3, 4, 5)
    shape = net.shape(x)
    slope = net.one((1,), (shape[1], *(1,) * (len(shape) - 2)), shape[1:], (1, *shape[1:]))
    return net.node("PRelu", x, net.const(net.uniform(slope, -0.5, 0.9)))


@ROWS("Sum", "Max", "Min", "Mean", first=8)
def _several(net: Net, op: str) -> str:
    kinds = ("float32", "int64", "int32") if op in ("Max", "Min") and net.opset >= 12 else ("float32",)
    x = net.pick(kind=net.one("float32", *kinds))
    return net.node(op, x, *(beside(net, x) for _ in range(net.rng.randint(0, 2))))


@ROWS("Where", first=9)
def _where(net: Net) -> str:
    x = net.pick(kind=net.one("float32", "float32", "int64", "int32"))
    other = beside(net, x)
    condition = net.either(net.random(net.one(net.shape(x), net.shape(x)[-1:], (1,)), "bool"))
    if net.maybe(0.5) and net.arrays[x].dtype.kind == "f":
        condition = net.node("Greater" if net.opset >= 9 else "Less", x, net.const(np.float32(0.1)))
    return net.node("Where", condition, *swapped(net, x, other))


# ---- reductions --------------------------------------------------------------------------------------------

AXES_AS_INPUT = {"ReduceSum": 13}


@ROWS(
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)
def _reduce(net: Net, op: str) -> str:
    whole = ("int32", "int64") if op in ("ReduceSum", "ReduceMax", "ReduceMin") else ()
    x = net.pick(kind=net.one("float32", "float32", "float32", *whole))
    if net.rank(x) == 0:
        raise Skip
    if op in ("ReduceLogSum", "ReduceProd"):
        x = net.positive(x)
    if op in ("ReduceLogSumExp", "ReduceProd"):
        x = net.tame(x, 4.0)
    axes = net.axes(net.rank(x)) if net.maybe(0.8) else None
    keepdims = net.one(None, 0, 1)
    if net.opset < AXES_AS_INPUT.get(op, 18):
        return net.node(op, x, keepdims=keepdims, axes=axes)
    noop = net.one(None, None, 0, 1)
    given = "" if axes is None else net.ints(*axes)
    return net.node(op, x, given, keepdims=keepdims, noop_with_empty_axes=noop)


@ROWS("ArgMax", "ArgMin", first=12)
def _arg(net: Net, op: str) -> str:
    x = net.pick(1, 2, 3, 4, 5)
    last = net.one(None, None, 1)
    return net.node(op, x, axis=net.axis(net.rank(x)), keepdims=net.one(None, 0, 1), select_last_index=last)


@ROWS("CumSum", first=11)
def _cumsum(net: Net) -> str:
    x = net.pick(1, 2, 3, 4)
    axis = net.const(np.array(net.axis(net.rank(x)), net.one("int64", "int32")))
    return net.node("CumSum", x, axis, exclusive=net.one(None, 1), reverse=net.one(None, 1))


@ROWS("TopK", first=11)
def _topk(net: Net) -> Any:
    x = net.pick(1, 2, 3, 4)
    axis = net.axis(net.rank(x))
    k = net.rng.randint(1, net.shape(x)[axis])
    return net.many("TopK", [x, net.ints(k)], 2, axis=axis, largest=net.one(None, 0, 1))


# ---- picking elements --------------------------------------------------------------------------------------


def _indices(net: Net, shape: Any, length: int, kind: str | None = None) -> str:
    kind = kind or net.one("int64", "int32")
    return net.either(net.np_rng.integers(-length, length, shape).astype(kind))


@ROWS("Gather")
def _gather(net: Net) -> str:
    x = net.pick(1, 2, 3, 4, kind="any")
    axis = net.axis(net.rank(x))
    shape = net.one((), (1,), (3,), (2, 2)) if net.rank(x) < 4 else net.one((), (2,))
    return net.node("Gather", x, _indices(net, shape, net.shape(x)[axis]), axis=axis)


@ROWS("GatherElements", first=11)
def _gather_elements(net: Net) -> str:
    x = net.pick(1, 2, 3, 4)
    axis = net.axis(net.rank(x))
    shape = [net.rng.randint(1, n) for n in net.shape(x)]
    return net.node("GatherElements", x, _indices(net, shape, net.shape(x)[axis]), axis=axis)


@ROWS("GatherND", first=12)
def _gather_nd(net: Net) -> str:
    x = net.pick(2, 3, 4, where=lambda a: a.shape[0] > 0)
    shape = net.shape(x)
    batch = net.one(0, 1)
    depth = net.rng.randint(1, len(shape) - batch)
    lead = (*shape[:batch], net.rng.randint(1, 4))
    columns = [net.np_rng.integers(-n, n, lead) for n in shape[batch : batch + depth]]
    return net.node("GatherND", x, net.either(np.stack(columns, -1)), batch_dims=batch or None)


@ROWS("OneHot", first=11)
def _one_hot(net: Net) -> str:
    depth = net.rng.randint(1, 7)
    shape = net.some_shape(net.one(1, 2, 3))
    indices = net.input(net.np_rng.integers(-depth - 1, depth + 2, shape).astype("int64"))
    values = net.const(np.array(net.one([0, 1], [-1, 3], [2, 0]), "float32"))
    return net.node("OneHot", indices, net.ints(depth), values, axis=net.one(None, 0, -1, 1))


@ROWS("Hardmax")
def _hardmax(net: Net) -> str:
    x = net.pick(1, 2, 3, 4)
    return net.node("Hardmax", x, axis=net.axis(net.rank(x)) if net.opset >= 13 else None)


@ROWS("Softmax", "LogSoftmax")
def _softmax(net: Net, op: str) -> str:
    x = net.pick(1, 2, 3, 4, 5)
    axis = net.axis(net.rank(x)) if net.opset >= 11 else net.rng.randrange(net.rank(x))
    return net.node(op, x, axis=axis if net.maybe(0.8) else None)
