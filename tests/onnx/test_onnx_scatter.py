"""Importing ScatterElements and ScatterND by known indices, beyond what onnx's suite tries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import clcnn  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.integers(-9, 10, (3, 4, 5)).astype(np.float32)


def proto_of(op: str, indices: Any, shape: tuple[int, ...], x: np.ndarray = X, **attrs: Any) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node(op, ["x", "i", "u"], ["y"], name="put", **attrs)
    inputs = [("x", x.shape, kind), ("u", shape, kind)]
    return model([node], inputs, [("y", None, kind)], {"i": np.asarray(indices, np.int64)}, opset=18)


def both(proto: Any, x: np.ndarray, updates: np.ndarray, device: clcnn.Device) -> None:
    feed = {"x": x, "u": updates.astype(x.dtype)}
    (want,) = ReferenceEvaluator(proto).run(None, feed)
    np.testing.assert_array_equal(run(proto, feed, device)[0], want)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements(device, axis):
    """No more of them than x has, any order, from either end."""
    shape = [2, 3, 4]
    indices = np.stack([RNG.permutation(X.shape[axis])[: shape[axis]] for _ in range(24 // shape[axis])])
    indices = np.moveaxis(indices.reshape(*np.delete(shape, axis), shape[axis]), -1, axis)
    indices = np.where(indices % 2, indices, indices - X.shape[axis])
    both(proto_of("ScatterElements", indices, tuple(shape), axis=axis), X, RNG.integers(-9, 9, shape), device)


@pytest.mark.parametrize("indices", [[[0], [2]], [[0, 1], [2, 3], [1, -1]], [[[0, 1, 2]], [[-1, 3, 4]]]])
def test_slices(device, indices):
    indices = np.array(indices)
    shape = (*indices.shape[:-1], *X.shape[indices.shape[-1] :])
    both(proto_of("ScatterND", indices, shape), X, RNG.integers(-9, 9, shape), device)


BOXES = [
    (slice(0, 3), slice(1, 4)),
    (slice(1, 2), slice(0, 4), slice(2, 5)),
    (slice(0, 3), slice(0, 4), slice(0, 5)),
]


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_boxes_are_put_between_what_is_around_them(device, box, dtype):
    """As exporters write x[:, 1:, 2:4] = u; nothing is gathered."""
    lines = np.meshgrid(*(np.arange(s.start, s.stop) for s in box), indexing="ij")
    indices = np.stack(lines, -1)
    x, updates = X.astype(dtype), RNG.integers(-9, 9, (*indices.shape[:-1], *X.shape[len(box) :]))
    proto = proto_of("ScatterND", indices, updates.shape, x)
    both(proto, x, updates, device)
    used = {r.op for r in load(proto).graph().records if r.kind == "node"}
    assert used <= {"slice", "concat", "identity"}
    turned = np.stack(lines[::-1], -1)  # axes that count up along other dimensions
    if len(box) == 3 and all(turned[..., i].max() < n for i, n in enumerate(X.shape)):
        both(proto_of("ScatterND", turned, updates.shape, x), x, updates, device)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_several_updates_of_one_element(device, reduction, dtype):
    indices = np.array([[0, 1], [2, 3], [0, 1], [0, -3]])
    proto = proto_of("ScatterND", indices, (4, 5), X.astype(dtype), reduction=reduction)
    both(proto, X.astype(dtype), RNG.integers(-9, 9, (4, 5)), device)


@pytest.mark.parametrize(
    ("op", "indices", "shape", "parts"),
    [
        ("ScatterND", [[3]], (1, 4, 5), ("index 3", "axis 0", "3 elements")),
        ("ScatterND", [[0, -5]], (1, 5), ("index -5", "axis 1", "4 elements")),
        ("ScatterND", [[0, 1], [0, -3]], (2, 5), ("element [0, 1, 0] twice",)),
        ("ScatterND", [[0]], (1, 4), ("updates", "(1, 4, 5)")),
        ("ScatterND", [[0, 0, 0, 0]], (1,), ("indices of shape (1, 4)",)),
        ("ScatterElements", [[[0]], [[3]]], (2, 1, 1), ("index 3", "axis 0")),
        ("ScatterElements", [[[1]], [[1]]], (2, 1, 1), ("element [1, 0, 0] twice",)),
        ("ScatterElements", [[[0] * 6]], (1, 1, 6), ("indices of shape (1, 1, 6)",)),
        ("ScatterElements", [[[0]]], (1, 1, 2), ("updates", "(1, 1, 1)")),
    ],
)
def test_wrong_indices(op, indices, shape, parts):
    proto = proto_of(op, indices, shape)
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, f"'put' ({op})", *parts)
