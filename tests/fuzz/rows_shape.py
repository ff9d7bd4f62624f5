"""Rows of operators that move elements about, and of those about shapes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuzz.net import ROWS, Net, Skip


def _factors(net: Net, size: int, parts: int) -> list[int]:
    """Random sizes with this product."""
    made = []
    for _ in range(parts - 1):
        n = net.divisor(size)
        made.append(n)
        size //= n
    return [*made, size]


@ROWS("Reshape", first=5)
def _reshape(net: Net) -> str:
    x = net.pick(kind=net.one("float32", "float32", "float32", "any"))
    shape = net.shape(x)
    how = net.one("any", "keep", "keep", "image", "computed")
    if how == "computed" and len(shape) >= 2:
        return _computed(net, x)
    if how == "keep" and len(shape) >= 2:  # the batch stays free
        rest = _factors(net, math.prod(shape[1:]), net.rng.randint(1, 3))
        wanted = [0, *rest]
        if net.maybe(0.5):
            wanted[net.rng.randrange(1, len(wanted))] = -1
    elif how == "image":
        wanted = [-1, *_factors(net, math.prod(shape[1:]), 3)]
    else:
        wanted = _factors(net, math.prod(shape), net.rng.randint(1, 4))
        if net.maybe(0.3):
            wanted[net.rng.randrange(len(wanted))] = -1
    return net.node("Reshape", x, net.ints(*wanted))


def _computed(net: Net, x: str) -> str:
    """As exporters write it: the shape is put together from parts of another one."""
    part = net.node("Gather", net.node("Shape", x), net.ints(0), axis=0)
    rest = net.ints(*net.one((-1,), (net.shape(x)[1], -1), (1, -1)))
    return net.node("Reshape", x, net.node("Concat", part, rest, axis=0))


@ROWS("Shape", "Size")
def _shape(net: Net, op: str) -> str:
    attrs = {}
    if op == "Shape" and net.opset >= 15 and net.maybe(0.5):
        attrs = {"start": net.one(None, 1, -2), "end": net.one(None, 2, -1)}
    return net.node(op, net.pick(kind="any"), **attrs)


@ROWS("ConstantOfShape", first=9)
def _constant_of_shape(net: Net) -> str:
    x = net.pick(1, 2, 3, 4)
    made = net.node("ConstantOfShape", net.node("Shape", x))
    return net.node("Add", x, made)


@ROWS("Range", first=11)
def _range(net: Net) -> str:
    x = net.pick(2, 3, 4)
    length = net.node("Gather", net.node("Shape", x), net.const(np.int64(-1)), axis=0)
    made = net.node("Range", net.const(np.int64(0)), length, net.const(np.int64(net.one(1, 2))))
    return net.node("Gather", x, made, axis=net.rank(x) - 1)


@ROWS("NonZero", "Compress", "Unique", first=11)
def _picked(net: Net, op: str) -> Any:
    """Of constants alone."""
    x = net.pick(2, 3, 4)
    length = net.shape(x)[-1]
    mask = net.random((length,), "bool")
    mask[net.rng.randrange(length)] = True
    if op == "NonZero":
        at = net.node("NonZero", net.const(mask.astype("float32")))
        at = net.node("Reshape", at, net.ints(-1))
    elif op == "Compress":
        at = net.node("Compress", net.const(np.arange(length)), net.const(mask), axis=0)
    else:
        at = net.many("Unique", [net.const(net.np_rng.integers(0, length, 5))], 1, sorted=1)[0]
    return net.node("Gather", x, at, axis=-1)


@ROWS("EyeLike", first=9)
def _eye_like(net: Net) -> str:
    x = net.pick(2)
    return net.node("Add", x, net.node("EyeLike", x, k=net.one(None, 1, -1)))


@ROWS("Flatten")
def _flatten(net: Net) -> str:
    x = net.pick(2, 3, 4, 5)
    low = -net.rank(x) if net.opset >= 11 else 0
    return net.node("Flatten", x, axis=net.one(None, net.rng.randint(low, net.rank(x))))


@ROWS("Squeeze")
def _squeeze(net: Net) -> str:
    x = net.pick(kind="any", where=lambda a: 1 in a.shape and a.ndim > 1)
    axes = [i for i, n in enumerate(net.shape(x)) if n == 1]
    axes = net.rng.sample(axes, net.rng.randint(1, len(axes)))
    if net.maybe(0.15):
        return net.node("Squeeze", x)
    return net.node("Squeeze", x, net.ints(*axes)) if net.opset >= 13 else net.node("Squeeze", x, axes=axes)


@ROWS("Unsqueeze")
def _unsqueeze(net: Net) -> str:
    x = net.pick(0, 1, 2, 3, 4, kind="any")
    rank = net.rank(x) + net.one(1, 1, 2)
    axes = net.rng.sample(range(rank), rank - net.rank(x))
    if net.opset >= 13:
        axes = [a - rank if net.maybe(0.3) else a for a in axes]
        return net.node("Unsqueeze", x, net.ints(*axes))
    return net.node("Unsqueeze", x, axes=axes)


@ROWS("Transpose")
def _transpose(net: Net) -> str:
    x = net.pick(2, 3, 4, 5, kind=net.one("float32", "float32", "any"))
    perm = list(range(net.rank(x)))
    net.rng.shuffle(perm)
    return net.node("Transpose", x, perm=perm if net.maybe(0.85) else None)


@ROWS("DepthToSpace", first=11)
def _depth_to_space(net: Net) -> str:
    block = net.one(2, 2, 3)
    x = net.pick(4, where=lambda a: a.shape[1] % block**2 == 0)
    return net.node("DepthToSpace", x, blocksize=block, mode=net.one(None, "DCR", "CRD"))


@ROWS("Col2Im", first=18)
def _col2im(net: Net) -> str:
    x = net.pick(4)
    n, c, *small = net.shape(x)
    kernel = net.one(*[(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if c % (a * b) == 0])
    strides = [net.one(1, 2), net.one(1, 2)]
    image = [s * (m - 1) + k for s, m, k in zip(strides, small, kernel, strict=True)]
    pads = [int(size > 1 and net.maybe(0.3)) for size in image]
    image = [size - pad for size, pad in zip(image, pads, strict=True)]
    columns = net.node("Reshape", x, net.const([n, c, small[0] * small[1]], "int64"))
    sizes = [net.const(image, "int64"), net.const(kernel, "int64")]
    return net.node("Col2Im", columns, *sizes, strides=strides, pads=[0, 0, *pads])


@ROWS("SpaceToDepth")
def _space_to_depth(net: Net) -> str:
    block = net.one(2, 2, 3)
    x = net.pick(4, where=lambda a: a.shape[2] % block == 0 and a.shape[3] % block == 0)
    return net.node("SpaceToDepth", x, blocksize=block)


@ROWS("Concat", first=4)
def _concat(net: Net) -> str:
    x = net.pick(1, 2, 3, 4, 5, kind=net.one("float32", "float32", "float32", "any"))
    shape, kind = net.shape(x), net.arrays[x].dtype
    axis = 1 if len(shape) > 1 and net.maybe(0.6) else net.rng.randrange(len(shape))

    def fits(name: str) -> bool:
        other = net.arrays[name]
        if other.dtype != kind or other.ndim != len(shape):
            return False
        return all(n == m for i, (n, m) in enumerate(zip(shape, other.shape)) if i != axis)

    others = [name for name in net.values if fits(name)]
    parts = [x]
    for _ in range(net.rng.randint(1, 3)):
        if net.maybe(0.6):
            parts.append(net.one(*others))
        else:
            wanted = [net.rng.randint(1, 6) if i == axis else n for i, n in enumerate(shape)]
            parts.append(net.either(net.random(wanted, kind.name)))
    net.rng.shuffle(parts)
    return net.node("Concat", *parts, axis=axis if net.maybe(0.7) else axis - len(shape))


@ROWS("Split", first=2)
def _split(net: Net) -> Any:
    x = net.pick(1, 2, 3, 4, kind=net.one("float32", "float32", "any"), where=lambda a: max(a.shape) > 1)
    axis = net.one(*(i for i, n in enumerate(net.shape(x)) if n > 1))
    length = net.shape(x)[axis]
    count = net.rng.randint(2, min(length, 4))
    if net.maybe(0.3):
        attrs = {"num_outputs": count} if net.opset >= 18 else {}
        if net.opset < 18 and length % count:
            raise Skip
        return net.many("Split", [x], count, axis=axis, **attrs)
    cuts = sorted(net.rng.sample(range(1, length), count - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, length])]
    axis = axis if net.maybe(0.7) or net.opset < 11 else axis - net.rank(x)
    if net.opset < 13:
        return net.many("Split", [x], count, axis=axis, split=sizes)
    return net.many("Split", [x, net.ints(*sizes)], count, axis=axis)


@ROWS("Slice", first=10)
def _slice(net: Net) -> str:
    x = net.pick(1, 2, 3, 4, kind=net.one("float32", "float32", "any"))
    axes = net.axes(net.rank(x))
    rows = [_cut(net, net.shape(x)[axis]) for axis in axes]
    starts, ends, steps = zip(*rows)
    kind = net.one("int64", "int64", "int32")
    given = [net.const(part, kind) for part in (starts, ends, axes, steps)]
    if all(step == 1 for step in steps) and net.maybe(0.5):
        given.pop()
    return net.node("Slice", x, *given)


def _cut(net: Net, length: int) -> tuple[int, int, int]:
    step = net.one(1, 1, 1, 2, 3, -1, -2)
    start, end = net.rng.randrange(length), net.rng.randint(1, length)
    if step < 0:
        return net.one(length - 1, length + 5, -1, start), net.one(-length - 1, -(2**31) + 1, 0), step
    start, end = min(start, end - 1), max(start + 1, end)
    return net.one(start, start - length), net.one(end, 2**31 - 1, end), step


@ROWS("Expand", first=8)
def _expand(net: Net) -> str:
    x = net.pick(1, 2, 3, 4, where=lambda a: a.size <= 4000)
    shape = [net.one(2, 3) if n == 1 and net.maybe(0.7) else net.one(1, n) for n in net.shape(x)]
    if net.maybe(0.3) and len(shape) < 5:
        shape = [net.one(1, 2), *shape]
    return net.node("Expand", x, net.ints(*shape))


@ROWS("Tile", first=6)
def _tile(net: Net) -> str:
    x = net.pick(1, 2, 3, 4, where=lambda a: a.size <= 4000)
    return net.node("Tile", x, net.ints(*(net.one(1, 1, 2, 3) for _ in net.shape(x))))


@ROWS("Pad", first=11)
def _pad(net: Net) -> str:
    x = net.pick(1, 2, 3, 4, 5)
    shape = net.shape(x)
    mode = net.one("constant", "constant", "reflect", "edge", *(["wrap"] if net.opset >= 19 else []))
    spare = 2 if mode in ("constant", "edge") else 0

    def most(n: int) -> int:
        return net.rng.randint(0, min(3, n - 1 + spare))

    axes = net.rng.sample(range(len(shape)), net.rng.randint(1, len(shape)))
    by_axis = {i: (most(shape[i]), most(shape[i])) for i in axes}
    if mode == "constant" and net.maybe(0.2):  # crops
        i = max(range(len(shape)), key=lambda i: shape[i])
        by_axis[i] = (-1 if shape[i] > 2 else 0, net.one(0, 1))
    value = net.const(np.float32(net.one(0.0, 1.5, -2.0))) if mode == "constant" and net.maybe(0.5) else ""
    if net.opset >= 18 and net.maybe(0.3):
        axes = list(by_axis)
        pads = [by_axis[i][0] for i in axes] + [by_axis[i][1] for i in axes]
        return net.node("Pad", x, net.ints(*pads), value, net.ints(*axes), mode=mode)
    pairs = [by_axis.get(i, (0, 0)) for i in range(len(shape))]
    return net.node("Pad", x, net.ints(*(a for a, _ in pairs), *(b for _, b in pairs)), value, mode=mode)


@ROWS("Trilu", first=14)
def _trilu(net: Net) -> str:
    x = net.pick(2, 3, 4)
    k = net.const(np.int64(net.one(-1, 0, 1, 3))) if net.maybe(0.7) else ""
    return net.node("Trilu", x, k, upper=net.one(None, 0, 1))


@ROWS("CenterCropPad", first=18)
def _center_crop_pad(net: Net) -> str:
    x = net.pick(2, 3, 4)
    axes = sorted(net.rng.sample(range(net.rank(x)), net.rng.randint(1, net.rank(x))))
    sizes = [max(1, net.shape(x)[i] + net.rng.randint(-3, 3)) for i in axes]
    return net.node("CenterCropPad", x, net.ints(*sizes), axes=axes)


@ROWS("ScatterElements", first=11)
def _scatter_elements(net: Net) -> str:
    x = net.pick(1, 2, 3, 4)
    axis = net.rng.randrange(net.rank(x))
    indices = np.argsort(net.np_rng.random(net.shape(x)), axis)
    return net.node("ScatterElements", x, net.const(indices), net.either(net.random(net.shape(x))), axis=axis)


@ROWS("ScatterND", first=11)
def _scatter_nd(net: Net) -> str:
    x = net.pick(2, 3, 4)
    rows = net.np_rng.permutation(net.shape(x)[0])[: net.rng.randint(1, net.shape(x)[0])]
    updates = net.either(net.random((len(rows), *net.shape(x)[1:])))
    return net.node("ScatterND", x, net.const(rows.astype(np.int64)[:, None]), updates)
