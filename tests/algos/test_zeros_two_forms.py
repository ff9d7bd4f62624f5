"""Layers that leave out single zeros where calibration tells of many: data of a run may have fewer. The step
that makes the masks counts, and what it finds decides on the device which of two forms computes the layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn._reference.conv import conv as defined
from clcnn.graph import Graph
from helpers import need_blocks

Array = np.ndarray
KNOWN = 0.9  # zeros that plans are told of
# What is surely taken; at half of the values that hangs on the layer.
DENSITIES = {0.0: "sparse", 0.1: "sparse", 0.5: "either", 0.9: "dense", 1.0: "dense"}


@dataclass(frozen=True)
class Layer:
    """A convolution whose zeros are known, perhaps pooled by an odd window."""

    x: tuple[int, ...]
    filters: int
    kernel: int = 3
    groups: int = 1
    pool: bool = False

    @property
    def w(self) -> tuple[int, ...]:
        return (self.filters, self.x[1] // self.groups, self.kernel, self.kernel)


LAYERS = {
    "3x3": Layer((1, 64, 14, 14), 64),
    "batch": Layer((3, 48, 9, 11), 40),
    "groups": Layer((1, 64, 10, 20), 96, groups=2),
    "1x1": Layer((2, 40, 9, 11), 200, kernel=1),
    "5x5": Layer((1, 33, 9, 11), 40, kernel=5),
    "pool": Layer((2, 64, 13, 13), 64, pool=True),
}


def graph_of(layer: Layer, w: Array, b: Array) -> Graph:
    graph = Graph()
    value = ops.relu(graph.input("x", layer.x), name="before")
    value = ops.conv(value, w, b, padding=layer.kernel // 2, groups=layer.groups, name="conv")
    value = ops.max_pool(value, kernel_size=3, stride=2, name="pool") if layer.pool else value
    graph.output(value, "y")
    return graph


def constants(layer: Layer) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    return rng.standard_normal(layer.w, np.float32), rng.standard_normal(layer.filters, np.float32)


def positive(shape: tuple[int, ...], density: float) -> Array:
    rng = np.random.default_rng(4)
    x = np.abs(rng.standard_normal(shape, np.float32)) + np.float32(0.1)
    return np.where(rng.random(shape) < density, x, np.float32(0))


def forms(plan: clcnn.Plan, layer: str = "conv") -> list[str]:
    """The algorithms of a layer's convolution: alone, or that of each form."""
    return [row["algo"] for row in plan.layers if row["op"] == "conv" and layer in row["layer"]]


def told(graph: Graph, device: clcnn.Device, **options: Any) -> clcnn.Plan:
    return clcnn.compile(graph, device=device, tune="off", zeros={"conv": KNOWN}, **options)


def alone(graph: Graph, device: clcnn.Device, algorithm: str, **options: Any) -> clcnn.Plan:
    """One form by itself."""
    return clcnn.compile(graph, device=device, tune="off", algorithms={"conv": algorithm}, **options)


@pytest.fixture(autouse=True)
def blocks(device: clcnn.Device) -> None:
    need_blocks(device, "conv", "sparse_mask")


@pytest.mark.parametrize(
    "options",
    [{}, {"guard": True}, {"batch_part": 1}, {"precision": "strict"}],
    ids=lambda o: "".join(o) or "-",
)
@pytest.mark.parametrize("name", LAYERS)
def test_each_form_gives_its_own_bits(device, name, options):
    layer = LAYERS[name]
    w, b = constants(layer)
    graph = graph_of(layer, w, b)
    with told(graph, device, **options) as plan:
        sparse, dense = forms(plan)
        assert sparse == "sparse_mask" != dense
        with (
            alone(graph, device, sparse, **options) as first,
            alone(graph, device, dense, **options) as second,
        ):
            assert forms(first) == [sparse] and forms(second) == [dense]
            for density, form in [*DENSITIES.items(), *DENSITIES.items()]:
                x = positive(layer.x, density)
                bits = {"sparse": first(x).tobytes(), "dense": second(x).tobytes()}
                bits["either"] = plan(x).tobytes()
                assert plan(x).tobytes() == bits[form]
                assert bits["either"] in (bits["sparse"], bits["dense"])
                if options.get("guard"):
                    plan.check_guards()


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_right(device, name, density):
    layer = LAYERS[name]
    w, b = constants(layer)
    x = positive(layer.x, density)
    y = defined(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64),
                padding=(layer.kernel // 2,), groups=layer.groups)  # fmt: skip
    if layer.pool:
        y = np.lib.stride_tricks.sliding_window_view(y, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((4, 5))
    with told(graph_of(layer, w, b), device) as plan:
        np.testing.assert_allclose(plan(x), y, rtol=1e-4, atol=2e-6 * max(1.0, float(np.abs(y).max())))


def test_both_are_named_and_their_weights_count(device):
    layer = LAYERS["3x3"]
    graph = graph_of(layer, *constants(layer))
    with told(graph, device) as plan:
        sparse, dense = forms(plan)
        rows = [row for row in plan.layers if row["layer"] == "conv"]
        assert "conv has a second form, where more than 0." in plan.explain()
        chosen = [line.split()[1] for line in plan.explain().splitlines() if line.startswith("  * ")]
        with alone(graph, device, sparse) as first, alone(graph, device, dense) as second:
            weights = [p.stats["weights_bytes"] for p in (plan, first, second)]
    assert [row["part"] for row in rows] == [False, True]
    assert {sparse, dense} <= set(chosen)
    biases = 4 * layer.filters
    assert weights[0] == weights[1] + weights[2] - biases


@pytest.mark.parametrize("zeros", [{}, {"conv": 0.1}])
def test_a_layer_of_few_zeros_has_one_form(device, zeros):
    layer = LAYERS["3x3"]
    graph = graph_of(layer, *constants(layer))
    for options in ({}, {"algorithms": {"conv": "sparse_mask"}}):
        with clcnn.compile(graph, device=device, tune="off", zeros=zeros, **options) as plan:
            assert len(forms(plan)) == 1


def test_what_skips_nothing_has_one_form(device):
    layer = LAYERS["3x3"]
    with told(graph_of(layer, *constants(layer)), device, skip=False) as plan:
        assert len(forms(plan)) == 1
    with told(
        graph_of(layer, *constants(layer)), device, skip=False, algorithms={"conv": "sparse_mask"}
    ) as plan:
        assert forms(plan) == ["sparse_mask"]


def test_the_least_memory_has_no_room_for_two(device):
    layer = LAYERS["3x3"]
    graph = graph_of(layer, *constants(layer))
    with told(graph, device) as plan, alone(graph, device, "sparse_mask") as one:
        most, least = (p.stats["arena_bytes"] + p.stats["weights_bytes"] for p in (plan, one))
    with told(graph, device, memory_limit=most) as plan:
        assert len(forms(plan)) == 2
    with told(graph, device, memory_limit=least) as plan:
        assert len(forms(plan)) == 1
        np.testing.assert_array_equal(plan(np.zeros(layer.x, np.float32))[0, :, 0, 0], constants(layer)[1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_what_is_not_finite_is_lost_in_no_form(device, density, value):
    layer = LAYERS["3x3"]
    x = positive(layer.x, density)
    x[0, 5, 6, 7] = value
    with told(graph_of(layer, *constants(layer)), device) as plan:
        y = plan(x)
    assert not np.isfinite(y[0, :, 6, 7]).any()


def test_filters_that_are_not_finite_are_multiplied_by_every_zero(device):
    layer = LAYERS["3x3"]
    w, b = constants(layer)
    w[3] = np.inf
    with told(graph_of(layer, w, b), device) as plan:
        y = plan(np.zeros(layer.x, np.float32))
    assert np.isnan(y[:, 3]).all() and not np.isnan(y[:, 4:]).any()


def two_layers(first: float) -> Graph:
    """Two layers told of zeros. What the first makes is all zeros or none, by its bias; the rest makes steps
    enough for a chain."""
    w, _ = constants(LAYERS["3x3"])
    graph = Graph()
    value = ops.relu(graph.input("x", (1, 64, 14, 14)), name="before")
    value = ops.relu(ops.conv(value, w * 1e-3, np.full(64, first, np.float32), padding=1, name="a"))
    value = ops.conv(value, w, padding=1, name="b")
    graph.output(ops.sigmoid(ops.max_pool(value, kernel_size=3, stride=1, name="pool")), "y")
    return graph


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("second", [-1.0, 1.0])
def test_layers_decide_for_themselves_inside_chains(device, chain, second):
    graph = two_layers(second)
    zeros: Mapping[str, float] = {"a": KNOWN, "b": KNOWN}
    with clcnn.compile(graph, device=device, tune="off", zeros=zeros, chain=chain) as plan:
        if not chain:
            assert plan.stats["chained_steps"] == 0
        elif device.type == "cpu" and plan.stats["chained_steps"] == 0:
            pytest.skip("this device runs no chains here")
        of = {layer: forms(plan, layer) for layer in "ab"}
        assert of["a"][0] == of["b"][0] == "sparse_mask" and len(of["a"]) == len(of["b"]) == 2
        clone = plan.clone()
        for density, first in [item for item in DENSITIES.items() if item[1] != "either"]:
            taken = {"a": of["a"][first == "dense"], "b": of["b"][second > 0]}
            x = positive((1, 64, 14, 14), density)
            with clcnn.compile(graph, device=device, tune="off", algorithms=taken, chain=chain) as one:
                y = one(x)
            assert plan(x).tobytes() == plan(x).tobytes() == clone(x).tobytes() == y.tobytes()
            plan.profile(x)  # which launches every step
            assert plan(x).tobytes() == y.tobytes()
        clone.close()
