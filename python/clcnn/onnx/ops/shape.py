"""Operators that move elements about: Reshape, Slice, Concat, Pad, Tile ..., and those about shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal, wrap_all
from clcnn.onnx.export_step import Emit, Step, plain
from clcnn.onnx.table import add_row, host_only, row

# ---- known when shapes are ---------------------------------------------------------------------------------


@row("Shape", 1, 14)
def _shape_1(call: Call) -> Operand:
    return call.constant(call.input().shape, np.int64)


@row("Shape", 15)
def _shape(call: Call) -> Operand:
    shape = call.input().shape
    return call.constant(shape[slice(call.attr("start", 0), call.attr("end"))], np.int64)


@row("Size")
def _size(call: Call) -> Operand:
    return call.constant(call.input().size, np.int64)


add_row("ConstantOfShape", host_only, 9, values=(0,))
add_row("Range", host_only, 11, values=(0, 1, 2))
add_row("Unique", host_only, 11, values=(0,))


@row("EyeLike", 9)
def _eye_like(call: Call) -> Operand:
    x = call.input()
    if x.rank != 2:
        raise ModelError(f"its input must have rank 2, not {x.rank}")
    call.check_size(x.shape)
    code = call.attr("dtype")
    dtype = np.dtype(x.logical) if code is None else onnx.helper.tensor_dtype_to_np_dtype(code)
    return call.constant(np.eye(x.shape[0], x.shape[1], call.attr("k", 0)), dtype)


# ---- the same elements in another shape --------------------------------------------------------------------


@row("Reshape", 1, 4)
def _reshape_1(call: Call) -> Operand:
    return _reshaped(call, list(call.attr("shape")))


@row("Reshape", 5, values=(1,))
def _reshape(call: Call) -> Operand:
    return _reshaped(call, call.ints(1) or [])


def _reshaped(call: Call, wanted: Sequence[int]) -> Operand:
    x = call.input()
    shape = list(wanted)
    if not call.attr("allowzero", 0):
        for i, n in enumerate(shape):
            if n == 0 and i >= x.rank:
                raise ModelError(f"shape {shape} copies dimension {i} of a tensor of rank {x.rank}")
            shape[i] = x.shape[i] if n == 0 else n
    if shape.count(-1) > 1 or any(n < -1 for n in shape):
        raise ModelError(f"{wanted} is no shape: at most one -1, and nothing below it")
    if -1 in shape:
        rest = math.prod(n for n in shape if n != -1)
        if rest == 0 or x.size % rest:
            raise ModelError(f"{x.shape} cannot be reshaped to {wanted}")
        shape[shape.index(-1)] = x.size // rest
    if math.prod(shape) != x.size:
        raise ModelError(f"{x.shape} with {x.size} elements cannot be reshaped to {wanted}")
    return call.reshape(x, shape)


@row("Flatten")
def _flatten(call: Call) -> Operand:
    x = call.input()
    axis = int(call.attr("axis", 1))
    axis = axis if axis == x.rank else call.axis(x.rank, 1)
    return call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@row("Squeeze", 1, 12)
def _squeeze_1(call: Call) -> Operand:
    return _squeezed(call, call.attr("axes"))


@row("Squeeze", 13, values=(1,))
def _squeeze(call: Call) -> Operand:
    return _squeezed(call, call.ints(1))


def _squeezed(call: Call, given: list[int] | None) -> Operand:
    x = call.input()
    axes = [i for i, n in enumerate(x.shape) if n == 1] if given is None else wrap_all(given, x.rank)
    if any(x.shape[axis] != 1 for axis in axes):
        raise ModelError(f"axes {given} of shape {x.shape} are not all 1")
    return call.reshape(x, [n for i, n in enumerate(x.shape) if i not in axes])


@row("Unsqueeze", 1, 12)
def _unsqueeze_1(call: Call) -> Operand:
    return _unsqueezed(call, call.attr("axes"))


@row("Unsqueeze", 13, values=(1,))
def _unsqueeze(call: Call) -> Operand:
    return _unsqueezed(call, call.ints(1) or [])


def _unsqueezed(call: Call, given: list[int]) -> Operand:
    x = call.input()
    rank = x.rank + len(given)
    axes = wrap_all(given, rank)
    sizes = iter(x.shape)
    return call.reshape(x, [1 if i in axes else next(sizes) for i in range(rank)])


@row("Transpose")
def _transpose(call: Call) -> Operand:
    x = call.input()
    perm = list(call.attr("perm") or reversed(range(x.rank)))
    if sorted(perm) != list(range(x.rank)):
        raise ModelError(f"perm {perm} is no permutation of {x.rank} dimensions")
    return call.transpose(x, perm)


@row("DepthToSpace")
def _depth_to_space(call: Call) -> Operand:
    x, block = call.input(), int(call.attr("blocksize"))
    n, c, h, w = _image(x, block, channels=True)
    column_first = call.attr("mode", "DCR") == "CRD"
    split = (n, c // block**2, block, block, h, w) if column_first else (n, block, block, c // block**2, h, w)
    perm = (0, 1, 4, 2, 5, 3) if column_first else (0, 3, 4, 1, 5, 2)
    moved = call.transpose(call.reshape(x, split), perm)
    return call.reshape(moved, (n, c // block**2, h * block, w * block))


@row("SpaceToDepth")
def _space_to_depth(call: Call) -> Operand:
    x, block = call.input(), int(call.attr("blocksize"))
    n, c, h, w = _image(x, block, channels=False)
    split = call.reshape(x, (n, c, h // block, block, w // block, block))
    if call.attr("mode", "DCR") == "CRD":
        moved = call.transpose(split, (0, 1, 3, 5, 2, 4))
    else:
        moved = call.transpose(split, (0, 3, 5, 1, 2, 4))
    return call.reshape(moved, (n, c * block**2, h // block, w // block))


def _image(x: Operand, block: int, channels: bool) -> tuple[int, int, int, int]:
    if x.rank != 4:
        raise ModelError(f"its input must be N,C,H,W, but has rank {x.rank}")
    n, c, h, w = x.shape
    if block < 1 or (c % block**2 if channels else h % block or w % block):
        raise ModelError(f"shape {x.shape} does not divide into blocks of {block}")
    return n, c, h, w


# ---- parts and wholes --------------------------------------------------------------------------------------


@row("Concat")
def _concat(call: Call) -> Operand:
    """Parts without elements add nothing, and the core has none."""
    parts = [x for x in call.inputs if x is not None]
    axis = call.axis(parts[0].rank, 1)
    full = [x for x in parts if x.size > 0]
    return full[0] if len(full) == 1 else call.emit("concat", *full, dim=axis)


@row("Split", 1, 1)
def _split_1(call: Call) -> list[Operand]:
    return _split_by(call, call.attr("split") or (call.ints(1) if call.has(1) else None))


@row("Split", 2, 12)
def _split_2(call: Call) -> list[Operand]:
    return _split_by(call, call.attr("split"))


@row("Split", 13, values=(1,))
def _split(call: Call) -> list[Operand]:
    return _split_by(call, call.ints(1))


def _split_by(call: Call, sizes: list[int] | None) -> list[Operand]:
    x, count = call.input(), int(call.attr("num_outputs", len(call.wanted)))
    axis = call.axis(x.rank, 0)
    length = x.shape[axis]
    if sizes is None:
        part = -(-length // count)
        sizes = [min(part, max(length - i * part, 0)) for i in range(count)]
        if call.version < 18 and length % count:
            raise ModelError(f"{length} elements do not split into {count} equal parts")
    if sum(sizes) != length or any(n < 0 for n in sizes) or len(sizes) != len(call.wanted):
        raise ModelError(f"sizes {sizes} do not split {length} elements to {len(call.wanted)} outputs")
    full = [n for n in sizes if n > 0]
    if len(full) == 1:
        made = iter([x])
    else:
        made = iter(call.emit_many("split", x, sizes=full, dim=axis))
    empty = np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]), x.dtype)
    return [next(made) if n > 0 else Operand(empty) for n in sizes]


@row("Slice", 1, 9)
def _slice_1(call: Call) -> Operand:
    return _sliced(call, call.attr("starts"), call.attr("ends"), call.attr("axes"), None)


@row("Slice", 10, values=(1, 2, 3, 4))
def _slice(call: Call) -> Operand:
    return _sliced(call, call.ints(1) or [], call.ints(2) or [], call.ints(3), call.ints(4))


def _sliced(
    call: Call, starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None
) -> Operand:
    x = call.input()
    axes = wrap_all(axes if axes is not None else list(range(len(starts))), x.rank)
    steps = steps if steps is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError("starts, ends, axes and steps must have the same length")
    if 0 in steps:
        raise ModelError("a step of 0 never arrives")
    shape = list(x.shape)
    bounds = []
    for axis, start, end, step in zip(axes, starts, ends, steps):
        length = x.shape[axis]
        first, last, stride = slice(start, end, step).indices(length)
        shape[axis] = len(range(first, last, stride))
        bounds.append((first, last if last >= 0 else -length - 1, stride))
    if 0 in shape:
        return Operand(np.zeros(shape, x.dtype))
    if tuple(shape) == x.shape and all(step > 0 for step in steps):
        return x
    first_of, last_of, step_of = zip(*bounds)
    return call.emit("slice", x, starts=list(first_of), ends=list(last_of), axes=axes, steps=list(step_of))


@row("Expand", 8, values=(1,))
def _expand(call: Call) -> Operand:
    x = call.input()
    try:
        shape = np.broadcast_shapes(x.shape, tuple(call.ints(1) or []))
    except ValueError as error:
        raise ModelError(f"{x.shape} cannot be broadcast with {call.ints(1)}") from error
    if 0 in shape:
        return Operand(np.zeros(shape, x.dtype))
    return x if shape == x.shape else call.emit("expand", x, shape=list(shape))


@row("Tile", 1, 5, values=(1, 2))
def _tile_1(call: Call) -> Operand:
    """One number of repeats, along one axis, both inputs."""
    x = call.input()
    axis = wrap_all([int(call.number(2))], x.rank)[0]
    return _tiled(call, x, [int(call.number(1)) if i == axis else 1 for i in range(x.rank)])


@row("Tile", 6, values=(1,))
def _tile(call: Call) -> Operand:
    return _tiled(call, call.input(), call.ints(1) or [])


def _tiled(call: Call, x: Operand, repeats: list[int]) -> Operand:
    if len(repeats) != x.rank or any(n < 0 for n in repeats):
        raise ModelError(f"repeats {repeats} do not fit shape {x.shape}")
    shape = [n * r for n, r in zip(x.shape, repeats)]
    if 0 in shape:
        return Operand(np.zeros(shape, x.dtype))
    if shape == list(x.shape):
        return x
    if all(n == 1 or r == 1 for n, r in zip(x.shape, repeats)):
        return call.emit("expand", x, shape=shape)
    ends = [(r - 1) * n for n, r in zip(x.shape, repeats)]
    return call.emit("pad", x, pads=[0] * x.rank + ends, mode="wrap")


# ---- Pad ---------------------------------------------------------------------------------------------------


@row("Pad", 1, 1)
def _pad_1(call: Call) -> Operand:
    return _padded(call, call.attr("paddings"), call.attr("value", 0.0), None)


@row("Pad", 2, 10)
def _pad_2(call: Call) -> Operand:
    return _padded(call, call.attr("pads"), call.attr("value", 0.0), None)


@row("Pad", 11, values=(1, 2, 3))
def _pad(call: Call) -> Operand:
    value = call.number(2) if call.has(2) else 0
    return _padded(call, call.ints(1) or [], value, call.ints(3))


def _padded(call: Call, given: list[int], value: float, axes: list[int] | None) -> Operand:
    x, mode = call.input(), call.attr("mode", "constant")
    where = wrap_all(axes, x.rank) if axes is not None else list(range(x.rank))
    if len(given) != 2 * len(where):
        raise ModelError(f"{len(given)} pads do not fit {len(where)} dimensions")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise Refusal(f"attribute mode: {mode!r}")
    pads = [0] * (2 * x.rank)
    for i, axis in enumerate(where):
        pads[axis], pads[x.rank + axis] = given[i], given[len(where) + i]
    if not any(pads):
        return x
    shape = [n + pads[i] + pads[x.rank + i] for i, n in enumerate(x.shape)]
    if any(n < 0 for n in shape):
        raise ModelError(f"pads {given} crop more than shape {x.shape} has")
    if 0 in shape:
        return Operand(np.zeros(shape, x.dtype))
    if x.size == 0 and mode == "constant":
        call.check_size(shape)
        return Operand(np.full(shape, value, x.dtype))
    if mode == "constant":
        return call.emit("pad", x, pads=pads, value=float(value))
    return call.emit("pad", x, pads=pads, mode=mode)


@row("Trilu", 14, values=(1,))
def _trilu(call: Call) -> Operand:
    x = call.input()
    if x.rank < 2:
        raise ModelError(f"its input must have rank 2 or more, not {x.rank}")
    k = int(call.number(1) or 0)
    cut = np.triu if call.attr("upper", 1) else np.tril
    ones = call.ones(x.shape[-2:], np.bool_).array
    assert ones is not None
    return call.emit("where", call.constant(cut(ones, k)), x, call.full(x, 0))


@row("CenterCropPad", 18, values=(1,))
def _center_crop_pad(call: Call) -> Operand:
    x, sizes = call.input(), call.ints(1) or []
    axes = wrap_all(call.attr("axes") or list(range(x.rank)), x.rank)
    pads = [0] * (2 * x.rank)
    for axis, size in zip(axes, sizes, strict=True):
        extra = size - x.shape[axis]
        pads[axis] = extra // 2 if extra >= 0 else -(-extra // 2)
        pads[x.rank + axis] = extra - pads[axis]
    return call.emit("pad", x, pads=pads) if any(pads) else x


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_split(step: Step) -> None:
    step.add("Split", step.x, step.integers(step.attrs["sizes"]), axis=step.attrs["dim"])


def _write_slice(step: Step) -> None:
    starts = step.attrs["starts"]
    axes = step.axes() or list(range(len(starts)))
    rows = (starts, step.attrs["ends"], axes, step.ints("steps", len(starts)))
    step.add("Slice", step.x, *map(step.integers, rows))


def _write_pad(step: Step) -> None:
    if step.attrs["mode"] == "roll":
        _write_roll(step)
        return
    value = step.number(step.attrs["value"], step.dtypes[0]) if step.attrs["mode"] == "constant" else ""
    step.add("Pad", step.x, step.integers(step.attrs["pads"]), value, mode=step.attrs["mode"])


def _write_roll(step: Step) -> None:
    """ONNX wraps what it does not crop only: elements are gathered instead."""
    x, rank, pads = step.x, len(step.shape), [int(n) for n in step.attrs["pads"]]
    for d, n in enumerate(step.shape):
        at = (np.arange(pads[d] + n + pads[rank + d]) - pads[d]) % n
        if pads[d] or pads[rank + d]:
            x = step.middle("Gather", x, step.integers(at.tolist()), axis=d)
    step.add("Identity", x)


def _write_reshape(step: Step) -> None:
    """In a shape 0 repeats the operand's dimension of that index, here and in ONNX."""
    shape = [int(size) for size in step.attrs["shape"]]
    if step.batch_free and shape[:1] == [step.shape[0]]:
        shape[0] = 0
    step.add("Reshape", step.x, step.integers(shape))


def _write_flatten(step: Step) -> None:
    """ONNX's Flatten makes matrices only."""
    rank = len(step.shape)
    first, last = int(step.attrs["start_dim"]) % max(rank, 1), int(step.attrs["end_dim"]) % max(rank, 1)
    if first == 1 and last == rank - 1:
        step.add("Flatten", step.x, axis=1)
    else:
        shape = [0] * first + [-1] + list(step.shape[last + 1 :])
        step.add("Reshape", step.x, step.integers(shape))


def _write_squeeze(step: Step) -> None:
    axes = step.axes() or [i for i, size in enumerate(step.shape) if size == 1]
    step.add("Squeeze", step.x, step.integers(axes)) if axes else step.add("Identity", step.x)


def _write_unsqueeze(step: Step) -> None:
    step.add("Unsqueeze", step.x, step.integers(step.attrs["axes"]))


def _write_expand(step: Step) -> None:
    """In a shape 1 keeps the operand's dimension."""
    shape = [int(size) for size in step.attrs["shape"]]
    if step.batch_free and len(shape) == len(step.shape) and shape[0] == step.shape[0]:
        shape[0] = 1
    step.add("Expand", step.x, step.integers(shape))


WRITE: dict[str, Emit] = {
    "concat": plain("Concat", axis="dim"),
    "split": _write_split,
    "slice": _write_slice,
    "pad": _write_pad,
    "reshape": _write_reshape,
    "flatten": _write_flatten,
    "transpose": plain("Transpose", perm="perm"),
    "squeeze": _write_squeeze,
    "unsqueeze": _write_unsqueeze,
    "expand": _write_expand,
}
