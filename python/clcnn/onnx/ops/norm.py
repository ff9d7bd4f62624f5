"""Normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.export_step import Emit, Step, plain
from clcnn.onnx.table import row


def _scaled(call: Call, x: Operand, scale: Operand, bias: Operand) -> Operand:
    return call.emit("add", call.emit("mul", x, scale), bias)


def _moments(call: Call, x: Operand, axes: list[int]) -> tuple[Operand, Operand, Operand]:
    """Mean, x minus it, and the mean of its square, dimensions kept."""
    mean = call.emit("reduce_mean", x, axes=axes, keepdims=True)
    centred = call.emit("sub", x, mean)
    return (
        mean,
        centred,
        call.emit("reduce_mean", call.emit("mul", centred, centred), axes=axes, keepdims=True),
    )


def _inverse_root(call: Call, variance: Operand, eps: float) -> Operand:
    root = call.emit("sqrt", call.emit("add", variance, call.full(variance, eps)))
    return call.emit("div", call.full(root, 1.0), root)


@row("BatchNormalization", 1, 8)
def _batch_norm_1(call: Call) -> Operand | list[Operand]:
    """Up to opset 8; spatial=0 keeps statistics for each element of an item."""
    x = call.input()
    if call.attr("spatial", 1) or x.rank < 3:
        return _by_outputs(call)
    if any(call.wanted[1:]):
        raise Refusal("attribute spatial: 0 in training")
    scale, bias, mean, variance = (call.reshape(call.input(i), (1, *x.shape[1:])) for i in range(1, 5))
    inverse = _inverse_root(call, variance, float(call.attr("epsilon", 1e-5)))
    return _scaled(call, call.emit("mul", call.emit("sub", x, mean), inverse), scale, bias)


@row("BatchNormalization", 9, 13)
def _batch_norm_9(call: Call) -> Operand | list[Operand]:
    return _by_outputs(call)


def _by_outputs(call: Call) -> Operand | list[Operand]:
    """Outputs besides the first ask for training; those behind the running statistics are not given, since
    runtimes differ in what they are."""
    return _training(call) if any(call.wanted[1:]) else _inference(call)


@row("BatchNormalization", 14)
def _batch_norm(call: Call) -> Operand | list[Operand]:
    return _training(call) if call.attr("training_mode", 0) else _inference(call)


def _training(call: Call) -> list[Operand]:
    """Normalises by the batch's own statistics and returns the running ones updated."""
    x, momentum = call.input(), float(call.attr("momentum", 0.9))
    axes = [0, *range(2, x.rank)]
    mean, centred, variance = _moments(call, x, axes)
    scale, bias = (call.reshape(call.input(i), mean.shape) for i in (1, 2))
    inverse = _inverse_root(call, variance, float(call.attr("epsilon", 1e-5)))
    results = [_scaled(call, call.emit("mul", centred, inverse), scale, bias)]
    for running, batch in ((call.input(3), mean), (call.input(4), variance)):
        old = call.emit("mul", running, call.full(running, momentum))
        new = call.emit("mul", call.reshape(batch, running.shape), call.full(running, 1.0 - momentum))
        results.append(call.emit("add", old, new))
    return results


def _inference(call: Call) -> Operand:
    x = call.input()
    given = [call.input(i) for i in range(1, 5)]
    flat = call.reshape(x, (*x.shape, 1)) if x.rank == 1 else x
    return call.reshape(call.emit("batch_norm", flat, *given, eps=float(call.attr("epsilon", 1e-5))), x.shape)


@row("InstanceNormalization")
def _instance_norm(call: Call) -> Operand:
    eps = float(call.attr("epsilon", 1e-5))
    return call.emit("instance_norm", call.input(0), call.input(1), call.input(2), eps=eps)


@row("GroupNormalization", 18, 20)
def _group_norm_18(call: Call) -> Operand:
    """Its scale and bias are for each group; the core's are for each channel."""
    x, groups = call.input(), int(call.attr("num_groups"))
    if groups < 1 or x.rank < 2 or x.shape[1] % groups:
        raise ModelError(f"{groups} groups do not divide the channels of shape {x.shape}")
    each = x.shape[1] // groups
    scale, bias = (
        call.reshape(_repeated(call, call.reshape(call.input(i), (groups, 1)), each), (x.shape[1],))
        for i in (1, 2)
    )
    return call.emit("group_norm", x, scale, bias, groups=groups, eps=float(call.attr("epsilon", 1e-5)))


def _repeated(call: Call, x: Operand, each: int) -> Operand:
    if x.array is not None:
        return Operand(np.repeat(x.array, each, axis=1))
    return x if each == 1 else call.emit("expand", x, shape=[x.shape[0], each])


@row("GroupNormalization", 21)
def _group_norm(call: Call) -> Operand:
    groups, eps = int(call.attr("num_groups")), float(call.attr("epsilon", 1e-5))
    return call.emit("group_norm", call.input(0), call.input(1), call.input(2), groups=groups, eps=eps)


@row("LayerNormalization", 17)
def _layer_norm(call: Call) -> list[Operand]:
    x, eps = call.input(), float(call.attr("epsilon", 1e-5))
    axis = call.axis(x.rank, -1)
    inner = x.shape[axis:]
    if (
        not call.wants(1)
        and not call.wants(2)
        and all(call.input(i).shape == inner for i in range(1, 3) if call.has(i))
    ):
        return [call.emit("layer_norm", x, call.input(1), call.optional(2), dim=axis, eps=eps)]
    mean, centred, variance = _moments(call, x, list(range(axis, x.rank)))
    inverse = _inverse_root(call, variance, eps)
    result = call.emit("mul", call.emit("mul", centred, inverse), call.input(1))
    if call.has(2):
        result = call.emit("add", result, call.input(2))
    return [result, mean, inverse]


@row("LRN")
def _lrn(call: Call) -> Operand:
    return call.emit(
        "local_response_norm",
        call.input(),
        size=int(call.attr("size", 0)),
        alpha=float(call.attr("alpha", 1e-4)),
        beta=float(call.attr("beta", 0.75)),
        k=float(call.attr("bias", 1.0)),
    )


SMALLEST_NORM = 1e-30  # where all is 0, so is the result


@row("LpNormalization")
def _lp_normalization(call: Call) -> Operand:
    x, p = call.input(), int(call.attr("p", 2))
    axis = call.axis(x.rank, -1)
    if p == 2:
        return call.emit("l2_norm", x, dim=axis, eps=SMALLEST_NORM)
    if p != 1:
        raise Refusal(f"attribute p: {p}")
    norm = call.emit("reduce_sum", call.emit("abs", x), axes=[axis], keepdims=True)
    zero = call.emit("equal", norm, call.full(norm, 0.0))
    return call.emit("div", x, call.emit("where", zero, call.full(norm, 1.0), norm))


@row("MeanVarianceNormalization", 9)
def _mean_variance(call: Call) -> Operand:
    x = call.input()
    _, centred, variance = _moments(call, x, [a % x.rank for a in call.attr("axes", [0, 2, 3])])
    root = call.emit("add", call.emit("sqrt", variance), call.full(variance, 1e-9))
    return call.emit("div", centred, root)


@row("RMSNormalization", 23)
def _rms_norm(call: Call) -> Operand:
    return _by_mean_square(call, call.axis(call.input().rank, -1))[0]


@row("SimplifiedLayerNormalization")
def _simplified_layer_norm(call: Call) -> list[Operand]:
    """What onnxruntime writes for RMSNormalization, in ONNX's own domain."""
    axis = call.axis(call.input().rank, -1)
    return list(_by_mean_square(call, axis))[: 2 if call.wants(1) else 1]


def _by_mean_square(call: Call, axis: int) -> tuple[Operand, ...]:
    """The result, and the inverse root where it is wanted."""
    x, eps = call.input(), float(call.attr("epsilon", 1e-5))
    if not call.wants(1) and call.input(1).shape == x.shape[axis:]:
        return (call.emit("rms_norm", x, call.input(1), dim=axis, eps=eps),)
    axes = list(range(axis, x.rank))
    square = call.emit("reduce_mean", call.emit("mul", x, x), axes=axes, keepdims=True)
    inverse = _inverse_root(call, square, eps)
    return call.emit("mul", call.emit("mul", x, inverse), call.input(1)), inverse


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_local_response_norm(step: Step) -> None:
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


def _write_normalise(op_type: str, start: Callable[[Step], int], **more: str) -> Emit:
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


def _write_layer_norm(step: Step) -> None:
    """ONNX's has all dimensions to the last; others are written out."""
    first, dims = int(step.attrs["dim"]) % len(step.shape), int(step.attrs["dims"])
    if dims in (0, len(step.shape) - first):
        _write_normalise("LayerNormalization", lambda step: first, axis="dim")(step)
        return
    axes = step.integers(range(first, first + dims))
    centred = step.middle("Sub", step.x, step.middle("ReduceMean", step.x, axes))
    _write_by_root(step, centred, axes, dims)


def _write_rms_norm(step: Step) -> None:
    first = int(step.attrs["dim"]) % len(step.shape)
    dims = int(step.attrs["dims"]) or len(step.shape) - first
    _write_by_root(step, step.x, step.integers(range(first, first + dims)), dims)


def _write_by_root(step: Step, x: str, axes: str, dims: int) -> None:
    """x over the root of its mean square, then the operands that there are."""
    square = step.middle("ReduceMean", step.middle("Mul", x, x), axes)
    root = step.middle("Sqrt", step.middle("Add", square, step.number(step.attrs["eps"])))
    first = int(step.attrs["dim"]) % len(step.shape)
    shape = [*step.shape[first : first + dims], *[1] * (len(step.shape) - first - dims)]
    parameters = [
        (op_type, step.middle("Reshape", given, step.integers(shape)))
        for op_type, given in zip(("Mul", "Add"), step.inputs[1:])
        if given
    ]
    y = ("Div", x, root)
    for op_type, parameter in parameters:
        y = (op_type, step.middle(*y), parameter)
    step.add(*y)


def _write_l2_norm(step: Step) -> None:
    norm = step.middle("ReduceL2", step.x, step.integers([int(step.attrs["dim"])]))
    step.add("Div", step.x, step.middle("Max", norm, step.number(step.attrs["eps"])))


WRITE: dict[str, Emit] = {
    "batch_norm": plain("BatchNormalization", epsilon="eps"),
    "instance_norm": _write_normalise("InstanceNormalization", lambda step: 1),
    "group_norm": _write_normalise("GroupNormalization", lambda step: 1, num_groups="groups"),
    "layer_norm": _write_layer_norm,
    "rms_norm": _write_rms_norm,
    "l2_norm": _write_l2_norm,
    "local_response_norm": _write_local_response_norm,
}
