"""Operators on constants by NumPy: those of which exporters write the arithmetic of shapes.

onnx's reference implementation computes all others. It takes longer to be imported than many models to be
read, so that what nearly every file has is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

Attributes = dict[str, Any]
Array = NDArray[Any]
# An operator's result, from its attributes and inputs (None: absent); None: the reference is to compute it.
Operator = Callable[..., Array | None]

_CASTS = {
    TensorProto.BOOL: np.bool_, TensorProto.INT32: np.int32, TensorProto.INT64: np.int64,
    TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64,
}  # fmt: skip


def _cast(attrs: Attributes, x: Array) -> Array | None:
    """Numbers that the type does not have are the reference's."""
    dtype = _CASTS.get(attrs["to"])
    if dtype is None or (x.dtype.kind == "f" and np.dtype(dtype).kind == "i" and not _whole(x, dtype)):
        return None
    return x.astype(dtype)


def _whole(x: Array, dtype: Any) -> bool:
    limits = np.iinfo(dtype)
    return bool(((x > float(limits.min)) & (x < float(limits.max))).all())


def _div(attrs: Attributes, a: Array, b: Array) -> Array | None:
    """Whole numbers are cut off towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    if a.dtype.kind != "i" or (b == 0).any() or a.dtype != b.dtype:
        return None
    floor = np.floor_divide(a, b)
    return np.asarray(floor + ((floor < 0) & (floor * b != a)).astype(a.dtype))


def _mod(attrs: Attributes, a: Array, b: Array) -> Array | None:
    if attrs.get("fmod", 0):
        return np.fmod(a, b)
    return np.mod(a, b) if a.dtype.kind in "iu" and (b != 0).all() else None


def _shape(attrs: Attributes, x: Array) -> Array:
    return np.array(x.shape[attrs.get("start", 0) : attrs.get("end")], np.int64)


def _axes(attrs: Attributes, axes: Array | None) -> tuple[int, ...]:
    """Before opset 13 they are an attribute."""
    return tuple(attrs["axes"] if axes is None else axes.tolist())


def _unsqueeze(attrs: Attributes, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(attrs, axes))


def _squeeze(attrs: Attributes, x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, None if axes is None and "axes" not in attrs else _axes(attrs, axes))


def _slice(
    attrs: Attributes, x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Array:
    """Before opset 10 what to cut out is in the attributes."""
    starts, ends = (attrs[k] if a is None else a.tolist() for k, a in (("starts", starts), ("ends", ends)))
    axes = attrs.get("axes", range(len(starts))) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    parts = [slice(None)] * x.ndim
    for axis, start, end, stride in zip(axes, starts, ends, strides, strict=True):
        parts[axis] = _part(x.shape[axis], start, end, stride)
    return x[tuple(parts)].copy()


def _part(size: int, start: int, end: int, stride: int) -> slice:
    """Backwards what ends before the first element has no end in Python."""
    if stride > 0:
        return slice(start, end, stride)
    start, end = (n + size if n < 0 else n for n in (start, end))
    return slice(start, None if end < 0 else end, stride) if start >= 0 else slice(0, 0)


def _reshape(attrs: Attributes, x: Array, shape: Array) -> Array:
    sizes = shape.tolist()
    if not attrs.get("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


def _constant_of_shape(attrs: Attributes, shape: Array) -> Array:
    value = attrs.get("value", np.zeros(1, np.float32))
    return np.full(shape.tolist(), value.reshape(-1)[0], value.dtype)


def _range(attrs: Attributes, start: Array, limit: Array, delta: Array) -> Array | None:
    if start.dtype.kind != "i" or delta.item() == 0:
        return None
    return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def _scatter_nd(attrs: Attributes, x: Array, indices: Array, updates: Array) -> Array | None:
    if attrs.get("reduction", "none") != "none":
        return None
    y = x.copy()
    y[tuple(np.moveaxis(indices, -1, 0))] = updates
    return y


def _clip(attrs: Attributes, x: Array, low: Array | None = None, high: Array | None = None) -> Array | None:
    if attrs:  # before opset 11 the limits are attributes
        return None
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _of(function: Callable[..., Array]) -> Operator:
    return lambda attrs, *arrays: function(*arrays)


def _of_floats(function: Callable[..., Array]) -> Operator:
    return lambda attrs, x: function(x) if x.dtype.kind == "f" else None


OPERATORS: dict[str, Operator] = {
    "Add": _of(np.add),
    "And": _of(np.logical_and),
    "Cast": _cast,
    "Ceil": _of_floats(np.ceil),
    "Clip": _clip,
    "Concat": lambda attrs, *arrays: np.concatenate(arrays, attrs["axis"]),
    "ConstantOfShape": _constant_of_shape,
    "Div": _div,
    "Equal": _of(np.equal),
    "Floor": _of_floats(np.floor),
    "Gather": lambda attrs, x, indices: np.take(x, indices, attrs.get("axis", 0)),
    "Greater": _of(np.greater),
    "Less": _of(np.less),
    "MatMul": _of(np.matmul),
    "Max": lambda attrs, *arrays: reduce(np.maximum, arrays),
    "Min": lambda attrs, *arrays: reduce(np.minimum, arrays),
    "Mod": _mod,
    "Mul": _of(np.multiply),
    "Neg": _of(np.negative),
    "Not": _of(np.logical_not),
    "Pow": lambda attrs, x, y: np.power(x, y).astype(x.dtype),
    "Range": _range,
    "Relu": lambda attrs, x: np.maximum(x, x.dtype.type(0)),
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Slice": _slice,
    "Sqrt": _of_floats(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _of(np.subtract),
    "Transpose": lambda attrs, x: np.transpose(x, attrs.get("perm")).copy(),
    "Unsqueeze": _unsqueeze,
    "Where": _of(np.where),
}


def compute(op: str, attrs: Attributes, arrays: Sequence[Array | None]) -> Array | None:
    """The result of one of OPERATORS on numbers; None: the reference is to compute it."""
    if any(a is not None and a.dtype.kind not in "biuf" for a in arrays):
        return None
    return OPERATORS[op](attrs, *arrays)
