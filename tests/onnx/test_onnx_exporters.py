"""What exporters write that the format's text does not lead one to expect."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import clcnn  # noqa: E402
from clcnn.onnx.verify import verify  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import info, load, model, relu, run  # noqa: E402

X = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)

# ---- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [255, 256, 5000])
@pytest.mark.parametrize("letter", ["n", "\u00e9"])
def test_names_of_any_length(device, length, letter):
    """Keras and TFLite join the names of all layers that became one."""
    x, w, between, y, node = (kind + letter * length for kind in ("x", "w", "m", "y", "l"))
    nodes = [
        helper.make_node("Add", [x, w], [between], name=node + "1"),
        helper.make_node("Mul", [between, w], [between + "2"], name=node + "2"),
        relu(between + "2", y),
    ]
    proto = model(nodes, [(x, X.shape)], [(y, None)], initial={w: np.full((2, 3), 0.5, np.float32)})
    (result,) = run(proto, {x: X}, device)
    np.testing.assert_allclose(result, np.maximum((X + 0.5) * 0.5, 0))
    session = clcnn.InferenceSession(proto.SerializeToString(), device=device)
    assert [i.name for i in session.get_inputs()] == [x] and [o.name for o in session.get_outputs()] == [y]
    np.testing.assert_array_equal(session.run([y], {x: X})[0], result)
    names = [record.name for record in load(proto).graph().records if record.kind == "node"]
    assert len(set(names)) == 3 and all(len(name.encode()) <= 255 for name in names)


def test_a_long_name_does_not_hide_what_is_wrong():
    long = "n" * 3000
    nodes = [helper.make_node("MatMul", [long, "w"], ["y"], name=long)]
    proto = model(nodes, [(long, (2, 3))], initial={"w": np.ones((2, 3), np.float32)})
    refused(lambda: load(proto).graph(), clcnn.ShapeError, ValueError, "nnn...nnn", "must equal")
    graph = load(model([relu(long, "y")], [(long, (2, 3))])).graph()
    refused(lambda: graph.input(long, (2, 3)), clcnn.ArgumentError, ValueError, "input nnn", "exists already")
    refused(
        lambda: graph.output(graph.inputs[long], "y" * 70000), clcnn.ArgumentError, ValueError, "65535 bytes"
    )
    graph.output(graph.inputs[long], long)
    refused(
        lambda: graph.output(graph.inputs[long], long),
        clcnn.ArgumentError,
        ValueError,
        "n ... n",
        "exists already",
    )


# ---- declared shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [-1, 0, -(2**63)])
def test_a_declared_length_that_is_none_is_open(device, length):
    proto = model([relu("x", "m"), relu("m", "y")], [("x", (length, 3))], [("y", (length, 3))])
    loaded = load(proto)
    assert loaded.inputs[0].shape == (None, 3) and loaded.outputs[0].shape == (None, 3)
    for rows in (1, 2):
        (y,) = run(proto, {"x": X[:rows]}, device)
        np.testing.assert_array_equal(y, np.maximum(X[:rows], 0))
    refused(loaded.graph, clcnn.ShapeError, ValueError, "'x'", "(?, 3)")


@pytest.mark.parametrize("length", [-1, 0])
def test_between_layers_and_of_initialisers_too(length, caplog):
    nodes = [helper.make_node("Add", ["x", "w"], ["m"]), relu("m", "y")]
    inputs = [("x", (2, 3)), ("w", (length, 3))]
    proto = model(nodes, inputs, [("y", (2, length))], initial={"w": np.ones((2, 3), np.float32)})
    proto.graph.value_info.append(info(("m", (length, length))))
    load(proto).graph()
    assert caplog.text == ""


# ---- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_bfloat16_of_rank_0(device, raw, constant):
    """Epsilons and factors of exported networks."""
    tensor = TensorProto(name="w", data_type=TensorProto.BFLOAT16)
    if raw:
        tensor.raw_data = b"\xc0\x3f"
    else:
        tensor.int32_data.append(0x3FC0)
    nodes = [helper.make_node("Cast", ["w"], ["f"], to=1), helper.make_node("Mul", ["x", "f"], ["y"])]
    if constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    (y,) = run(model(nodes, initial=[] if constant else [tensor]), {"x": X}, device)
    np.testing.assert_array_equal(y, X * 1.5)


@pytest.mark.parametrize(("limit", "found"), [(2**63 - 1, 3), (2**31, 3), (2, 2), (0, 0), (-1, 0)])
def test_limits_of_non_maximum_suppression(device, limit, found):
    """The largest int64 stands for "all"; onnxruntime takes what is below 0 for none."""
    boxes = np.array([[[i, 0, i + 0.5, 1] for i in range(3)]], np.float32)
    scores = np.array([[[0.1, 0.3, 0.2]]], np.float32)
    node = helper.make_node("NonMaxSuppression", ["b", "s", "n", "t"], ["y"])
    initial = {"n": np.array([limit]), "t": np.array([0.5], np.float32)}
    inputs = [("b", boxes.shape), ("s", scores.shape)]
    proto = model([node], inputs, [("y", None, TensorProto.INT64)], initial=initial)
    (y,) = run(proto, {"b": boxes, "s": scores}, device)
    np.testing.assert_array_equal(y, np.array([[0, 0, 1], [0, 0, 2], [0, 0, 0]])[:found].reshape(-1, 3))


def test_an_output_may_be_called_as_lengths_are(device):
    """What says how many rows of y there are is an output of the graph, too; it takes a name that is free."""
    nodes = [
        helper.make_node("NonMaxSuppression", ["b", "s", "n", "t"], ["y"]),
        helper.make_node("Relu", ["s"], ["y.count"]),
    ]
    initial = {"n": np.array([5]), "t": np.array([0.5], np.float32)}
    boxes, scores = np.array([[[0, 0, 1, 1]] * 2], np.float32), np.array([[[0.1, 0.3]]], np.float32)
    outputs = [("y", None, TensorProto.INT64), ("y.count", None)]
    proto = model(nodes, [("b", boxes.shape), ("s", scores.shape)], outputs, initial=initial)
    found, counted = run(proto, {"b": boxes, "s": scores}, device)
    np.testing.assert_array_equal(found, [[0, 0, 1]])
    np.testing.assert_array_equal(counted, scores)
    checks = verify(load(proto), {"b": boxes, "s": scores}, device, against=["reference"])
    assert [(check.op, check.verdict) for check in checks][1] == ("Relu", "agrees")
