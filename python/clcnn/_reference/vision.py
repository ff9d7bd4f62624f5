"""Sampling by coordinates, regions of interest, and boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from clcnn._reference.spatial import begins_ends, per_dim, window_count
from clcnn._reference.spec import EXACT, FP32, Draw, Shape, Spec, Use

# ---- grids -------------------------------------------------------------------------------------------------


def _reflected(at: float, size: int, align: int) -> float:
    """Mirrored at the outermost elements' centres (`align`) or edges until it is between them."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span == 0.0:
        return 0.0
    flips, extra = divmod(abs(at - low), span)
    return float(np.clip(low + (extra if flips % 2 == 0 else span - extra), 0, size - 1))


def _moved(at: float, size: int, padding: str, align: int) -> float:
    if padding == "border":
        return min(max(at, 0.0), size - 1.0)
    return _reflected(at, size, align) if padding == "reflection" else at


def _taps(at: float, size: int, mode: str, padding: str, align: int) -> list[tuple[int, float]]:
    """Elements and weights along one dimension."""
    if mode == "cubic":
        low, a = math.floor(at), -0.75
        part = at - low

        def weight(u: float) -> float:
            u = abs(u)
            if u <= 1.0:
                return ((a + 2.0) * u - (a + 3.0)) * u * u + 1.0
            return ((a * u - 5.0 * a) * u + 8.0 * a) * u - 4.0 * a

        pairs = [(low + k, weight(k - part)) for k in (-1, 0, 1, 2)]
        pairs = [(int(_moved(i, size, padding, align)), w) for i, w in pairs]
    else:
        at = _moved(at, size, padding, align)
        low = math.floor(at)
        pairs = [(round(at), 1.0)] if mode == "nearest" else [(low, 1.0 - at + low), (low + 1, at - low)]
    return [(i, w) for i, w in pairs if 0 <= i < size]


def grid_sample(
    x: np.ndarray,
    grid: np.ndarray,
    *,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
) -> np.ndarray:
    """torch.nn.functional.grid_sample: x first in the last dimension of grid, from -1 to 1."""
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(grid.shape[:-1]):
        taps = []
        for size, g in zip(sizes, grid[at][::-1]):
            place = (g + 1.0) / 2.0 * (size - 1) if align_corners else ((g + 1.0) * size - 1.0) / 2.0
            taps.append(_taps(place, size, mode, padding_mode, align_corners))
        for pick in product(*taps):
            element = x[(at[0], slice(None), *(i for i, _ in pick))]
            out[(at[0], slice(None), *at[1:])] += element * math.prod(w for _, w in pick)
    return out


# ---- deformable convolution --------------------------------------------------------------------------------


def _bilinear(x: np.ndarray, h: float, w: float) -> float:
    """x[H,W] between its elements, 0 outside."""
    total = 0.0
    i, j = math.floor(h), math.floor(w)
    for di, dj in product((0, 1), (0, 1)):
        if 0 <= i + di < x.shape[0] and 0 <= j + dj < x.shape[1]:
            total += x[i + di, j + dj] * (1.0 - abs(h - i - di)) * (1.0 - abs(w - j - dj))
    return total


def deform_conv(
    x: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    b: np.ndarray | None = None,
    mask: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
    offset_groups: int = 1,
) -> np.ndarray:
    """conv whose tap t at output o reads x at its place plus offset[n, t, (y, x), o], times mask[n, t, o]."""
    steps, holes = per_dim(stride, 2, "stride"), per_dim(dilation, 2, "dilation")
    begin, end = begins_ends(padding, 2)
    kernel = w.shape[2:]
    out = tuple(map(window_count, x.shape[2:], kernel, steps, begin, end, holes))
    moves = offset.reshape(x.shape[0], offset_groups, *kernel, 2, *out)
    scales = np.ones_like(moves[:, :, :, :, 0]) if mask is None else mask.reshape(moves[:, :, :, :, 0].shape)
    columns = np.zeros((x.shape[0], x.shape[1], *kernel, *out))
    for n, c, r, s, i, j in np.ndindex(columns.shape):
        group = c // (x.shape[1] // offset_groups)
        dy, dx = moves[n, group, r, s, :, i, j]
        h = i * steps[0] - begin[0] + r * holes[0] + dy
        v = j * steps[1] - begin[1] + s * holes[1] + dx
        columns[n, c, r, s, i, j] = _bilinear(x[n, c], h, v) * scales[n, group, r, s, i, j]
    parts = columns.reshape(x.shape[0], groups, -1, *kernel, *out)
    weights = w.reshape(groups, -1, *w.shape[1:])
    y = np.einsum("ngcrsij,gkcrs->ngkij", parts, weights).reshape(x.shape[0], -1, *out)
    return y if b is None else y + b.reshape(-1, 1, 1)


# ---- regions of interest -----------------------------------------------------------------------------------


def _sample(x: np.ndarray, h: float, w: float) -> list[float]:
    """The four weighted elements of x[H,W] around a place."""
    height, width = x.shape
    if not (-1.0 <= h <= height and -1.0 <= w <= width):
        return [0.0] * 4
    h, w = min(max(h, 0.0), height - 1.0), min(max(w, 0.0), width - 1.0)
    i, j = math.floor(h), math.floor(w)
    return [
        x[min(i + di, height - 1), min(j + dj, width - 1)]
        * (h - i if di else 1 - h + i)
        * (w - j if dj else 1 - w + j)
        for di, dj in product((0, 1), (0, 1))
    ]


def roi_align(
    x: np.ndarray,
    rois: np.ndarray,
    batch_indices: np.ndarray,
    *,
    output_size: Sequence[int],
    mode: str = "avg",
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinates: str = "half_pixel",
) -> np.ndarray:
    """ONNX RoiAlign; its "max" takes the largest weighted element, not the largest blend."""
    sizes = per_dim(output_size, 2, "output_size")
    half = coordinates == "half_pixel"
    out = np.zeros((len(rois), x.shape[1], *sizes))
    for r, (x1, y1, x2, y2) in enumerate(rois * spatial_scale - (0.5 if half else 0.0)):
        extent = [y2 - y1, x2 - x1] if half else [max(y2 - y1, 1.0), max(x2 - x1, 1.0)]
        bins = [e / s for e, s in zip(extent, sizes)]
        many = [sampling_ratio or max(0, math.ceil(b)) for b in bins]
        for c, i, j in np.ndindex(out.shape[1:]):
            samples = [
                _sample(
                    x[batch_indices[r], c],
                    y1 + (i + (k + 0.5) / many[0]) * bins[0],
                    x1 + (j + (m + 0.5) / many[1]) * bins[1],
                )
                for k, m in product(range(many[0]), range(many[1]))
            ]
            if samples:
                out[r, c, i, j] = np.max(samples) if mode == "max" else np.sum(samples) / len(samples)
    return out


def max_roi_pool(
    x: np.ndarray, rois: np.ndarray, *, output_size: Sequence[int], spatial_scale: float = 1.0
) -> np.ndarray:
    """ONNX MaxRoiPool: corners rounded to elements, both included; an empty bin gives 0."""
    sizes = per_dim(output_size, 2, "output_size")
    out = np.zeros((len(rois), x.shape[1], *sizes))
    for r, roi in enumerate(rois):
        w0, h0, w1, h1 = (math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1) for v in roi[1:] * spatial_scale)
        extent = max(h1 - h0 + 1, 1), max(w1 - w0 + 1, 1)
        for i, j in product(*map(range, sizes)):
            bins = [
                (at + o * e // s, at - (-(o + 1) * e // s))
                for o, s, e, at in zip((i, j), sizes, extent, (h0, w0))
            ]
            (a, b), (c, d) = (np.clip(pair, 0, limit) for pair, limit in zip(bins, x.shape[2:]))
            if a < b and c < d:
                out[r, :, i, j] = x[int(roi[0]), :, a:b, c:d].max(axis=(1, 2))
    return out


# ---- boxes -------------------------------------------------------------------------------------------------


def _corners(box: np.ndarray, center: int) -> tuple[float, float, float, float]:
    if center:
        x, y, w, h = box
        return x - w / 2, y - h / 2, x + w / 2, y + h / 2
    y1, x1, y2, x2 = box
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(wide, 0.0) * max(high, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / union if both > 0.0 else 0.0


def nms(
    boxes: np.ndarray,
    scores: np.ndarray,
    *,
    max_output: int,
    iou_threshold: float = 0.0,
    score_threshold: float = -math.inf,
    center_point_box: int = 0,
) -> list[np.ndarray]:
    """ONNX NonMaxSuppression in as many rows as there may be, -1 in the rest, and how many there are."""
    batch, classes, number = scores.shape
    rows = []
    for n, c in np.ndindex(batch, classes):
        kept: list[int] = []
        for i in np.argsort(-scores[n, c], kind="stable"):
            box = _corners(boxes[n, i], center_point_box)
            others = (_corners(boxes[n, k], center_point_box) for k in kept)
            if (
                len(kept) < max_output
                and scores[n, c, i] > score_threshold
                and all(_overlap(box, o) <= iou_threshold for o in others)
            ):
                kept.append(int(i))
        rows += [(n, c, i) for i in kept]
    out = np.full((batch * classes * min(max_output, number), 3), -1, np.int64)
    out[: len(rows)] = rows
    return [out, np.array([len(rows)], np.int64)]


# ---- rows --------------------------------------------------------------------------------------------------


def _regions(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> np.ndarray:
    """x1, y1, x2, y2 on a map [N,C,H,W], a little beyond it too."""
    sides = np.array([x[3], x[2]], np.float64)
    first = rng.uniform(-1.0, 0.6, (shape[0], 2)) * sides * 0.7
    return np.concatenate([first, first + rng.uniform(0.3, 0.8, (shape[0], 2)) * sides], axis=1)


def _whole_regions(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> np.ndarray:
    """The image before them."""
    images = rng.integers(0, x[0], (shape[0], 1))
    return np.concatenate([images, np.round(_regions(rng, shape, x, attrs))], axis=1)


def _between(low: float, high: float) -> Draw:
    return lambda rng, shape, x, attrs: rng.uniform(low, high, shape)


SPECS: dict[str, Spec] = {
    "deform_conv": Spec(
        deform_conv,
        FP32,
        (Use(((1, 2, 6, 7), (3, 2, 3, 3), (1, 18, 4, 5)), fed=3),),
        inputs={2: _between(-1.5, 1.5)},
    ),
    "grid_sample": Spec(
        grid_sample,
        FP32,
        (Use(((1, 2, 5, 6), (1, 5, 6, 2)), {"align_corners": True}, fed=2),),
        inputs={1: _between(-1.3, 1.3)},
    ),
    "roi_align": Spec(
        roi_align,
        FP32,
        (
            Use(
                ((2, 3, 6, 7), (2, 4), (2,)),
                {"output_size": 3, "sampling_ratio": 1, "coordinates": "output_half_pixel"},
                fed=3,
                dtypes=("float32", "float32", "int64"),
            ),
        ),
        inputs={1: _regions, 2: lambda rng, shape, x, attrs: rng.integers(0, x[0], shape)},
    ),
    "max_roi_pool": Spec(
        max_roi_pool,
        EXACT,
        (Use(((2, 3, 6, 7), (2, 5)), {"output_size": 2}, fed=2),),
        inputs={1: _whole_regions},
    ),
    "nms": Spec(
        nms,
        EXACT,
        (Use(((1, 4, 4), (1, 1, 4)), {"max_output": 4, "iou_threshold": 0.5}, fed=2),),
        inputs={0: _between(0.0, 10.0)},
    ),
}
