"""How the operators of networks are written as ONNX nodes: one row of NETS an operator.

A row is a function of a Step, which knows the node's operands by their ONNX names, its attributes (defaults
filled in) and the shapes around it, and adds ONNX nodes that make `step.outputs`. Most rows are one node;
the others say in a comment why not. Everything is opset 21. Operators on values of other types, indices and
boxes are in export_values.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from clcnn.errors import UnsupportedError
from clcnn.onnx.export_step import Emit, Step, plain

# ---- convolution and matrix products ----


def _conv(step: Step) -> None:
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


def _linear(step: Step) -> None:
    if len(step.shape) == 2:
        step.add("Gemm", *step.inputs, transB=1)
        return
    # Gemm takes matrices only.
    w = step.middle("Transpose", step.inputs[1], perm=[1, 0])
    if len(step.inputs) > 2 and step.inputs[2]:
        step.add("Add", step.middle("MatMul", step.x, w), step.inputs[2])
    else:
        step.add("MatMul", step.x, w)


# ---- pooling ----


def _pool(op_type: str, **more: str) -> Emit:
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


def _max_unpool(step: Step) -> None:
    """ONNX has no size for the output's places but what a window and a stride make: a window of one place and
    as many more as the output is longer; and int64 only."""
    indices = step.inputs[1]
    if step.dtypes[1] != "int64":
        indices = step.middle("Cast", indices, to=TensorProto.INT64)
    sizes = zip(step.ints("output_size", step.spatial), step.shape[2:])
    step.add("MaxUnpool", step.x, indices, kernel_shape=[out - size + 1 for out, size in sizes])


def _adaptive(pool: str, reduce: str) -> Emit:
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
                y = _bins(step, y, axis, size, o, reduce)
            step.add("Identity", y)

    return emit


def _bins(step: Step, x: str, axis: int, size: int, count: int, reduce: str) -> str:
    """`count` bins of one dimension: bin i covers floor(i*size/count) up to ceil((i+1)*size/count)."""
    parts = []
    for i in range(count):
        first, last = i * size // count, -(-(i + 1) * size // count)
        bounds = [step.integers([v]) for v in (first, last, axis)]
        parts.append(step.middle(reduce, step.middle("Slice", x, *bounds), bounds[2], keepdims=1))
    return step.middle("Concat", *parts, axis=axis)


# ---- normalisation ----


def _local_response_norm(step: Step) -> None:
    size, alpha, beta, k = (step.attrs[name] for name in ("size", "alpha", "beta", "k"))
    if size % 2 and len(step.shape) == 4:
        step.add("LRN", step.x, size=size, alpha=alpha, beta=beta, bias=k)
        return
    # Readers of ONNX take four dimensions only, and odd sizes: an even window reaches one channel further
    # back here, and one further on in ONNX.
    pads = [0] * (2 * len(step.shape))
    pads[1], pads[len(step.shape) + 1] = size // 2, (size - 1) // 2
    wide = step.middle("Pad", step.middle("Mul", step.x, step.x), step.integers(pads))
    channels, axis = step.shape[1], step.integers([1])
    terms = [
        step.middle("Slice", wide, step.integers([i]), step.integers([i + channels]), axis)
        for i in range(size)
    ]
    scaled = step.middle("Mul", step.middle("Sum", *terms), step.number(alpha / size))
    base = step.middle("Add", scaled, step.number(k))
    step.add("Div", step.x, step.middle("Pow", base, step.number(beta)))


def _normalise(op_type: str, start: Callable[[Step], int], **more: str) -> Emit:
    """Weight and bias, of the shape of the dimensions from `start` on (one of them but for layer norm), must
    be given in ONNX."""

    def emit(step: Step) -> None:
        first = start(step)
        shape = step.shape[first:] if step.op == "layer_norm" else step.shape[first : first + 1]
        given = (*step.inputs[1:], "", "")
        weight, bias = given[0] or step.full(shape, 1.0), given[1] or step.full(shape, 0.0)
        attrs: dict[str, Any] = {name: step.attrs[own] for name, own in more.items()}
        step.add(op_type, step.x, weight, bias, epsilon=step.attrs["eps"], **attrs)

    return emit


def _reduce(op_type: str) -> Emit:
    def emit(step: Step) -> None:
        axes = [step.integers(step.axes())] if step.attrs["axes"] else []
        step.add(op_type, step.x, *axes, keepdims=int(step.attrs["keepdims"]))

    return emit


# ---- moving data ----


def _split(step: Step) -> None:
    step.add("Split", step.x, step.integers(step.attrs["sizes"]), axis=step.attrs["dim"])


def _slice(step: Step) -> None:
    starts = step.attrs["starts"]
    axes = step.axes() or list(range(len(starts)))
    rows = (starts, step.attrs["ends"], axes, step.ints("steps", len(starts)))
    step.add("Slice", step.x, *map(step.integers, rows))


def _pad(step: Step) -> None:
    value = step.number(step.attrs["value"], step.dtypes[0]) if step.attrs["mode"] == "constant" else ""
    step.add("Pad", step.x, step.integers(step.attrs["pads"]), value, mode=step.attrs["mode"])


def _reshape(step: Step) -> None:
    """In a shape 0 repeats the operand's dimension of that index, here and in ONNX."""
    shape = [int(size) for size in step.attrs["shape"]]
    if step.batch_free and shape[:1] == [step.shape[0]]:
        shape[0] = 0
    step.add("Reshape", step.x, step.integers(shape))


def _flatten(step: Step) -> None:
    """ONNX's Flatten makes matrices only."""
    rank = len(step.shape)
    first, last = int(step.attrs["start_dim"]) % max(rank, 1), int(step.attrs["end_dim"]) % max(rank, 1)
    if first == 1 and last == rank - 1:
        step.add("Flatten", step.x, axis=1)
    else:
        shape = [0] * first + [-1] + list(step.shape[last + 1 :])
        step.add("Reshape", step.x, step.integers(shape))


def _squeeze(step: Step) -> None:
    axes = step.axes() or [i for i, size in enumerate(step.shape) if size == 1]
    step.add("Squeeze", step.x, step.integers(axes)) if axes else step.add("Identity", step.x)


def _unsqueeze(step: Step) -> None:
    step.add("Unsqueeze", step.x, step.integers(step.attrs["axes"]))


def _expand(step: Step) -> None:
    """In a shape 1 keeps the operand's dimension."""
    shape = [int(size) for size in step.attrs["shape"]]
    if step.batch_free and len(shape) == len(step.shape) and shape[0] == step.shape[0]:
        shape[0] = 1
    step.add("Expand", step.x, step.integers(shape))


def _dropout(step: Step) -> None:
    step.add("Dropout", step.x, step.number(step.attrs["p"]))


def _resize(step: Step) -> None:
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


# ---- element-wise ----


def _clip(low: str | float, high: str | float) -> Emit:
    """Clip between two attributes or two numbers. An absent bound would be the largest finite number."""

    def emit(step: Step) -> None:
        bounds = [step.attrs[b] if isinstance(b, str) else b for b in (low, high)]
        step.add("Clip", step.x, *map(step.number, bounds))

    return emit


def _silu(step: Step) -> None:
    """ONNX's Swish is of opset 24."""
    step.add("Mul", step.x, step.middle("Sigmoid", step.x))


def _prelu(step: Step) -> None:
    """A slope [C] belongs to dimension 1 here, and to the last one in ONNX."""
    slope, shape = step.inputs[1], step.shapes[1]
    if len(shape) == 1 and shape[0] > 1 and step.spatial > 0:
        slope = step.middle("Reshape", slope, step.integers([shape[0], *[1] * step.spatial]))
    step.add("PRelu", step.x, slope)


NETS: dict[str, Emit] = {
    "conv": _conv,
    "conv_transpose": _conv,
    "linear": _linear,
    "matmul": plain("MatMul"),
    "gemm": plain("Gemm", alpha="alpha", beta="beta", transA="trans_a", transB="trans_b"),
    "max_pool": _pool("MaxPool"),
    "max_pool_indices": _pool("MaxPool", storage_order="storage_order"),
    "max_unpool": _max_unpool,
    "lp_pool": _pool("LpPool", p="p"),
    "avg_pool": _pool("AveragePool", count_include_pad="count_include_pad"),
    "adaptive_avg_pool": _adaptive("AveragePool", "ReduceMean"),
    "adaptive_max_pool": _adaptive("MaxPool", "ReduceMax"),
    "batch_norm": plain("BatchNormalization", epsilon="eps"),
    "instance_norm": _normalise("InstanceNormalization", lambda step: 1),
    "group_norm": _normalise("GroupNormalization", lambda step: 1, num_groups="groups"),
    "layer_norm": _normalise(
        "LayerNormalization", lambda step: int(step.attrs["dim"]) % len(step.shape), axis="dim"
    ),
    "local_response_norm": _local_response_norm,
    "softmax": plain("Softmax", axis="dim"),
    "log_softmax": plain("LogSoftmax", axis="dim"),
    "reduce_sum": _reduce("ReduceSum"),
    "reduce_mean": _reduce("ReduceMean"),
    "reduce_max": _reduce("ReduceMax"),
    "reduce_min": _reduce("ReduceMin"),
    "concat": plain("Concat", axis="dim"),
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "reshape": _reshape,
    "flatten": _flatten,
    "transpose": plain("Transpose", perm="perm"),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "expand": _expand,
    "resize": _resize,
    "dropout": _dropout,
    "identity": plain("Identity"),
    "prelu": _prelu,
    "relu": plain("Relu"),
    "relu6": _clip(0.0, 6.0),
    "leaky_relu": plain("LeakyRelu", alpha="negative_slope"),
    "elu": plain("Elu", alpha="alpha"),
    "sigmoid": plain("Sigmoid"),
    "tanh": plain("Tanh"),
    "hard_sigmoid": plain("HardSigmoid", alpha="alpha", beta="beta"),
    "hard_swish": plain("HardSwish"),
    "silu": _silu,
    "gelu": plain("Gelu", approximate="approximate"),
    "clip": _clip("min", "max"),
    "exp": plain("Exp"),
    "log": plain("Log"),
    "sqrt": plain("Sqrt"),
    "abs": plain("Abs"),
    "neg": plain("Neg"),
    "add": plain("Add"),
    "sub": plain("Sub"),
    "mul": plain("Mul"),
    "div": plain("Div"),
    "minimum": plain("Min"),
    "maximum": plain("Max"),
    "pow": plain("Pow"),
}
