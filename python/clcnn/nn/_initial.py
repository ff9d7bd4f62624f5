"""Where initial values come from: the seed, and the functions that parameters are given."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

Initializer = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]

_seed = 0
_counter = itertools.count()


def manual_seed(seed: int) -> None:
    """Makes the parameters of modules built from here on reproducible.

    Parameters
    ----------
    seed : int
        At least 0. Until this is called, it is 0.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.init.manual_seed(1)
    >>> a = nn.Linear(2, 2).weight.data
    >>> nn.init.manual_seed(1)
    >>> bool((a == nn.Linear(2, 2).weight.data).all())
    True
    """
    global _seed, _counter
    _seed = int(seed)
    _counter = itertools.count()


def generator() -> np.random.Generator:
    """A generator of its own for the next parameter: the order in which parameters are read does not matter.

    Returns
    -------
    numpy.random.Generator
        Seeded by manual_seed()'s number and by how many came before it.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.init.generator().random(3).shape
    (3,)
    """
    return np.random.default_rng((_seed, next(_counter)))


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Zeros, to be given to nn.Parameter.

    Parameters
    ----------
    shape : tuple of int
    rng : numpy.random.Generator
        Not used.

    Returns
    -------
    array
        float32.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Parameter((2,), nn.init.zeros).data
    array([0., 0.], dtype=float32)
    """
    return np.zeros(shape, np.float32)


def ones(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Ones, to be given to nn.Parameter.

    Parameters
    ----------
    shape : tuple of int
    rng : numpy.random.Generator
        Not used.

    Returns
    -------
    array
        float32.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Parameter((2,), nn.init.ones).data
    array([1., 1.], dtype=float32)
    """
    return np.ones(shape, np.float32)


def constant(value: float) -> Initializer:
    """An initialiser for nn.Parameter: every element equals `value`.

    Parameters
    ----------
    value : float

    Returns
    -------
    function
        Of (shape, rng), gives float32.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Parameter((2,), nn.init.constant(0.5)).data
    array([0.5, 0.5], dtype=float32)
    """
    return lambda shape, rng: np.full(shape, value, np.float32)


def uniform(bound: float) -> Initializer:
    """An initialiser for nn.Parameter: uniform in [-bound, bound).

    Parameters
    ----------
    bound : float

    Returns
    -------
    function
        Of (shape, rng), gives float32.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.Parameter((8, 8), nn.init.uniform(0.1))
    >>> bool(abs(w.data).max() <= 0.1)
    True
    """

    def fill(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return (rng.random(shape, np.float32) * np.float32(2 * bound) - np.float32(bound)).astype(
            np.float32, copy=False
        )

    return fill


def fan_in_uniform(fan_in: int) -> Initializer:
    """An initialiser for nn.Parameter: uniform in [-b, b), b = 1 / sqrt(fan_in).

    PyTorch's convolutions and Linear start from it.

    Parameters
    ----------
    fan_in : int
        How many elements go into one output; 0 gives zeros.

    Returns
    -------
    function
        Of (shape, rng), gives float32.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.Parameter((8, 16), nn.init.fan_in_uniform(16))
    >>> bool(abs(w.data).max() <= 0.25)
    True
    """
    return uniform(1.0 / math.sqrt(fan_in) if fan_in else 0.0)


def he_normal(fan_in: int) -> Initializer:
    """An initialiser for nn.Parameter: normal with standard deviation sqrt(2 / fan_in).

    Source: He et al. 2015, section 2.2.

    Parameters
    ----------
    fan_in : int
        How many elements go into one output, at least 1.

    Returns
    -------
    function
        Of (shape, rng), gives float32.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.Parameter((64, 128), nn.init.he_normal(128))
    >>> bool(0.12 < w.data.std() < 0.13)
    True
    """
    scale = np.float32(math.sqrt(2.0 / fan_in))
    return lambda shape, rng: rng.standard_normal(shape, np.float32) * scale
