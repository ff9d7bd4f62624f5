"""Networks of many nodes: nothing that is done for each of them may look at all others."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

import clcnn  # noqa: E402
from onnx_models import load, model  # noqa: E402

NODES = 12_000
SECONDS = 20.0  # of processor time, of which it takes 3


def test_a_chain_with_constants(device: clcnn.Device) -> None:
    """x + 0 - 1 + 2 - 3 ...: every constant is another one, every node has its name."""
    nodes = [helper.make_node(("Add", "Sub")[i % 2], [f"v{i}", f"c{i}"], [f"v{i + 1}"]) for i in range(NODES)]
    initial = {f"c{i}": np.full((1, 4), i, np.float32) for i in range(NODES)}
    proto = model(nodes, [("v0", (1, 4))], [(f"v{NODES}", (1, 4))], initial)
    start = time.process_time()
    with clcnn.compile(load(proto), device=device) as plan:
        np.testing.assert_array_equal(plan(np.zeros((1, 4), np.float32)), -NODES / 2)
    assert time.process_time() - start < SECONDS


def test_identities_and_values_that_live_long(device: clcnn.Device) -> None:
    """Each node reads the one before it and one half as far back, which the arena must keep."""
    graph = clcnn.Graph()
    values = [graph.input("x", (1, 4))]
    for i in range(3000):
        values.append(graph.apply("identity", graph.apply("maximum", values[-1], values[i // 2])))
    graph.output(graph.apply("add", values[-1], values[0]), "y")
    x = np.array([[1, -2, 3, -4]], np.float32)
    for guard in (False, True):
        with clcnn.compile(graph, device=device, guard=guard) as plan:
            np.testing.assert_array_equal(plan(x), 2 * x)


def test_names_are_unique(device: clcnn.Device) -> None:
    core = clcnn.Graph()._core
    ids = [core.input(f"x{i}", (1, 2)) for i in range(100)]
    for i, value in enumerate(ids):
        core.output(core.node("relu", f"r{i}", [value], {})[0], f"y{i}")
    for i in (0, 50, 99):
        for call in (
            lambda i=i: core.input(f"x{i}", (1, 2)),
            lambda i=i: core.node("relu", f"r{i}", [ids[0]], {}),
            lambda i=i: core.output(ids[0], f"y{i}"),
        ):
            with pytest.raises(clcnn.ArgumentError, match="exists already"):
                call()
