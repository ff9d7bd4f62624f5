"""Linear layers of one row leave out the weights that meet a zero, where the graph tells of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn.graph import Graph

Array = np.ndarray
NONE = "no zero is left out (skip=False)"
NO_RELU = "the input comes out of no relu, as far as the graph tells"
# Inputs and outputs: chunks and blocks of outputs that are whole and that are not, a row of few, one of all.
SHAPES = [(1, 1), (512, 64), (513, 65), (600, 1000), (1100, 67), (700, 4110), (5000, 259)]
ALGORITHMS = ["fixed_skip", "skip"]
DENSITIES = [0.0, 0.1, 0.5, 0.9, 1.0]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request) -> str:
    return request.param


def row(inputs: int, density: float = 0.3) -> Array:
    rng = np.random.default_rng(inputs)
    x = np.where(rng.random((1, inputs)) < density, rng.integers(1, 9, (1, inputs)), 0)
    return x.astype(np.float32)


def weights(inputs: int, outputs: int) -> tuple[Array, Array]:
    """Whole numbers; biases of -0 among them."""
    rng = np.random.default_rng(outputs)
    w, b = rng.integers(-7, 8, (outputs, inputs)), rng.integers(-9, 10, outputs)
    return w.astype(np.float32), np.where(b == 0, -0.0, b).astype(np.float32)


@pytest.fixture
def linear(device: clcnn.Device, algorithm: str) -> Callable[..., Array]:
    """The layer twice, which must give the same bits. `before`: a relu in front, so that its input is one
    between layers, and chains have something to chain."""

    def run(x: Array, w: Array, b: Array | None = None, before: bool = False, **options: Any) -> Array:
        graph = Graph()
        value = graph.input("x", x.shape)
        value = ops.relu(value, name="before") if before else value
        graph.output(ops.linear(value, w, b, name="fc"), "y")
        options = {"algorithms": {"fc": algorithm}, "tune": "off"} | options
        with clcnn.compile(graph, device=device, **options) as plan:
            y = plan(x)
            assert plan(x).tobytes() == y.tobytes()
            if options.get("guard"):
                plan.check_guards()
        return y

    return run


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_whole_numbers_come_out_exactly(linear, shape, density):
    x, (w, b) = row(shape[0], density), weights(*shape)
    np.testing.assert_array_equal(linear(x, w, b), x @ w.T + b)


@pytest.mark.parametrize("density", DENSITIES)
def test_other_numbers_are_as_close_as_those_of_float32(linear, density):
    rng = np.random.default_rng(3)
    x, w = row(4000, density), rng.standard_normal((150, 4000), np.float32)
    x *= rng.standard_normal(x.shape, np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    off = [np.abs(y - exact).max() for y in (linear(x, w), linear(x, w, algorithms={"fc": "ref"}))]
    assert off[0] <= 3 * off[1]


@pytest.mark.parametrize("options", [{"guard": True}, {"chain": True}, {"chain": False}, {"skip": False}])
@pytest.mark.parametrize("shape", SHAPES)
def test_between_guards_in_chains_and_without_skipping(linear, shape, options):
    x, (w, b) = row(shape[0]), weights(*shape)
    y = linear(x - 2, w, b, before=True, **options)
    np.testing.assert_array_equal(y, np.maximum(x - 2, 0) @ w.T + b)


def test_a_batch_of_one_and_rows_of_higher_rank(linear):
    x, (w, b) = row(600), weights(600, 70)
    np.testing.assert_array_equal(linear(x.reshape(1, 1, 600), w, b), (x @ w.T + b).reshape(1, 1, 70))
    np.testing.assert_array_equal(linear(x.reshape(600), w, b), (x @ w.T + b).reshape(70))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_of_both_signs_give_the_bias(linear, zero):
    w, b = weights(600, 70)
    y = linear(np.full((1, 600), zero, np.float32), w, b)
    np.testing.assert_array_equal(y[0], b)
    assert not np.signbit(y[y == 0.0]).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-45, 3e38])
def test_nothing_else_counts_as_zero(linear, value):
    """One number in a row of zeros; weights of 0 among those that it meets."""
    x, (w, _) = np.zeros((1, 1100), np.float32), weights(1100, 70)
    x[0, 700] = value
    w[:2, 700] = (0.0, 1.0)
    with np.errstate(all="ignore"):
        wanted = x[0, 700] * w[:2, 700]
    np.testing.assert_allclose(linear(x, w)[0, :2], wanted, rtol=0, atol=2.0**-125)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_meet_every_zero(linear, value):
    w, b = weights(600, 70)
    w[3, 599] = value
    y = linear(np.zeros((1, 600), np.float32), w, b)[0]
    assert np.isnan(y[3])
    np.testing.assert_array_equal(np.delete(y, 3), np.delete(b, 3))


@pytest.mark.parametrize("size", [1e-44, 1e-37, 1e-30, 1e30, 1e35])
def test_weights_of_any_size(linear, size):
    x, w = row(600), (weights(600, 20)[0] * size).astype(np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    allowed = max(2e-5 * np.sqrt((exact**2).mean()), 600 * 2.0**-125)
    assert np.abs(linear(x, w) - exact).max() <= allowed


def test_rows_of_weights_of_many_sizes(linear):
    """Beside each other, and from the largest to the smallest number."""
    rng = np.random.default_rng(5)
    x = row(600, 1.0)
    w = np.ldexp(rng.standard_normal((130, 600)), rng.integers(-120, 100, (130, 1))).astype(np.float32)
    w[::5] = np.ldexp(w[::5], rng.integers(-30, 1, w[::5].shape))
    terms = np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64).T
    assert (np.abs(linear(x, w) - x.astype(np.float64) @ w.astype(np.float64).T) <= 2.0**-16 * terms).all()


def test_what_it_cannot_compute_is_refused(device, algorithm):
    def layer(rows: int, constant: bool) -> Graph:
        graph = Graph()
        x = graph.input("x", (rows, 600))
        w = weights(600, 70)[0] if constant else graph.input("w", (70, 600))
        graph.output(ops.linear(x, w, name="fc"), "y")
        return graph

    words = {(2, True): "several rows", (1, False): "computed weights may not be finite"}
    for kind, reason in words.items():
        with pytest.raises(clcnn.UnsupportedError, match=f"linear fc: algorithm '{algorithm}' .*{reason}"):
            clcnn.compile(layer(*kind), device=device, algorithms={"fc": algorithm})


# ---- what the graph says ----------------------------------------------------------------------------------


def reason(device: clcnn.Device, net: Callable[[Graph], Any], inputs: int, **options: Any) -> str:
    """What speaks against leaving zeros out in a layer behind `net`; "": nothing. Of an algorithm that this
    device prefers to others."""
    if device.type == "cpu" and device.float_width < 8:
        pytest.skip("the reasons of CPU devices with wider vectors")
    algorithm = "fixed_skip" if device.type == "cpu" else "skip"
    graph = Graph()
    outputs = 2000 if device.type == "cpu" else -(-(8 << 20) // inputs)
    w = np.ones((outputs, inputs), np.float32)
    graph.output(ops.linear(net(graph), w, name="fc"), "y")
    with clcnn.compile(graph, device=device, tune="off", **options) as plan:
        (layer,) = (layer for layer in plan.layers if layer["layer"] == "fc")
    (found,) = (c for c in layer["candidates"] if c["algo"] == algorithm)
    assert (found["verdict"] == "chosen") == (layer["algo"] == algorithm)
    return found["reason"]


def image(graph: Graph) -> Any:
    return graph.input("x", (1, 4, 12, 12))


def conv(value: Any) -> Any:
    return ops.conv(value, np.ones((8, 4, 3, 3), np.float32), name="conv")


KEEP: dict[str, Callable[[Graph], Any]] = {
    "relu": lambda g: ops.relu(ops.flatten(image(g))),
    "relu6": lambda g: ops.flatten(ops.relu6(image(g))),
    "clip": lambda g: ops.clip(ops.flatten(image(g)), min=0.0, max=3.0),
    "layer": lambda g: ops.flatten(ops.relu(conv(image(g)))),
    "sum of maps": lambda g: ops.flatten(ops.relu(ops.add(image(g), g.input("z", (1, 4, 12, 12))))),
    "max_pool": lambda g: ops.flatten(ops.max_pool(ops.relu(conv(image(g))), kernel_size=2)),
    "linear": lambda g: ops.relu(
        ops.linear(ops.flatten(image(g)), np.ones((600, 576), np.float32), name="first")
    ),
    "moves": lambda g: ops.reshape(
        ops.dropout(ops.transpose(ops.relu(image(g)), perm=(0, 2, 3, 1))), shape=(1, 576)
    ),
    "pad": lambda g: ops.flatten(ops.pad(ops.relu(image(g)), pads=(0, 0, 1, 1, 0, 0, 1, 1))),
    "concat": lambda g: ops.flatten(
        ops.concat([ops.relu(image(g)), ops.relu6(g.input("z", (1, 2, 12, 12)))], dim=1)
    ),
}
LOSE: dict[str, Callable[[Graph], Any]] = {
    "nothing": lambda g: ops.flatten(image(g)),
    "layer": lambda g: ops.flatten(conv(ops.relu(image(g)))),
    "clip": lambda g: ops.clip(ops.flatten(image(g)), min=-1.0, max=3.0),
    "leaky_relu": lambda g: ops.leaky_relu(ops.flatten(image(g))),
    "sum behind relu": lambda g: ops.flatten(ops.add(ops.relu(image(g)), g.input("z", (1, 4, 12, 12)))),
    "mean": lambda g: ops.flatten(ops.avg_pool(ops.relu(conv(image(g))), kernel_size=2)),
    "pad": lambda g: ops.flatten(ops.pad(ops.relu(image(g)), pads=(0, 0, 1, 1, 0, 0, 1, 1), value=1.0)),
    "concat": lambda g: ops.flatten(ops.concat([ops.relu(image(g)), g.input("z", (1, 2, 12, 12))], dim=1)),
}


def size(net: Callable[[Graph], Any]) -> int:
    return int(np.prod(net(Graph()).shape))


@pytest.mark.parametrize("name", KEEP)
def test_zeros_come_out_of_a_relu_and_stay(device, name):
    assert reason(device, KEEP[name], size(KEEP[name])) == ""


@pytest.mark.parametrize("name", LOSE)
def test_other_inputs_are_taken_for_dense(device, name):
    assert reason(device, LOSE[name], size(LOSE[name])) == NO_RELU


def test_zeros_are_computed_on_request(device):
    assert reason(device, KEEP["relu"], 576, skip=False) == NONE


def test_plans_hold_no_more_memory(device):
    """The packed weights replace the others, also where outputs fill no block; on GPUs these are fours."""
    for inputs, outputs in ((4096, 1000), (1100, 4110), (1100, 8001)):
        found = []
        for skip in (True, False):
            graph = Graph()
            value = ops.relu(graph.input("x", (1, inputs)))
            graph.output(ops.linear(value, weights(inputs, outputs)[0], name="fc"), "y")
            with clcnn.compile(graph, device=device, skip=skip, tune="off") as plan:
                found.append(plan.stats["weights_bytes"])
        more = 0 if device.type == "cpu" else -outputs % 4
        assert found[0] <= found[1] + 4 * inputs * more
