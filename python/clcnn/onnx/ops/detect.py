"""What detectors need: sampling at computed places, regions of interest, non-max suppression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from clcnn.onnx.call import Call, Operand
from clcnn.onnx.export_step import Emit, Step
from clcnn.onnx.lengths import Length
from clcnn.onnx.table import row

MAX_BOXES = 2**31 - 1  # exporters write the largest int64 for "all"; there are fewer boxes than this
_OLD_GRID_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@row("GridSample", 16)
def _grid_sample(call: Call) -> Operand:
    mode = str(call.attr("mode", "linear"))
    return call.emit(
        "grid_sample",
        call.input(0),
        call.input(1),
        mode=_OLD_GRID_MODES.get(mode, mode),
        padding_mode=call.attr("padding_mode", "zeros"),
        align_corners=bool(call.attr("align_corners", 0)),
    )


@row("RoiAlign", 10)
def _roi_align(call: Call) -> Operand:
    default = "output_half_pixel" if call.version < 16 else "half_pixel"
    return call.emit(
        "roi_align",
        call.input(0),
        call.input(1),
        call.input(2),
        output_size=[int(call.attr("output_height", 1)), int(call.attr("output_width", 1))],
        mode=call.attr("mode", "avg"),
        sampling_ratio=int(call.attr("sampling_ratio", 0)),
        spatial_scale=float(call.attr("spatial_scale", 1.0)),
        coordinates=call.attr("coordinate_transformation_mode", default),
    )


@row("MaxRoiPool")
def _max_roi_pool(call: Call) -> Operand:
    scale = float(call.attr("spatial_scale", 1.0))
    size = call.list_of("pooled_shape", 2, 1)
    return call.emit("max_roi_pool", call.input(0), call.input(1), output_size=size, spatial_scale=scale)


@row("NonMaxSuppression", 10, values=(2, 3, 4))
def _nms(call: Call) -> Operand:
    """The result has room for all that could be selected; its count says how many rows are real."""
    limit = min(int(call.number(2) or 0), MAX_BOXES)
    threshold = call.number(4)
    if limit <= 0:
        return Operand(np.zeros((0, 3), np.int64))
    selected, count = call.emit_many(
        "nms",
        call.input(0),
        call.input(1),
        max_output=limit,
        iou_threshold=float(call.number(3) or 0.0),
        center_point_box=bool(call.attr("center_point_box", 0)),
        **({} if threshold is None else {"score_threshold": float(threshold)}),
    )
    assert count.value is not None
    length = Length(selected.shape[0], count.value, 1, frozenset({count.value.id}))
    return replace(selected, length=length)


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_grid_sample(step: Step) -> None:
    step.add(
        "GridSample",
        *step.inputs,
        mode=step.attrs["mode"],
        padding_mode=step.attrs["padding_mode"],
        align_corners=int(step.attrs["align_corners"]),
    )


def _write_roi_align(step: Step) -> None:
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


def _write_max_roi_pool(step: Step) -> None:
    step.add(
        "MaxRoiPool",
        *step.inputs,
        pooled_shape=step.ints("output_size", 2),
        spatial_scale=step.attrs["spatial_scale"],
    )


def _write_nms(step: Step) -> None:
    """ONNX gives the boxes that are left."""
    boxes, scores = step.inputs
    limits = [step.writer.constant(np.array([step.attrs["max_output"]], np.int64), step.name)]
    limits += [step.number(step.attrs[name]) for name in ("iou_threshold", "score_threshold")]
    found = step.middle(
        "NonMaxSuppression", boxes, scores, *limits, center_point_box=int(step.attrs["center_point_box"])
    )
    step.add_counted(found)


WRITE: dict[str, Emit] = {
    "grid_sample": _write_grid_sample,
    "roi_align": _write_roi_align,
    "max_roi_pool": _write_max_roi_pool,
    "nms": _write_nms,
}
