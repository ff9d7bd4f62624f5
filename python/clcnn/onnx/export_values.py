"""How operators on indices, truth values, boxes and norms are written as ONNX nodes: one row of VALUES an
operator, as in export_ops.py."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from clcnn.onnx.export_step import Emit, Step, plain

TYPES = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


# ---- element-wise ----


def _cast(step: Step) -> None:
    step.add("Cast", step.x, to=TYPES[step.attrs["to"]])


def _is_inf(step: Step) -> None:
    sign = step.attrs["sign"]
    step.add(
        "IsInf", step.x, detect_negative=int(sign != "positive"), detect_positive=int(sign != "negative")
    )


def _mod(step: Step) -> None:
    """ONNX has the remainder with the divisor's sign for integers only."""
    a, b = step.inputs
    divisor = step.attrs["sign"] == "divisor"
    if step.dtypes[0] != "float32" or not divisor:
        step.add("Mod", a, b, fmod=int(not divisor))
        return
    zero, rest = step.number(0.0), step.middle("Mod", a, b, fmod=1)
    other_sign = step.middle("Xor", step.middle("Less", rest, zero), step.middle("Less", b, zero))
    some = step.middle("Not", step.middle("Equal", rest, zero))
    step.add("Where", step.middle("And", other_sign, some), step.middle("Add", rest, b), rest)


# ---- along a dimension ----


def _gather_nd(step: Step) -> None:
    """ONNX takes int64 only."""
    indices = step.inputs[1]
    if step.dtypes[1] != "int64":
        indices = step.middle("Cast", indices, to=TensorProto.INT64)
    step.add("GatherND", step.x, indices, batch_dims=step.attrs["batch_dims"])


def _cumsum(step: Step) -> None:
    axis = step.writer.constant(np.array(step.attrs["dim"], np.int64), step.name)
    step.add(
        "CumSum", step.x, axis, exclusive=int(step.attrs["exclusive"]), reverse=int(step.attrs["reverse"])
    )


def _topk(step: Step) -> None:
    step.add(
        "TopK",
        step.x,
        step.integers([step.attrs["k"]]),
        axis=step.attrs["dim"],
        largest=int(step.attrs["largest"]),
        sorted=int(step.attrs["sorted"]),
    )


def _reduce_prod(step: Step) -> None:
    axes = [step.integers(step.axes())] if step.attrs["axes"] else []
    step.add("ReduceProd", step.x, *axes, keepdims=int(step.attrs["keepdims"]))


# ---- places and boxes ----


def _grid_sample(step: Step) -> None:
    step.add(
        "GridSample",
        *step.inputs,
        mode=step.attrs["mode"],
        padding_mode=step.attrs["padding_mode"],
        align_corners=int(step.attrs["align_corners"]),
    )


def _deform_conv(step: Step) -> None:
    step.add(
        "DeformConv",
        *step.inputs,
        kernel_shape=list(step.shapes[1][2:]),
        strides=step.ints("stride", 2),
        pads=step.pads(),
        dilations=step.ints("dilation", 2),
        group=step.attrs["groups"],
        offset_group=step.attrs["offset_groups"],
    )


def _roi_align(step: Step) -> None:
    x, rois, indices = step.inputs
    if step.dtypes[2] != "int64":
        indices = step.middle("Cast", indices, to=TensorProto.INT64)
    height, width = step.ints("output_size", 2)
    step.add(
        "RoiAlign",
        x,
        rois,
        indices,
        output_height=height,
        output_width=width,
        mode=step.attrs["mode"],
        sampling_ratio=step.attrs["sampling_ratio"],
        spatial_scale=step.attrs["spatial_scale"],
        coordinate_transformation_mode=step.attrs["coordinates"],
    )


def _max_roi_pool(step: Step) -> None:
    step.add(
        "MaxRoiPool",
        *step.inputs,
        pooled_shape=step.ints("output_size", 2),
        spatial_scale=step.attrs["spatial_scale"],
    )


def _nms(step: Step) -> None:
    """ONNX gives the boxes that are left, here they are the first rows of a fixed number, and counted."""
    boxes, scores = step.inputs
    limits = [step.writer.constant(np.array([step.attrs["max_output"]], np.int64), step.name)]
    limits += [step.number(step.attrs[name]) for name in ("iou_threshold", "score_threshold")]
    found = step.middle(
        "NonMaxSuppression", boxes, scores, *limits, center_point_box=int(step.attrs["center_point_box"])
    )
    bounds = [step.integers([n]) for n in (0, 1)]
    count = step.middle("Slice", step.middle("Shape", found), *bounds)
    rows, nothing = step.integers([step.out_shapes[0][0]]), step.integers([0])
    ends = step.middle("Sub", rows, count)
    pads = step.middle("Concat", step.integers([0, 0]), ends, nothing, axis=0)
    step.add("Pad", found, pads, step.number(-1, "int64"), outputs=step.outputs[:1])
    step.add("Identity", count, outputs=step.outputs[1:])


EXTREME = {"axis": "dim", "keepdims": "keepdims", "select_last_index": "select_last_index"}


VALUES: dict[str, Emit] = {
    "cast": _cast,
    "where": plain("Where"),
    "equal": plain("Equal"),
    "less": plain("Less"),
    "less_equal": plain("LessOrEqual"),
    "greater": plain("Greater"),
    "greater_equal": plain("GreaterOrEqual"),
    "logical_and": plain("And"),
    "logical_or": plain("Or"),
    "logical_xor": plain("Xor"),
    "logical_not": plain("Not"),
    "is_nan": plain("IsNaN"),
    "is_inf": _is_inf,
    "mod": _mod,
    "gather": plain("Gather", axis="dim"),
    "gather_elements": plain("GatherElements", axis="dim"),
    "gather_nd": _gather_nd,
    "argmax": plain("ArgMax", **EXTREME),
    "argmin": plain("ArgMin", **EXTREME),
    "cumsum": _cumsum,
    "topk": _topk,
    "reduce_prod": _reduce_prod,
    "grid_sample": _grid_sample,
    "deform_conv": _deform_conv,
    "roi_align": _roi_align,
    "max_roi_pool": _max_roi_pool,
    "nms": _nms,
    "sign": plain("Sign"),
    "floor": plain("Floor"),
    "ceil": plain("Ceil"),
    "round": plain("Round"),
    "reciprocal": plain("Reciprocal"),
    "erf": plain("Erf"),
    "sin": plain("Sin"),
    "cos": plain("Cos"),
    "tan": plain("Tan"),
    "asin": plain("Asin"),
    "acos": plain("Acos"),
    "atan": plain("Atan"),
    "sinh": plain("Sinh"),
    "cosh": plain("Cosh"),
    "asinh": plain("Asinh"),
    "acosh": plain("Acosh"),
    "atanh": plain("Atanh"),
    "selu": plain("Selu", alpha="alpha", gamma="gamma"),
    "celu": plain("Celu", alpha="alpha"),
    "softplus": plain("Softplus"),
    "softsign": plain("Softsign"),
    "mish": plain("Mish"),
    "thresholded_relu": plain("ThresholdedRelu", alpha="alpha"),
    "shrink": plain("Shrink", lambd="lambd", bias="bias"),
}
