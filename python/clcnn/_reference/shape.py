"""Operators that only move data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clcnn._reference.spec import EXACT, FP32, MAP, ONE, Draw, Shape, Spec, Use


def concat(*inputs: np.ndarray, dim: int = 1) -> np.ndarray:
    return np.concatenate(inputs, axis=dim)


def split(x: np.ndarray, *, sizes: Sequence[int], dim: int = 1) -> list[np.ndarray]:
    if sum(sizes) != x.shape[dim]:
        raise ValueError(f"sizes {sizes} do not add up to dimension {dim} of {x.shape}")
    return [part.copy() for part in np.split(x, np.cumsum(sizes)[:-1], axis=dim)]


def slice_(
    x: np.ndarray,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] = (),
    steps: Sequence[int] = (1,),
) -> np.ndarray:
    """Python's slices along `axes` (default: the first ones): negative bounds count from the end, bounds
    outside are clamped, a negative step walks backwards (an end below -size reaches element 0)."""
    axes = tuple(axes) or tuple(range(len(starts)))
    steps = steps if len(steps) == len(starts) else tuple(steps) * len(starts)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)].copy()


def pad(x: np.ndarray, *, pads: Sequence[int], value: float = 0.0, mode: str = "constant") -> np.ndarray:
    """numpy.pad before and after every dimension; a negative amount removes elements first, but for "roll",
    which is "wrap" with all of x."""
    if len(pads) != 2 * x.ndim:
        raise ValueError(f"pads has {len(pads)} values, expected {2 * x.ndim}")
    before, after = pads[: x.ndim], pads[x.ndim :]
    if mode == "roll":
        for d, (b, a, n) in enumerate(zip(before, after, x.shape)):
            x = x.take((np.arange(b + n + a) - b) % n, d)
        return x
    kept = x[tuple(slice(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, x.shape))]
    options: Any = {"mode": mode, "constant_values": value} if mode == "constant" else {"mode": mode}
    return np.pad(kept, [(max(0, b), max(0, a)) for b, a in zip(before, after)], **options)


def reshape(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """0 copies the input's dimension of that index, -1 is inferred."""
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)]).copy()


def flatten(x: np.ndarray, *, start_dim: int = 1, end_dim: int = -1) -> np.ndarray:
    if x.ndim == 0:
        return x.reshape(1).copy()
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :]).copy()


def transpose(x: np.ndarray, *, perm: Sequence[int]) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(perm)) if x.ndim else x.copy()


def squeeze(x: np.ndarray, *, axes: Sequence[int] = ()) -> np.ndarray:
    return np.squeeze(x, tuple(axes) or None).copy()


def unsqueeze(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
    return np.expand_dims(x, tuple(axes)).copy()


def expand(x: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    """Broadcast x and `shape` against each other, as ONNX Expand."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))).copy()


def where(cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(cond, a, b)


def gather(x: np.ndarray, indices: np.ndarray, *, dim: int = 0) -> np.ndarray:
    return np.take(x, indices, dim)


def gather_elements(x: np.ndarray, indices: np.ndarray, *, dim: int = 0) -> np.ndarray:
    kept = tuple(slice(None) if d == dim % x.ndim else slice(n) for d, n in enumerate(indices.shape))
    return np.take_along_axis(x[kept], indices, dim)


def gather_nd(x: np.ndarray, indices: np.ndarray, *, batch_dims: int = 0) -> np.ndarray:
    """ONNX GatherND: the last dimension of indices holds places in the dimensions of x behind batch_dims."""
    prefix = indices.shape[:-1]
    out = np.empty((*prefix, *x.shape[batch_dims + indices.shape[-1] :]), x.dtype)
    for at in np.ndindex(*prefix):
        out[at] = x[at[:batch_dims] + tuple(indices[at])]
    return out


_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, dim: int = 0, reduction: str = "none"
) -> np.ndarray:
    """Slices of x along dim replaced by, or reduced with, updates in order; indices outside name none."""
    out, slices = x.copy(), x.shape[dim]
    to, given = np.moveaxis(out, dim, 0), np.moveaxis(updates, dim, 0)
    for i, at in enumerate(indices):
        if -slices <= at < slices:
            to[at] = given[i] if reduction == "none" else _REDUCTIONS[reduction](to[at], given[i])
    return out


def nonzero(x: np.ndarray) -> list[np.ndarray]:
    """Numbers of elements that are not 0 in as many places as x has, -1 in the rest, and how many they
    are."""
    found = np.flatnonzero(x)
    out = np.full(x.size, -1, np.int64)
    out[: found.size] = found
    return [out, np.array([found.size], np.int64)]


def _indices(limits: Callable[[Shape, Mapping[str, Any]], Any]) -> Draw:
    """Indices, counted from the end too. limits: how many elements they choose from, by the first input's
    shape and the attributes: one number, or one for each entry of the last dimension."""

    def draw(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> np.ndarray:
        sizes = np.asarray(limits(x, attrs))
        sizes = sizes[: shape[-1]] if sizes.ndim else sizes
        return rng.integers(-sizes, sizes, shape)

    return draw


_ALONG = {1: _indices(lambda x, attrs: x[attrs.get("dim", 0)])}
_INDEXED = ("float32", "int64")
_BACKWARDS = {"starts": (1, -1), "ends": (6, -100), "axes": (2, 3), "steps": (2, -2)}

SPECS: dict[str, Spec] = {
    "concat": Spec(concat, EXACT, (Use(((2, 3, 4, 4), (2, 5, 4, 4)), {"dim": 1}, fed=2),)),
    "split": Spec(split, EXACT, (Use((MAP,), {"sizes": (2, 3), "dim": 1}),)),
    "slice": Spec(slice_, EXACT, (Use((MAP,), _BACKWARDS),)),
    "pad": Spec(
        pad,
        EXACT,
        (
            Use(((2, 3, 4),), {"pads": (0, 1, 3, 0, 2, 0), "value": 5.0}),
            Use(((2, 3, 4),), {"pads": (0, 1, 3, 0, 2, 1), "mode": "reflect"}),
            Use(((2, 3, 4),), {"pads": (0, -2, 1, 0, 2, -1), "mode": "roll"}),
        ),
        zeros=True,
    ),
    "reshape": Spec(reshape, EXACT, (Use((MAP,), {"shape": (0, -1, 5)}),)),
    "flatten": Spec(flatten, EXACT, ONE),
    "transpose": Spec(
        transpose, EXACT, (Use((MAP,), {"perm": (0, 2, 3, 1)}), Use(((70, 45),), {"perm": (1, 0)}))
    ),
    "squeeze": Spec(squeeze, EXACT, (Use(((2, 1, 5, 1),), {"axes": (1,)}),)),
    "unsqueeze": Spec(unsqueeze, EXACT, (Use(((2, 5),), {"axes": (1,)}),)),
    "expand": Spec(expand, EXACT, (Use(((2, 1, 5),), {"shape": (3, 2, 4, 5)}),)),
    "where": Spec(where, EXACT, (Use((MAP, MAP, (9,)), fed=3, dtypes=("bool",)),)),
    "gather": Spec(gather, EXACT, (Use(((5, 6), (3, 2)), fed=2, dtypes=_INDEXED),), inputs=_ALONG),
    "gather_elements": Spec(
        gather_elements, EXACT, (Use(((5, 6), (2, 6)), fed=2, dtypes=_INDEXED),), inputs=_ALONG
    ),
    "gather_nd": Spec(
        gather_nd,
        EXACT,
        (Use(((5, 6, 3), (4, 2)), fed=2, dtypes=_INDEXED),),
        inputs={1: _indices(lambda x, attrs: x[attrs.get("batch_dims", 0) :])},
    ),
    "scatter": Spec(
        scatter,
        FP32,
        (Use(((5, 6), (3,), (3, 6)), {"reduction": "add"}, fed=3, dtypes=_INDEXED),),
        inputs=_ALONG,
    ),
    "nonzero": Spec(nonzero, EXACT, (Use(((3, 7),), dtypes=("bool",)),)),
    # Steps that the planner adds between layers; the self-test tries them there.
    "reorder": Spec(np.copy, EXACT, ()),
}
