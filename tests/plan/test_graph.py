"""Graphs in Python: values, names, operators generated from the tables, records, models that build
themselves."""

from __future__ import annotations

import gc
import inspect

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import _core, ops
from clcnn.graph import Graph, trace


def small() -> tuple[Graph, clcnn.Value]:
    g = Graph()
    return g, g.input("x", (1, 3, 8, 8))


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_shapes_are_inferred_as_the_graph_is_built() -> None:
    g, x = small()
    y = ops.conv(x, weights(4, 3, 3, 3), stride=2, padding=1)
    assert (x.shape, y.shape, y.ndim) == ((1, 3, 8, 8), (1, 4, 4, 4), 4)
    assert ops.flatten(y).shape == (1, 64)
    assert repr(y) == f"<clcnn.Value {y.id}: 1x4x4x4>"


def test_nodes_are_numbered_and_taken_names_get_a_number() -> None:
    g, x = small()
    for name in (None, None, "act", "act", "relu_3", None):
        x = ops.relu(x, name=name)
    names = [r.name for r in g.records if r.kind == "node"]
    assert names == ["relu_1", "relu_2", "act", "act_2", "relu_3", "relu_4"]


def test_operators_on_values() -> None:
    g, x = small()
    results = [
        x + 1.0,
        1 + x,
        x - x,
        2.0 - x,
        x * x,
        2 * x,
        x / 2,
        1 / x,
        x**2,
        -x,
        np.ones(8, np.float32) + x,
    ]
    assert all(r.shape == x.shape for r in results)
    nodes = [r.op for r in g.records if r.kind == "node"]
    assert nodes == ["add", "add", "sub", "sub", "mul", "mul", "div", "div", "pow", "neg", "add"]
    matrix = g.input("m", (5, 7)) @ weights(7, 2)
    assert matrix.shape == (5, 2)


def test_sides_of_reflected_operators(device: clcnn.Device) -> None:
    g = Graph()
    x = g.input("x", (4,))
    for name, value in {"a": 2.0 - x, "b": 1 / x, "c": x - 2.0, "d": x / 4}.items():
        g.output(value, name)
    data = np.array([1, 2, 4, 8], np.float32)
    got = clcnn.compile(g, device=device).run(data)
    expected = {"a": 2 - data, "b": 1 / data, "c": data - 2, "d": data / 4}
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name])


def test_every_operator_has_a_function_with_the_tables_signature() -> None:
    for op, row in _core.ops().items():
        if op in ops.MADE_BY_REWRITES + ops.MADE_BY_LAYOUT:
            continue
        function = getattr(ops, op)
        names = (
            [text.rstrip("?.") for text in row["inputs"]] + [attr["name"] for attr in row["attrs"]] + ["name"]
        )
        assert list(inspect.signature(function).parameters) == names
        assert function.__name__ == op and row["doc"] in function.__doc__


def test_concat_takes_values_or_one_list_of_them() -> None:
    g, x = small()
    assert ops.concat(x, x).shape == ops.concat([x, x]).shape == (1, 6, 8, 8)
    assert ops.concat(x, x, dim=3).shape == (1, 3, 8, 16)


def test_split_returns_a_tuple() -> None:
    g, x = small()
    assert [v.shape for v in ops.split(x, sizes=[1, 2])] == [(1, 1, 8, 8), (1, 2, 8, 8)]


@pytest.mark.parametrize("stride", [2, np.int64(2), [2, 2], (2, 2), np.array([2, 2])])
def test_attributes_take_the_usual_kinds_of_numbers(stride: object) -> None:
    g, x = small()
    assert ops.max_pool(x, kernel_size=2, stride=stride).shape == (1, 3, 4, 4)


@pytest.mark.parametrize("flag", [True, 1, np.True_])
def test_flags_take_bool_and_int(flag: object) -> None:
    g, x = small()
    assert ops.max_pool(x, kernel_size=3, stride=2, ceil_mode=flag).shape == (1, 3, 4, 4)


def test_whole_numbers_are_fine_where_floats_are_wanted() -> None:
    g, x = small()
    assert ops.resize(x, scales=[2, 2]).shape == (1, 3, 16, 16)
    assert ops.leaky_relu(x, negative_slope=1).shape == x.shape


def test_none_leaves_an_attribute_and_an_input_at_its_default() -> None:
    g, x = small()
    y = ops.conv(x, weights(4, 3, 3, 3), None, padding=None)
    assert y.shape == (1, 4, 6, 6)
    assert g.records[-1].inputs[2:] in ((None,), ())


def test_summary_counts_named_constants_once_and_leaves_statistics_out() -> None:
    g, x = small()
    w = g.constant(weights(3, 3, 1, 1), "w")
    y = ops.conv(ops.conv(x, w), w)
    vectors = [g.constant(np.ones(3, np.float32), name) for name in ("gamma", "beta", "mean", "var")]
    y = ops.batch_norm(y, *vectors) + 1.0
    rows = {row.name: row for row in g.rows()}
    assert [rows[n].parameters for n in ("conv_1", "conv_2", "batch_norm_1", "add_1")] == [9, 0, 6, 0]
    assert rows["conv_1"].macs == 9 * 64
    text = g.summary()
    assert text.splitlines()[-1].startswith("4 layers, 15 parameters, 1,152 multiply-adds")
    assert "<table>" in g._repr_html_()


def test_parameters_are_shared_by_identity() -> None:
    class Parameter:
        data = np.ones((2, 2), np.float32)

    g, p = Graph(), Parameter()
    assert g.parameter(p, "w") is g.parameter(p, "other") and list(g.constants) == ["w"]


def test_records_rebuild_the_graph(device: clcnn.Device) -> None:
    g, x = small()
    a, b = ops.split(ops.conv(x, weights(4, 3, 3, 3), weights(4), padding=1), sizes=[2, 2])
    g.output(ops.concat(a * 0.5, b), "y")
    again = Graph.from_records(g.records)
    assert [r._replace(array=None) for r in again.records] == [r._replace(array=None) for r in g.records]
    assert [row.parameters for row in again.rows()] == [row.parameters for row in g.rows()]
    data = weights(1, 3, 8, 8, seed=3)
    np.testing.assert_array_equal(
        clcnn.compile(again, device=device)(data), clcnn.compile(g, device=device)(data)
    )


def test_from_records_refuses_a_value_that_comes_later() -> None:
    g, x = small()
    ops.relu(x)
    broken = [r._replace(inputs=(7,)) if r.kind == "node" else r for r in g.records]
    with pytest.raises(clcnn.ArgumentError, match="'relu_1' uses value 7, which no earlier record makes"):
        Graph.from_records(broken)


def test_a_graph_keeps_its_constants() -> None:
    g, x = small()
    w = weights(4, 3, 1, 1)
    y = ops.conv(x, w)
    g.output(y, "y")
    expected = np.einsum("kc,nchw->nkhw", w[:, :, 0, 0], np.ones((1, 3, 8, 8), np.float32))
    del w
    gc.collect()
    np.testing.assert_allclose(
        clcnn.compile(g, device=DEVICE)(np.ones((1, 3, 8, 8), np.float32)), expected, 1e-5
    )


# ---- models ----


class Doubler:
    def build(self, graph: Graph, *inputs: clcnn.Value) -> object:
        return {"sum": ops.add(inputs[0], inputs[-1]), "twice": inputs[0] * 2.0}


def test_trace_names_inputs_and_outputs() -> None:
    g = trace(Doubler(), [(2, 3), (2, 3)])
    assert list(g.inputs) == ["input_0", "input_1"] and list(g.outputs) == ["sum", "twice"]
    assert list(trace(Doubler(), {"a": (2,), "b": (2,)}).inputs) == ["a", "b"]
    assert list(trace(Doubler(), (2, 3)).inputs) == ["input"]


@pytest.mark.parametrize(
    ("result", "message"),
    [(None, "output: expected a Value"), ([], "output: expected"), ([1], "output: expected")],
)
def test_trace_refuses_a_model_that_returns_no_value(result: object, message: str) -> None:
    class Model:
        def build(self, graph: Graph, x: clcnn.Value) -> object:
            ops.relu(x)
            return result

    with pytest.raises(clcnn.ArgumentError, match=message):
        trace(Model(), (1, 2))


def test_layer_names_similar_layers() -> None:
    g, x = small()
    y = ops.relu(x, name="features.0")
    assert g.layer("features.0") is y
    with pytest.raises(
        clcnn.ArgumentError, match=r"there is no layer 'feature.0'; did you mean 'features.0'\?"
    ):
        g.layer("feature.0")
