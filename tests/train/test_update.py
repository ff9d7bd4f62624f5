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


# ---- in the place of the old values ----


def gated(watch: str) -> clcnn.Graph:
    """An update of p and m by the gradient 2 x where `go` is above 0; watch: what stands in its way."""
    graph = clcnn.Graph()
    x, hyper, go = graph.input("x", (SIZE,)), graph.input("hyper", (2,)), graph.input("go", (1,))
    p, m, other = (graph.state(name, (SIZE,)) for name in ("p", "m", "other"))
    gradient = {"gradient in a state": other, "gradient in its own state": m}.get(watch, x * 2.0)
    moment = other if watch == "moment of another" else m
    new_p, new_m = ops.sgd_update(p, gradient, moment, hyper, momentum=0.5, name="update")
    graph.assign(p, new_p)
    graph.assign(m, new_m)
    graph.commit_when(ops.greater(go, np.zeros(1, np.float32)))
    graph.output(new_p if watch == "result is read" else x * 1.0, "result")
    return graph


WATCHED = [
    "nothing",
    "result is read",
    "gradient in a state",
    "gradient in its own state",
    "moment of another",
]


@pytest.mark.parametrize("watch", WATCHED)
def test_an_update_takes_the_place_of_the_old_values(watch: str) -> None:
    """In the commit, without a copy, where nothing stands in its way; with the same result in any case."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(SIZE).astype(np.float32) for name in ("p", "m", "other")}
    x, hyper = rng.standard_normal(SIZE).astype(np.float32), np.array([0.25, 1.0], np.float32)
    go, stay = np.ones(1, np.float32), np.zeros(1, np.float32)
    gradient = {"gradient in a state": arrays["other"], "gradient in its own state": arrays["m"]}
    m = 0.5 * arrays["other" if watch == "moment of another" else "m"] + gradient.get(watch, 2 * x)
    device = clcnn.Device(DEVICE)
    with (
        clcnn.State(arrays, device=device) as state,
        clcnn.compile(gated(watch), device=device, state=state) as plan,
    ):
        copies = [step for step in plan.steps if step["op"] == "commit"]
        assert (not copies) == (watch == "nothing")
        plan(x, hyper, go)
        plan.profile(x, hyper, go)
        plan.step(x, hyper, stay)
        for name, array in arrays.items():
            np.testing.assert_array_equal(state[name], array)
        plan.step(x, hyper, go)
        np.testing.assert_allclose(state["m"], m, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(state["p"], arrays["p"] - 0.25 * m, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(state["other"], arrays["other"])
