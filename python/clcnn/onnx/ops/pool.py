"""Pooling: windows are given by kernel_shape, strides, dilations, and pads or auto_pad."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.export_step import Emit, Step
from clcnn.onnx.table import row


def spatial_of(x: Operand) -> tuple[int, ...]:
    """The spatial dimensions of N,C,spatial..."""
    if x.rank < 3:
        raise ModelError(f"its input must be N,C,spatial..., but has shape {x.shape}")
    return x.shape[2:]


def padding_of(call: Call, spatial: tuple[int, ...], kernel: list[int], stride: list[int]) -> list[int]:
    """The attributes pads and auto_pad as begins then ends."""
    rank = len(spatial)
    mode = call.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return call.list_of("pads", 2 * rank, 0)
    if mode == "VALID":
        return [0] * (2 * rank)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"attribute auto_pad: {mode!r}")
    dilation = call.list_of("dilations", rank, 1)
    begins, ends = [], []
    for n, k, s, d in zip(spatial, kernel, stride, dilation):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        less, more = total // 2, total - total // 2
        begins.append(less if mode == "SAME_UPPER" else more)
        ends.append(more if mode == "SAME_UPPER" else less)
    return begins + ends


def window(call: Call, x: Operand) -> dict[str, object]:
    """kernel_size, stride, padding, dilation, ceil_mode of a pooling operator."""
    spatial = spatial_of(x)
    kernel = call.list_of("kernel_shape", len(spatial), 1)
    stride = call.list_of("strides", len(spatial), 1)
    if min(kernel + stride) < 1:
        raise ModelError(f"kernel_shape {kernel} and strides {stride} must be at least 1")
    return {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding_of(call, spatial, kernel, stride),
        "dilation": call.list_of("dilations", len(spatial), 1),
        "ceil_mode": bool(call.attr("ceil_mode", 0)),
    }


@row("MaxPool")
def _max_pool(call: Call) -> list[Operand]:
    x = call.input()
    if not call.wants(1):
        return [call.emit("max_pool", x, **window(call, x))]
    order = int(call.attr("storage_order", 0))
    return call.emit_many("max_pool_indices", x, **window(call, x), storage_order=order)


@row("AveragePool")
def _average_pool(call: Call) -> Operand:
    x = call.input()
    return call.emit(
        "avg_pool", x, **window(call, x), count_include_pad=bool(call.attr("count_include_pad", 0))
    )


@row("LpPool")
def _lp_pool(call: Call) -> Operand:
    x, p = call.input(), float(call.attr("p", 2))  # a float up to opset 1
    if p != int(p):
        raise Refusal(f"attribute p: {p}")
    return call.emit("lp_pool", x, **window(call, x), p=int(p))


@row("GlobalAveragePool")
def _global_average_pool(call: Call) -> Operand:
    return call.emit("adaptive_avg_pool", call.input(), output_size=[1] * len(spatial_of(call.input())))


@row("GlobalMaxPool")
def _global_max_pool(call: Call) -> Operand:
    return call.emit("adaptive_max_pool", call.input(), output_size=[1] * len(spatial_of(call.input())))


@row("GlobalLpPool")
def _global_lp_pool(call: Call) -> Operand:
    x, p = call.input(), float(call.attr("p", 2))
    axes = list(range(2, 2 + len(spatial_of(x))))
    powers = call.emit("pow", call.emit("abs", x), call.full(x, p))
    return call.emit("pow", call.emit("reduce_sum", powers, axes=axes), call.full(x, 1.0 / p))


@row("MaxUnpool", 9, values=(2,))
def _max_unpool(call: Call) -> Operand:
    """A larger output_shape adds zeros at the ends; indices count in the size that the window gives."""
    x, indices = call.input(0), call.input(1)
    spatial = spatial_of(x)
    kernel = call.list_of("kernel_shape", len(spatial), 1)
    stride = call.list_of("strides", len(spatial), 1)
    pads = call.list_of("pads", 2 * len(spatial), 0)
    begins, ends = pads[: len(spatial)], pads[len(spatial) :]
    size = [(n - 1) * s + k - a - b for n, s, k, a, b in zip(spatial, stride, kernel, begins, ends)]
    wanted = call.ints(2)
    result = call.emit("max_unpool", x, indices, output_size=size)
    if wanted is None or wanted == list(result.shape):
        return result
    extra = [a - b for a, b in zip(wanted, result.shape, strict=True)]
    if min(extra) < 0:
        raise Refusal(f"output_shape {wanted} is smaller than {result.shape}")
    return call.emit("pad", result, pads=[0] * x.rank + extra)


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_pool(op_type: str, **more: str) -> Emit:
    def emit(step: Step) -> None:
        n = step.spatial
        kernel = step.ints("kernel_size", n)
        flags: dict[str, Any] = {name: int(step.attrs[own]) for name, own in more.items()}
        step.add(
            op_type,
            step.x,
            kernel_shape=kernel,
            strides=step.ints("stride", n) or kernel,
            pads=step.pads(),
            dilations=step.ints("dilation", n),
            ceil_mode=int(step.attrs["ceil_mode"]),
            **flags,
        )

    return emit


def _write_max_unpool(step: Step) -> None:
    """ONNX has no size for the output's places but what a window and a stride make: a window of one place and
    as many more as the output is longer; and int64 only."""
    indices = step.inputs[1]
    if step.dtypes[1] != "int64":
        indices = step.middle("Cast", indices, to=TensorProto.INT64)
    sizes = zip(step.ints("output_size", step.spatial), step.shape[2:])
    step.add("MaxUnpool", step.x, indices, kernel_shape=[out - size + 1 for out, size in sizes])


def _write_adaptive(pool: str, reduce: str) -> Emit:
    """Global pooling, pooling with windows side by side where the sizes divide; else, since ONNX has no
    adaptive pooling, dimension by dimension: every bin cut out, reduced, and put beside the others."""

    def emit(step: Step) -> None:
        n, sizes = step.spatial, step.shape[2:]
        out = step.ints("output_size", n)
        if all(o == 1 for o in out):
            step.add(f"Global{pool}", step.x)
        elif all(size % o == 0 for size, o in zip(sizes, out)):
            kernel = [size // o for size, o in zip(sizes, out)]
            step.add(pool, step.x, kernel_shape=kernel, strides=kernel)
        else:
            y = step.x
            for axis, (size, o) in enumerate(zip(sizes, out), start=2):
                y = _write_bins(step, y, axis, size, o, reduce)
            step.add("Identity", y)

    return emit


def _write_bins(step: Step, x: str, axis: int, size: int, count: int, reduce: str) -> str:
    """`count` bins of one dimension: bin i covers floor(i*size/count) up to ceil((i+1)*size/count)."""
    parts = []
    for i in range(count):
        first, last = i * size // count, -(-(i + 1) * size // count)
        bounds = [step.integers([v]) for v in (first, last, axis)]
        parts.append(step.middle(reduce, step.middle("Slice", x, *bounds), bounds[2], keepdims=1))
    return step.middle("Concat", *parts, axis=axis)


WRITE: dict[str, Emit] = {
    "max_pool": _write_pool("MaxPool"),
    "max_pool_indices": _write_pool("MaxPool", storage_order="storage_order"),
    "max_unpool": _write_max_unpool,
    "lp_pool": _write_pool("LpPool", p="p"),
    "avg_pool": _write_pool("AveragePool", count_include_pad="count_include_pad"),
    "adaptive_avg_pool": _write_adaptive("AveragePool", "ReduceMean"),
    "adaptive_max_pool": _write_adaptive("MaxPool", "ReduceMax"),
}
