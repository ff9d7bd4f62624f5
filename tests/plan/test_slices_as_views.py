"""A slice, or a choice of one index, whose elements lie side by side is a view of its input: no step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clcnn import _core
from rewritten import random_inputs
from runner import layers_of_graph

X = (3, 2, 5, 4)


def sliced(net: _core.Graph, x: int, dim: int, start: int, end: int, step: int = 1) -> int:
    attrs = {"starts": [start], "ends": [end], "axes": [dim], "steps": [step]}
    return net.node("slice", "piece", [x], attrs)[0]


def chosen(net: _core.Graph, x: int, dim: int, index: int, shape: tuple[int, ...] = ()) -> int:
    at = net.constant("index", np.full(shape, index, np.int64))
    return net.node("gather", "piece", [x, at], {"dim": dim})[0]


class Case:
    """relu(x), a piece of it, and what reads the piece; `wanted` is the piece of NumPy."""

    def __init__(self, size: tuple[int, ...], piece: Any, reader: str = "neg", **attrs: Any) -> None:
        self.graph = _core.Graph()
        whole = self.graph.node("relu", "whole", [self.graph.input("x", size)], {})[0]
        made = piece(self.graph, whole)
        self.graph.output(self.graph.node(reader, "reader", [made], attrs)[0] if reader else made, "y")

    def run(self, device: _core.Device, wanted: Any, **options: Any) -> list[str]:
        """Names of the layers that take steps; raises AssertionError where the result is not `wanted`'s."""
        for guard in (True, False):
            with _core.Plan(device, self.graph, guard=guard, **options) as plan:
                (x,) = random_inputs(plan)
                (got,) = plan.run([x])
                if guard:
                    plan.check_guards()
                np.testing.assert_array_equal(got, wanted(np.maximum(x, 0)))
                names = [row["layer"] for row in layers_of_graph(plan.steps())]
        return names


@pytest.mark.parametrize("dim, shape", [(0, X), (1, X), (2, (1, 1, 5, 4)), (2, (3, 1, 5, 4)), (1, (4, 6))])
@pytest.mark.parametrize("start, end", [(0, 1), (1, 2), (1, 4)])
def test_a_slice_is_a_view(device, dim, shape, start, end):
    end = min(end, shape[dim])
    index = (slice(None),) * dim + (slice(start, end),)
    case = Case(shape, lambda net, x: sliced(net, x, dim, start, end))
    assert case.run(device, lambda x: -x[index]) == ["whole", "reader"]


@pytest.mark.parametrize("dim, shape", [(0, X), (1, X), (2, (1, 1, 5, 4)), (2, (3, 1, 5, 4)), (0, (4, 6))])
@pytest.mark.parametrize("index", [0, 1, -1])
@pytest.mark.parametrize("keep", [(), (1,)])
def test_one_index_is_a_view(device, dim, shape, index, keep):
    case = Case(shape, lambda net, x: chosen(net, x, dim, index, keep))
    wanted = [index] if keep else index
    assert case.run(device, lambda x: -np.take(x, wanted, dim)) == ["whole", "reader"]


@pytest.mark.parametrize("reader, attrs, function", [
    ("", {}, lambda x: x),
    ("transpose", {"perm": [1, 0, 2]}, lambda x: x.transpose(1, 0, 2)),
    ("reshape", {"shape": [4, 10]}, lambda x: x.reshape(4, 10)),
])  # fmt: skip
def test_views_of_views_and_outputs(device, reader, attrs, function):
    case = Case(X, lambda net, x: chosen(net, x, 0, 1), reader, **attrs)
    assert "piece" not in case.run(device, lambda x: function(x[1]))


def test_three_parts_of_one_value_are_views(device):
    """Queries, keys and values, as exporters take them apart."""
    graph = _core.Graph()
    whole = graph.node("relu", "whole", [graph.input("x", (3, 2, 4, 8))], {})[0]
    index = [graph.constant(f"i{i}", np.asarray(i)) for i in range(3)]
    q, k, v = (graph.node("gather", f"part{i}", [whole, index[i]], {"dim": 0})[0] for i in range(3))
    kt = graph.node("transpose", "kt", [k], {"perm": [0, 2, 1]})[0]
    scores = graph.node("matmul", "scores", [q, kt], {})[0]
    graph.output(graph.node("matmul", "y", [graph.node("relu", "act", [scores], {})[0], v], {})[0], "y")
    with _core.Plan(device, graph) as plan:
        (x,) = random_inputs(plan)
        (got,) = plan.run([x])
        names = {row["layer"] for row in plan.steps()}
    a = np.maximum(x, 0).astype(np.float64)
    wanted = np.maximum(a[0] @ a[1].transpose(0, 2, 1), 0) @ a[2]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert not names & {"part0", "part1", "part2"}


# ---- near misses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece, function", [
    (lambda net, x: sliced(net, x, 2, 1, 3), lambda x: x[:, :, 1:3]),
    (lambda net, x: sliced(net, x, 0, 0, 3, 2), lambda x: x[::2]),
    (lambda net, x: sliced(net, x, 1, -1, -9, -1), lambda x: x[:, ::-1]),
    (lambda net, x: chosen(net, x, 2, 1), lambda x: x[:, :, 1]),
    (lambda net, x: chosen(net, x, 0, 1, (2,)), lambda x: x[[1, 1]]),
])  # fmt: skip
def test_elements_that_lie_apart_are_copied(device, piece, function):
    assert "piece" in Case(X, piece).run(device, lambda x: -function(x))


def test_items_of_one_element_that_would_be_one_item_are_copied(device):
    """[4, 6] at one column is [4], whose elements would lie 6 apart."""
    case = Case((4, 6), lambda net, x: chosen(net, x, 1, 2))
    assert "piece" in case.run(device, lambda x: -x[:, 2])


def test_a_slice_whose_algorithm_is_named_is_a_step(device):
    case = Case(X, lambda net, x: sliced(net, x, 0, 1, 2))
    names = case.run(device, lambda x: -x[1:2], overrides={"piece": "ref"})
    assert names == ["whole", "piece", "reader"]


def test_a_slice_that_a_concat_joins_is_written_into_it(device):
    graph = _core.Graph()
    x = graph.input("x", (2, 3, 4))
    whole = graph.node("relu", "whole", [x], {})[0]
    piece = sliced(graph, whole, 1, 1, 3)
    other = graph.node("neg", "other", [whole], {})[0]
    graph.output(graph.node("concat", "joined", [piece, other], {"dim": 1})[0], "y")
    with _core.Plan(device, graph) as plan:
        (data,) = random_inputs(plan)
        (got,) = plan.run([data])
        assert "joined" not in {row["layer"] for row in plan.steps()}
    a = np.maximum(data, 0)
    np.testing.assert_array_equal(got, np.concatenate([a[:, 1:3], -a], 1))


@pytest.mark.parametrize("batch_part", [1, 2])
def test_in_slices_of_the_batch(device, batch_part):
    case = Case((4, 6, 3, 3), lambda net, x: sliced(net, x, 1, 2, 5))
    case.run(device, lambda x: -x[:, 2:5], batch_part=batch_part)
