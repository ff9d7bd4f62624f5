"""Importing normalisations: each becomes one layer where the core has an operator for it."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from onnx_models import load, model, run  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 7)).astype(np.float32)
SCALE = RNG.standard_normal(7).astype(np.float32)
INVERSE = 1 / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-3)


def operators(proto: onnx.ModelProto) -> list[str]:
    return [r.op for r in load(proto).graph({"x": X.shape}).records if r.kind == "node"]


@pytest.mark.parametrize(
    ("op", "opset"), [("RMSNormalization", 23), ("SimplifiedLayerNormalization", 17)], ids=lambda v: str(v)
)
def test_division_by_the_root_of_the_mean_square(device, op, opset):
    node = helper.make_node(op, ["x", "s"], ["y"], axis=-1, epsilon=1e-3)
    proto = model([node], [("x", X.shape)], initial={"s": SCALE}, opset=opset)
    assert operators(proto) == ["rms_norm"]
    np.testing.assert_allclose(run(proto, {"x": X}, device)[0], X * INVERSE * SCALE, rtol=1e-5)


def test_the_inverse_root_as_a_second_result(device):
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "s"], ["y", "r"], epsilon=1e-3)
    proto = model([node], [("x", X.shape)], [("y", None), ("r", None)], {"s": SCALE}, opset=17)
    y, inverse = run(proto, {"x": X}, device)
    np.testing.assert_allclose(y, X * INVERSE * SCALE, rtol=1e-5)
    np.testing.assert_allclose(inverse, INVERSE, rtol=1e-5)


def test_a_scale_that_is_repeated_is_written_out(device):
    node = helper.make_node("RMSNormalization", ["x", "s"], ["y"], axis=1, epsilon=1e-3)
    proto = model([node], [("x", X.shape)], initial={"s": SCALE}, opset=23)
    assert "rms_norm" not in operators(proto)
    want = X / np.sqrt((X * X).mean((1, 2), keepdims=True) + 1e-3) * SCALE
    np.testing.assert_allclose(run(proto, {"x": X}, device)[0], want, rtol=1e-5)


def test_lengths_of_zero_leave_zeros(device):
    x = X.copy()
    x[1, 2] = 0.0
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=2)
    proto = model([node], [("x", x.shape)], opset=17)
    assert operators(proto) == ["l2_norm"]
    length = np.sqrt((x * x).sum(-1, keepdims=True))
    want = x / np.where(length == 0, 1, length)
    np.testing.assert_allclose(run(proto, {"x": x}, device)[0], want, rtol=1e-5)
