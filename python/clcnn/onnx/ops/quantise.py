"""Quantised operators, computed in float32: their operands as the numbers that they stand for, or, where the
result is a sum of whole numbers, as those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from clcnn.errors import ModelError
from clcnn.onnx import quantised
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.table import add_row, find, row

MICROSOFT = "com.microsoft"


@row("QuantizeLinear", 10, steps=True)
def _quantize_linear(call: Call) -> Operand:
    zero = call.optional(2)
    dtype = quantised.wanted_type(zero.logical if zero else None, int(call.attr("output_dtype", 0)))
    x = call.input(0)
    if x.dtype != np.float32:
        x = call.cast(x, np.float32)
    return quantised.quantized(call, x, call.input(1), zero, dtype, *_along(call))


@row("DequantizeLinear", 10, steps=True)
def _dequantize_linear(call: Call) -> Operand:
    x = call.input(0)
    _check_quantised(0, x, ("int32",))
    return quantised.dequantized(call, x, call.input(1), call.optional(2), *_along(call))


def _along(call: Call) -> tuple[int, int]:
    return int(call.attr("axis", 1)), int(call.attr("block_size", 0))


def _check_quantised(index: int, x: Operand, more: tuple[str, ...] = ()) -> None:
    offered = (*quantised.DTYPES, *more)
    if x.logical not in offered:
        raise ModelError(f"input {index} is {x.logical}, where one of {', '.join(offered)} belongs")


for _name in ("QuantizeLinear", "DequantizeLinear"):
    _found = find("", _name, 21)
    assert _found is not None
    add_row(f"{MICROSOFT}:{_name}", _found.build, steps=True)


# ---- with the operands' scales and zero points as inputs ---------------------------------------------------


def _number_at(call: Call, index: int, axis: int = 1) -> Operand:
    """The numbers that inputs index to index + 2 stand for: an operand, its scale, its zero point."""
    _check_quantised(index, call.input(index))
    return quantised.dequantized(
        call, call.input(index), call.input(index + 1), call.optional(index + 2), axis
    )


def _result(call: Call, y: Operand, index: int) -> Operand:
    """y in the steps that inputs index and index + 1 say."""
    zero = call.optional(index + 1)
    dtype = quantised.wanted_type(zero.logical if zero else None, 0)
    return quantised.quantized(call, y, call.input(index), zero, dtype)


def _of_floats(call: Call, op: str, inputs: list[Operand | None]) -> Operand:
    """What another operator makes of these."""
    version = int(call.attr("opset", 13))
    found = find("", op, version)
    assert found is not None
    given = quantised.inner(call, inputs, version)
    whole = quantised.whole_product(given, found, op)
    if whole is not None:
        return whole
    made = found.build(given)
    result = made if isinstance(made, Operand) else made[0]
    assert result is not None
    return result


def _quantised(op: str, axes: tuple[int, ...]) -> Callable[[Call], Operand]:
    """Operands of three inputs each, then scale and zero point of the result. axes: along which scales of an
    operand may differ."""

    def build(call: Call) -> Operand:
        if call.attr("channels_last", 0):
            raise Refusal("attribute channels_last")
        numbers: list[Operand | None] = [_number_at(call, 3 * i, axis) for i, axis in enumerate(axes)]
        return _result(call, _of_floats(call, op, numbers), 3 * len(axes))

    return build


add_row("QLinearMatMul", _quantised("MatMul", (-2, -1)), 10, steps=True)
for _name, _count in {
    "Add": 2,
    "Mul": 2,
    "AveragePool": 1,
    "GlobalAveragePool": 1,
    "LeakyRelu": 1,
    "Sigmoid": 1,
    "Softmax": 1,
}.items():
    add_row(f"{MICROSOFT}:QLinear{_name}", _quantised(_name, (1,) * _count), steps=True)


def _bias(call: Call, index: int) -> Operand | None:
    """An int32 bias, whose scale is the product of the operands'."""
    bias = call.optional(index)
    if bias is None:
        return None
    a, b = call.input(1), call.input(4)
    if a.array is None or b.array is None:
        scale = call.emit("mul", call.reshape(a, (a.size,)), call.reshape(b, (b.size,)))
        return call.emit("mul", quantised.numbers(call, bias), scale)
    factor = np.asarray(a.array.reshape(-1) * b.array.reshape(-1), np.float32)
    scale = Operand(factor if factor.size > 1 else factor.reshape(()))
    return quantised.dequantized(call, bias, scale, None, 0)


@row("QLinearConv", 10, steps=True)
def _qlinear_conv(call: Call) -> Operand:
    x, w = _number_at(call, 0), _number_at(call, 3, 0)
    return _result(call, _of_floats(call, "Conv", [x, w, _bias(call, 8)]), 6)


@row(f"{MICROSOFT}:QGemm", steps=True)
def _qgemm(call: Call) -> Operand:
    columns = 0 if call.attr("transB", 0) else 1
    a, b = _number_at(call, 0), _number_at(call, 3, columns)
    y = _of_floats(call, "Gemm", [a, b, _bias(call, 6)])
    return _result(call, y, 7) if call.has(7) else y


@row(f"{MICROSOFT}:QLinearConcat", steps=True)
def _qlinear_concat(call: Call) -> Operand:
    """Scale and zero point of the result come first."""
    parts: list[Operand | None] = [_number_at(call, i) for i in range(2, len(call.inputs), 3)]
    return _result(call, _of_floats(call, "Concat", parts), 0)


# ---- sums of whole numbers ---------------------------------------------------------------------------------


def _above_zero(call: Call, index: int, zero: int, axis: int) -> Operand:
    """Input `index` less its zero point, as whole numbers in float32."""
    x, z = call.input(index), call.optional(zero)
    _check_quantised(index, x)
    return quantised.dequantized(call, x, call.constant(1.0, np.float32), z, axis)


def _whole_sum(y: Operand) -> Operand:
    """Exact below 2^24; beyond it as near as float32 is."""
    return replace(y, wide="int32", steps=quantised.WHOLE, whole=None)


@row("ConvInteger", 10, steps=True)
def _conv_integer(call: Call) -> Operand:
    return _whole_sum(_of_floats(call, "Conv", [_above_zero(call, 0, 2, 1), _above_zero(call, 1, 3, 0)]))


@row("MatMulInteger", 10, steps=True)
def _matmul_integer(call: Call) -> Operand:
    return _whole_sum(_of_floats(call, "MatMul", [_above_zero(call, 0, 2, -2), _above_zero(call, 1, 3, -1)]))


@row("DynamicQuantizeLinear", 11, steps=True)
def _dynamic_quantize_linear(call: Call) -> list[Operand]:
    """uint8 between the least and the largest element, with 0 among the steps."""
    x = call.input()
    axes = list(range(x.rank))
    nothing = call.constant(0.0, np.float32)
    low = call.emit("minimum", call.emit("reduce_min", x, axes=axes, keepdims=False), nothing)
    high = call.emit("maximum", call.emit("reduce_max", x, axes=axes, keepdims=False), nothing)
    width = call.emit("div", call.emit("sub", high, low), call.constant(255.0, np.float32))
    flat = call.emit("equal", width, nothing)
    scale = call.emit("where", flat, call.constant(1.0, np.float32), width)
    zero = call.emit("round", call.emit("div", call.emit("neg", low), scale))
    zero = replace(call.emit("clip", zero, min=0.0, max=255.0), wide="uint8", steps=quantised.WHOLE)
    return [quantised.quantized(call, x, scale, zero, "uint8"), scale, zero]
