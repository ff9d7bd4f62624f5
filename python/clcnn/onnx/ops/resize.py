"""Resize and the older Upsample: sizes, scales and regions in any dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clcnn.errors import ModelError, UnsupportedError
from clcnn.onnx.call import Call, Operand, Refusal, wrap_all
from clcnn.onnx.export_step import Emit, Step
from clcnn.onnx.table import row

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}

# tf_half_pixel_for_nn is half a pixel above half_pixel: rounding the one is another rounding of the other.
_HALF_A_PIXEL_ON = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}


@row("Upsample", 1, 6)
def _upsample_1(call: Call) -> Operand:
    scales = call.attr("scales") or [1.0, 1.0, call.attr("height_scale", 1.0), call.attr("width_scale", 1.0)]
    return _scaled(call, scales)


@row("Upsample", 7, 8)
def _upsample_7(call: Call) -> Operand:
    return _scaled(call, call.attr("scales"))


@row("Upsample", 9, values=(1,))
def _upsample(call: Call) -> Operand:
    return _scaled(call, _floats(call, 1))


@row("Resize", 10, 10, values=(1,))
def _resize_10(call: Call) -> Operand:
    return _scaled(call, _floats(call, 1))


def _floats(call: Call, index: int) -> list[float]:
    array = call.known(index)
    return [] if array is None else [float(n) for n in array.reshape(-1)]


def _length(size: int, scale: float) -> int:
    """Cut down in float32, as onnxruntime does: 10 by 0.7 is 7 there, as exporters mean it, and 6.99.. in
    double precision."""
    length = np.float32(size) * np.float32(scale)
    if not 1.0 <= length < 2.0**31:
        raise ModelError(f"scale {scale:g} makes a dimension of {size} elements one of {length:g}")
    return math.floor(length)


def _scaled(call: Call, scales: list[float]) -> Operand:
    """Upsample and Resize of opset 10: the place of an element is its index over the scale, cut down."""
    x = call.input()
    how = {"mode": _mode(call), "coordinates": "asymmetric", "nearest_rounding": "floor"}
    if len(scales) != x.rank:
        raise ModelError(f"{len(scales)} scales do not fit rank {x.rank}")
    size = [_length(n, s) for n, s in zip(x.shape, scales, strict=True)]
    return _resized(call, x, size, scales, how, {})


def _mode(call: Call) -> str:
    mode = str(call.attr("mode", "nearest"))
    if mode not in _MODES:
        raise Refusal(f"attribute mode: {mode!r}")
    return _MODES[mode]


@row("Resize", 11, values=(1, 2, 3))
def _resize(call: Call) -> Operand:
    x = call.input()
    axes = wrap_all(call.attr("axes") or list(range(x.rank)), x.rank)
    size, scales = _target(call, x, axes)
    coordinates = call.attr("coordinate_transformation_mode", "half_pixel")
    how: dict[str, Any] = {
        "mode": _mode(call),
        "coordinates": coordinates,
        "nearest_rounding": call.attr("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": call.attr("cubic_coeff_a"),  # the core's defaults are ONNX's
        "exclude_outside": call.attr("exclude_outside"),
        "antialias": call.attr("antialias"),
    }
    if coordinates == "tf_half_pixel_for_nn":  # opset 11 and 12 only
        rounding = _HALF_A_PIXEL_ON.get(how["nearest_rounding"]) if how["mode"] == "nearest" else None
        if rounding is None:
            raise Refusal("attribute coordinate_transformation_mode: 'tf_half_pixel_for_nn' in this mode")
        how |= {"coordinates": "half_pixel", "nearest_rounding": rounding}
    regions: dict[int, tuple[float, float]] = {}
    if coordinates == "tf_crop_and_resize":
        how["extrapolation_value"] = float(call.attr("extrapolation_value", 0.0))
        given = _floats(call, 1)
        if len(given) != 2 * len(axes):
            raise ModelError(f"roi has {len(given)} numbers, but needs {2 * len(axes)}")
        regions = {axis: (given[i], given[len(axes) + i]) for i, axis in enumerate(axes)}
    return _resized(call, x, size, scales, how, regions)


def _target(call: Call, x: Operand, axes: list[int]) -> tuple[list[int], list[float]]:
    """The size of each dimension and its scale, from the inputs scales or sizes."""
    given, sizes = _floats(call, 2), call.ints(3)
    if bool(given) == bool(sizes):
        raise ModelError("one of scales and sizes must be given, and not both")
    scales = [1.0] * x.rank
    size = list(x.shape)
    if len(given or sizes or []) != len(axes):
        raise ModelError(f"scales or sizes must have {len(axes)} values")
    if sizes is None or given:
        for axis, scale in zip(axes, given):
            scales[axis], size[axis] = scale, _length(x.shape[axis], scale)
        return size, scales
    policy = call.attr("keep_aspect_ratio_policy", "stretch")
    factors = [n / x.shape[axis] for axis, n in zip(axes, sizes)]
    if policy in ("not_larger", "not_smaller"):
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(axes)
        sizes = [math.floor(factor * x.shape[axis] + 0.5) for axis in axes]
    elif policy != "stretch":
        raise Refusal(f"attribute keep_aspect_ratio_policy: {policy!r}")
    for axis, n, factor in zip(axes, sizes, factors):
        size[axis], scales[axis] = n, factor
    return size, scales


def _resized(
    call: Call,
    x: Operand,
    size: list[int],
    scales: list[float],
    how: dict[str, Any],
    regions: dict[int, tuple[float, float]],
) -> Operand:
    """The core resizes the dimensions after N,C; others are brought there."""
    if min(size, default=1) < 1:
        raise ModelError(f"size {size} is no shape")
    moved = [
        i
        for i in range(x.rank)
        if size[i] != x.shape[i] or scales[i] != 1.0 or regions.get(i, (0.0, 1.0)) != (0.0, 1.0)
    ]
    if not moved:
        return x
    if min(moved) >= 2:
        active = list(range(2, x.rank))
        perm = list(range(x.rank))
    else:
        active = moved
        perm = [i for i in range(x.rank) if i not in moved] + moved
    if len(active) > 3:
        raise Refusal(f"it resizes {len(active)} dimensions at once; at most 3 are supported")
    kept = [i for i in perm if i not in active]
    spatial = tuple(x.shape[i] for i in active)
    lead = (
        (x.shape[0], x.shape[1])
        if min(moved) >= 2
        else (1, int(np.prod([x.shape[i] for i in kept], dtype=int)))
    )
    how = {**how, "size": [size[i] for i in active], "scales": [scales[i] for i in active]}
    if regions:
        bounds = [regions.get(i, (0.0, 1.0)) for i in active]
        how["roi"] = [a for a, _ in bounds] + [b for _, b in bounds]
    made = call.emit("resize", call.reshape(call.transpose(x, perm), (*lead, *spatial)), **how)
    made = call.reshape(made, [size[i] for i in perm])
    return call.transpose(made, np.argsort(perm).tolist())


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_resize(step: Step) -> None:
    n, scales = step.spatial, step.attrs["scales"]
    size = step.ints("size", n) if step.attrs["size"] else []
    factors = np.array(list(scales) * (n if len(scales) == 1 else 1), np.float32)
    if size and scales:
        # ONNX takes one of them.
        scaled = [math.floor(np.float32(s) * f) for s, f in zip(step.shape[2:], factors)]
        if scaled != size:
            raise UnsupportedError(
                f"{step.name}: ONNX Resize takes size or scales; here are both, and scales {list(scales)} "
                f"make the size {scaled}, not {size}"
            )
    roi = np.array(step.attrs["roi"], np.float32)
    step.add(
        "Resize",
        step.x,
        step.writer.constant(roi, step.name) if roi.size else "",
        step.writer.constant(factors, step.name) if scales else "",
        "" if scales else step.integers(size),
        axes=list(range(2, n + 2)),
        mode=step.attrs["mode"],
        coordinate_transformation_mode=step.attrs["coordinates"],
        nearest_mode=step.attrs["nearest_rounding"],
        cubic_coeff_a=step.attrs["cubic_coeff_a"],
        exclude_outside=int(step.attrs["exclude_outside"]),
        antialias=int(step.attrs["antialias"]),
        extrapolation_value=step.attrs["extrapolation_value"],
    )


WRITE: dict[str, Emit] = {
    "resize": _write_resize,
}
