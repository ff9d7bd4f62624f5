"""Numbers of 8 or 16 bits that stand for real ones: n stands for (n - zero) * scale.

Devices compute in float32. A quantised value of a model is held as the numbers that it stands for, and
operators that only move or pool elements take it as it is. It remembers the whole numbers n - zero
(Operand.whole), so that sums of its products are sums of whole numbers, which float32 holds exactly below
2^24: they are rounded, since some algorithms are off by less than a half, and scaled once. Constants are
computed when the graph is built.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from clcnn.errors import ModelError
from clcnn.graph import Graph
from clcnn.onnx import wide
from clcnn.onnx.call import Call, Operand, Refusal, Steps, Whole, wrap
from clcnn.onnx.table import Row
from clcnn.onnx.tensors import type_name

Array = NDArray[Any]
DTYPES = ("uint8", "int8", "uint16", "int16")
WHOLE = Steps(1.0, 0)
_FLOATS = ("float", "float16", "bfloat16", "double")
_STEPS = 256  # of fake_quantize
# Operators that give elements of their first input, whose steps may be in any order.
_MOVES = frozenset(
    (
        *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "MaxPool"),
        *("ReduceMax", "ReduceMin", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
        *("Transpose", "Unsqueeze"),
    )
)
# Operators whose results are their first input's elements times one factor, if that is.
_KEEP_FACTOR = _MOVES | {"Relu"}
# Products, and the dimension of the second factor that has the channels of the result.
_CHANNELS = {"Conv": 0, "MatMul": -1, "Gemm": -1}


# ---- arrays known when the graph is built ------------------------------------------------------------------


def check_scale(scale: Array) -> None:
    """Raises ModelError for scales that are no distances between steps."""
    if scale.dtype.kind != "f" or not np.all(np.isfinite(scale) & (scale > 0)):
        odd = scale.reshape(-1)[int(np.argmin((np.isfinite(scale) & (scale > 0)).reshape(-1)))]
        raise ModelError(f"a scale must be above 0 and finite, but is {odd}")


def spread_shape(name: str, shape: Sequence[int], x: Sequence[int], axis: int, block: int) -> list[int]:
    """The shape with which a scale or zero point broadcasts to x; along `axis` it may have blocks. Raises
    ModelError when it does not fit."""
    if math.prod(shape) == 1 and len(shape) < 2:
        return []
    at = wrap(axis, len(x))
    if block:
        blocks = [-(-n // block) if i == at else n for i, n in enumerate(x)]
        if list(shape) != blocks:
            raise ModelError(
                f"{name} of shape {list(shape)} has not the {blocks} blocks of {block} along axis {axis}"
            )
        return blocks
    if len(shape) == 1 and shape[0] == x[at]:
        return [n if i == at else 1 for i, n in enumerate(x)]
    raise ModelError(
        f"{name} of shape {list(shape)} does not fit: axis {axis} of its input has {x[at]} elements"
    )


def _spread(name: str, array: Array, x: Sequence[int], axis: int, block: int) -> Array:
    shaped = array.reshape(spread_shape(name, array.shape, x, axis, block))
    if not block or shaped.ndim == 0:
        return shaped
    at = wrap(axis, len(x))
    return np.repeat(shaped, block, at)[tuple(slice(n) for n in x)]


def _zero_like(scale: Array, zero: Array | None, dtype: str) -> Array:
    """The zero point, 0 where there is none. Raises ModelError for one of another type or shape."""
    if zero is None:
        return np.zeros(scale.shape, dtype)
    if zero.dtype.name != dtype:
        raise ModelError(f"its zero point is {zero.dtype.name}, where {dtype} belongs")
    if zero.shape != scale.shape and scale.size > 1:
        raise ModelError(
            f"its zero point of shape {zero.shape} does not fit its scale of shape {scale.shape}"
        )
    return zero


def dequantize_array(x: Array, scale: Array, zero: Array | None, axis: int = 1, block: int = 0) -> Array:
    """(x - zero) * scale in float32."""
    if x.dtype.name not in (*DTYPES, "int32"):
        raise ModelError(f"its input is {x.dtype.name}, where one of {', '.join(DTYPES)}, int32 belongs")
    check_scale(scale)
    zero = _zero_like(scale, zero, x.dtype.name)
    made = x.astype(np.float32)
    if zero.any():
        made -= _spread("its zero point", zero, x.shape, axis, block).astype(np.float32)
    made *= _spread("its scale", scale, x.shape, axis, block).astype(np.float32)
    return made


def quantize_array(
    x: Array, scale: Array, zero: Array | None, dtype: str, axis: int = 1, block: int = 0
) -> Array:
    """round(x / scale) + zero, limited to what the type holds; NaN becomes the zero point."""
    check_scale(scale)
    zero = _spread("its zero point", _zero_like(scale, zero, dtype), x.shape, axis, block).astype(np.float32)
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        steps = np.rint(
            x.astype(np.float32) / _spread("its scale", scale, x.shape, axis, block).astype(np.float32)
        )
    steps = np.nan_to_num(steps, nan=0.0, posinf=1e9, neginf=-1e9) + zero
    made: Array = np.clip(steps, limits.min, limits.max).astype(dtype)
    return made


def wanted_type(zero: str | None, code: int) -> str:
    """The element type that QuantizeLinear gives: its zero point's, or that of the attribute output_dtype, or
    uint8."""
    told = None
    if code:
        told = onnx.helper.tensor_dtype_to_np_dtype(code).name
        if told not in DTYPES:
            raise Refusal(f"attribute output_dtype: {type_name(code)}; offered are {', '.join(DTYPES)}")
    if zero is not None and told not in (None, zero):
        raise ModelError(f"its zero point is {zero}, where attribute output_dtype says {told}")
    dtype = zero or told or "uint8"
    if dtype not in DTYPES:
        raise ModelError(f"its zero point is {dtype}, where one of {', '.join(DTYPES)} belongs")
    return dtype


# ---- values of the graph -----------------------------------------------------------------------------------


def numbers(call: Call, x: Operand) -> Operand:
    """The whole numbers of an operand as float32."""
    if x.array is not None:
        return Operand(x.array.astype(np.float32))
    if x.steps is None:
        return call.cast(x, np.float32) if x.dtype == np.float32 else call.emit("cast", x, to="float32")
    return Operand(value=_numbers_of(call.graph, x, call.name))


def _numbers_of(graph: Graph, x: Operand, name: str) -> Any:
    assert x.value is not None and x.steps is not None
    (scale, zero), value, one = x.steps, x.value, (1,) * x.rank
    if x.whole is not None:
        counted = x.whole.numbers().value
        assert counted is not None
        value = counted
    elif scale != 1.0:
        over = graph.constant(np.full(one, scale, np.float32), name + ".scale")
        value = graph.apply("round", graph.apply("div", value, over, name=name), name=name)
    if not zero:
        return value
    return graph.apply(
        "add", value, graph.constant(np.full(one, zero, np.float32), name + ".zero"), name=name
    )


def as_numbers(graph: Graph, x: Operand, name: str) -> Operand:
    """An operand that has steps with its whole numbers in float32, for an output of the model."""
    return Operand(value=_numbers_of(graph, x, name), wide=x.wide, steps=WHOLE)


def whole(call: Call, x: Operand | None) -> Operand | None:
    """An operand without steps: its whole numbers as integers."""
    if x is None or x.steps is None:
        return x
    made = call.emit("cast", numbers(call, x), to="int32")
    return made if x.wide == "int32" else replace(made, wide=x.wide)


def _spread_value(call: Call, name: str, p: Operand, x: Operand, axis: int, block: int) -> Operand:
    """A scale or zero point in the shape that broadcasts to x."""
    shape = spread_shape(name, p.shape, x.shape, axis, block)
    p = call.reshape(p, shape)
    if not block or not shape:
        return p
    at = wrap(axis, x.rank)
    if p.array is not None:
        return Operand(_spread(name, p.array, x.shape, axis, block))
    if x.shape[at] % block:
        raise Refusal(f"blocks of {block} do not divide the {x.shape[at]} elements of axis {axis}")
    inside = [*shape[: at + 1], block, *shape[at + 1 :]]
    p = call.emit("expand", call.reshape(p, [*shape[: at + 1], 1, *shape[at + 1 :]]), shape=inside)
    return call.reshape(p, x.shape)


def _known(scale: Operand, zero: Operand | None) -> bool:
    return scale.array is not None and (zero is None or zero.array is not None)


def dequantized(
    call: Call, x: Operand, scale: Operand, zero: Operand | None, axis: int = 1, block: int = 0
) -> Operand:
    """(x - zero) * scale: the numbers that a quantised operand stands for, in float32."""
    if scale.array is not None:
        check_scale(scale.array)
    if zero is not None and zero.logical != x.logical:
        raise ModelError(f"its zero point is {zero.logical}, where {x.logical} belongs")
    known = None if zero is None or zero.array is None else zero.array
    if _known(scale, zero) and x.array is not None:
        assert scale.array is not None
        made = Operand(dequantize_array(x.array, scale.array, known, axis, block))
        return remembering(made, [x, scale, zero], {"axis": axis, "block_size": block})
    if _known(scale, zero) and scale.array is not None and x.steps == (steps_of(scale.array, known) or ()):
        return Operand(value=x.value, whole=x.whole)
    made = numbers(call, x)
    if zero is not None and (known is None or known.any()):
        less = numbers(call, _spread_value(call, "its zero point", zero, x, axis, block))
        made = call.emit("sub", made, less)
    if scale.array is None:
        return call.emit("mul", made, _spread_value(call, "its scale", scale, x, axis, block))
    return scaled(call, made, _spread("its scale", scale.array, x.shape, axis, block))


def remembering(made: Operand, inputs: Sequence[Operand | None], attrs: dict[str, Any]) -> Operand:
    """A constant that DequantizeLinear gave, with the whole numbers that it is made of."""
    x, scale, zero = (None if given is None else given.array for given in [*inputs, None, None][:3])
    axis, block = int(attrs.get("axis", 1)), int(attrs.get("block_size", 0))
    if x is None or scale is None:
        return made
    if zero is not None and zero.any():
        x = x.astype(np.float32) - _spread("its zero point", zero, x.shape, axis, block).astype(np.float32)
    factor = _spread("its scale", scale, x.shape, axis, block).astype(np.float32)
    return replace(made, whole=Whole(lambda: Operand(x), factor))


def scaled(call: Call, x: Operand, factor: Array) -> Operand:
    """Whole numbers times a factor, which it remembers."""
    made = x
    if factor.size != 1 or factor.reshape(-1)[0] != 1.0:
        shaped = factor.reshape((1,) * (x.rank - factor.ndim) + factor.shape).astype(np.float32)
        made = call.emit("mul", x, Operand(shaped))
    return replace(made, whole=Whole(lambda: x, factor))


def quantized(
    call: Call, x: Operand, scale: Operand, zero: Operand | None, dtype: str, axis: int = 1, block: int = 0
) -> Operand:
    """clip(round(x / scale) + zero): held in steps. One step of rounding where scale and zero are one number
    each, known now."""
    if zero is not None and zero.logical != dtype:
        raise ModelError(f"its zero point is {zero.logical}, where {dtype} belongs")
    limits = np.iinfo(dtype)
    if _known(scale, zero):
        assert scale.array is not None
        check_scale(scale.array)
        steps = steps_of(scale.array, None if zero is None else zero.array)
        spread_shape("its scale", scale.shape, x.shape, axis, block)
        if steps and limits.max - limits.min == _STEPS - 1:
            below = float(steps.zero - limits.min)
            return replace(_rounded(call, x, steps.scale, below), wide=dtype, steps=steps)
    made = call.emit("round", call.emit("div", x, _spread_value(call, "its scale", scale, x, axis, block)))
    if zero is not None:
        made = call.emit(
            "add", made, numbers(call, _spread_value(call, "its zero point", zero, x, axis, block))
        )
    made = call.emit("clip", made, min=float(limits.min), max=float(limits.max))
    return replace(made, wide=dtype, steps=WHOLE)


def _rounded(call: Call, x: Operand, scale: float, below: float) -> Operand:
    """x at the nearest step, and how many steps that is. What is a factor times whole numbers is scaled
    once."""

    def counted(ratio: Operand) -> Operand:
        return call.emit("fake_quantize", ratio, scale=1.0, zero_point=below)

    factor = np.float32(scale)
    if x.whole is not None and x.value is not None:
        ratio = scaled(call, x.whole.numbers(), x.whole.factor / factor)
        return scaled(call, counted(ratio), np.asarray(factor))
    made = call.emit("fake_quantize", x, scale=scale, zero_point=below)
    return replace(
        made, whole=Whole(lambda: counted(call.emit("div", x, call.full(x, scale))), np.asarray(factor))
    )


def steps_of(scale: Array, zero: Array | None) -> Steps | None:
    """The steps of one scale and one zero point; None where there are more."""
    if scale.size != 1 or (zero is not None and zero.size != 1):
        return None
    return Steps(float(np.float32(scale.reshape(-1)[0])), 0 if zero is None else int(zero.reshape(-1)[0]))


# ---- operators that know nothing of steps ------------------------------------------------------------------


def build(call: Call, row: Row) -> Sequence[Operand | None]:
    """The results of a row. Operands that have steps reach one that knows nothing of them as the numbers that
    they stand for where it only moves them, and as whole numbers else."""
    if row.steps:
        return _listed(row.build(call))
    product = whole_product(call, row)
    if product is not None:
        return [product]
    first = call.inputs[0] if call.inputs else None
    if (
        call.op in _KEEP_FACTOR
        and first is not None
        and (first.whole is not None or (call.op in _MOVES and first.steps is not None))
        and all(x is None or x.steps is None for x in call.inputs[1:])
    ):
        return _with_factor(call, row, first)
    to_floats = call.op == "Cast" and type_name(int(call.attr("to", 0))) in _FLOATS
    call.inputs = [numbers(call, x) if to_floats and x and x.steps else whole(call, x) for x in call.inputs]
    wide_type = wide.wide_of(call.inputs)
    if wide_type:
        wide.check(call.op, wide_type)
    results = _listed(row.build(call))
    return wide.marked(call.op, wide_type, results) if wide_type else results


def _with_factor(call: Call, row: Row, first: Operand) -> Sequence[Operand | None]:
    """The results of an operator that gives elements of its first input, or 0: their whole numbers are what
    it makes of that input's."""

    def built(x: Operand) -> Sequence[Operand | None]:
        return _listed(row.build(inner(call, [x, *call.inputs[1:]], call.version)))

    def again(i: int, numbers: Callable[[], Operand]) -> Operand:
        made = built(numbers())[i]
        assert made is not None
        return made

    whole, results = first.whole, list[Operand | None]()
    for i, x in enumerate(built(replace(first, wide="", steps=None, whole=None))):
        if x is not None and _is_float(x):
            x = replace(x, wide=first.wide, steps=first.steps)
            if whole is not None and whole.factor.size == 1:
                x = replace(x, whole=Whole(partial(again, i, whole.numbers), whole.factor))
        results.append(x)
    return results


def whole_product(call: Call, row: Row, op: str | None = None) -> Operand | None:
    """A product of numbers of which the whole ones are known, as a sum of whole numbers and a factor; None
    where it is not one."""
    op = op or call.op
    a, b, bias = (call.optional(i) for i in range(3))
    if op == "GlobalAveragePool" and a is not None and a.whole is not None and a.whole.factor.size == 1:
        sums = call.emit("reduce_sum", a.whole.numbers(), axes=list(range(2, a.rank)), keepdims=True)
        return scaled(call, sums, a.whole.factor.reshape(()) / np.float32(math.prod(a.shape[2:])))
    if op not in _CHANNELS or a is None or b is None or a.whole is None or b.whole is None:
        return None
    at = 0 if op == "Gemm" and call.attr("transB", 0) else _CHANNELS[op]
    spread = b.whole.factor.reshape((1,) * (b.rank - b.whole.factor.ndim) + b.whole.factor.shape)
    one = a.whole.factor.size == 1 and spread.size in (1, spread.shape[at])
    if not one or a.value is None or any(call.attr(name, 1.0) != 1.0 for name in ("alpha", "beta")):
        return None
    factor = a.whole.factor.reshape(-1) * spread.reshape(-1)
    given: list[Operand | None] = [a.whole.numbers(), _as_floats(b.whole.numbers())]
    if bias is not None:
        if bias.whole is None or bias.whole.factor.size not in (1, factor.size):
            return None
        if not np.allclose(bias.whole.factor.reshape(-1), factor, 1e-5, 0.0):
            return None
        given.append(_as_floats(bias.whole.numbers()))
    made = _listed(row.build(inner(call, given, call.version)))[0]
    assert made is not None
    behind = (1,) * (made.rank - 2) if op == "Conv" else ()
    return scaled(call, call.emit("round", made), factor.reshape(-1, *behind))


def _as_floats(x: Operand) -> Operand:
    return x if x.array is None or x.array.dtype == np.float32 else Operand(x.array.astype(np.float32))


def _is_float(x: Operand | None) -> bool:
    return x is not None and x.value is not None and x.dtype == np.float32


def _listed(made: Operand | Sequence[Operand | None]) -> Sequence[Operand | None]:
    return [made] if isinstance(made, Operand) else made


def inner(call: Call, inputs: list[Operand | None], version: int) -> Call:
    """The call with other inputs, for the row of another operator."""
    made = copy.copy(call)
    made.inputs, made.version = inputs, version
    return made
