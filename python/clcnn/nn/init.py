"""Initial values: PyTorch's defaults, from a seedable generator.

A parameter is filled when it is first read, so building a net whose weights are then loaded costs nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

Initializer = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]

_seed = 0
_counter = itertools.count()


def manual_seed(seed: int) -> None:
    """Makes the parameters of modules built from here on reproducible."""
    global _seed, _counter
    _seed = int(seed)
    _counter = itertools.count()


def generator() -> np.random.Generator:
    """A generator of its own for the next parameter: the order in which parameters are read does not
    matter."""
    return np.random.default_rng((_seed, next(_counter)))


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Zeros: float32 of `shape`."""
    return np.zeros(shape, np.float32)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Ones: float32 of `shape`."""
    return np.ones(shape, np.float32)


def constant(value: float) -> Initializer:
    """Every element equals `value`."""
    return lambda shape, rng: np.full(shape, value, np.float32)


def uniform(bound: float) -> Initializer:
    """Uniform in [-bound, bound)."""

    def fill(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return (rng.random(shape, np.float32) * np.float32(2 * bound) - np.float32(bound)).astype(
            np.float32, copy=False
        )

    return fill


def fan_in_uniform(fan_in: int) -> Initializer:
    """What torch.nn.Conv and Linear start from: U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    return uniform(1.0 / math.sqrt(fan_in) if fan_in else 0.0)


def he_normal(fan_in: int) -> Initializer:
    """Normal with standard deviation sqrt(2 / fan_in) (He et al. 2015, section 2.2)."""
    scale = np.float32(math.sqrt(2.0 / fan_in))
    return lambda shape, rng: rng.standard_normal(shape, np.float32) * scale
