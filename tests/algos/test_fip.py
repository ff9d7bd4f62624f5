"""The fast inner product adds pixels to weights: what keeps its sums exact, and what spoils them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import contract
from clcnn import _core
from helpers import computed, need_blocks
from tolerance import compare

Array = np.ndarray
CHANNELS, FILTERS = 512, 48
X, W = (2, CHANNELS, 3, 28), (FILTERS, CHANNELS, 1, 1)

# Pixels and weights of which sums of products of neighbours would be large, or small ones lost beside large.
KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
    "far from zero": lambda rng, shape: 1.0 + 0.1 * rng.standard_normal(shape),
    "rectified": lambda rng, shape: np.maximum(rng.standard_normal(shape) - 1.5, 0.0),
    "heavy": lambda rng, shape: np.exp(1.5 * rng.standard_normal(shape)),
    "single": lambda rng, shape: np.where(rng.random(shape) < 0.01, 100.0, 0.01) * rng.standard_normal(shape),
}


@pytest.fixture
def convolve(device: _core.Device) -> Callable[[Array, Array], Array]:
    """A 1x1 convolution by the fast inner product; both arrays are inputs."""
    need_blocks(device, "conv", "fip")

    return lambda x, w: computed(device, "conv", "fip", x, w)


def _exact(x: Array, w: Array) -> Array:
    x, w = x.astype(np.float32).astype(np.float64), w.astype(np.float32).astype(np.float64)
    return np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])


@pytest.mark.parametrize("weights", KINDS)
@pytest.mark.parametrize("pixels", KINDS)
def test_sums_are_as_exact_as_direct_ones(convolve, pixels, weights):
    rng = np.random.default_rng(3)
    x, w = KINDS[pixels](rng, X), KINDS[weights](rng, W)
    y, wanted = convolve(x, w), _exact(x, w)
    products = contract.Products(x, w, {})
    contract.check(y, wanted, contract.allowed(products, CHANNELS, "highest", "normwise"), "conv")
    # single large pixels that are a pair's two multiply: there only the bound for any numbers holds
    pairs = np.abs(x).reshape(len(x), -1, 2, *X[2:]).min(2).max(1) > 1.0 if pixels == "single" else False
    plain = np.broadcast_to(~np.asarray(pairs), (len(x), *X[2:]))
    assert plain.mean() > 0.9
    compare(y.swapaxes(0, 1)[:, plain], wanted.swapaxes(0, 1)[:, plain], "conv")


def test_pixels_of_other_sizes(convolve):
    """Each tile has its scale: small pixels keep their digits beside a tile of large ones."""
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((1, CHANNELS, 3, 56)), rng.standard_normal(W)
    x[..., :28] *= 2.0**20  # tiles have 7 pixels, or 4
    y = convolve(x, w)
    compare(y[..., 28:], _exact(x, w)[..., 28:], "conv")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_spoils_its_tile_alone(convolve, value):
    """A tile has 7 pixels (4 with vectors of 8), side by side."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, CHANNELS, 1, 56)), rng.standard_normal(W)
    x[0, 9, 0, 30] = value
    y, wanted = convolve(x, w), _exact(np.where(np.isfinite(x), x, 0.0), w)
    assert not np.isfinite(y[..., 30]).any()
    near = np.abs(np.arange(56) - 30) >= 7
    compare(y[..., near], wanted[..., near], "conv")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weight_that_is_not_finite_spoils_its_filter_alone(convolve, value):
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    w[3, 100] = value
    y, others = convolve(x, w), np.arange(FILTERS) != 3
    assert not np.isfinite(y[:, 3]).any()
    compare(y[:, others], _exact(x, w[others]), "conv")


def test_filters_and_channels_of_zeros(convolve):
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    w[5] = w[:, 7] = x[:, 11] = x[1, :, 2] = 0.0
    y = convolve(x, w)
    compare(y, _exact(x, w), "conv")
    assert not y[:, 5].any()
    assert not y[1, :, 2].any()
