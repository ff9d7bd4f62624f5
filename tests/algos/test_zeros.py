"""Zeros are left out: channels that are zero under all tiles of a register tile by Winograd's products,
single values by the formats. The same bits as without, whatever the density, and nothing that is not finite
is lost."""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True)
class Layer:
    """A convolution by one algorithm, perhaps pooled by 2x2."""

    algorithm: str
    x: tuple[int, ...]
    filters: int
    kernel: int = 3
    groups: int = 1
    pool: bool = False

    @property
    def w(self) -> tuple[int, ...]:
        return (self.filters, self.x[1] // self.groups, self.kernel, self.kernel)


# Which form a layer takes depends on the device; here: filters stored or transformed in every run, few tiles
# by many filters or the other way round.
LAYERS = {
    "stored": Layer("winograd", (2, 33, 30, 27), 40),
    "stored groups": Layer("winograd", (1, 96, 30, 27), 64, groups=2),
    "stored pool": Layer("winograd", (1, 40, 30, 28), 40, pool=True),
    "fresh": Layer("winograd", (1, 72, 9, 11), 96),
    "fresh pool": Layer("winograd", (2, 48, 8, 8), 96, pool=True),
    "fresh wide": Layer("winograd", (1, 72, 4, 4), 64),
    "F(2,3)": Layer("winograd2", (1, 70, 22, 23), 40),
    "F(2,3) fresh": Layer("winograd2", (1, 100, 6, 6), 40),
    "F(3,4)": Layer("winograd4", (1, 48, 19, 20), 40, kernel=4),
    "F(2,5)": Layer("winograd5", (1, 48, 19, 20), 40, kernel=5),
    "F(2,5) fresh": Layer("winograd5", (1, 48, 6, 6), 40, kernel=5),
    "one channel": Layer("winograd", (1, 1, 13, 13), 17),
    "masks": Layer("sparse_mask", (2, 33, 19, 27), 40),
    "masks groups": Layer("sparse_mask", (1, 64, 10, 90), 96, groups=2),
    "masks 1x1": Layer("sparse_mask", (2, 40, 9, 11), 200, kernel=1),
    "masks 5x5": Layer("sparse_mask", (1, 20, 9, 11), 40, kernel=5),
    "masks one channel": Layer("sparse_mask", (1, 1, 13, 13), 17),
    "lists": Layer("ecr", (2, 33, 12, 17), 40),
    "lists groups": Layer("ecr", (1, 12, 10, 9), 18, groups=3),
    "lists 1x1": Layer("ecr", (2, 40, 9, 11), 200, kernel=1),
    "lists one channel": Layer("ecr", (1, 1, 13, 13), 17),
    "lists pool": Layer("pecr", (2, 33, 12, 17), 40, pool=True),
    "lists pool groups": Layer("pecr", (1, 40, 9, 8), 140, groups=2, pool=True),
}
LARGE = Layer("winograd", (1, 256, 56, 56), 256)  # its transforms are a step of their own


def random(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Array:
    return np.where(rng.random(shape) < density, rng.integers(1, 5, shape), 0)


def clustered(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> Array:
    """What is not zero lies together: whole channels of images, and halves of the others."""
    n, c, h, w = shape
    there = rng.random((n, c, 1, 1)) < density
    half = (np.arange(h) < h // 2).reshape(1, 1, h, 1) | (rng.random((n, c, 1, 1)) < density)
    return np.where(there & half, rng.integers(1, 5, shape), 0)


def data(layer: Layer, density: float = 0.3, kind: Any = clustered) -> tuple[Array, Array, Array]:
    """A map, filters and biases, whole numbers; biases of -0 among them."""
    rng = np.random.default_rng(7)
    x = kind(rng, layer.x, density)
    w, b = rng.integers(-3, 4, layer.w), rng.integers(-9, 10, layer.filters)
    return x.astype(np.float32), w.astype(np.float32), np.where(b == 0, -0.0, b).astype(np.float32)


@pytest.fixture
def both(device: clcnn.Device) -> Callable[..., Array]:
    """The layer with skipping, which must give the bits of the one without. `before`: a relu in front, so
    that the map is one between layers, and chains have something to chain."""

    def run(layer: Layer, x: Array, w: Array, b: Array, before: bool = False, **options: Any) -> Array:
        need_blocks(device, "conv", layer.algorithm)
        results = []
        for skip in (True, False):
            graph = Graph()
            value = graph.input("x", x.shape)
            value = ops.relu(value, name="before") if before else value
            value = ops.conv(value, w, b, padding=layer.kernel // 2, groups=layer.groups, name="conv")
            value = ops.max_pool(value, kernel_size=2, stride=2, name="pool") if layer.pool else value
            graph.output(value, "y")
            name = "conv+pool" if layer.pool else "conv"
            forced = {name: layer.algorithm}
            with clcnn.compile(
                graph, device=device, algorithms=forced, skip=skip, tune="off", **options
            ) as plan:
                results.append(plan(x))
                assert plan(x).tobytes() == results[-1].tobytes()
                if options.get("guard"):
                    plan.check_guards()
        assert results[0].tobytes() == results[1].tobytes()
        return results[0]

    return run


def wanted(layer: Layer, x: Array, w: Array, b: Array) -> Array:
    y = defined(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64),
                padding=(layer.kernel // 2,), groups=layer.groups)  # fmt: skip
    if not layer.pool:
        return y
    n, c, h, wide = y.shape
    return y[:, :, : h // 2 * 2, : wide // 2 * 2].reshape(n, c, h // 2, 2, wide // 2, 2).max((3, 5))


def check(layer: Layer, y: Array, x: Array, w: Array, b: Array) -> None:
    """Whole numbers come out exactly, but for Winograd's larger tiles, whose factors are no halves."""
    exact = wanted(layer, x, w, b)
    off = np.abs(y - exact).max()
    rounded = layer.algorithm in ("winograd", "winograd4", "winograd5")
    assert off <= (2e-5 * max(1.0, np.abs(exact).max()) if rounded else 0)


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("kind", [random, clustered])
@pytest.mark.parametrize("name", LAYERS)
def test_bits_do_not_depend_on_skipping(both, name, kind, density):
    layer = LAYERS[name]
    given = data(layer, density, kind)
    check(layer, both(layer, *given), *given)


def test_large_layer(both):
    given = data(LARGE)
    check(LARGE, both(LARGE, *given), *given)


@pytest.mark.parametrize("options", [{"guard": True}, {"chain": True}, {"chain": False}, {"batch_part": 1}])
@pytest.mark.parametrize("name", LAYERS)
def test_between_guards_in_chains_and_in_parts_of_a_batch(both, name, options):
    layer = LAYERS[name]
    given = data(layer)
    check(layer, both(layer, *given, before=True, **options), *given)


@pytest.mark.parametrize("name", LAYERS)
def test_map_of_zeros_gives_the_bias(both, name):
    """Negative zeros are zeros, and no sign of theirs is seen."""
    layer = LAYERS[name]
    x, w, b = data(layer, 0.0)
    for zero in (0.0, -0.0):
        y = both(layer, np.full_like(x, zero), w, b)
        np.testing.assert_array_equal(y, np.broadcast_to(b[:, None, None], y.shape))
        assert not np.signbit(y[y == 0.0]).any()


@pytest.mark.parametrize("name", LAYERS)
def test_negative_zeros_among_others(both, name):
    layer = LAYERS[name]
    x, w, b = data(layer, 0.3, random)
    x = np.where(x == 0.0, np.float32(-0.0), x)
    check(layer, both(layer, x, w, b), x, w, b)


@pytest.mark.parametrize("name", LAYERS)
def test_sums_that_vanish_have_no_sign(both, name):
    """Products below the smallest numbers make -0 of a sum, and a computed zero after them +0 again."""
    layer = LAYERS[name]
    rng = np.random.default_rng(8)
    x, w = np.zeros(layer.x, np.float32), rng.standard_normal(layer.w).astype(np.float32) * np.float32(1e-20)
    x[:, 0] = rng.standard_normal(layer.x[2:]) * 1e-35
    b = np.full(layer.filters, -0.0, np.float32)
    y = both(layer, x, w, b)
    assert not y.any() and not np.signbit(y).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-45, 3e38])
@pytest.mark.parametrize("name", LAYERS)
def test_nothing_else_counts_as_zero(both, name, value):
    """One pixel of a channel of zeros."""
    layer = LAYERS[name]
    x, w, b = data(layer)
    w[0] = 1.0
    channel, row, column = layer.x[1] // 2, layer.x[2] // 2, layer.x[3] // 2
    x[:, : channel + 1] = 0.0
    x[0, channel, row, column] = value
    y = both(layer, x, w, b)
    if not np.isfinite(value) or (abs(value) >= 3e38 and layer.algorithm.startswith("winograd")):
        around = y[0, :, row // 2, column // 2] if layer.pool else y[0, :, row, column]
        assert not np.isfinite(
            around[channel // (layer.x[1] // layer.groups) * layer.filters // layer.groups]
        )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("name", LAYERS)
def test_filters_that_are_not_finite_meet_every_zero(both, name, value):
    """Also where the transform alone makes them so: its sums exceed float32."""
    layer = LAYERS[name]
    x, w, b = data(layer, 0.0)
    w[3, -1] = value
    y = both(layer, x, w, b)
    others = np.arange(layer.filters) != 3
    np.testing.assert_array_equal(y[:, others], np.broadcast_to(b[others, None, None], y[:, others].shape))
    assert np.isnan(y[:, 3]).all() or value == 3e38


@pytest.mark.parametrize("algorithm", ["winograd", "sparse_mask", "ecr"])
def test_filters_that_are_computed_meet_every_zero(device, algorithm):
    """Nobody can say that they are finite before they are there."""
    need_blocks(device, "conv", algorithm)
    graph = Graph()
    x, w = graph.input("x", (1, 16, 12, 12)), graph.input("w", (16, 16, 3, 3))
    graph.output(ops.conv(x, w, padding=1, name="conv"), "y")
    filters = np.full((16, 16, 3, 3), np.inf, np.float32)
    with clcnn.compile(graph, device=device, algorithms={"conv": algorithm}, tune="off") as plan:
        assert np.isnan(plan(np.zeros((1, 16, 12, 12), np.float32), filters)).all()


def test_more_channels_than_masks(device):
    need_blocks(device, "conv", "winograd2")
    channels = 16 * 32 * device.float_width + 1
    graph = Graph()
    w = np.zeros((1, channels, 3, 3), np.float32)
    graph.output(ops.conv(graph.input("x", (1, channels, 2, 2)), w, padding=1, name="conv"), "y")
    with pytest.raises(clcnn.UnsupportedError, match="more channels than the workspace has masks for"):
        clcnn.compile(graph, device=device, algorithms={"conv": "winograd2"})
