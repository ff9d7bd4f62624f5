"""sgd_update and adamw_update against torch.optim's pseudocode, written out in float64, over many steps."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import clcnn
from clcnn import ops

DEVICE = os.environ.get("CLCNN_TEST_DEVICE", "cpu")
SIZE = 1003
Step = Callable[[np.ndarray, np.ndarray, dict[str, np.ndarray], int, float], np.ndarray]


def sgd(momentum: float, decay: float, nesterov: bool) -> Step:
    def step(p, g, kept, t, lr):
        g = g + decay * p
        if momentum:
            kept["b"] = g if t == 1 else momentum * kept["b"] + g
            g = g + momentum * kept["b"] if nesterov else kept["b"]
        return p - lr * g

    return step


def adam(beta1: float, beta2: float, eps: float, decay: float, decoupled: bool) -> Step:
    def step(p, g, kept, t, lr):
        if decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        kept["m"] = beta1 * kept.get("m", 0.0) + (1 - beta1) * g
        kept["v"] = beta2 * kept.get("v", 0.0) + (1 - beta2) * g**2
        m, v = kept["m"] / (1 - beta1**t), kept["v"] / (1 - beta2**t)
        return p - lr * m / (np.sqrt(v) + eps)

    return step


CASES = {
    "sgd": (sgd(0.0, 0.0, False), "sgd_update", {}),
    "momentum": (sgd(0.9, 1e-2, False), "sgd_update", {"momentum": 0.9, "weight_decay": 1e-2}),
    "nesterov": (sgd(0.9, 0.0, True), "sgd_update", {"momentum": 0.9, "nesterov": True}),
    "adamw": (adam(0.9, 0.999, 1e-8, 1e-2, True), "adamw_update", {}),
    "adam": (
        adam(0.8, 0.99, 1e-6, 0.1, False),
        "adamw_update",
        {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6, "weight_decay": 0.1, "decoupled": False},
    ),
}


def step_graph(op: str, attrs: dict[str, float]) -> clcnn.Graph:
    """One update of p towards `target`: the gradient is their difference."""
    g = clcnn.Graph()
    hyper, target = g.input("hyper", (2,)), g.input("target", (SIZE,))
    names = ["p", "m", "v"] if op == "adamw_update" else ["p", "m"]
    p, *moments = (g.state(name, (SIZE,)) for name in names)
    new = getattr(ops, op)(p, p - target, *moments, hyper, **attrs)
    g.output(ops.reduce_max(ops.abs(p - target)), "loss")
    for state, value in zip((p, *moments), new):
        g.assign(state, value)
    return g


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first", [1, 100_000])
def test_twenty_steps(case, first):
    step, op, attrs = CASES[case]
    rng = np.random.default_rng(7)
    p, target = rng.normal(size=(2, SIZE)).astype(np.float32)
    wanted, kept = p.astype(np.float64), {}
    if first > 1:  # as after many steps
        kept = {"b": np.full(SIZE, 0.1), "m": np.full(SIZE, 0.1), "v": np.full(SIZE, 0.3)}
    arrays = {"p": p, **{name: np.zeros(SIZE, np.float32) for name in ("m", "v")}}
    if first > 1:
        m = kept["b" if op == "sgd_update" else "m"]
        arrays |= {"m": m.astype(np.float32), "v": kept["v"].astype(np.float32)}
    with (
        clcnn.State(arrays, DEVICE) as state,
        clcnn.compile(step_graph(op, attrs), device=state.device, state=state) as plan,
    ):
        for t in range(first, first + 20):
            lr = 0.1 / (1 + t - first)
            plan.step(np.array([lr, t], np.float32), target)
            wanted = step(wanted, wanted - target, kept, t, float(np.float32(lr)))
        assert np.allclose(state["p"], wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("t", [1, 2, 10, 1000, 10**5, 10**6])
def test_bias_corrections_are_right_at_any_step(t):
    """With v of zeros the new v is (1 - beta2) g^2, and the corrections alone say how far p moves."""
    rng = np.random.default_rng(1)
    p, target = rng.normal(size=(2, SIZE)).astype(np.float32)
    zeros = np.zeros(SIZE, np.float32)
    with clcnn.State({"p": p, "m": zeros, "v": zeros}, DEVICE) as state:
        graph = step_graph("adamw_update", {"weight_decay": 0.0})
        with clcnn.compile(graph, device=state.device, state=state) as plan:
            plan.step(np.array([1e-2, t], np.float32), target)
            moved = state["p"].astype(np.float64) - p
        step = adam(0.9, 0.999, 1e-8, 0.0, True)
        wanted = step(p, p.astype(np.float64) - target, {}, t, float(np.float32(1e-2))) - p
        assert np.allclose(moved, wanted, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("sgd_update", {"momentum": -0.1}, "momentum=-0.1 must be finite and not negative"),
        ("sgd_update", {"nesterov": True}, "nesterov=true needs a momentum above 0"),
        ("sgd_update", {"weight_decay": float("inf")}, "weight_decay=inf must be finite"),
        ("adamw_update", {"beta1": 1.0}, "beta1=1 must be from 0 to below 1"),
        ("adamw_update", {"beta2": -1.0}, "beta2=-1 must be from 0 to below 1"),
        ("adamw_update", {"epsilon": -1.0}, "epsilon=-1 must be finite and not negative"),
        ("adamw_update", {"weight_decay": -1.0}, "weight_decay=-1 must be finite and not negative"),
    ],
)
def test_attributes_out_of_their_range(op, attrs, words):
    with pytest.raises(clcnn.ArgumentError, match=words):
        step_graph(op, attrs)


def test_shapes_that_do_not_fit():
    g = clcnn.Graph()
    p, hyper = g.input("p", (5,)), g.input("hyper", (2,))
    with pytest.raises(clcnn.ShapeError, match="must have one dimension"):
        ops.sgd_update(g.input("q", (5, 1)), p, p, hyper)
    with pytest.raises(clcnn.ShapeError, match="hyper"):
        ops.sgd_update(p, p, p, p)
    with pytest.raises(clcnn.ShapeError, match="v"):
        ops.adamw_update(p, p, p, hyper, hyper)
