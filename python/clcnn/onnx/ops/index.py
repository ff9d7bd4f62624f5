"""Operators that pick elements by indices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand
from clcnn.onnx.export_step import Emit, Step, plain
from clcnn.onnx.lengths import Length
from clcnn.onnx.table import row


def check_indices(x: Operand, indices: Operand, axis: int) -> None:
    """ModelError if known ones are no elements of that axis of x."""
    known = indices.array
    if known is not None and known.size and not -x.shape[axis] <= known.min() <= known.max() < x.shape[axis]:
        raise ModelError(f"its indices are outside of axis {axis}, which has {x.shape[axis]} elements")


@row("Gather")
def _gather(call: Call) -> Operand:
    x, indices = call.input(0), call.input(1)
    axis = call.axis(x.rank, 0)
    check_indices(x, indices, axis)
    return call.emit("gather", x, indices, dim=axis)


@row("GatherElements", 11)
def _gather_elements(call: Call) -> Operand:
    x = call.input(0)
    return call.emit("gather_elements", x, call.input(1), dim=call.axis(x.rank, 0))


@row("GatherND", 11)
def _gather_nd(call: Call) -> Operand:
    return call.emit("gather_nd", call.input(0), call.input(1), batch_dims=int(call.attr("batch_dims", 0)))


@row("NonZero", 9)
def _nonzero(call: Call) -> Operand:
    """Room for all elements; of several dimensions, numbers of elements are taken apart."""
    x = call.input()
    numbers = _found(call, x)
    rest, columns = call.reshape(replace(numbers, length=None), (1, x.size)), list[Operand]()
    for n in reversed(x.shape[1:]):
        size = call.constant([[n]], np.int64)
        columns.insert(0, call.emit("mod", rest, size))
        rest = call.emit("div", rest, size)
    made = call.emit("concat", rest, *columns, dim=0) if columns else rest
    return replace(made, length=numbers.length, axis=1)


@row("Compress", 9)
def _compress(call: Call) -> Operand:
    """Slices of x where the condition holds, which may be shorter than the axis."""
    x, numbers = call.input(), _found(call, call.input(1))
    axis = None if "axis" not in call.attrs else call.axis(x.rank)
    x = call.reshape(x, (x.size,)) if axis is None else x
    if numbers.rank != 1 or numbers.size > x.shape[axis or 0]:
        raise ModelError(f"a condition of shape {call.input(1).shape} does not fit {x.shape}")
    made = call.emit("gather", x, replace(numbers, length=None), dim=axis or 0)
    return replace(made, length=numbers.length, axis=axis or 0)


def _found(call: Call, x: Operand) -> Operand:
    """Numbers of the elements that are not 0, the same for all who ask for them."""
    value = call.value(x)
    numbers, count = call.lengths.once(("nonzero", value.id), lambda: call.emit_many("nonzero", x))
    assert count.value is not None
    return replace(numbers, length=Length(x.size, count.value, 1, frozenset({count.value.id})))


@row("OneHot", 9, values=(1, 2))
def _one_hot(call: Call) -> Operand:
    """Indices count from the end when negative; those outside of the depth give a row of off values."""
    indices, depth, values = call.input(0), int(call.number(1)), call.known(2)
    if values is None or values.size != 2 or depth < 1:
        raise ModelError("it needs a depth of at least 1 and the two values off and on")
    axis = call.axis(indices.rank + 1, -1)
    at = call.cast(indices, np.int64)
    at = call.reshape(at, (*at.shape[:axis], 1, *at.shape[axis:]))
    call.check_size((depth,))
    counts = np.arange(depth, dtype=np.int64).reshape([-1 if i == axis else 1 for i in range(at.rank)])
    hit = call.emit("equal", at, call.constant(counts))
    negative = call.emit("equal", at, call.constant(counts - depth))
    off, on = (call.constant(values[i].reshape((1,) * at.rank)) for i in (0, 1))
    return call.emit("where", call.emit("logical_or", hit, negative), on, off)


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_gather_nd(step: Step) -> None:
    """ONNX takes int64 only."""
    indices = step.inputs[1]
    if step.dtypes[1] != "int64":
        indices = step.middle("Cast", indices, to=TensorProto.INT64)
    step.add("GatherND", step.x, indices, batch_dims=step.attrs["batch_dims"])


def _write_nonzero(step: Step) -> None:
    """ONNX gives the numbers found, of a tensor of one dimension in a row."""
    flat = step.middle("Reshape", step.x, step.integers([-1]))
    step.add_counted(step.middle("Squeeze", step.middle("NonZero", flat), step.integers([0])))


def _write_scatter(step: Step) -> None:
    """ONNX takes an index for each element of the updates."""
    x, indices, updates = step.inputs
    dim, shape = int(step.attrs["dim"]) % len(step.shape), list(step.shapes[2])
    line = [n if i == dim else 1 for i, n in enumerate(shape)]
    each = step.middle("Expand", step.middle("Reshape", indices, step.integers(line)), step.integers(shape))
    step.add("ScatterElements", x, each, updates, axis=dim, reduction=step.attrs["reduction"])


WRITE: dict[str, Emit] = {
    "gather": plain("Gather", axis="dim"),
    "gather_elements": plain("GatherElements", axis="dim"),
    "gather_nd": _write_gather_nd,
    "nonzero": _write_nonzero,
    "scatter": _write_scatter,
}
