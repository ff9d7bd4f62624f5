"""Operators on tensors of which data say how many rows are real (lengths.py): shapes stay bounds.

Each operator has a rule that says along which axis its results have the length. Elements that are not real
hold any numbers; a rule puts neutral ones there where they would be added up, compared or chosen. An operator
without a rule, or two lengths in one tensor, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clcnn.onnx import lengths, quantised
from clcnn.onnx.call import Call, Operand, Refusal, wrap
from clcnn.onnx.lengths import DEPENDS, Length, Sizes
from clcnn.onnx.table import Row

Results = Sequence[Operand | None]
Rule = Callable[[Call, Row | None], Results]
RULES: dict[str, Rule] = {}
OTHER = f"{DEPENDS}, and that of another may be a different one"
SEVERAL = f"{DEPENDS} in several dimensions"


def build(call: Call, row: Row | None) -> Results:
    """The results of an operator of which an input has a length, or is of sizes that depend on data."""
    if any(x is not None and x.sizes is not None for x in call.inputs):
        made = lengths.compute(call)
        if made is not None:
            return [made]
    rule = RULES.get(call.op)
    if rule is None or row is None:
        raise Refusal(DEPENDS)
    return rule(call, row)


def rule(*ops: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


# ---- what rules are made of --------------------------------------------------------------------------------


def bare(x: Operand | None) -> Operand | None:
    """The operand as if all of its elements were real."""
    return x if x is None or x.length is None else replace(x, length=None)


def marked(x: Operand | None, axis: int, length: Length | None) -> Operand | None:
    return x if x is None or length is None else replace(x, length=length, axis=axis)


def plain(call: Call, row: Row | None, inputs: Sequence[Operand | None] | None = None) -> Results:
    """What the operator gives for bounds."""
    assert row is not None
    given = call.inputs if inputs is None else inputs
    return quantised.build(quantised.inner(call, [bare(x) for x in given], call.version), row)


def alone(call: Call, index: int = 0) -> Operand:
    """The input that has a length, when no other has one."""
    if any(x is not None and x.length is not None for i, x in enumerate(call.inputs) if i != index):
        raise Refusal(DEPENDS)
    return call.input(index)


def filled(call: Call, x: Operand, number: float) -> Operand:
    """x with a number in the place of elements that are not real; integers have their limits for
    infinities."""
    if x.length is None:
        return x
    if x.dtype.kind != "f" and not math.isfinite(number):
        limits = np.iinfo(x.dtype)
        number = limits.max if number > 0 else limits.min
    length, whole = x.length, replace(x, length=None)

    def made() -> Operand:
        shape = [n if i == x.axis else 1 for i, n in enumerate(x.shape)]
        real = call.reshape(Operand(value=call.lengths.real(length)), shape)
        return call.emit("where", real, whole, Operand(np.full((1,) * x.rank, number, x.dtype)))

    key = ("filled", call.value(whole).id, x.axis, length.key, str(number))
    return replace(x, array=None, value=call.lengths.once(key, made).value)


def _axis_of(call: Call, x: Operand, default: int = 0) -> int:
    return wrap(int(call.attr("axis", default)), x.rank)


# ---- element by element ------------------------------------------------------------------------------------


@rule(
    *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd", "BitwiseNot"),
    *("BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu"),
    *("Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish"),
    *("Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish"),
    *("Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid"),
    *("Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh", "Where", "Xor"),
)
def _each(call: Call, row: Row | None) -> Results:
    """Counted from the right, all lengths are along one axis and are the same."""
    behind, length = _shared([x for x in call.inputs if x is not None])
    made = plain(call, row)
    return [marked(x, x.rank - behind, length) for x in made if x is not None]


def _shared(inputs: Sequence[Operand]) -> tuple[int, Length | None]:
    """The axis of the length of operands that broadcast, counted from the right, and the length. Raises
    Refusal where they need not fit."""
    counted = [x for x in inputs if x.length is not None]
    if not counted:
        return 0, None
    first = counted[0]
    assert first.length is not None
    behind = first.rank - first.axis
    for x in inputs:
        size: Any = lengths.shape_of(x)[x.rank - behind] if x.rank >= behind else 1
        if x.length is not None and (x.rank - x.axis != behind or not lengths.same(size, first.length)):
            raise Refusal(OTHER)
        if x.length is None and size != 1:
            raise Refusal(f"{DEPENDS}, where another has {size}")
    return behind, first.length


# ---- along other axes --------------------------------------------------------------------------------------


@rule("LayerNormalization", "LogSoftmax", "LpNormalization", "Softmax", "Hardmax", "CumSum")
def _along(call: Call, row: Row | None) -> Results:
    x = alone(call)
    axis = _axis_of(call, x, -1) if call.op != "CumSum" else wrap(int(call.number(1)), x.rank)
    given = [*call.inputs]
    if x.length is not None and axis <= x.axis and (axis == x.axis or call.op == "LayerNormalization"):
        if call.op not in ("LogSoftmax", "Softmax") or call.version < 13:
            raise Refusal(DEPENDS)
        given[0] = filled(call, x, -math.inf)
    return [marked(y, x.axis, x.length) for y in plain(call, row, given)]


_NEUTRAL = {
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0.0),
    **dict.fromkeys(("ReduceMax", "ReduceLogSumExp", "ArgMax"), -math.inf),
    **dict.fromkeys(("ReduceMin", "ArgMin"), math.inf),
    "ReduceProd": 1.0,
}


@rule(*_NEUTRAL, "ReduceMean")
def _reduce(call: Call, row: Row | None) -> Results:
    x = alone(call)
    if call.op.startswith("Arg"):
        axes = [_axis_of(call, x)]
    else:
        given = call.ints(1) if call.has(1) else call.attr("axes")
        axes = [wrap(axis, x.rank) for axis in (given or range(x.rank))]
    if x.length is not None and x.axis in axes:
        if call.op not in _NEUTRAL:
            raise Refusal(DEPENDS)
        return plain(call, row, [filled(call, x, _NEUTRAL[call.op]), *call.inputs[1:]])
    kept = x.axis if call.attr("keepdims", 1) else x.axis - sum(axis < x.axis for axis in axes)
    return [marked(y, kept, x.length) for y in plain(call, row)]


@rule(
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool"),
    *("GlobalMaxPool", "InstanceNormalization", "MaxPool", "Resize", "SpaceToDepth", "Pad", "Upsample"),
)
def _items(call: Call, row: Row | None) -> Results:
    """Each item of a batch by itself."""
    x = alone(call)
    if x.axis != 0 or call.op == "Pad" and any((call.ints(1) or [1])[:: x.rank]):
        raise Refusal(DEPENDS)
    return [marked(y, 0, x.length) for y in plain(call, row)]


@rule("Gemm", "MatMul")
def _product(call: Call, row: Row | None) -> Results:
    """Rows of the left factor."""
    x = alone(call)
    if x.axis == x.rank - 1 or call.attr("transA", 0):
        raise Refusal(DEPENDS)
    other = call.input(1).rank
    return [marked(y, x.axis + max(other - x.rank, 0), x.length) for y in plain(call, row)]


@rule("RoiAlign")
def _roi_align(call: Call, row: Row | None) -> Results:
    if call.input(0).length is not None:
        raise Refusal(DEPENDS)
    rois, items = call.input(1), call.input(2)
    if rois.length is None or rois.axis != 0 or items.length is None:
        raise Refusal(DEPENDS)
    if not lengths.same(rois.length, items.length):
        raise Refusal(OTHER)
    given = [call.input(0), rois, filled(call, items, -1)]  # regions of no item are not sampled
    return [marked(y, 0, rois.length) for y in plain(call, row, given)]


# ---- shapes ------------------------------------------------------------------------------------------------


@rule("Shape")
def _shape(call: Call, row: Row | None) -> Results:
    sizes = lengths.shape_of(call.input())
    return [lengths.operand(sizes[slice(call.attr("start", 0), call.attr("end"))])]


@rule("Size")
def _size(call: Call, row: Row | None) -> Results:
    x = alone(call)
    assert x.length is not None
    return [lengths.operand(x.length.scaled(x.size // x.length.most))]


@rule("Flatten", "Reshape")
def _reshape(call: Call, row: Row | None) -> Results:
    x = call.input()
    given = call.inputs[1] if call.has(1) else None
    to = given if given is None or given.sizes is None else Operand(np.array(lengths.bounds(given.sizes)))
    if x.length is None:
        raise Refusal(DEPENDS)
    made = plain(call, row, [x, to][: 2 if call.has(1) else 1])
    return [marked(y, *lengths.moved(x.shape, x.axis, x.length, y.shape)) for y in made if y is not None]


@rule("Squeeze", "Unsqueeze")
def _squeeze(call: Call, row: Row | None) -> Results:
    x = alone(call)
    axes = list((call.ints(1) if call.has(1) else call.attr("axes")) or [])
    if call.op == "Squeeze":
        axes = [wrap(a, x.rank) for a in axes] or [i for i, n in enumerate(x.shape) if n == 1 and i != x.axis]
        if x.axis in axes:
            raise Refusal(DEPENDS)
        inputs = [x, Operand(np.array(axes))] if call.version >= 13 else [x]
        return [marked(y, x.axis - sum(a < x.axis for a in axes), x.length) for y in plain(call, row, inputs)]
    added = {wrap(a, x.rank + len(axes)) for a in axes}
    places = [i for i in range(x.rank + len(axes)) if i not in added]
    return [marked(y, places[x.axis], x.length) for y in plain(call, row)]


@rule("Transpose")
def _transpose(call: Call, row: Row | None) -> Results:
    x = alone(call)
    perm = list(call.attr("perm") or reversed(range(x.rank)))
    return [marked(y, perm.index(x.axis), x.length) for y in plain(call, row)]


@rule("Expand")
def _expand(call: Call, row: Row | None) -> Results:
    x, to = call.input(), call.input(1)
    sizes: Sizes = np.asarray(to.array, object) if to.sizes is None else to.sizes
    made = plain(call, row, [x, Operand(np.array(lengths.bounds(sizes), np.int64))])[0]
    assert made is not None
    behind, length = _shared([x, Operand(sizes=sizes)]) if x.length is not None else (0, None)
    for i, size in enumerate(sizes[::-1]):
        if isinstance(size, Length):
            if length is not None and (behind != i + 1 or not lengths.same(size, length)):
                raise Refusal(OTHER)
            behind, length = i + 1, size
    found = marked(made, made.rank - behind, length)
    if made.value is not None:
        call.lengths.once(("spread", made.value.id), lambda: x)
    return [found]


@rule("ConstantOfShape")
def _constant_of_shape(call: Call, row: Row | None) -> Results:
    sizes = call.input().sizes
    assert sizes is not None
    shape, axes = lengths.bounds(sizes), [i for i, s in enumerate(sizes) if isinstance(s, Length)]
    if len(axes) != 1:
        raise Refusal(SEVERAL)
    call.check_size(shape)
    tensor = call.attr("value")
    number = np.zeros(1, np.float32) if tensor is None else np.asarray(tensor)
    return [marked(Operand(np.full(shape, number.reshape(-1)[0])), axes[0], sizes[axes[0]])]


@rule("Range")
def _range(call: Call, row: Row | None) -> Results:
    start, limit, step = (x.sizes if x.sizes is not None else x.array for x in map(call.input, range(3)))
    last = None if limit is None else np.asarray(limit, object).reshape(-1)[0]
    if (
        start is None
        or step is None
        or not isinstance(last, Length)
        or start.any()
        or step.reshape(-1)[0] != 1
    ):
        raise Refusal(DEPENDS)
    return [marked(Operand(np.arange(last.most, dtype=np.int64)), 0, last)]


# ---- parts and wholes --------------------------------------------------------------------------------------


@rule("Slice")
def _slice(call: Call, row: Row | None) -> Results:
    x = call.input()
    if not call.has(1):
        starts, ends, axes, steps = (list(call.attr(n) or []) for n in ("starts", "ends", "axes", "steps"))
    else:
        starts, ends, axes, steps = (_listed(call.optional(i)) for i in range(1, 5))
    axes = [wrap(a, x.rank) for a in axes or range(len(starts))]
    steps = steps or [1] * len(starts)
    length, axis = x.length, x.axis
    for i, (at, start, end, step) in enumerate(zip(axes, starts, ends, steps, strict=True)):
        if at != axis and not isinstance(end, Length) and not isinstance(start, Length):
            continue
        if isinstance(start, Length) or start != 0 or step != 1 or (not isinstance(end, Length) and end < 0):
            raise Refusal(f"{DEPENDS}, and it takes others than the first ones")
        size = lengths.shape_of(x)[at]
        if isinstance(end, Length) and length is None:
            length, axis = call.lengths.least(end, size), at
        elif at != axis or length is None:
            raise Refusal(DEPENDS)
        else:
            length = call.lengths.least(length, end)
        ends[i] = length.most
    if length is not None and length.most == 0:
        raise Refusal(f"{DEPENDS}, and none is taken")
    parts = [np.array(n, np.int64) for n in (starts, ends, axes, steps)]
    made = plain(call, row, [x, *map(Operand, parts)] if call.has(1) else None)
    return [marked(y, axis, length) for y in made]


def _listed(x: Operand | None) -> list[Any]:
    if x is None:
        return []
    known = x.array if x.sizes is None else x.sizes
    if known is None:
        raise Refusal("its bounds depend on data")
    return known.reshape(-1).tolist()


@rule("Split")
def _split(call: Call, row: Row | None) -> Results:
    x = alone(call)
    if x.length is not None and _axis_of(call, x) == x.axis:
        raise Refusal(DEPENDS)
    return [marked(y, x.axis, x.length) for y in plain(call, row)]


@rule("Concat")
def _concat(call: Call, row: Row | None) -> Results:
    """Along the axis of the lengths, real parts one after the other: what lies between them is left out."""
    parts = [x for x in call.inputs if x is not None]
    axis = _axis_of(call, parts[0], 1)
    counted = [x for x in parts if x.length is not None]
    at = counted[0].axis
    if any(x.axis != at for x in counted):
        raise Refusal(SEVERAL)
    sizes = [lengths.shape_of(x)[at] for x in parts]
    if axis != at:
        if not all(lengths.same(s, sizes[0]) for s in sizes):
            raise Refusal(OTHER)
        return [marked(y, at, counted[0].length) for y in plain(call, row)]
    whole = plain(call, row)[0]
    if len(parts) == 1 or whole is None:
        return [marked(whole, at, parts[0].length)]
    total = call.lengths.total(sizes)
    if any(isinstance(s, Length) for s in sizes[:-1]):
        key = ("joined", *(s.key if isinstance(s, Length) else s for s in sizes))
        picked = call.lengths.once(key, lambda: _joined(call, sizes))
        whole = call.emit("gather", whole, picked, dim=at)
    return [marked(whole, at, total)]


def _joined(call: Call, sizes: Sequence[Any]) -> Operand:
    """Where the real rows are in parts side by side."""
    real = [
        Operand(value=call.lengths.real(s)) if isinstance(s, Length) else Operand(np.ones(s, np.bool_))
        for s in sizes
    ]
    return call.emit_many("nonzero", call.emit("concat", *real, dim=0))[0]


# ---- by indices --------------------------------------------------------------------------------------------


@rule("Gather")
def _gather(call: Call, row: Row | None) -> Results:
    x, indices = call.input(0), call.input(1)
    axis = _axis_of(call, x)
    if x.length is not None and x.axis == axis:
        if indices.array is not None and np.any(indices.array < 0):
            raise Refusal(f"{DEPENDS}, and it counts from the end")
        x = replace(x, length=None)
    if x.length is not None and indices.length is not None:
        raise Refusal(SEVERAL)
    made = plain(call, row)
    if indices.length is not None:
        return [marked(y, axis + indices.axis, indices.length) for y in made]
    return [marked(y, x.axis + (indices.rank - 1 if axis < x.axis else 0), x.length) for y in made]


@rule("GatherElements")
def _gather_elements(call: Call, row: Row | None) -> Results:
    x, indices = call.input(0), call.input(1)
    axis = _axis_of(call, x)
    if x.length is not None and x.axis != axis:
        _shared([x, indices])
    return [marked(y, indices.axis, indices.length) for y in plain(call, row)]


@rule("GatherND")
def _gather_nd(call: Call, row: Row | None) -> Results:
    x, indices = call.input(0), call.input(1)
    first = int(call.attr("batch_dims", 0))
    last = indices.rank - 1
    inside = x.length is None or first <= x.axis < first + indices.shape[last]
    if not inside or (indices.length is not None and indices.axis == last):
        raise Refusal(DEPENDS)
    return [marked(y, indices.axis, indices.length) for y in plain(call, row)]


@rule("TopK")
def _topk(call: Call, row: Row | None) -> Results:
    """The best of real ones; as many as are asked for, of which data may say how many."""
    x, k = call.input(0), call.optional(1)
    axis, length = _axis_of(call, x, -1), x.length if x.axis != _axis_of(call, x, -1) else None
    given = [*call.inputs]
    if x.length is not None and x.axis == axis:
        given[0] = filled(call, x, -math.inf if call.attr("largest", 1) else math.inf)
    if k is not None and k.sizes is not None:
        most = k.sizes.reshape(-1)[0]
        if length is not None or not isinstance(most, Length):
            raise Refusal(SEVERAL)
        given[1] = Operand(np.array([min(most.most, x.shape[axis])], np.int64))
        return [marked(y, axis, most) for y in plain(call, row, given)]
    return [marked(y, x.axis, length) for y in plain(call, row, given)]


@rule("NonMaxSuppression")
def _nms(call: Call, row: Row | None) -> Results:
    """Boxes that are not real have no score."""
    scores = call.input(1)
    boxes = call.input(0)
    if scores.length is None or boxes.length is None or (boxes.axis, scores.axis) != (1, 2):
        raise Refusal(DEPENDS)
    if not lengths.same(boxes.length, scores.length):
        raise Refusal(OTHER)
    given = [boxes, filled(call, scores, math.nan), *call.inputs[2:]]
    return _chosen(boxes, plain(call, row, given))


@rule("NonZero")
def _nonzero(call: Call, row: Row | None) -> Results:
    return _chosen(call.input(), plain(call, row, [filled(call, call.input(), 0)]))


@rule("Compress")
def _compress(call: Call, row: Row | None) -> Results:
    given = [call.input(0), filled(call, call.input(1), 0)]
    return _chosen(call.input(1), plain(call, row, given))


def _chosen(x: Operand, made: Results) -> Results:
    """Results of which there are none where x has no elements."""
    if x.length is None:
        return made
    more = x.length.empty_with
    return [
        y
        if y is None or y.length is None
        else replace(y, length=replace(y.length, empty_with=y.length.empty_with | more))
        for y in made
    ]


@rule("ScatterElements", "ScatterND")
def _scatter(call: Call, row: Row | None) -> Results:
    """The operator itself leaves out updates that are not real."""
    x, indices, updates = (call.input(i) for i in range(3))
    if (updates.length is None) != (indices.length is None) or updates.axis != indices.axis:
        raise Refusal(OTHER)
    if updates.length is not None and not lengths.same(updates.length, indices.length):
        raise Refusal(OTHER)
    assert row is not None
    given = quantised.inner(call, [bare(x), indices, bare(updates)], call.version)
    return [marked(y, x.axis, x.length) for y in quantised.build(given, row)]
