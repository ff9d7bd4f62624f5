"""Values of one element an item that are a column of something larger: their elements lie apart, which is
known only once values have their places. Each layer, by each algorithm, computes what it does of a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from tolerance import errors

# Each: operator, shapes of further inputs for n items, attributes.
LAYERS: dict[str, tuple[str, Callable[[int], list[tuple[int, ...]]], dict[str, Any]]] = {
    "softmax of items": ("softmax", lambda n: [], {"dim": 0}),
    "log_softmax of items": ("log_softmax", lambda n: [], {"dim": 0}),
    "softmax of one": ("softmax", lambda n: [], {"dim": 1}),
    "layer_norm of items": ("layer_norm", lambda n: [(n,)], {"dim": 0, "dims": 1}),
    "rms_norm of items": ("rms_norm", lambda n: [(n,)], {"dim": 0, "dims": 1}),
    "l2_norm of items": ("l2_norm", lambda n: [], {"dim": 0}),
    "l2_norm of one": ("l2_norm", lambda n: [], {"dim": 1}),
    "sum of items": ("reduce_sum", lambda n: [], {"axes": [0]}),
    "max of one": ("reduce_max", lambda n: [], {"axes": [1]}),
    "mean of all": ("reduce_mean", lambda n: [], {"axes": [0, 1]}),
    "argmax of items": ("argmax", lambda n: [], {"dim": 0}),
    "running sum": ("cumsum", lambda n: [], {"dim": 0}),
    "transpose": ("transpose", lambda n: [], {"perm": [1, 0]}),
    "sigmoid": ("sigmoid", lambda n: [], {}),
    "add": ("add", lambda n: [(1, 3)], {}),
    "gemm": ("gemm", lambda n: [(1, 7)], {}),
    "gemm of a transpose": ("gemm", lambda n: [(n, 7)], {"trans_a": 1}),
    "linear": ("linear", lambda n: [(6, 1)], {}),
    "matmul": ("matmul", lambda n: [(1, 9)], {}),
}


def with_layer(graph: _core.Graph, x: int, layer: str, n: int) -> _core.Graph:
    """The layer of x [n, 1], with constants, and the graph's output."""
    op, shapes, attrs = LAYERS[layer]
    rng = np.random.default_rng(4)
    values = [x]
    for i, shape in enumerate(shapes(n)):
        values.append(graph.constant(f"c{i}", rng.standard_normal(shape).astype(np.float32)))
    graph.output(graph.node(op, "layer", values, attrs)[0], "y")
    return graph


def of_a_column(layer: str, n: int) -> _core.Graph:
    graph = _core.Graph()
    made = graph.node("relu", "made", [graph.input("x", (n, 3))], {})[0]
    pieces = graph.node("split", "split", [made], {"dim": 1, "sizes": [1, 1, 1]})
    return with_layer(graph, pieces[1], layer, n)


def choices(plan: _core.Plan) -> list[dict[str, str]]:
    """Overrides that force each algorithm that can compute the layer; a layer that is a view has none."""
    rows = [row for row in plan.layers() if row["layer"] == "layer"]
    algos = [c["algo"] for row in rows for c in row["candidates"] if c["verdict"] != "rejected"]
    return [{"layer": algo} for algo in algos] or [{}]


@pytest.mark.parametrize("n", [1, 5, 16, 40])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_of_a_column(device, layer, n):
    x = np.random.default_rng(5).standard_normal((n, 3)).astype(np.float32)
    piece = np.ascontiguousarray(np.maximum(x, 0)[:, 1:2])
    alone = _core.Graph()
    with _core.Plan(device, with_layer(alone, alone.input("x", (n, 1)), layer, n)) as plan:
        (wanted,) = plan.run([piece])
    graph = of_a_column(layer, n)
    with _core.Plan(device, graph) as plan:
        overrides = choices(plan)
    for forced in overrides:
        for guard in (True, False):
            with _core.Plan(device, graph, guard=guard, overrides=forced) as plan:
                (got,) = plan.run([x])
                if guard:
                    plan.check_guards()
                assert got.shape == wanted.shape
                assert max(errors(got, wanted)) < 1e-5 if wanted.any() else not got.any()
