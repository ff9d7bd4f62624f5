"""Operators in the words of every opset, and of versions that differ in meaning."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from clcnn.onnx import ops  # noqa: E402
from onnx_models import model, run  # noqa: E402

INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


X = normal(2, 3, 4, 4)

# One computation in the words of several opsets: op, attributes, further inputs, opset, expected.
OLD_FORMS = [
    ("Pad", {"paddings": [0, 0, 1, 1, 0, 0, 1, 1], "value": 2.0}, {}, 1),
    ("Pad", {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": 2.0}, {}, 2),
    ("Pad", {}, {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "v": np.float32(2)}, 11),
    ("Pad", {}, {"p": np.array([1, 1, 1, 1]), "v": np.float32(2), "a": np.array([2, -1])}, 18),
    ("Clip", {"min": -0.5, "max": 0.5}, {}, 6),
    ("Clip", {}, {"l": np.float32(-0.5), "h": np.float32(0.5)}, 11),
    ("Upsample", {"height_scale": 2.0, "width_scale": 2.0}, {}, 1),
    ("Upsample", {"scales": [1.0, 1.0, 2.0, 2.0]}, {}, 7),
    ("Upsample", {}, {"s": np.float32([1, 1, 2, 2])}, 9),
    ("Resize", {}, {"s": np.float32([1, 1, 2, 2])}, 10),
    ("Resize", {}, {"r": np.zeros(0, np.float32), "s": np.float32([1, 1, 2, 2])}, 13),
    ("Slice", {"starts": [1], "ends": [3], "axes": [2]}, {}, 1),
    ("Slice", {}, {"b": np.array([1]), "e": np.array([3]), "a": np.array([2])}, 10),
    ("Slice", {}, {"b": np.array([1]), "e": np.array([3]), "a": np.array([-2]), "s": np.array([1])}, 13),
    ("Unsqueeze", {"axes": [0]}, {}, 11),
    ("Unsqueeze", {}, {"a": np.array([0])}, 13),
    ("Dropout", {"ratio": 0.3, "is_test": 1}, {}, 1),
    ("Dropout", {"ratio": 0.3}, {}, 7),
    ("Dropout", {}, {"r": np.float32(0.3)}, 12),
    ("Softmax", {"axis": 3}, {}, 11),
    ("Softmax", {}, {}, 13),
    ("ReduceSum", {"axes": [2]}, {}, 11),
    ("ReduceSum", {}, {"a": np.array([2])}, 13),
    ("Reshape", {"shape": [2, -1]}, {}, 1),
    ("Reshape", {}, {"s": np.array([0, -1])}, 5),
    ("Add", {"broadcast": 1, "axis": 1}, {"b": np.float32([1, 2, 3])}, 6),
    ("Add", {}, {"b": np.float32([1, 2, 3]).reshape(3, 1, 1)}, 7),
    ("Tile", {}, {"t": np.float32(2), "a": np.float32(1)}, 1),
    ("Tile", {}, {"r": np.array([1, 2, 1, 1])}, 6),
    ("LpPool", {"kernel_shape": [2, 2], "p": 2.0}, {}, 1),
    ("LpPool", {"kernel_shape": [2, 2]}, {}, 18),
    ("Split", {"axis": 2, "split": [1, 3]}, {}, 11),
    ("Split", {"axis": 2}, {"s": np.array([1, 3])}, 13),
]
EXPECTED = {
    "Pad": np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=2),
    "Clip": X.clip(-0.5, 0.5),
    "Upsample": X.repeat(2, 2).repeat(2, 3),
    "Resize": X.repeat(2, 2).repeat(2, 3),
    "Slice": X[:, :, 1:3],
    "Unsqueeze": X[None],
    "Dropout": X,
    "Softmax": np.exp(X) / np.exp(X).sum(-1, keepdims=True),
    "ReduceSum": X.sum(2, keepdims=True),
    "Reshape": X.reshape(2, -1),
    "Add": X + np.float32([1, 2, 3]).reshape(3, 1, 1),
    "Tile": np.concatenate([X, X], axis=1),
    "LpPool": np.sqrt(sum(X[:, :, i : i + 3, j : j + 3] ** 2 for i in (0, 1) for j in (0, 1))),
    "Split": X[:, :, :1],
}


@pytest.mark.parametrize(
    ("op", "attrs", "more", "opset"), OLD_FORMS, ids=[f"{r[0]}-{r[3]}" for r in OLD_FORMS]
)
def test_forms_of_every_opset(device, op, attrs, more, opset):
    outputs = ["y", "z"] if op == "Split" else ["y"]
    node = helper.make_node(op, ["x", *more], outputs, **attrs)
    proto = model([node], [("x", X.shape)], initial=more, opset=opset)
    np.testing.assert_allclose(run(proto, {"x": X}, device)[0], EXPECTED[op], rtol=1e-5, atol=1e-6)


def test_every_version_of_an_operator_has_a_row():
    """The table's ranges leave no gap between the versions that the installed onnx knows."""
    versions = [(s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if not s.domain]
    own = {name for name in ops.ROWS if ":" not in name}
    assert own <= {name for name, _ in versions} | {"SimplifiedLayerNormalization"}  # onnxruntime's
    assert [v for v in versions if v[0] in ops.ROWS and ops.find("", *v) is None] == []


def test_batch_normalization_with_statistics_for_each_element(device):
    """spatial=0, of opset 8 and before."""
    scale, bias, mean, var = normal(3, 4), normal(3, 4), normal(3, 4), np.abs(normal(3, 4)) + 0.5
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], spatial=0, epsilon=1e-3)
    initial = {"s": scale, "b": bias, "m": mean, "v": var}
    x = normal(2, 3, 4)
    (y,) = run(model([node], [("x", x.shape)], initial=initial, opset=7), {"x": x}, device)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-3) * scale + bias, rtol=1e-5, atol=1e-5)


REDUCTIONS = {
    "ReduceL1": np.abs,
    "ReduceL2": np.abs,
    "ReduceLogSum": np.log,
    "ReduceLogSumExp": lambda x: x,
    "ReduceMax": lambda x: x,
    "ReduceMean": lambda x: x,
    "ReduceProd": lambda x: x,
    "ReduceSum": lambda x: x,
    "ReduceSumSquare": np.square,
}


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_over_no_axis(device, op):
    """What is not the reduction itself is still done."""
    node = helper.make_node(op, ["x"], ["y"], noop_with_empty_axes=1)
    x = np.abs(normal(2, 3)) + 0.5
    np.testing.assert_allclose(
        run(model([node], opset=18), {"x": x}, device)[0], REDUCTIONS[op](x), rtol=1e-5
    )
