"""Initial values: PyTorch's defaults, from a seedable generator.

A parameter is filled when it is first read, so building a net whose weights are then loaded costs nothing.
Names that end in _ are torch.nn.init's: they fill a parameter now, with numbers of the same distribution.

    nn.init.manual_seed(0)
    nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from clcnn.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from clcnn.nn.module import Parameter

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "fan_in_uniform",
    "generator",
    "he_normal",
    "kaiming_normal_",
    "kaiming_uniform_",
    "manual_seed",
    "normal_",
    "ones",
    "ones_",
    "orthogonal_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros",
    "zeros_",
]

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


# ---- torch.nn.init ----


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What keeps the size of activations from layer to layer behind a function; param: of "leaky_relu", its
    slope. Raises ArgumentError (no such function)."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    gains = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 0.75, "linear": 1.0, "sigmoid": 1.0}
    linear = {f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)}
    known = gains | linear
    if nonlinearity not in known:
        raise ArgumentError(f"calculate_gain: {nonlinearity!r} is none of {sorted([*known, 'leaky_relu'])}")
    return known[nonlinearity]


def zeros_(tensor: Parameter) -> Parameter:
    """Fills a parameter with zeros. Returns it, as all of these functions do."""
    return constant_(tensor, 0.0)


def ones_(tensor: Parameter) -> Parameter:
    """Fills a parameter with ones."""
    return constant_(tensor, 1.0)


def constant_(tensor: Parameter, val: float) -> Parameter:
    """Fills a parameter with a number."""
    return _filled(tensor, np.full(tensor.shape, val, np.float32))


def uniform_(tensor: Parameter, a: float = 0.0, b: float = 1.0) -> Parameter:
    """Uniform in [a, b)."""
    return _filled(tensor, generator().uniform(a, b, tensor.shape))


def normal_(tensor: Parameter, mean: float = 0.0, std: float = 1.0) -> Parameter:
    """Normal of this mean and standard deviation."""
    return _filled(tensor, generator().normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Parameter, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Parameter:
    """Normal of this mean and standard deviation, drawn again where it is outside [a, b]. Raises
    ArgumentError where less than one in 10^4 would be inside."""
    low, high = ((limit - mean) / std for limit in (a, b))
    if not math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)) > 2e-4:
        raise ArgumentError(f"trunc_normal_: a normal({mean}, {std}) has too little between {a} and {b}")
    rng = generator()
    values = rng.standard_normal(tensor.shape)
    while (outside := (values < low) | (values > high)).any():
        values[outside] = rng.standard_normal(int(outside.sum()))
    return _filled(tensor, mean + std * values)


def xavier_uniform_(tensor: Parameter, gain: float = 1.0) -> Parameter:
    """Uniform up to gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Parameter, gain: float = 1.0) -> Parameter:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def kaiming_uniform_(
    tensor: Parameter,
    a: float = 0.0,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    nonlinearity: str = "leaky_relu",
) -> Parameter:
    """Uniform up to gain sqrt(3 / fan) (He et al. 2015, section 2.2); a: the slope of "leaky_relu". Raises
    ArgumentError."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Parameter,
    a: float = 0.0,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    nonlinearity: str = "leaky_relu",
) -> Parameter:
    """Normal with standard deviation gain / sqrt(fan) (He et al. 2015, section 2.2); a: the slope of
    "leaky_relu". Raises ArgumentError."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Parameter, gain: float = 1.0) -> Parameter:
    """gain times a matrix (dimension 0 by the others) whose rows, or columns where these are fewer, are
    orthonormal (Saxe et al. 2014). Raises ShapeError (fewer than 2 dimensions)."""
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    _fans(tensor)
    q, r = np.linalg.qr(generator().standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return _filled(tensor, gain * (q.T if rows < columns else q).reshape(tensor.shape))


def _filled(tensor: Parameter, values: np.ndarray) -> Parameter:
    tensor.data = values.astype(np.float32)
    return tensor


def _fans(tensor: Parameter) -> tuple[int, int]:
    """What goes into one output, and what one input goes into."""
    if len(tensor.shape) < 2:
        raise ShapeError(f"initial values by fans need 2 dimensions or more, got {list(tensor.shape)}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _kaiming(tensor: Parameter, a: float, mode: str, nonlinearity: str) -> float:
    """The standard deviation."""
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"kaiming: mode {mode!r} is neither 'fan_in' nor 'fan_out'")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)
