"""Flat arrays: values of any shape are written where a concat of one dimension wants them, and slices of one
dimension are views."""

from __future__ import annotations

import os

import numpy as np
import pytest

import clcnn
from clcnn import ops

DEVICE = os.environ.get("CLCNN_TEST_DEVICE", "cpu")


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def run(graph: clcnn.Graph, *inputs: np.ndarray, guard: bool) -> tuple[list[np.ndarray], list[str]]:
    with clcnn.compile(graph, device=DEVICE, guard=guard, fuse=False) as plan:
        results = list(plan.run(inputs).values())
        if guard:
            plan.check_guards()
        return results, [step["op"] for step in plan.steps]


@pytest.mark.parametrize("guard", [False, True])
def test_values_of_any_shape_lie_side_by_side(guard):
    x, w = data(3, 5), data(2, 4, 7, 3)
    g = clcnn.Graph()
    a, b = g.input("a", x.shape), g.input("b", w.shape)
    flat = [ops.reshape(ops.relu(v), shape=(-1,)) for v in (a, b)]
    middle = ops.relu(ops.reshape(b, shape=(-1,)))
    g.output(ops.neg(ops.concat([flat[0], middle, flat[1]], dim=0)), "y")
    (y,), steps = run(g, x, w, guard=guard)
    assert "concat" not in steps and (guard or "reshape" not in steps)  # guarded inputs have gaps
    parts = [np.maximum(v, 0).ravel() for v in (x, w, w)]
    assert np.array_equal(y, -np.concatenate(parts))


@pytest.mark.parametrize("guard", [False, True])
def test_what_cannot_lie_there_is_copied(guard):
    """An input, a value that is there already, and a value that is read by others, too."""
    x = data(3, 5)
    g = clcnn.Graph()
    a = g.input("a", x.shape)
    r = ops.relu(a)
    once = ops.reshape(r, shape=(-1,))
    g.output(ops.concat([ops.reshape(a, shape=(-1,)), once, once], dim=0), "y")
    g.output(r, "r")
    g.output(ops.concat([r, r], dim=1), "z")
    (y, r_out, z), _ = run(g, x, guard=guard)
    positive = np.maximum(x, 0)
    assert np.array_equal(y, np.concatenate([x.ravel(), positive.ravel(), positive.ravel()]))
    assert np.array_equal(r_out, positive) and np.array_equal(z, np.concatenate([positive, positive], 1))


@pytest.mark.parametrize("guard", [False, True])
def test_nested_concats(guard):
    x = data(2, 6)
    g = clcnn.Graph()
    a = g.input("a", x.shape)
    both = ops.concat([ops.relu(a), ops.neg(a)], dim=1)
    inner = ops.concat([ops.reshape(both, shape=(-1,)), ops.reshape(ops.abs(a), shape=(-1,))], dim=0)
    g.output(ops.neg(ops.concat([ops.reshape(ops.exp(a), shape=(-1,)), inner], dim=0)), "y")
    (y,), _ = run(g, x, guard=guard)
    wanted = [np.exp(x).ravel(), np.concatenate([np.maximum(x, 0), -x], 1).ravel(), np.abs(x).ravel()]
    assert np.allclose(y, -np.concatenate(wanted), rtol=1e-6)


@pytest.mark.parametrize("guard", [False, True])
def test_slices_are_views(guard):
    x = data(50)
    g = clcnn.Graph()
    a = ops.relu(g.input("a", x.shape))
    rows = ops.reshape(ops.slice(a, starts=[7], ends=[31], axes=[0]), shape=(2, 3, 4))
    g.output(ops.neg(rows), "y")
    g.output(ops.neg(ops.slice(a, starts=[-3], ends=[50], axes=[0])), "z")
    (y, z), steps = run(g, x, guard=guard)
    assert steps == ["relu", "neg", "neg"]
    positive = np.maximum(x, 0)
    assert np.array_equal(y, -positive[7:31].reshape(2, 3, 4)) and np.array_equal(z, -positive[-3:])
