"""Importing Col2Im (torch.nn.functional.fold): sizes against onnx's definition, and what does not fit."""

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


def proto_of(shape: tuple[int, ...], image: Any, kernel: Any, **attrs: Any) -> onnx.ModelProto:
    constants = {"image": np.array(image, np.int64), "kernel": np.array(kernel, np.int64)}
    node = helper.make_node("Col2Im", ["x", *constants], ["y"], name="fold", **attrs)
    return model([node], [("x", shape)], initial=constants, opset=18)


@pytest.mark.parametrize(
    ("shape", "image", "kernel", "attrs"),
    [
        ((2, 3 * 4, 36), (12, 12), (2, 2), {"strides": [2, 2]}),
        ((1, 5 * 9, 49), (14, 14), (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 1 * 9, 25), (5, 5), (3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 2 * 6, 12), (7, 6), (2, 3), {"strides": [2, 1], "pads": [0, 1, 1, 0], "dilations": [1, 2]}),
        ((1, 3 * 5, 4), (8,), (5,), {}),
        ((1, 2 * 8, 8), (4, 4, 4), (2, 2, 2), {"strides": [2, 2, 2]}),
    ],
)
def test_overlapping_blocks_are_added(device, shape, image, kernel, attrs):
    proto = proto_of(shape, image, kernel, **attrs)
    x = np.random.default_rng(3).integers(-8, 9, shape).astype(np.float32)
    (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
    (got,) = run(proto, {"x": x}, device)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("shape", "image", "kernel"),
    [((1, 10, 16), (5, 5), (2, 2)), ((1, 8, 15), (5, 5), (2, 2)), ((1, 8, 1), (1, 1), (2, 2))],
)
def test_columns_that_do_not_fit(shape, image, kernel):
    proto = proto_of(shape, image, kernel)
    told = ("'fold' (Col2Im", "columns")
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, *told)
