"""Other ranges of input data than the usual one, which a case asks for by `values=`, places of zeros, and
numbers that mean nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from clcnn._reference.data import Input

SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        6.0,
        7.5,
        1e-30,
        -1e-30,
        1e30,
        -1e30,
        20.0,
        -20.0,
        80.0,
        -80.0,
        100.0,
        -100.0,
    ]
)


def _special(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Each special value once where they fit exactly (a column and a row of them meet in all pairs), else
    drawn."""
    return SPECIAL.reshape(shape) if math.prod(shape) == SPECIAL.size else rng.choice(SPECIAL, shape)


RANGES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "special": _special,
    "large": lambda rng, shape: rng.uniform(-100.0, 100.0, shape),
    "nan": lambda rng, shape: np.where(rng.random(shape) < 0.1, np.nan, rng.standard_normal(shape)),
    "negative": lambda rng, shape: -np.abs(rng.standard_normal(shape)) - 1.0,
}


def ranged(name: str) -> Callable[[np.random.Generator, Input], np.ndarray | None]:
    """The range for one input, as `clcnn._reference.data.draw` takes it. Of integers "large" is all that
    their type holds; the other ranges are of floats alone."""

    def values(rng: np.random.Generator, given: Input) -> np.ndarray | None:
        if given.dtype == "float32":
            return RANGES[name](rng, given.shape)
        if name != "large" or given.dtype == "bool":
            return None
        limits = np.iinfo(given.dtype)
        return rng.integers(limits.min, limits.max, given.shape, endpoint=True)

    return values


def _clustered(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    """Whole channels of images, and the upper halves of others."""
    of_channels = (*shape[:2], *[1] * (len(shape) - 2))
    rows = (np.arange(shape[2]) * 2 < shape[2]).reshape(-1, *[1] * (len(shape) - 3))
    whole, half = (rng.random(of_channels) < density for _ in range(2))
    return whole & (half | rows) | np.zeros(shape, bool)


# Where a map is not zero: at random places, or in whole channels and halves of them.
PLACES: dict[str, Callable[[np.random.Generator, tuple[int, ...], float], np.ndarray]] = {
    "density": lambda rng, shape, density: rng.random(shape) < density,
    "clustered": _clustered,
}


def thinned(x: np.ndarray, name: str, density: str) -> np.ndarray:
    """A map that is not zero at such places only; zeros have either sign."""
    return x * PLACES[name](np.random.default_rng(11), x.shape, float(density))


def any_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Half of them random bits, half powers of two of either sign up to the ends of int32 and int64."""
    kind = np.dtype(dtype)
    bits = rng.integers(0, 256, (*shape, kind.itemsize), np.uint8)
    if kind.kind == "b":
        return bits[..., 0] % 2 == 1
    noise = bits.view(kind).reshape(shape)
    powers = rng.choice([-1.0, 1.0], shape) * np.exp2(rng.uniform(0, 8 * kind.itemsize + 1, shape))
    if kind.kind in "iu":
        powers = np.clip(powers, np.iinfo(kind).min / 2, np.iinfo(kind).max / 2)
    return np.where(rng.random(shape) < 0.5, noise, powers.astype(kind))
