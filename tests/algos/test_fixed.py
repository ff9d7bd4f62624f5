"""Linear layers whose weights are kept as fixed-point numbers of 24 bits: how far off results are, and what
becomes of numbers that are none."""

from __future__ import annotations

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn.graph import Graph

CHUNK = 512  # elements of a row that share a scale


def linear(
    device: clcnn.Device, x: np.ndarray, w: np.ndarray, algo: str = "fixed", **options: str
) -> np.ndarray:
    g = Graph()
    g.output(ops.linear(g.input("x", x.shape), g.constant(w, "w"), name="fc"), "y")
    with clcnn.compile(g, device=device, algorithms={"fc": algo} if algo else {}, **options) as plan:
        return plan(x)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("spread", [0.0, 4.0])
def test_weights_are_off_by_a_part_of_the_largest_of_their_chunk(device: clcnn.Device, spread: float) -> None:
    """Rows of the identity give single weights back; `spread` makes some many times larger than others."""
    k, n = CHUNK + 40, 21
    w = normal(n, k) * np.exp(spread * normal(n, k, seed=1))
    y = np.concatenate([linear(device, rows, w) for rows in np.split(np.eye(k, dtype=np.float32), 12)])
    for first in range(0, k, CHUNK):
        part = w[:, first : first + CHUNK]
        error = np.abs(y[first : first + CHUNK].T - part)
        assert (error <= np.abs(part).max(axis=1, keepdims=True) * 2.0**-23).all()
        assert error.max() > 0.0


def test_results_are_as_close_as_those_of_float32(device: clcnn.Device) -> None:
    x, w = normal(3, 4000, seed=2), normal(50, 4000)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    off = [np.abs(linear(device, x, w, algo) - exact).max() for algo in ("fixed", "ref")]
    assert off[0] <= 2 * off[1]


@pytest.mark.parametrize("size", [1e-44, 1e-37, 1e-30, 1.0, 1e30, 1e36])
def test_weights_of_any_size(device: clcnn.Device, size: float) -> None:
    """Down to where float32 itself has fewer digits, up to its largest numbers."""
    x, w = normal(1, 600), (normal(9, 600, seed=1) * size).astype(np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    allowed = max(2e-5 * np.sqrt((exact**2).mean()), 600 * 2.0**-125)
    assert np.abs(linear(device, x, w) - exact).max() <= allowed


def test_numbers_that_are_none_go_where_float32_takes_them(device: clcnn.Device) -> None:
    x, w = np.ones((1, 1100), np.float32), normal(12, 1100)
    w[1, 700], w[2, 3], w[3, 1099], w[4, 5:7] = np.nan, np.inf, -np.inf, (np.inf, np.nan)
    y = linear(device, x, w)[0]
    plain = linear(device, x, w, "ref")[0]
    assert list(plain[1:5]) == pytest.approx([np.nan, np.inf, -np.inf, np.nan], nan_ok=True)
    np.testing.assert_array_equal(y[1:5], plain[1:5])
    np.testing.assert_allclose(np.delete(y, range(1, 5)), np.delete(plain, range(1, 5)), rtol=1e-5, atol=1e-4)
    x[0, 3] = 0.0  # 0 * infinity
    assert np.isnan(linear(device, x, w)[0, 2])
    x[0, 9] = np.nan
    assert np.isnan(linear(device, x, w)).all()


def test_strict_keeps_weights_as_they_are(device: clcnn.Device) -> None:
    x, w = normal(1, 1024), normal(1000, 1024)
    with pytest.raises(clcnn.UnsupportedError, match="algorithm 'fixed' cannot be used here: error class"):
        linear(device, x, w, precision="strict")
    np.testing.assert_array_equal(
        linear(device, x, w, "", precision="strict"), linear(device, x, w, "gemv", precision="strict")
    )
