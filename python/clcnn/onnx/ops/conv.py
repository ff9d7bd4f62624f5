"""Convolutions and matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand
from clcnn.onnx.export_step import Emit, Step, plain
from clcnn.onnx.ops.pool import padding_of, spatial_of
from clcnn.onnx.table import row


def _kernel_of(call: Call, w: Operand, spatial: tuple[int, ...]) -> list[int]:
    """The kernel's size, which the attribute may repeat but not contradict."""
    kernel = list(w.shape[2:])
    if call.attr("kernel_shape", kernel) != kernel or len(kernel) != len(spatial):
        raise ModelError(f"kernel_shape {call.attr('kernel_shape')} does not fit weights of shape {w.shape}")
    return kernel


@row("Conv")
def _conv(call: Call) -> Operand:
    x, w = call.input(0), call.input(1)
    spatial = spatial_of(x)
    kernel = _kernel_of(call, w, spatial)
    stride = call.list_of("strides", len(spatial), 1)
    return call.emit(
        "conv",
        x,
        w,
        call.optional(2),
        stride=stride,
        padding=padding_of(call, spatial, kernel, stride),
        dilation=call.list_of("dilations", len(spatial), 1),
        groups=int(call.attr("group", 1)),
    )


@row("ConvTranspose")
def _conv_transpose(call: Call) -> Operand:
    x, w = call.input(0), call.input(1)
    spatial = spatial_of(x)
    kernel = _kernel_of(call, w, spatial)
    stride = call.list_of("strides", len(spatial), 1)
    dilation = call.list_of("dilations", len(spatial), 1)
    extra = call.list_of("output_padding", len(spatial), 0)
    full = [
        s * (n - 1) + o + (k - 1) * d + 1
        for n, s, o, k, d in zip(spatial, stride, extra, kernel, dilation, strict=True)
    ]
    mode, wanted = call.attr("auto_pad", "NOTSET"), call.attr("output_shape")
    if wanted is not None or mode in ("SAME_UPPER", "SAME_LOWER"):
        size = (
            list(wanted)[-len(spatial) :] if wanted is not None else [n * s for n, s in zip(spatial, stride)]
        )
        padding, more = _shared_out([a - b for a, b in zip(full, size, strict=True)], mode == "SAME_UPPER")
        extra = [a + b for a, b in zip(extra, more)]
    else:
        padding = [0] * (2 * len(spatial)) if mode == "VALID" else call.list_of("pads", 2 * len(spatial), 0)
    return call.emit(
        "conv_transpose",
        x,
        w,
        call.optional(2),
        stride=stride,
        padding=padding,
        output_padding=extra,
        dilation=dilation,
        groups=int(call.attr("group", 1)),
    )


@row("Col2Im", 18, values=(1, 2))
def _col2im(call: Call) -> Operand:
    """A column is a pixel of a map that has a channel for each tap. A transposed convolution to one channel,
    whose filters are 1 at their own tap and 0 elsewhere, brings columns to their places and adds them."""
    x, image, kernel = call.input(0), call.ints(1), call.ints(2)
    if x.rank != 3 or image is None or kernel is None or len(image) != len(kernel):
        raise ModelError(f"columns of shape {x.shape} and sizes {image} and {kernel} do not fit")
    n = len(kernel)
    stride, dilation = call.list_of("strides", n, 1), call.list_of("dilations", n, 1)
    pads, taps = call.list_of("pads", 2 * n, 0), int(np.prod(kernel))
    room = [size + pads[d] + pads[n + d] - dilation[d] * (kernel[d] - 1) - 1 for d, size in enumerate(image)]
    small = [r // s + 1 for r, s in zip(room, stride, strict=True)]
    channels = x.shape[1] // taps
    if min(room) < 0 or x.shape[1:] != (channels * taps, int(np.prod(small))):
        raise ModelError(f"columns of shape {x.shape} do not fill an image of {image} by kernels of {kernel}")
    moved = call.emit(
        "conv_transpose",
        call.reshape(x, (x.shape[0] * channels, taps, *small)),
        call.constant(np.eye(taps, dtype=x.dtype).reshape(taps, 1, *kernel)),
        stride=stride,
        padding=pads,
        output_padding=[r % s for r, s in zip(room, stride, strict=True)],
        dilation=dilation,
    )
    return call.reshape(moved, (x.shape[0], channels, *image))


def _shared_out(total: list[int], upper: bool) -> tuple[list[int], list[int]]:
    """What to cut from each dimension as padding begins and ends; what to add (negative totals) as output
    padding."""
    cut = [max(n, 0) for n in total]
    less, more = [n // 2 for n in cut], [n - n // 2 for n in cut]
    return (less + more if upper else more + less), [max(-n, 0) for n in total]


@row("MatMul")
def _matmul(call: Call) -> Operand:
    return call.emit("matmul", call.input(0), call.input(1))


@row("Gemm")
def _gemm(call: Call) -> Operand:
    """Weights of PyTorch's layout make it the core's `linear`, which has the faster algorithms."""
    a, b, c = call.input(0), call.input(1), call.optional(2)
    alpha, beta = float(call.attr("alpha", 1.0)), float(call.attr("beta", 1.0))
    trans_a, trans_b = bool(call.attr("transA", 0)), bool(call.attr("transB", 0))
    if c is not None and (beta == 0.0 or c.size == 0):
        c = None
    bias = c is None or (c.rank == 1 and b.rank == 2 and c.shape[0] == b.shape[0])
    if (
        b.array is not None
        and trans_b
        and not trans_a
        and a.rank == 2
        and bias
        and (alpha, beta) == (1.0, 1.0)
    ):
        return call.emit("linear", a, b, c)
    return call.emit("gemm", a, b, c, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b)


@row("DeformConv", 19)
def _deform_conv(call: Call) -> Operand:
    x, w, offset = call.input(0), call.input(1), call.input(2)
    spatial = spatial_of(x)
    _kernel_of(call, w, spatial)
    return call.emit(
        "deform_conv",
        x,
        w,
        offset,
        call.optional(3),
        call.optional(4),
        stride=call.list_of("strides", len(spatial), 1),
        padding=call.list_of("pads", 2 * len(spatial), 0),
        dilation=call.list_of("dilations", len(spatial), 1),
        groups=int(call.attr("group", 1)),
        offset_groups=int(call.attr("offset_group", 1)),
    )


@row("Hardmax")
def _hardmax(call: Call) -> Operand:
    x = call.input()
    if call.version >= 13:
        return one_hot_max(call, x, call.axis(x.rank, -1))
    axis = call.axis(x.rank, 1)
    flat = call.reshape(x, flattened(x, axis))
    return call.reshape(one_hot_max(call, flat, 1), x.shape)


def flattened(x: Operand, axis: int) -> tuple[int, int]:
    """The two dimensions that opset 12 and before made of a tensor for Softmax and its kin."""
    return int(np.prod(x.shape[:axis], dtype=object)), int(np.prod(x.shape[axis:], dtype=object))


def one_hot_max(call: Call, x: Operand, axis: int) -> Operand:
    """1 at the first maximum along an axis, 0 elsewhere."""
    at = call.emit("argmax", x, dim=axis, keepdims=True)
    counts = np.arange(x.shape[axis], dtype=np.int64).reshape([-1 if i == axis else 1 for i in range(x.rank)])
    return call.cast(call.emit("equal", at, call.constant(counts)), np.float32)


def _coerced(op: str, call: Call) -> Operand:
    """Softmax of opset 12 and before: over all dimensions from `axis` on."""
    x = call.input()
    axis = call.axis(x.rank, 1)
    if axis == x.rank - 1:
        return call.emit(op, x, dim=axis)
    if all(n == 1 for n in x.shape[axis + 1 :]):
        return call.emit(op, x, dim=axis)
    return call.reshape(call.emit(op, call.reshape(x, flattened(x, axis)), dim=1), x.shape)


@row("Softmax", 1, 12)
def _softmax_1(call: Call) -> Operand:
    return _coerced("softmax", call)


@row("Softmax", 13)
def _softmax(call: Call) -> Operand:
    return call.emit("softmax", call.input(), dim=call.axis(call.input().rank, -1))


@row("LogSoftmax", 1, 12)
def _log_softmax_1(call: Call) -> Operand:
    return _coerced("log_softmax", call)


@row("LogSoftmax", 13)
def _log_softmax(call: Call) -> Operand:
    return call.emit("log_softmax", call.input(), dim=call.axis(call.input().rank, -1))


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_conv(step: Step) -> None:
    n = step.spatial
    transposed: dict[str, Any] = {}
    if step.op == "conv_transpose":
        transposed["output_padding"] = step.ints("output_padding", n)
    step.add(
        "ConvTranspose" if transposed else "Conv",
        *step.inputs,
        kernel_shape=list(step.shapes[1][2:]),
        strides=step.ints("stride", n),
        pads=step.pads(),
        dilations=step.ints("dilation", n),
        group=step.attrs["groups"],
        **transposed,
    )


def _write_depthwise_nhwc(step: Step) -> None:
    conv = step.middle(
        "Conv",
        step.middle("Transpose", step.x, perm=[0, 3, 1, 2]),
        *step.inputs[1:],
        kernel_shape=list(step.shapes[1][2:]),
        strides=step.ints("stride", 2),
        pads=step.pads(),
        dilations=step.ints("dilation", 2),
        group=step.shape[-1],
    )
    step.add("Transpose", conv, perm=[0, 2, 3, 1])


def _write_linear(step: Step) -> None:
    if len(step.shape) == 2:
        step.add("Gemm", *step.inputs, transB=1)
        return
    # Gemm takes matrices only.
    w = step.middle("Transpose", step.inputs[1], perm=[1, 0])
    if len(step.inputs) > 2 and step.inputs[2]:
        step.add("Add", step.middle("MatMul", step.x, w), step.inputs[2])
    else:
        step.add("MatMul", step.x, w)


def _write_deform_conv(step: Step) -> None:
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


WRITE: dict[str, Emit] = {
    "conv": _write_conv,
    "depthwise_nhwc": _write_depthwise_nhwc,
    "conv_transpose": _write_conv,
    "linear": _write_linear,
    "matmul": plain("MatMul"),
    "gemm": plain("Gemm", alpha="alpha", beta="beta", transA="trans_a", transB="trans_b"),
    "deform_conv": _write_deform_conv,
    "softmax": plain("Softmax", axis="dim"),
    "log_softmax": plain("LogSoftmax", axis="dim"),
}
