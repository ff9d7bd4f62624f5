"""Strassen's products add filters, channels and pixels to others: what keeps each from spoiling them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from clcnn import _core
from helpers import need_blocks
from tolerance import UNIT

Array = np.ndarray
# Rows of whole tiles, as a separable layer wants them, and a last pair of tiles that is not whole. A pair is
# 14 or 28 pixels (12 with vectors of 8), side by side.
CHANNELS, FILTERS, HEIGHT, WIDTH = 128, 64, 3, 42
X, W = (2, CHANNELS, HEIGHT, WIDTH), (FILTERS, CHANNELS, 1, 1)
MOST = 12.0  # units of an error, over the norms of filter and pixel

Convolve = Callable[[Array, Array], Array]


@pytest.fixture(params=["conv", "separable"])
def convolve(device: _core.Device, request: pytest.FixtureRequest) -> Convolve:
    """A 1x1 convolution by Strassen's products, alone or behind a depthwise one that changes nothing; both
    arrays are inputs."""
    op = request.param
    need_blocks(device, op, "strassen")

    def run(x: Array, w: Array) -> Array:
        graph = _core.Graph()
        arrays = [x, w] if op == "conv" else [x, w, np.ones((CHANNELS, 1, 1, 1))]
        values = [graph.input(f"x{i}", a.shape) for i, a in enumerate(arrays)]
        if op == "separable":  # what the rewriter makes one of
            values[0] = graph.node("conv", "y", [values[0], values[2]], {"groups": CHANNELS})[0]
        last = "y" if op == "conv" else "z"
        graph.output(graph.node("conv", last, values[:2], {})[0], "out")
        with _core.Plan(device, graph, overrides={"y": "strassen"}) as plan:
            assert (op, "strassen") in [(row["op"], row["algo"]) for row in plan.layers()]
            return plan.run([np.ascontiguousarray(a, np.float32) for a in arrays])[0]

    return run


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def _doubles(*arrays: Array) -> list[Array]:
    return [a.astype(np.float32).astype(np.float64) for a in arrays]


def _exact(x: Array, w: Array) -> Array:
    x, w = _doubles(x, w)
    return np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])


def _spread(rng: np.random.Generator, count: int, width: float) -> Array:
    """Factors from 1 / width to width."""
    return width ** rng.uniform(-1.0, 1.0, count)


def _near(y: Array, x: Array, w: Array, sizes: Array | float = 1.0) -> None:
    """Errors beside the norms of filter and pixel, channels of x brought to one size by `sizes` [C]."""
    sizes = np.broadcast_to(sizes, CHANNELS)
    of_pixels = np.linalg.norm(_doubles(x)[0] / sizes[:, None, None], axis=1)[:, None]
    of_filters = np.linalg.norm(_doubles(w)[0][:, :, 0, 0] * sizes, axis=1)[:, None, None]
    error = np.abs(y - _exact(x, w)) / (UNIT * of_filters * of_pixels)
    assert error.max() <= MOST


@pytest.mark.parametrize("width", [1.0, 1e3, 1e6])
def test_filters_and_channels_of_other_sizes(convolve, rng, width):
    """Filters each with a size of its own, channels too, which pixels undo."""
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    sizes = _spread(rng, CHANNELS, width)
    x *= sizes[:, None, None]
    w *= _spread(rng, FILTERS, width)[:, None, None, None] / sizes[:, None, None]
    _near(convolve(x, w), x, w, sizes)


@pytest.mark.parametrize("width", [1e3, 1e6])
def test_pixels_of_other_sizes(convolve, rng, width):
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    x *= _spread(rng, HEIGHT * WIDTH, width).reshape(HEIGHT, WIDTH)
    _near(convolve(x, w), x, w)


def test_images_of_other_sizes(convolve, rng):
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    x *= np.array([1e-8, 1e8]).reshape(2, 1, 1, 1)
    _near(convolve(x, w), x, w)


@pytest.mark.parametrize("which", ["pixels", "weights"])
def test_single_large_values(convolve, rng, which):
    """Norms and mean magnitudes differ most where a few values are large."""
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    large = x if which == "pixels" else w
    large *= np.where(rng.random(large.shape) < 0.003, 1e4, 1.0)
    _near(convolve(x, w), x, w)


@pytest.mark.parametrize("size", [2.0**-115, 2.0**115])
def test_near_the_ends_of_the_range(convolve, rng, size):
    """As exact as others, to the last bit."""
    x, w = rng.standard_normal(X).astype(np.float32), rng.standard_normal(W).astype(np.float32)
    y = convolve(x, w)
    np.testing.assert_array_equal(convolve(x * size, w / size), y)
    np.testing.assert_array_equal(convolve(x / size, w * size), y)


def test_powers_of_two_pass_through(convolve, rng):
    """One for each filter and each image."""
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    of_images = 2.0 ** rng.integers(-20, 21, (2, 1, 1, 1))
    of_filters = 2.0 ** rng.integers(-20, 21, FILTERS)
    y = convolve(x * of_images, w * of_filters[:, None, None, None])
    wanted = convolve(x, w).astype(np.float64) * of_images * of_filters[:, None, None]
    np.testing.assert_array_equal(y, wanted.astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_pixel_and_its_filter_alone(convolve, rng, value):
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    wanted = convolve(x, w)
    x[0, [9, 100], 1, 30] = w[3, [9, 100], 0, 0] = value  # one in each half
    wanted[0, :, 1, 30] = wanted[:, 3] = np.nan
    y = convolve(x, w)
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(wanted))
    sound = np.delete(np.arange(FILTERS), 3)
    x[0, :, 1, 30], y[0, :, 1, 30] = 1.0, _exact(np.ones_like(x), w)[0, :, 1, 30]
    _near(y[:, sound], x, w[sound])


def test_filters_channels_and_pixels_of_zeros(convolve, rng):
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    w[5] = w[:, 7] = x[:, 11] = x[1, :, 2] = 0.0
    y = convolve(x, w)
    assert not y[:, 5].any()
    assert not y[1, :, 2].any()
    sound = np.delete(np.arange(FILTERS), 5)
    x[1, :, 2], y[1, :, 2] = 1.0, _exact(np.ones_like(x), w)[1, :, 2]
    _near(y[:, sound], x, w[sound])
