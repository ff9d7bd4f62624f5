"""Gradients of gradients."""

from __future__ import annotations

import numpy as np
from test_gradients import run

import clcnn
from clcnn import Graph, ops
from clcnn._reference import REFERENCE


def test_second_derivatives(device: clcnn.Device) -> None:
    """Of a convolution under tanh: the gradient of the squared norm of a gradient, by its differences."""
    rng = np.random.default_rng(2)
    feed = {"x": rng.standard_normal((1, 2, 5, 5)), "w": 0.4 * rng.standard_normal((3, 2, 3, 3))}

    def graph(second: bool) -> Graph:
        g = Graph()
        x, w = (g.input(name, array.shape) for name, array in feed.items())
        y = ops.tanh(ops.conv(x, w, stride=2, padding=1))
        dx = clcnn.grad(ops.reduce_sum(y, keepdims=False), x)
        norm = ops.reduce_sum(ops.mul(dx, dx), keepdims=False)
        for name, value in {"w": w, "x": x}.items() if second else ():
            g.output(clcnn.grad(norm, value), name)
        if not second:
            g.output(dx, "dx")
        return g

    got = run(device, graph(True), feed)
    with clcnn.compile(graph(False), device=device, tune="off") as plan:

        def norm_at(name: str, way: np.ndarray, step: float) -> float:
            moved = feed | {name: feed[name] + step * way}
            return float(
                (np.asarray(plan(*(a.astype(np.float32) for a in moved.values())), np.float64) ** 2).sum()
            )

        for name in feed:
            way = rng.standard_normal(feed[name].shape)
            slope = (norm_at(name, way, 1e-2) - norm_at(name, way, -1e-2)) / 2e-2
            assert abs((got[name] * way).sum() - slope) < 5e-3 * max(1.0, abs(slope)), name


def test_second_derivatives_of_a_batch_norm(device: clcnn.Device) -> None:
    """Of all that its gradient has: by way of x, the weight, and what came back; statistics move with x."""
    rng = np.random.default_rng(2)
    shapes = {"x": (3, 2, 2, 2), "gamma": (2,), "beta": (2,), "dy": (3, 2, 2, 2)}
    feed = {name: 1.0 + rng.standard_normal(shape) for name, shape in shapes.items()}
    factors = [rng.standard_normal(feed[name].shape).astype(np.float32) for name in ("x", "gamma", "beta")]
    g = Graph()
    values = {name: g.input(name, shape) for name, shape in shapes.items()}
    y, _, _ = ops.batch_norm_train(values["x"], values["gamma"], values["beta"], eps=0.1)
    first = clcnn.grad(ops.reduce_sum(ops.mul(y, values["dy"]), keepdims=False), list(values.values())[:3])
    terms = [ops.reduce_sum(ops.mul(d, factor), keepdims=False) for d, factor in zip(first, factors)]
    wrt = {name: values[name] for name in ("x", "gamma", "dy")}
    for name, second in zip(wrt, clcnn.grad(terms[0] + terms[1] + terms[2], list(wrt.values()))):
        g.output(second, name)
    results = run(device, g, feed)

    def loss(moved: dict[str, np.ndarray]) -> float:
        x, over = moved["x"], (0, 2, 3)
        parts = REFERENCE["batch_norm_train_grad"](
            moved["dy"], x, moved["gamma"], x.mean(over), x.var(over), feed["beta"], eps=0.1
        )
        return float(sum((part * factor).sum() for part, factor in zip(parts, factors)))

    for name in wrt:
        way = 1e-6 * rng.standard_normal(feed[name].shape)
        moved = [loss(feed | {name: feed[name] + side * way}) for side in (1, -1)]
        slope = (moved[0] - moved[1]) / 2e-6
        got = float((results[name].astype(np.float64) * way).sum()) / 1e-6
        assert abs(got - slope) < 1e-4 * max(1.0, abs(slope)), name


def test_gathers_are_differentiated_twice(device: clcnn.Device) -> None:
    g = Graph()
    x = g.input("x", (4, 2))
    y = ops.gather(x, np.array([1, 3, 1]))
    first = clcnn.grad(ops.reduce_sum(y * y * y, keepdims=False), x)
    g.output(clcnn.grad(ops.reduce_sum(first * first, keepdims=False), x), "d2")
    at = np.random.default_rng(1).standard_normal((4, 2)).astype(np.float32)
    uses = np.array([0, 2, 0, 1])[:, None]  # dx = 3 uses x^2, so that the second one is 36 uses^2 x^3
    with clcnn.compile(g, device=device) as plan:
        np.testing.assert_allclose(plan(at), 36.0 * uses**2 * at**3, rtol=1e-4, atol=1e-5)
