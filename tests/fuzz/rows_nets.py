"""Rows of convolutions, products, pooling, normalisation, resizing and what detectors need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fuzz.net import CHANNELS, ROWS, Net, Skip


def _window(net: Net, sides: tuple[int, ...], kernel: list[int]) -> dict[str, Any]:
    """strides, dilations and padding of a window that fits at least once."""
    rank = len(sides)
    attrs: dict[str, Any] = {}
    stride = net.one(1, 1, 1, 2, 2, 3)
    if stride > 1 or net.maybe(0.3):
        attrs["strides"] = [stride] * rank if net.maybe(0.8) else [net.one(1, 2) for _ in range(rank)]
    dilations = [1] * rank
    if net.maybe(0.15) and max(kernel) > 1:
        dilations = attrs["dilations"] = [net.one(1, 2, 2, 3)] * rank
    span = [d * (k - 1) + 1 for k, d in zip(kernel, dilations)]
    if net.maybe(0.15):
        attrs["auto_pad"] = net.one("SAME_UPPER", "SAME_LOWER", "VALID")
        same = attrs["auto_pad"] != "VALID"
        if not same and any(n < s for n, s in zip(sides, span)):
            raise Skip
        return attrs
    if net.maybe(0.75):
        begins = [(s - 1) // 2 for s in span]
        ends = begins if net.maybe(0.7) else [net.rng.randint(0, k - 1) for k in kernel]
        attrs["pads"] = [*begins, *ends]
    pads = attrs.get("pads", [0] * 2 * rank)
    if any(n + a + b < s for n, a, b, s in zip(sides, pads[:rank], pads[rank:], span)):
        raise Skip
    return attrs


def _kernel(net: Net, rank: int) -> list[int]:
    if net.maybe(0.85):
        return [net.one(1, 1, 3, 3, 3, 3, 2, 5)] * rank
    return [net.one(1, 2, 3, 5, 7) for _ in range(rank)] if rank < 3 else [net.one(1, 2, 3)] * rank


@ROWS("Conv")
def _conv(net: Net) -> str:
    x = net.pick(*net.one((4,), (4,), (4,), (4,), (4,), (3,), (5,)))
    channels, sides = net.shape(x)[1], net.shape(x)[2:]
    kernel = _kernel(net, len(sides))
    group = net.one(1, 1, 1, channels, channels, net.divisor(channels))
    made = group * net.one(1, 1, 2) if net.maybe(0.6) and group > 1 else net.one(*CHANNELS, 40, 64)
    made = -(-made // group) * group
    each = channels // group
    w = net.weight(made, each, *kernel, terms=each * math.prod(kernel))
    b = net.const(net.random((made,))) if net.maybe(0.6) else ""
    return net.node(
        "Conv",
        *(x, w, b),
        kernel_shape=kernel if net.maybe(0.5) else None,
        group=group if group > 1 or net.maybe(0.2) else None,
        **_window(net, sides, kernel),
    )


@ROWS("ConvTranspose")
def _conv_transpose(net: Net) -> str:
    x = net.pick(*net.one((4,), (4,), (4,), (3,), (5,)))
    channels, sides = net.shape(x)[1], net.shape(x)[2:]
    rank = len(sides)
    kernel = [net.one(1, 2, 2, 3, 4)] * rank
    stride = [net.one(1, 2, 2, 3)] * rank
    group = net.one(1, 1, 1, channels, net.divisor(channels))
    each = net.one(1, 2, 3, 4, 8) if group > 1 else net.one(*CHANNELS)
    w = net.weight(channels, each, *kernel, terms=channels // group * math.prod(kernel))
    b = net.const(net.random((each * group,))) if net.maybe(0.6) else ""
    attrs: dict[str, Any] = {"strides": stride, "group": group}
    if net.maybe(0.5):
        attrs["pads"] = [net.rng.randint(0, (k - 1) // 2) for k in kernel] * 2
    if net.maybe(0.3):
        attrs["output_padding"] = [net.rng.randint(0, s - 1) for s in stride]
    if net.maybe(0.1):
        attrs["dilations"] = [2] * rank
    if net.maybe(0.1) and kernel >= stride:  # where a stride is longer, no two runtimes pad alike
        attrs = {"strides": stride, "group": group, "auto_pad": net.one("SAME_UPPER", "SAME_LOWER", "VALID")}
    return net.node("ConvTranspose", x, w, b, **attrs)


@ROWS("DeformConv", first=19)
def _deform_conv(net: Net) -> str:
    x = net.pick(4, where=lambda a: min(a.shape[2:]) >= 3)
    n, channels, h, w = net.shape(x)
    made, groups = net.one(2, 4, 8), net.one(1, net.divisor(channels))
    offset = net.either(net.uniform((n, groups * 18, h, w), -1.3, 1.3))
    mask = net.either(net.uniform((n, groups * 9, h, w), 0, 1)) if net.maybe(0.5) else ""
    weight = net.weight(made, channels, 3, 3, terms=channels * 9)
    b = net.const(net.random((made,))) if net.maybe(0.5) else ""
    return net.node("DeformConv", x, weight, offset, b, mask, pads=[1] * 4, offset_group=groups)


@ROWS("MatMul")
def _matmul(net: Net) -> str:
    x = net.pick(1, 2, 3, 4)
    shape = net.shape(x)
    if len(shape) >= 2 and net.maybe(0.25):  # a product with its own transpose
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        scaled = net.node("Mul", x, net.const(np.float32(1 / math.sqrt(shape[-1]))))
        return net.node("MatMul", scaled, net.node("Transpose", x, perm=perm))
    lead = net.one((), (), shape[:-2], tuple(net.one(1, n) for n in shape[:-2]))
    columns = net.one(1, 2, 5, 8, 16, 33)
    w = net.weight(*lead, shape[-1], columns, terms=shape[-1])
    if len(shape) >= 2 and net.maybe(0.15):
        return net.node("MatMul", net.weight(columns, shape[-2], terms=shape[-2]), x)
    return net.node("MatMul", x, w)


@ROWS("Einsum", first=12)
def _einsum(net: Net) -> str:
    x = net.pick(2, 3, 4)
    letters = "abcd"[: net.rank(x)]
    last = net.shape(x)[-1]
    if net.maybe(0.3):
        return net.node("Einsum", x, equation=f"{letters}->{letters[::-1]}")
    w = net.weight(last, net.one(1, 3, 8), terms=last)
    out = net.one(letters[:-1] + "z", "z" + letters[:-1])
    return net.node("Einsum", x, w, equation=f"{letters},{letters[-1]}z->{out}")


@ROWS("Gemm", first=7)
def _gemm(net: Net) -> str:
    x = net.pick(2)
    trans_a, trans_b = net.one(0, 0, 1), net.one(1, 1, 0)
    rows, terms = net.shape(x) if not trans_a else net.shape(x)[::-1]
    columns = net.one(1, 2, 3, 5, 8, 16, 33, 100)
    w = net.weight(*((columns, terms) if trans_b else (terms, columns)), terms=terms)
    shape = net.one((columns,), (columns,), (columns,), (1,), (), (rows, 1), (rows, columns))
    c = net.const(net.random(shape)) if net.maybe(0.7) else ""
    scale = {"alpha": net.one(None, 0.5), "beta": net.one(None, 2.0, 0.0)} if net.maybe(0.3) else {}
    return net.node("Gemm", x, w, c, transA=trans_a, transB=trans_b, **scale)


# ---- pooling -----------------------------------------------------------------------------------------------


def _pool(net: Net, first_dilated: int) -> tuple[str, dict[str, Any]]:
    x = net.pick(*net.one((4,), (4,), (4,), (3,), (5,)))
    kernel = _kernel(net, net.rank(x) - 2)
    attrs = _window(net, net.shape(x)[2:], kernel) | {"kernel_shape": kernel}
    if "dilations" in attrs and (net.opset < first_dilated or "auto_pad" in attrs):
        raise Skip  # onnxruntime leaves dilations out of what SAME pads
    pads = attrs.get("pads")
    if pads and any(p >= k for p, k in zip(pads, kernel * 2)):
        raise Skip
    if net.opset >= max(10, first_dilated - 1) and "auto_pad" not in attrs:
        attrs["ceil_mode"] = net.one(None, None, 1)
    return x, attrs


@ROWS("MaxPool", first=12)
def _max_pool(net: Net) -> str:
    x, attrs = _pool(net, 10)
    if net.maybe(0.8):
        return net.node("MaxPool", x, **attrs)
    return net.many("MaxPool", [x], 2, storage_order=net.one(None, 1), **attrs)[0]


@ROWS("AveragePool", first=11)
def _average_pool(net: Net) -> str:
    x, attrs = _pool(net, 19)
    return net.node("AveragePool", x, count_include_pad=net.one(None, 0, 1), **attrs)


@ROWS("LpPool", first=11)
def _lp_pool(net: Net) -> str:
    x, attrs = _pool(net, 18)
    return net.node("LpPool", x, p=net.one(None, 1, 2, 3), **attrs)


@ROWS("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(net: Net, op: str) -> str:
    p = {"p": net.one(None, 1, 2, 3)} if op == "GlobalLpPool" else {}
    return net.node(op, net.pick(3, 4, 4, 4, 5), **p)


@ROWS("MaxUnpool", first=11)
def _max_unpool(net: Net) -> str:
    """Of maps that the window divides: for others, onnxruntime counts indices otherwise than ONNX's tests."""
    x = net.pick(4, where=lambda a: a.shape[2] % 2 == 0 and a.shape[3] % 2 == 0)
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    y, indices = net.many("MaxPool", [x], 2, **attrs)
    return net.node("MaxUnpool", net.node("Relu", y) if net.maybe(0.5) else y, indices, **attrs)


# ---- normalisation -----------------------------------------------------------------------------------------


@ROWS("BatchNormalization", first=9)
def _batch_norm(net: Net) -> str:
    x = net.pick(2, 3, 4, 4, 4, 5)
    c = (net.shape(x)[1],)
    scale, mean = net.const(net.uniform(c, 0.5, 1.5)), net.const(net.random(c))
    bias, variance = net.const(net.random(c)), net.const(net.uniform(c, 0.3, 2.0))
    return net.node("BatchNormalization", x, scale, bias, mean, variance, epsilon=net.one(None, 1e-3, 1e-6))


@ROWS("InstanceNormalization")
def _instance_norm(net: Net) -> str:
    x = net.pick(3, 4, 5)
    c = (net.shape(x)[1],)
    scale, bias = net.const(net.uniform(c, 0.5, 1.5)), net.const(net.random(c))
    return net.node("InstanceNormalization", x, scale, bias, epsilon=net.one(None, 1e-3))


@ROWS("GroupNormalization", first=18)
def _group_norm(net: Net) -> str:
    x = net.pick(3, 4)
    groups = net.divisor(net.shape(x)[1])
    c = (net.shape(x)[1] if net.opset >= 21 else groups,)
    scale, bias = net.const(net.uniform(c, 0.5, 1.5)), net.const(net.random(c))
    return net.node("GroupNormalization", x, scale, bias, num_groups=groups)


@ROWS("LayerNormalization", first=17)
def _layer_norm(net: Net) -> Any:
    x = net.pick(2, 3, 4)
    axis = net.axis(net.rank(x))
    shape = net.shape(x)[axis:]
    if net.maybe(0.15):
        shape = tuple(net.one(1, n) for n in shape)
    bias = net.const(net.random(shape)) if net.maybe(0.6) else ""
    given = [x, net.const(net.uniform(shape, 0.5, 1.5)), bias]
    wanted = [True, *net.one((), (), (True, True), (False, True))]
    return net.many("LayerNormalization", given, wanted, axis=axis, epsilon=net.one(None, 1e-3))


@ROWS("RMSNormalization", first=23)
def _rms_norm(net: Net) -> str:
    x = net.pick(2, 3, 4)
    axis = net.axis(net.rank(x))
    return net.node("RMSNormalization", x, net.const(net.uniform(net.shape(x)[axis:], 0.5, 1.5)), axis=axis)


@ROWS("Attention", first=23)
def _attention(net: Net) -> str:
    q = net.pick(4)
    n, heads, rows, depth = net.shape(q)
    columns, width = net.rng.randint(1, 9), net.rng.randint(1, 9)
    k = net.const(net.random((n, heads, columns, depth)))
    v = net.const(net.random((n, heads, columns, width)))
    mask = net.const(net.random((rows, columns))) if net.maybe(0.5) else ""
    return net.node("Attention", q, k, v, mask, scale=net.one(None, 0.3), is_causal=net.one(None, 0, 1))


@ROWS("RotaryEmbedding", first=23)
def _rotary_embedding(net: Net) -> str:
    x = net.pick(4, where=lambda a: a.shape[3] % 2 == 0)
    n, _, length, columns = net.shape(x)
    turned = 2 * net.rng.randint(1, columns // 2)
    tables = [net.const(net.random((length + 2, turned // 2))) for _ in range(2)]
    positions = [[net.rng.randint(0, length + 1) for _ in range(length)] for _ in range(n)]
    attrs = {
        "interleaved": net.one(None, 0, 1),
        "rotary_embedding_dim": None if turned == columns else turned,
    }
    return net.node("RotaryEmbedding", x, *tables, net.const(np.array(positions, np.int64)), **attrs)


@ROWS("LRN")
def _lrn(net: Net) -> str:
    attrs = {"alpha": net.one(None, 0.1), "beta": net.one(None, 0.5), "bias": net.one(None, 2.0)}
    return net.node("LRN", net.pick(4), size=net.one(1, 3, 5, 7), **attrs)


@ROWS("LpNormalization")
def _lp_norm(net: Net) -> str:
    x = net.pick(2, 3, 4)
    return net.node("LpNormalization", x, axis=net.axis(net.rank(x)), p=net.one(None, 1, 2))


@ROWS("MeanVarianceNormalization", first=13)
def _mean_variance(net: Net) -> str:
    x = net.pick(4, where=lambda a: a.shape[2] * a.shape[3] > 2)
    return net.node("MeanVarianceNormalization", x, axes=net.one(None, [0, 2, 3], [2, 3], [0, 1, 2, 3]))


# ---- resizing ----------------------------------------------------------------------------------------------


@ROWS("Upsample", first=7, last=9)
def _upsample(net: Net) -> str:
    x = net.pick(4, where=lambda a: a.size < 4000)
    scales = [1.0, 1.0, net.one(1.0, 2.0, 3.0), net.one(1.0, 2.0, 1.5)]
    mode = net.one("nearest", "linear")
    if net.opset < 9:
        return net.node("Upsample", x, scales=scales, mode=mode)
    return net.node("Upsample", x, net.const(scales, "float32"), mode=mode)


@ROWS("Resize", first=11)
def _resize(net: Net) -> str:
    x = net.pick(*net.one((4,), (4,), (4,), (3,), (5,)), where=lambda a: a.size < 4000)
    shape = net.shape(x)
    mode = net.one("nearest", "nearest", "linear", "linear", "cubic") if len(shape) == 4 else "nearest"
    whole = net.one(2.0, 2.0, 3.0, 0.5)
    factors = [1.0, 1.0, *(net.one(whole, whole, 1.5, 0.7, 1.8, 1.0) for _ in shape[2:])]
    attrs: dict[str, Any] = {"mode": mode}
    places = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    if net.opset >= 19:
        places.append("half_pixel_symmetric")
    attrs["coordinate_transformation_mode"] = net.one(None, *places)
    if mode == "nearest":
        roundings = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attrs["nearest_mode"] = net.one(None, *roundings)
    if mode == "cubic":
        attrs |= {"cubic_coeff_a": net.one(None, -0.5), "exclude_outside": net.one(None, 1)}
    if net.opset >= 18 and mode != "nearest" and net.maybe(0.2):
        attrs["antialias"] = 1
    sizes = [math.floor(n * f) for n, f in zip(shape, factors)]
    if min(sizes) < 1:
        raise Skip
    if net.maybe(0.5):
        return net.node("Resize", x, "", "", net.ints(*sizes), **attrs)
    return net.node("Resize", x, "", net.const(factors, "float32"), **attrs)


# ---- detectors ---------------------------------------------------------------------------------------------


@ROWS("GridSample", first=16)
def _grid_sample(net: Net) -> str:
    x = net.pick(4, 4, 5)
    rank = net.rank(x) - 2
    grid = net.either(net.uniform((net.shape(x)[0], *(net.size() for _ in range(rank)), rank), -1.2, 1.2))
    modes = ("bilinear", "nearest", "bicubic") if net.opset < 20 else ("linear", "nearest", "cubic")
    mode = net.one(*modes) if rank == 2 else net.one(*modes[:2])
    edges = net.one(None, "zeros", "border", "reflection")
    return net.node("GridSample", x, grid, mode=mode, padding_mode=edges, align_corners=net.one(None, 1))


def _boxes(net: Net, count: int, h: float, w: float) -> Any:
    """x1, y1, x2, y2 with some area."""
    corners = net.uniform((count, 2, 2), 0.0, 1.0)
    low, high = corners.min(1), corners.max(1) + np.float32(0.1)
    return np.concatenate([low, high], 1) * np.array([w, h, w, h], "float32")


@ROWS("RoiAlign", first=10)
def _roi_align(net: Net) -> str:
    x = net.pick(4)
    n, _, h, w = net.shape(x)
    count = net.rng.randint(1, 4)
    rois, items = net.either(_boxes(net, count, h, w)), net.np_rng.integers(0, n, count)
    attrs: dict[str, Any] = {"output_height": net.one(1, 2, 3), "output_width": net.one(1, 2, 4)}
    attrs |= {"sampling_ratio": net.one(None, 1, 2), "spatial_scale": net.one(None, 0.5)}
    attrs["mode"] = net.one(None, "avg", "max")
    if net.opset >= 16:
        attrs["coordinate_transformation_mode"] = net.one(None, "half_pixel", "output_half_pixel")
    return net.node("RoiAlign", x, rois, net.either(items), **attrs)


@ROWS("MaxRoiPool")
def _max_roi_pool(net: Net) -> str:
    x = net.pick(4)
    n, _, h, w = net.shape(x)
    count = net.rng.randint(1, 4)
    items = net.np_rng.integers(0, n, (count, 1)).astype("float32")
    rois = net.either(np.concatenate([items, _boxes(net, count, h - 1, w - 1)], 1))
    return net.node(
        "MaxRoiPool", x, rois, pooled_shape=[2, net.one(1, 2, 3)], spatial_scale=net.one(None, 0.5)
    )


@ROWS("NonMaxSuppression", first=11)
def _nms(net: Net) -> str:
    count, classes, n = net.one(3, 8, 20, 37), net.one(1, 2, 3), net.one(1, 2)
    boxes = net.input(np.stack([_boxes(net, count, 1, 1) for _ in range(n)]))
    scores = net.input(net.uniform((n, classes, count), 0, 1))
    given = [net.ints(net.one(1, 3, count)), net.const(np.float32([net.one(0.0, 0.3, 0.7)]))]
    if net.maybe(0.5):
        given.append(net.const(np.float32([0.4])))
    made = net.node("NonMaxSuppression", boxes, scores, *given, center_point_box=net.one(None, 1))
    net.values.remove(made)  # nothing may follow: its size depends on data
    return made


@ROWS("RNN", "GRU", "LSTM", first=14)
def _recurrent(net: Net, op: str) -> str:
    x = net.pick(3)
    size, terms = net.one(1, 3, 8), net.shape(x)[2]
    direction, gates = net.one("forward", "reverse", "bidirectional"), {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    count = 2 if direction == "bidirectional" else 1
    w = net.weight(count, gates * size, terms, terms=terms)
    r = net.weight(count, gates * size, size, terms=size)
    b = net.const(net.random((count, 2 * gates * size))) if net.maybe(0.7) else ""
    attrs = {"linear_before_reset": net.one(0, 1)} if op == "GRU" else {}
    return net.many(op, [x, w, r, b], [True], hidden_size=size, direction=direction, **attrs)[0]
