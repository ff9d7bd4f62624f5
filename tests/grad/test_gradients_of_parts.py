"""Gradients of slices that lie side by side, and slopes of smooth steps far from zero."""

from __future__ import annotations

import numpy as np
import pytest

import clcnn
from clcnn import Graph, ops

PARTS = {  # of nine channels, in the order in which they are used; whether their gradients are joined
    "in order": (((0, 3), (3, 6), (6, 9)), True),
    "in another order": (((6, 9), (0, 3), (3, 6)), True),
    "not all": (((1, 4), (4, 8)), True),
    "apart": (((0, 3), (6, 9)), False),
    "overlapping": (((0, 5), (3, 9)), False),
}


@pytest.mark.parametrize("which", PARTS)
def test_parts_side_by_side_are_joined(device: clcnn.Device, which: str) -> None:
    """What slices give back is no sum of maps that are mostly zeros, and the same."""
    g, rng = Graph(), np.random.default_rng(7)
    parts, joined = PARTS[which]
    x, want, loss = g.input("x", (2, 9, 5)), np.zeros((2, 9, 5)), None
    for first, end in parts:
        factor = rng.integers(1, 9, (2, end - first, 5))
        part = ops.mul(x[:, first:end], g.constant(factor.astype(np.float32)))
        total = ops.reduce_sum(part, axes=(0, 1, 2), keepdims=False)
        loss = total if loss is None else loss + total
        want[:, first:end] += factor
    g.output(clcnn.grad(loss, [x])[0], "dx")
    made = [row.op for row in g.rows()]
    sums = sum(op == "add" for op in made) - (len(parts) - 1)
    assert (sums == 0) == joined and ("concat" in made) == joined
    with clcnn.compile(g, device=device, tune="off") as plan:
        got = plan(rng.standard_normal((2, 9, 5)).astype(np.float32))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", ["gelu", "silu", "hard_swish"])
def test_slopes_far_from_zero(device: clcnn.Device, op: str) -> None:
    """0 and 1, at infinity, too, where x times a density is not NaN."""
    at = np.array([-np.inf, -1e30, -200.0, -20.0, 20.0, 200.0, 1e30, np.inf, np.nan])
    g = Graph()
    x = g.input("x", (9,))
    g.output(clcnn.grad(ops.reduce_sum(getattr(ops, op)(x), keepdims=False), x), "dx")
    with clcnn.compile(g, device=device, tune="off") as plan:
        got = plan(at.astype(np.float32))
    np.testing.assert_allclose(got, [0, 0, 0, 0, 1, 1, 1, 1, np.nan], atol=1e-6)
