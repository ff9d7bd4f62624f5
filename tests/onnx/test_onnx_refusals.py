"""Nodes that cannot be computed: all of them in one message, counted by type."""

from __future__ import annotations

from typing import Any

import pytest

import clcnn

pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402


def load(nodes: list[Any]) -> Any:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("org.example", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=imports)
    return clcnn.onnx.load(model.SerializeToString())


def test_refusals_count_nodes_of_one_type() -> None:
    names = [f"v{i}" for i in range(66)]
    nodes = [
        helper.make_node("Foo", [a], [b], domain="org.example", name=f"foo{i}")
        for i, (a, b) in enumerate(zip(["x", *names], names))
    ]
    nodes += [helper.make_node("Bar", [names[-1]], ["y"], domain="org.example", name="bar")]
    with pytest.raises(clcnn.UnsupportedError) as caught:
        load(nodes)
    text = str(caught.value)
    assert "67 nodes that are not supported" in text and len(text.splitlines()) == 3
    assert "Foo x66 (org.example 1), the first is node 'foo0' (Foo): the operator is not supported" in text
    assert "node 'bar' (Bar, org.example 1): the operator is not supported" in text


def test_refusals_end() -> None:
    nodes = [
        helper.make_node(f"Foo{i}", ["x"], [f"v{i}" if i else "y"], domain="org.example") for i in range(40)
    ]
    with pytest.raises(clcnn.UnsupportedError) as caught:
        load(nodes)
    assert str(caught.value).endswith("and 10 more kinds") and len(str(caught.value).splitlines()) == 32
