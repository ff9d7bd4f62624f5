"""ScatterElements and ScatterND.

By indices that are known when the graph is built they are gathers, or, where these name a box of the input
(`x[:, 1:, 2:4] = updates`), what is around the box beside the updates. Where nothing is reduced the result is
a gather from x and the updates side by side. A reduction takes as many gathers as an element has updates at
most, in the order of the updates, so that sums are the same each time. By computed indices they are the
core's scatter, which leaves out those that are outside.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.table import row

Indices = NDArray[np.int64]
_FAR = -(1 << 48)  # outside of every tensor, times its size too
MAX_ROUNDS = 64  # updates of one element

# Reduction -> the core's operator, and what leaves floats and integers as they are.
_REDUCTIONS: dict[str, tuple[str, float]] = {
    "add": ("add", 0.0),
    "mul": ("mul", 1.0),
    "max": ("maximum", -np.inf),
    "min": ("minimum", np.inf),
}


@row("ScatterElements", 11, values=(1,))
def _scatter_elements(call: Call) -> Operand:
    if call.input(1).array is None or call.input(1).length is not None:
        return _elements_computed(call)
    x, indices, updates = call.input(0), _indices(call), call.input(2)
    axis = call.axis(x.rank, 0)
    _check_elements(x, indices.shape, updates, axis)
    at: list[Indices] = [*np.indices(indices.shape, np.int64)]
    at[axis] = _inside(indices, x.shape[axis], axis)
    return _scattered(call, x, updates, _flat(at, x.shape))


@row("ScatterND", 11, values=(1,))
def _scatter_nd(call: Call) -> Operand:
    x, updates, at_shape = call.input(0), call.input(2), call.input(1).shape
    axes = at_shape[-1] if at_shape else 0
    if not at_shape or axes > x.rank:
        raise ModelError(f"indices of shape {at_shape} do not fit its input of shape {x.shape}")
    shape = (*at_shape[:-1], *x.shape[axes:])
    if updates.shape != shape:
        raise ModelError(f"updates have shape {updates.shape}, where indices and input ask for {shape}")
    if call.input(1).array is None or call.input(1).length is not None:
        return _nd_computed(call, axes)
    indices = _indices(call)
    whole = (*indices.shape[:-1], *(1,) * (x.rank - axes))
    at = [_inside(indices[..., i], x.shape[i], i).reshape(whole) for i in range(axes)]
    starts = _box(at, axes) if indices.ndim == axes + 1 else None
    if starts is not None and str(call.attr("reduction", "none")) == "none":
        return _placed(call, x, updates, starts)
    rest = np.indices(x.shape[axes:], np.int64, sparse=True)
    lead = (1,) * (indices.ndim - 1)
    at += [r.reshape((*lead, *r.shape)) for r in rest]
    return _scattered(call, x, updates, np.broadcast_to(_flat(at, x.shape), shape))


def _check_elements(x: Operand, shape: tuple[int, ...], updates: Operand, axis: int) -> None:
    if len(shape) != x.rank or any(n > m for i, (n, m) in enumerate(zip(shape, x.shape)) if i != axis):
        raise ModelError(f"indices of shape {shape} do not fit its input of shape {x.shape}")
    if updates.shape != shape:
        raise ModelError(f"updates have shape {updates.shape}, where indices have {shape}")


# ---- by computed indices -----------------------------------------------------------------------------------


def _elements_computed(call: Call) -> Operand:
    """Whole slices at once where their indices were one for each before an Expand."""
    x, indices, updates = call.input(0), call.input(1), call.input(2)
    axis = call.axis(x.rank, 0)
    _check_elements(x, indices.shape, updates, axis)
    source = call.lengths.spread(indices)
    line = tuple(n if i == axis else 1 for i, n in enumerate(indices.shape))
    others = [n for i, n in enumerate(indices.shape) if i != axis]
    if (
        source is not None
        and source.shape == line
        and others == [n for i, n in enumerate(x.shape) if i != axis]
    ):
        at = _kept(call, source, x.shape[axis])
        return _scatter(call, x, call.reshape(at, (at.size,)), updates, axis)
    at = _kept(call, indices, x.shape[axis], 1)
    rest = [np.arange(n, dtype=np.int64) for n in indices.shape]
    rest[axis] = np.zeros(1, np.int64)
    step = math.prod(x.shape[axis + 1 :])
    if step > 1:
        at = call.emit("mul", at, call.full(at, step))
    base = _flat([np.asarray(r) for r in np.meshgrid(*rest, indexing="ij")], x.shape)
    call.check_size(base.shape)
    at = call.emit("add", at, call.constant(base))
    made = _scatter(
        call, call.reshape(x, (x.size,)), call.reshape(at, (at.size,)), call.reshape(updates, (at.size,)), 0
    )
    return call.reshape(made, x.shape)


def _nd_computed(call: Call, axes: int) -> Operand:
    x, indices, updates = call.input(0), call.input(1), call.input(2)
    if not indices.size or not axes:
        raise Refusal("it has no index")
    whole, last = replace(indices, length=None), indices.rank - 1
    at = None
    for i in range(axes):
        one = (
            call.emit("slice", whole, starts=[i], ends=[i + 1], axes=[last], steps=[1]) if axes > 1 else whole
        )
        one = _kept(
            call,
            replace(one, length=indices.length, axis=indices.axis),
            x.shape[i],
            math.prod(x.shape[i + 1 : axes]),
        )
        at = one if at is None else call.emit("add", at, one)
    assert at is not None
    places, rest = math.prod(x.shape[:axes]), math.prod(x.shape[axes:])
    flat = call.reshape(updates, (at.size, rest))
    made = _scatter(call, call.reshape(x, (places, rest)), call.reshape(at, (at.size,)), flat, 0)
    return call.reshape(made, x.shape)


def _kept(call: Call, at: Operand, size: int, step: int = 1) -> Operand:
    """Indices counted from the front, in steps; those outside, and those that are not real, are far
    outside."""
    indices = replace(call.cast(at, np.int64), length=None)
    none, last = call.full(indices, 0), call.full(indices, size - 1)
    below = call.emit("less", indices, none)
    front = call.emit("where", below, call.emit("add", indices, call.full(indices, size)), indices)
    outside = call.emit("logical_or", call.emit("less", front, none), call.emit("greater", front, last))
    if at.length is not None:
        shape = [n if i == at.axis else 1 for i, n in enumerate(at.shape)]
        odd = call.emit("logical_not", Operand(value=call.lengths.real(at.length)))
        outside = call.emit("logical_or", outside, call.reshape(odd, shape))
    if step > 1:
        front = call.emit("mul", front, call.full(front, step))
    return call.emit("where", outside, call.full(front, _FAR), front)


def _scatter(call: Call, x: Operand, at: Operand, updates: Operand, dim: int) -> Operand:
    reduction = str(call.attr("reduction", "none"))
    if reduction not in ("none", *_REDUCTIONS):
        raise Refusal(f"attribute reduction: {reduction!r}")
    if x.dtype != np.bool_:
        return call.emit("scatter", x, at, updates, dim=dim, reduction=reduction)
    if reduction != "none":
        raise Refusal(f"attribute reduction: {reduction!r} of bool")
    numbers = [call.cast(v, np.int32) for v in (x, updates)]
    return call.cast(call.emit("scatter", numbers[0], at, numbers[1], dim=dim), np.bool_)


# ---- by known indices --------------------------------------------------------------------------------------


def _indices(call: Call) -> Indices:
    indices = call.known(1)
    if indices is None or indices.dtype.kind not in "iu":
        raise ModelError("its indices must be integers")
    call.check_size(call.input(0).shape)
    call.check_size(call.input(2).shape)
    return indices.astype(np.int64)


def _inside(indices: Indices, length: int, axis: int) -> Indices:
    """Indices counted from the front. Raises ModelError for one that is outside of its axis."""
    odd = (indices < -length) | (indices >= length)
    if odd.any():
        raise ModelError(f"index {indices[odd][0]} is outside of axis {axis}, which has {length} elements")
    return np.where(indices < 0, indices + length, indices)


def _flat(at: list[Indices], shape: tuple[int, ...]) -> Indices:
    """Numbers of elements in row-major order."""
    total = np.zeros((), np.int64)
    for index, n in zip(at, shape, strict=True):
        total = total * n + index
    return total


def _box(at: list[Indices], axes: int) -> list[int] | None:
    """The first index of each axis, if those of axis i count up along dimension i and nowhere else."""
    starts = []
    for i, index in enumerate(at):
        if not index.size:
            return None
        line = np.arange(index.shape[i]).reshape([-1 if d == i else 1 for d in range(index.ndim)])
        first = int(index.flat[0])
        if not np.array_equal(index, np.broadcast_to(first + line, index.shape)):
            return None
        starts.append(first)
    return starts


def _placed(call: Call, x: Operand, updates: Operand, starts: list[int]) -> Operand:
    """x with updates in the box that begins at starts: from the last axis on what is before and after it."""
    made = updates
    for axis in reversed(range(len(starts))):
        bounds = [(first, first + n) for first, n in zip(starts[:axis], updates.shape)]
        first, past = starts[axis], starts[axis] + updates.shape[axis]
        around = [(0, first), (past, x.shape[axis])]
        before, after = (_part(call, x, [*bounds, one]) if one[0] < one[1] else None for one in around)
        pieces = [piece for piece in (before, made, after) if piece is not None]
        made = pieces[0] if len(pieces) == 1 else call.emit("concat", *pieces, dim=axis)
    return made


def _part(call: Call, x: Operand, bounds: list[tuple[int, int]]) -> Operand:
    """x between bounds of its first axes."""
    cut = [i for i, (first, past) in enumerate(bounds) if (first, past) != (0, x.shape[i])]
    if not cut:
        return x
    starts, ends = [bounds[i][0] for i in cut], [bounds[i][1] for i in cut]
    return call.emit("slice", x, starts=starts, ends=ends, axes=cut, steps=[1] * len(cut))


def _scattered(call: Call, x: Operand, updates: Operand, at: Indices) -> Operand:
    """x with updates at these elements."""
    if at.size == 0:
        return x
    reduction = str(call.attr("reduction", "none"))
    if reduction not in ("none", *_REDUCTIONS):
        raise Refusal(f"attribute reduction: {reduction!r}")
    at = at.reshape(-1)
    rounds = _rounds(at, x.size)
    flat, given = call.reshape(x, (x.size,)), call.reshape(updates, (updates.size,))
    if reduction == "none":
        if len(rounds) > 1:
            place = [int(i) for i in np.unravel_index(np.flatnonzero(rounds[1] >= 0)[0], x.shape)]
            raise ModelError(f"its indices name element {place} twice, and there is no reduction")
        picked = np.where(rounds[0] >= 0, rounds[0] + x.size, np.arange(x.size))
        both = call.emit("concat", flat, given, dim=0)
        return call.reshape(call.emit("gather", both, call.constant(picked), dim=0), x.shape)
    if len(rounds) > MAX_ROUNDS:
        raise Refusal(f"one element has {len(rounds)} updates, more than {MAX_ROUNDS}")
    op, neutral = _REDUCTIONS[reduction]
    both = call.emit("concat", given, call.constant([_as_element(neutral, x.dtype)], x.dtype), dim=0)
    for picked in rounds:
        picked = np.where(picked >= 0, picked, at.size)
        flat = call.emit(op, flat, call.emit("gather", both, call.constant(picked), dim=0))
    return call.reshape(flat, x.shape)


def _as_element(number: float, dtype: np.dtype[Any]) -> Any:
    """An infinity as the largest or smallest integer."""
    if dtype.kind == "f" or np.isfinite(number):
        return number
    limits = np.iinfo(dtype)
    return limits.max if number > 0 else limits.min


def _rounds(at: Indices, size: int) -> list[Indices]:
    """For each round the update of each element, or -1: first updates first."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, at.size])
    rank = np.arange(at.size) - np.repeat(starts, counts)
    rounds = []
    for i in range(min(int(counts.max()), MAX_ROUNDS + 1)):
        picked = np.full(size, -1, np.int64)
        picked[ordered[rank == i]] = order[rank == i]
        rounds.append(picked)
    return rounds
