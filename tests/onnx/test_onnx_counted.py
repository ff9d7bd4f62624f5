"""Sizes that depend on data: shapes are bounds, and results are cut to what is real."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import clcnn  # noqa: E402
from clcnn.onnx.verify import verify  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

FLOAT, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSET = 18
X = np.array([[3, -1, 0.5], [-2, 0, 7], [0, -4, -5], [1, 2, -3]], np.float32)
NONE = -np.abs(X) - 1


def node(op: str, *inputs: str, out: str = "y", **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), out.split(), name=f"n_{out}", **attrs)


def constants(**arrays: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(a) for name, a in arrays.items()}


# Rows whose first element is above 0: "rows" [n, 3], their numbers "at" [n], a column "c" [n].
FOUND = [
    node("Gather", "x", "i0", out="first", axis=1),
    node("Greater", "first", "f0", out="mask"),
    node("NonZero", "mask", out="nz"),
    node("Squeeze", "nz", "a0", out="at"),
    node("Gather", "x", "at", out="rows", axis=0),
    node("Gather", "rows", "i1", out="c", axis=1),
    node("Shape", "c", out="n"),
]
KNOWN = constants(
    i0=np.int64(0),
    i1=np.int64(1),
    f0=np.float32(0),
    a0=np.array([0]),
    a1=np.array([1]),
    two=np.array([2]),
    minus=np.array([-1]),
    big=np.array([2**63 - 1]),
    one=np.float32(1),
    three=np.array([-1, 1, 3]),
    k1=np.array([1]),
    rest=np.array([3]),
    zeros=np.zeros((4, 3), np.float32),
)


def agree(
    nodes: list[Any], device: Any, inputs: tuple[np.ndarray, ...] = (X, NONE, np.abs(X) + 1), **types: int
) -> None:
    """With onnx's reference, for some rows, none and all; and every node by itself."""
    names = sorted({o for n in nodes for o in n.output if o.startswith("y")})
    outputs = [(name, None, types.get(name, FLOAT)) for name in names]
    proto = model([*FOUND, *nodes], [("x", X.shape)], outputs, KNOWN, opset=OPSET)
    reference = ReferenceEvaluator(proto)
    for x in inputs:
        for ours, theirs in zip(run(proto, {"x": x}, device), reference.run(None, {"x": x}), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, 1e-5)
    assert not [
        c for c in verify(load(proto), {"x": X}, device, against=("reference",)) if c.verdict == "departs"
    ]


CASES: dict[str, tuple[list[Any], dict[str, int]]] = {
    "rows": ([node("Identity", "rows")], {}),
    "numbers of two dimensions": ([node("Greater", "x", "f0", out="m"), node("NonZero", "m")], {"y": I64}),
    "of rows": ([node("Greater", "rows", "f0", out="m"), node("NonZero", "m")], {"y": I64}),
    "compress": ([node("Compress", "x", "mask", axis=0)], {}),
    "compress flat": ([node("Greater", "c", "f0", out="m"), node("Compress", "c", "m")], {}),
    "element by element": ([node("Mul", "rows", "one", out="a"), node("Add", "a", "rows")], {}),
    "where": ([node("Greater", "rows", "one", out="m"), node("Where", "m", "rows", "f0")], {}),
    "of a mask of rows": (
        [node("Greater", "c", "f0", out="m"), node("NonZero", "m", out="z"),
         node("Squeeze", "z", "a0", out="w"), node("Gather", "rows", "w", axis=0)],
        {},
    ),
    "slice": ([node("Slice", "rows", "a0", "two", "a0")], {}),
    "slice of columns": ([node("Slice", "rows", "a1", "big", "a1", "two")], {}),
    "slice by a size": ([node("Slice", "zeros", "a0", "n", "a0")], {}),
    "concat of rows": ([node("Concat", "rows", "x", "rows", axis=0)], {}),
    "concat, the last one counts": ([node("Concat", "x", "rows", axis=0)], {}),
    "concat of columns": ([node("Concat", "rows", "rows", axis=1)], {}),
    "reshape": ([node("Reshape", "rows", "three", out="a"), node("Reshape", "a", "minus")], {}),
    "unsqueeze and transpose": (
        [node("Unsqueeze", "rows", "a0", out="a"), node("Transpose", "a", perm=[2, 1, 0])],
        {},
    ),
    "sum": ([node("ReduceSum", "rows", "a0", keepdims=0)], {}),
    "sum of columns": ([node("ReduceSum", "rows", "a1", keepdims=1)], {}),
    "topk of others": ([node("TopK", "rows", "two", out="y v", axis=1)], {"v": I64}),
    "topk of as many": (
        [node("Concat", "two", "n", out="s", axis=0), node("ReduceMin", "s", out="k", keepdims=1),
         node("TopK", "c", "k", out="y yv", axis=0)],
        {"yv": I64},
    ),
    "softmax": ([node("Softmax", "rows", axis=1)], {}),
    "product": ([node("Transpose", "zeros", out="t", perm=[1, 0]), node("MatMul", "rows", "t")], {}),
    "size": ([node("Identity", "n")], {"y": I64}),
    "constant of a size": ([node("ConstantOfShape", "n")], {}),
    "range": ([node("Squeeze", "n", "a0", out="e"), node("Range", "i0", "e", "i1")], {"y": I64}),
    "expand": ([node("Concat", "n", "rest", out="s", axis=0), node("Expand", "f0", "s")], {}),
    "scatter rows back": (
        [node("Unsqueeze", "at", "a1", out="j"), node("ScatterND", "zeros", "j", "rows")], {}
    ),
    "scatter elements": (
        [node("Unsqueeze", "at", "a1", out="j"), node("Shape", "rows", out="s"),
         node("Expand", "j", "s", out="e"),
         node("ScatterElements", "zeros", "e", "rows", axis=0, reduction="add")],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_that_data_choose(device, name):
    nodes, types = CASES[name]
    agree(nodes, device, **types)


def test_the_best_of_rows(device):
    """Where there are as many as are asked for."""
    agree([node("TopK", "c", "two", out="y yv", axis=0)], device, (X, np.abs(X)), yv=I64)
    agree([node("ReduceMax", "rows", "a0", keepdims=0)], device, (X, np.abs(X)))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_by_computed_indices(device, reduction):
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.normal(size=(4, 5)).astype(np.float32),
        "u": rng.normal(size=(3, 4)).astype(np.float32),
    }
    inputs["f"] = np.array([[0.2, 3, 1, -1], [2, 0, 4, 4], [1, 2, -2, 0]], np.float32)
    nodes = [
        node("Cast", "f", out="i", to=I64),
        node("ScatterElements", "x", "i", "u", axis=1, reduction=reduction),
    ]
    proto = model(nodes, [(n, a.shape) for n, a in inputs.items()], [("y", None)], opset=OPSET)
    if reduction == "none":
        inputs["f"] = np.array([[0, 3, 1, -1], [2, 0, 4, 1], [1, 2, -2, 0]], np.float32)
    (ours,) = run(proto, inputs, device)
    np.testing.assert_allclose(ours, ReferenceEvaluator(proto).run(None, inputs)[0], 1e-6)


def test_no_rows_take_the_branch_for_some(device):
    """As detectors write it: nothing of nothing, else what non-max suppression leaves."""
    empty = helper.make_graph(
        [node("Constant", out="e", value=helper.make_tensor("e", I64, [0], []))],
        "none",
        [],
        [helper.make_tensor_value_info("e", I64, None)],
    )
    some = helper.make_graph(
        [
            node("Greater", "c", "f0", out="m"),
            node("NonZero", "m", out="z"),
            node("Squeeze", "z", "a0", out="s"),
        ],
        "some",
        [],
        [helper.make_tensor_value_info("s", I64, None)],
    )
    nodes = [
        node("ReduceProd", "n", out="p", keepdims=0),
        node("Equal", "p", "i0", out="none"),
        node("If", "none", out="kept", then_branch=empty, else_branch=some),
        node("Gather", "rows", "kept"),
    ]
    proto = model([*FOUND, *nodes], [("x", X.shape)], [("y", None)], KNOWN, opset=OPSET)
    for x in (X, NONE):
        (ours,) = run(proto, {"x": x}, device)
        (theirs,) = ReferenceEvaluator(proto).run(None, {"x": x})
        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))


BRANCH = helper.make_graph(
    [node("Identity", "x", out="given")], "branch", [], [helper.make_tensor_value_info("given", FLOAT, None)]
)
REFUSED = {
    "may be a different one": [
        node("Greater", "c", "f0", out="m"),
        node("NonZero", "m", out="z"),
        node("Squeeze", "z", "a0", out="w"),
        node("Gather", "c", "w", out="d", axis=0),
        node("Unsqueeze", "d", "a1", out="e"),
        node("Add", "e", "rows"),
    ],
    "where another has 4": [node("Add", "rows", "zeros")],
    "others than the first ones": [node("Slice", "rows", "a1", "big", "a0")],
    "counts from the end": [node("Gather", "rows", "minus", axis=0)],
    "its condition depends on data": [
        node("ReduceSum", "rows", out="s", keepdims=0),
        node("Greater", "s", "f0", out="b"),
        node("If", "b", then_branch=BRANCH, else_branch=BRANCH),
    ],
    "computes with that size": [node("Equal", "i1", "n")],
    "the size of its input depends on data": [node("Trilu", "rows")],
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text):
    proto = model([*FOUND, *REFUSED[text]], [("x", X.shape)], [("y", None)], KNOWN, opset=OPSET)
    refused(lambda: load(proto).specialise(), clcnn.UnsupportedError, NotImplementedError, text)
