"""Importing quantised operators beyond what onnx's suite tries: scales known when the graph is built, values
that are held in steps, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import clcnn  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

FLOAT, U8, I8, I32 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32
OPSET = 21


def node(op: str, *inputs: str, out: str = "y", **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), [out], name=f"n_{out}", **attrs)


def operators(proto: onnx.ModelProto) -> list[str]:
    return [r.op for r in load(proto).graph().records if r.kind == "node"]


def whole(*shape: int, most: int = 5) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-most, most + 1, shape).astype(np.float32)


def both(proto: onnx.ModelProto, x: np.ndarray, device: clcnn.Device) -> None:
    """The device's result is the reference's, to the bit."""
    (ours,) = run(proto, {"x": x}, device)
    (theirs,) = ReferenceEvaluator(proto).run(None, {"x": x})
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def scales(scale: float = 0.25, zero: Any = None) -> dict[str, Any]:
    return {"s": np.asarray(scale, np.float32), "z": np.asarray(np.uint8(7) if zero is None else zero)}


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(200), np.int8(-128), np.int8(3), np.int16(-9)])
def test_a_pair_is_one_step_of_rounding(device, zero):
    """Of 8 bits; numbers of 16 are written out."""
    nodes = [node("QuantizeLinear", "x", "s", "z", out="q"), node("DequantizeLinear", "q", "s", "z")]
    proto = model(nodes, [("x", (4, 97))], initial=scales(zero=zero), opset=OPSET)
    if zero.itemsize == 1:
        assert operators(proto) == ["fake_quantize"]
    both(proto, np.random.default_rng(0).normal(0, 40, (4, 97)).astype(np.float32), device)


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(200), np.int8(3), np.uint16(999)])
def test_whole_numbers_come_out(device, zero):
    proto = model(
        [node("QuantizeLinear", "x", "s", "z")],
        [("x", (50,))],
        [("y", None, helper.np_dtype_to_tensor_dtype(zero.dtype))],
        scales(0.1, zero),
        opset=OPSET,
    )
    both(proto, np.linspace(-30, 30, 50, dtype=np.float32), device)


def test_the_step_joins_the_convolution(device):
    w = whole(8, 3, 3, 3)
    nodes = [
        node("Conv", "x", "w", out="c"),
        node("QuantizeLinear", "c", "s", "z", out="q"),
        node("DequantizeLinear", "q", "s", "z"),
    ]
    proto = model(nodes, [("x", (1, 3, 9, 9))], initial={"w": w, **scales(2.0)}, opset=OPSET)
    with clcnn.compile(load(proto), (1, 3, 9, 9), device=device) as plan:
        assert "fuse fake_quantize n_q into conv n_c" in plan.explain()
    both(proto, whole(1, 3, 9, 9, most=9), device)


def test_what_moves_elements_takes_them_as_they_are(device):
    nodes = [
        node("QuantizeLinear", "x", "s", "z", out="q"),
        node("MaxPool", "q", out="m", kernel_shape=[2, 2]),
        node("Transpose", "m", out="t", perm=[0, 2, 3, 1]),
        node("DequantizeLinear", "t", "s", "z"),
    ]
    proto = model(nodes, [("x", (1, 3, 6, 6))], initial=scales(), opset=OPSET)
    assert operators(proto) == ["fake_quantize", "max_pool", "transpose"]
    x = whole(1, 3, 6, 6, most=60)
    q = np.clip(np.rint(x / 0.25) + 7, 0, 255)
    pooled = np.lib.stride_tricks.sliding_window_view(q, (2, 2), (2, 3)).max((4, 5))
    (y,) = run(proto, {"x": x}, device)
    np.testing.assert_array_equal(y, (pooled.transpose(0, 2, 3, 1) - 7) * 0.25)


def test_pairs_around_what_moves_elements_are_of_whole_numbers(device):
    """The second pair's steps are those of the first: nothing is divided by them."""
    nodes = [
        *(node("QuantizeLinear", "x", "s", "z", out="q"), node("DequantizeLinear", "q", "s", "z", out="d")),
        node("MaxPool", "d", out="m", kernel_shape=[2, 2]),
        *(node("QuantizeLinear", "m", "s", "z", out="r"), node("DequantizeLinear", "r", "s", "z", out="e")),
        node("Conv", "e", "w"),
    ]
    w = np.ones((2, 3, 1, 1), np.int8)
    weights = {"w8": w, "ws": np.asarray(0.5, np.float32)}
    nodes.insert(0, node("DequantizeLinear", "w8", "ws", out="w"))
    proto = model(nodes, [("x", (1, 3, 6, 6))], initial=scales() | weights, opset=OPSET)
    ops = operators(proto)
    assert ops.count("div") == 1 and ops.count("max_pool") == 2
    both(proto, whole(1, 3, 6, 6, most=30), device)


def test_others_get_whole_numbers(device):
    """A comparison; a join of different steps; a conversion; other steps than those that it was made with."""
    nodes = [
        node("QuantizeLinear", "x", "s", "z", out="q"),
        node("QuantizeLinear", "x", "s2", "z", out="r"),
        node("Greater", "q", "r", out="g"),
        node("Where", "g", "q", "r", out="w"),
        node("Concat", "w", "q", out="c", axis=0),
        node("DequantizeLinear", "c", "s2", "z", out="d"),
        node("Cast", "q", out="f", to=FLOAT),
        node("Add", "d", "f"),
    ]
    initial = {**scales(), "s2": np.array([0.5], np.float32)}
    proto = model(nodes, [("x", (1, 40))], initial=initial, opset=OPSET)
    both(proto, whole(1, 40, most=30), device)


def test_constants_are_dequantised_when_the_graph_is_built(device):
    w = np.random.default_rng(0).integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    nodes = [node("DequantizeLinear", "w", "ws", "wz", out="k", axis=0), node("Conv", "x", "k")]
    initial = {"w": w, "ws": np.array([1, 2, 4, 0.5], np.float32), "wz": np.array([0, 1, -2, 3], np.int8)}
    proto = model(nodes, [("x", (1, 3, 5, 5))], initial=initial, opset=OPSET)
    assert operators(proto) == ["conv"]
    both(proto, whole(1, 3, 5, 5), device)


def test_steps_of_each_channel(device):
    initial = {"s": np.array([0.5, 1, 2], np.float32), "z": np.array([9, 100, 7], np.uint8)}
    nodes = [node("QuantizeLinear", "x", "s", "z", out="q"), node("DequantizeLinear", "q", "s", "z")]
    proto = model(nodes, [("x", (2, 3, 7))], initial=initial, opset=OPSET)
    both(proto, whole(2, 3, 7, most=90), device)


def test_sums_of_whole_numbers_are_exact(device):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (5, 300), np.uint8), rng.integers(-128, 128, (300, 6)).astype(np.int8)
    proto = model(
        [node("MatMulInteger", "x", "b", "az", "bz")],
        [("x", a.shape, U8)],
        [("y", None, I32)],
        {"b": b, "az": np.uint8(120), "bz": np.zeros(6, np.int8)},
        opset=OPSET,
    )
    (y,) = run(proto, {"x": a}, device)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, (a.astype(np.int64) - 120) @ b.astype(np.int64))


def test_a_convolution_with_a_bias_and_scales_of_channels(device):
    rng = np.random.default_rng(0)
    initial = {
        "xs": np.float32(0.5),
        "xz": np.uint8(100),
        "w": rng.integers(-9, 10, (4, 3, 3, 3)).astype(np.int8),
        "ws": np.array([1, 2, 0.5, 0.25], np.float32),
        "wz": np.zeros(4, np.int8),
        "ys": np.float32(8),
        "yz": np.uint8(128),
        "b": rng.integers(-99, 100, 4).astype(np.int32),
    }
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    proto = model(
        [node("QLinearConv", *names)], [("x", (1, 3, 6, 6), U8)], [("y", None, U8)], initial, opset=OPSET
    )
    x = rng.integers(0, 256, (1, 3, 6, 6), np.uint8)
    (y,) = run(proto, {"x": x}, device)
    real = (x.astype(np.float32) - 100) * np.float32(0.5)
    k = initial["w"] * initial["ws"].reshape(-1, 1, 1, 1)
    bias = initial["b"] * 0.5 * initial["ws"]
    plain = model(
        [node("Conv", "x", "k", "b")], [("x", real.shape)], initial={"k": k, "b": bias.astype(np.float32)}
    )
    (sums,) = run(plain, {"x": real}, device)
    np.testing.assert_array_equal(y, np.clip(np.rint(sums / 8) + 128, 0, 255))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("op", ["Conv", "Gemm", "MatMul"])
def test_products_are_sums_of_whole_numbers_scaled_once(device, op, relu):
    """As onnxruntime computes them, whatever scales are: sums of rounded floats differ at ties."""
    rng = np.random.default_rng(0)
    of, shape = ((24, 32, 1, 1), (2, 32, 5, 5)) if op == "Conv" else ((32, 24), (50, 32))
    channels = 0 if op == "Conv" else 1
    initial = {
        "xs": np.float32(0.0173),
        "xz": np.uint8(101),
        "w": rng.integers(-127, 128, of).astype(np.int8),
        "ws": rng.uniform(0.001, 0.01, 24).astype(np.float32),
        "wz": np.zeros(24, np.int8),
        "ys": np.float32(0.377),
        "yz": np.uint8(117),
        "b": rng.integers(-9999, 9999, 24).astype(np.int32),
    }
    initial["bs"] = initial["xs"] * initial["ws"]
    nodes = [
        node("DequantizeLinear", "x", "xs", "xz", out="xf"),
        node("DequantizeLinear", "w", "ws", "wz", out="wf", axis=channels),
        node("DequantizeLinear", "b", "bs", out="bf", axis=0),
        node(op, "xf", "wf", *(["bf"] if op != "MatMul" else []), out="p"),
        node("Relu" if relu else "Identity", "p", out="r"),
        node("QuantizeLinear", "r", "ys", "yz"),
    ]
    proto = model(nodes, [("x", shape, U8)], [("y", None, U8)], initial, opset=OPSET)
    x = rng.integers(0, 256, shape, np.uint8)
    (y,) = run(proto, {"x": x}, device)
    above = x.astype(np.int64) - 101
    if op == "Conv":
        sums = np.einsum("nchw,kc->nkhw", above, initial["w"][:, :, 0, 0].astype(np.int64))
        line = (-1, 1, 1)
    else:
        sums, line = above @ initial["w"].astype(np.int64), (-1,)
    sums = sums if op == "MatMul" else sums + initial["b"].reshape(line)
    ratio = (initial["bs"] / initial["ys"]).astype(np.float32).reshape(line)
    wanted = np.rint(sums.astype(np.float32) * ratio)
    wanted = np.maximum(wanted, 0) if relu else wanted
    np.testing.assert_array_equal(y, np.clip(wanted + 117, 0, 255))


MICROSOFT = [
    ("QLinearAdd", 2, {}, lambda a, b: a + b),
    ("QLinearMul", 2, {}, lambda a, b: a * b),
    ("QLinearGlobalAveragePool", 1, {}, lambda a: a.mean((2, 3), keepdims=True)),
    ("QLinearLeakyRelu", 1, {"alpha": 0.5}, lambda a: np.where(a < 0, 0.5 * a, a)),
]


@pytest.mark.parametrize(("op", "count", "attrs", "definition"), MICROSOFT, ids=[row[0] for row in MICROSOFT])
def test_operators_of_onnxruntime(device, op, count, attrs, definition):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1, 3, 4, 4), np.uint8)
    names = [*("x", "s", "z") * count, "ys", "z"]
    made = helper.make_node(op, names, ["y"], domain="com.microsoft", **attrs)
    initial = {**scales(0.5, np.uint8(128)), "ys": np.float32(4)}
    proto = model(
        [made], [("x", x.shape, U8)], [("y", None, U8)], initial, opset=OPSET, domains={"com.microsoft": 1}
    )
    real = (x.astype(np.float32) - 128) * 0.5
    want = np.clip(np.rint(definition(*[real] * count).astype(np.float32) / 4) + 128, 0, 255)
    np.testing.assert_array_equal(run(proto, {"x": x}, device)[0], want)


def test_joined_operands_of_onnxruntime(device):
    x = np.arange(12, dtype=np.uint8).reshape(2, 6)
    names = ["s", "z", *("x", "s", "z") * 2]
    made = helper.make_node("QLinearConcat", names, ["y"], domain="com.microsoft", axis=1)
    proto = model(
        [made], [("x", (2, 6), U8)], [("y", None, U8)], scales(), opset=OPSET, domains={"com.microsoft": 1}
    )
    np.testing.assert_array_equal(run(proto, {"x": x}, device)[0], np.concatenate([x, x], 1))


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize(
    ("scale", "zero", "parts"),
    [
        (np.float32(0), np.uint8(0), ("above 0", "0.0")),
        (np.float32(-1), np.uint8(0), ("above 0", "-1.0")),
        (np.float32(np.nan), np.uint8(0), ("above 0", "nan")),
        (np.float32(np.inf), np.uint8(0), ("finite", "inf")),
        (np.ones(3, np.float32), np.zeros(3, np.uint8), ("[3]", "axis 1", "4 elements")),
        (np.float32(1), np.int8(0), ("zero point is int8", "uint8")),
    ],
    ids=lambda v: str(v),
)
def test_scales_and_zero_points_that_do_not_fit(op, constant, scale, zero, parts):
    if op == "QuantizeLinear" and "int8" in str(parts):
        pytest.skip("the zero point decides")
    x = np.ones((2, 4), np.float32 if op == "QuantizeLinear" else np.uint8)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    initial = {"s": scale, "z": zero} | ({"x": x} if constant else {})
    proto = model(
        [node(op, "x", "s", "z")], [] if constant else [("x", x.shape, kind)], initial=initial, opset=OPSET
    )
    refused(lambda: load(proto).specialise(), clcnn.ModelError, ValueError, f"n_y' ({op})", *parts)


def test_a_zero_point_against_the_type_that_is_asked_for():
    made = node("QuantizeLinear", "x", "s", "z", output_dtype=I8)
    proto = model([made], initial=scales(), opset=OPSET)
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "zero point is uint8", "int8")


@pytest.mark.parametrize("word", ["FLOAT8E4M3FN", "INT4", "UINT4"])
def test_other_types_are_refused_by_name(word):
    made = node("QuantizeLinear", "x", "s", output_dtype=getattr(TensorProto, word))
    proto = model([made], initial={"s": np.float32(1)}, opset=OPSET)
    refused(
        lambda: load(proto).graph(), clcnn.UnsupportedError, NotImplementedError, "output_dtype", word.lower()
    )


def test_a_sum_of_floats_is_no_sum_of_whole_numbers():
    proto = model([node("MatMulInteger", "x", "x")], [("x", (3, 3))], [("y", None, I32)], opset=OPSET)
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "input 0 is float32")
