"""Minimal filtering of groups that begin or end within a channel block: each keeps to its own channels."""

from __future__ import annotations

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn.graph import Graph

GROUPS = [(192, 192, 8), (40, 72, 8), (120, 240, 2), (33, 51, 3)]  # channels, filters, groups


@pytest.fixture(scope="module", autouse=True)
def blocks(device: clcnn.Device) -> None:
    if device.type != "cpu":
        pytest.skip("channel blocks are for CPU devices")


def layer(channels: int, filters: int, groups: int, batch: int = 2) -> tuple[Graph, np.ndarray]:
    """A 3x3 layer with bias, residual and ReLU, and its input."""
    rng = np.random.default_rng(groups)
    x = rng.integers(-3, 4, (batch, channels, 11, 9)).astype(np.float32)
    w = rng.integers(-2, 3, (filters, channels // groups, 3, 3)).astype(np.float32)
    graph = Graph()
    add = rng.integers(-3, 4, (batch, filters, 11, 9)).astype(np.float32)
    y = ops.conv(
        graph.input("x", x.shape), w, np.ones(filters, np.float32), padding=1, groups=groups, name="layer"
    )
    graph.output(ops.relu(y + graph.constant(add)), "y")
    return graph, x


def run(device: clcnn.Device, graph: Graph, x: np.ndarray, algorithm: str, **options: bool) -> np.ndarray:
    with clcnn.compile(graph, device=device, algorithms={"layer": algorithm}, **options) as plan:
        return plan(x)


@pytest.mark.parametrize("sizes", GROUPS)
def test_integers_are_exact_in_any_plan(device: clcnn.Device, sizes: tuple[int, int, int]) -> None:
    graph, x = layer(*sizes)
    want = run(device, graph, x, "blocked")
    for options in ({}, {"guard": True}, {"chain": False}, {"skip": False}):
        np.testing.assert_array_equal(
            run(device, graph, x, "winograd2", **options), want, err_msg=str(options)
        )
    got = run(device, graph, x, "winograd")
    np.testing.assert_allclose(got, want, atol=1e-3)


@pytest.mark.parametrize("algorithm", ["winograd", "winograd2"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_group(device: clcnn.Device, algorithm: str, bad: float) -> None:
    channels, filters, groups = 72, 72, 3
    graph, x = layer(channels, filters, groups)
    want = run(device, graph, x, algorithm)
    x[:, 24:48] = bad  # the group in the middle shares a block with both others
    got = run(device, graph, x, algorithm)
    assert not np.isfinite(got[:, 24:48]).any()
    np.testing.assert_array_equal(got[:, :24], want[:, :24])
    np.testing.assert_array_equal(got[:, 48:], want[:, 48:])


@pytest.mark.parametrize("algorithm", ["winograd", "winograd2"])
def test_channels_of_zeros_change_no_bit(device: clcnn.Device, algorithm: str) -> None:
    graph, x = layer(72, 72, 3)
    x[:, 20:60:3] = 0.0
    want = run(device, graph, x, algorithm, skip=False)
    np.testing.assert_array_equal(run(device, graph, x, algorithm), want)


def test_rules_take_it_for_wide_maps(device: clcnn.Device) -> None:
    """Groups of 24 channels, as RegNets have: direct tiles leave a quarter of their lanes empty."""
    rng = np.random.default_rng(1)
    graph = Graph()
    w = rng.standard_normal((192, 24, 3, 3), np.float32)
    y = ops.conv(graph.input("x", (1, 192, 56, 56)), w, padding=1, groups=8, name="layer")
    graph.output(y, "y")
    with clcnn.compile(graph, device=device, tune="off") as plan:
        (layer_of,) = [row for row in plan.layers if row["layer"] == "layer"]
    assert layer_of["algo"] == "winograd"
