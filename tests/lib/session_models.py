"""Small ONNX models that tests of the session and of the command line share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import clcnn

F32 = np.float32


def model_bytes(
    nodes: list[Any],
    inputs: list[tuple[str, int, Any]],
    outputs: list[tuple[str, int, Any]],
    constants: dict[str, np.ndarray] | None = None,
    **fields: Any,
) -> bytes:
    """A file's bytes: inputs and outputs are (name, element type, shape)."""
    graph = helper.make_graph(
        nodes,
        "tested",
        [helper.make_tensor_value_info(*row) for row in inputs],
        [helper.make_tensor_value_info(*row) for row in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
        doc_string="a graph",
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **fields)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def weights(*shape: int) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal(shape) / 4).astype(F32)


def convolution(batch: Any = "n", height: Any = "h", width: Any = "w") -> bytes:
    """A convolution, ReLU and the mean over the pixels: output y [n, 4], and the maps."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["maps"], "relu"),
        helper.make_node("GlobalAveragePool", ["maps"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["y"], "flat"),
    ]
    return model_bytes(
        nodes,
        [("x", TensorProto.FLOAT, [batch, 3, height, width])],
        [("y", TensorProto.FLOAT, [batch, 4]), ("maps", TensorProto.FLOAT, [batch, 4, height, width])],
        {"k": weights(4, 3, 3, 3)},
        producer_name="tests",
        doc_string="of tests",
    )


def expected(x: np.ndarray) -> np.ndarray:
    """What convolution() gives as y, in float64."""
    k = weights(4, 3, 3, 3).astype(np.float64)
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    views = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("nchwij,kcij->nkhw", views, k), 0).mean((2, 3))


def photo(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def options_with(**values: Any) -> clcnn.SessionOptions:
    made = clcnn.SessionOptions()
    for name, value in values.items():
        setattr(made, name, value)
    return made
