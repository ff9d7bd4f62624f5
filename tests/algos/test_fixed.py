"""Linear layers whose weights are kept in 24 bits: how far off weights and results are, and what becomes of
numbers that are none."""

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


def one_by_one(device: clcnn.Device, w: np.ndarray) -> np.ndarray:
    """The weights as they are kept: rows of the identity give them back."""
    rows = np.split(np.eye(w.shape[1], dtype=np.float32), 8)
    return np.concatenate([linear(device, some, w) for some in rows]).T


@pytest.mark.parametrize("octaves", [0, 2, 6, 14, 30, 62, 63, 120, 200])
def test_weights_are_off_by_a_part_of_their_own_size(device: clcnn.Device, octaves: int) -> None:
    """From the largest of a chunk to the smallest, at both ends of what each number of exponent bits holds.
    Where six are too few, weights lose their lowest 8 bits."""
    rng = np.random.default_rng(3)
    exponents = rng.integers(-octaves, 1, (21, CHUNK + 40)) + octaves // 2
    exponents[:, 1::CHUNK], exponents[:, 2::CHUNK] = octaves // 2, octaves // 2 - octaves
    w = np.ldexp(rng.choice([-1.0, 1.0], exponents.shape) * rng.uniform(1.0, 2.0, exponents.shape), exponents)
    w[:, 5::7] = 0.0
    w = w.astype(np.float32)
    bits = next(bits for bits in (1, 2, 3, 4, 5, 6, 8) if bits == 8 or octaves <= 2**bits - 2)
    got = one_by_one(device, w)
    error = np.abs(got.astype(np.float64) - w)
    assert (error <= np.abs(w) * 2.0 ** (bits - 24)).all()
    assert error.max() > 0.0
    np.testing.assert_array_equal(got == 0.0, w == 0.0)


def test_a_row_has_its_own_format(device: clcnn.Device) -> None:
    """And so has each chunk of it: neither numbers of other rows nor of other chunks change a digit of it."""
    w = normal(8, 2 * CHUNK)
    other = w * np.float32(1e20)
    other[::2, ::3] *= np.float32(1e-30)
    other[5], other[6, :CHUNK] = w[5], w[6, :CHUNK]
    plain, mixed = one_by_one(device, w), one_by_one(device, other)
    np.testing.assert_array_equal(mixed[5], plain[5])
    np.testing.assert_array_equal(mixed[6, :CHUNK], plain[6, :CHUNK])


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
