"""Element-wise operators. NaN and infinity go the way they go in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def relu6(x: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, 0.0), 6.0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def hard_swish(x: np.ndarray) -> np.ndarray:
    return x * relu6(x + 3.0) / 6.0


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1.0 + np.exp(-x))


def leaky_relu(x: np.ndarray, *, negative_slope: float) -> np.ndarray:
    return np.where(x > 0.0, x, negative_slope * x)


def elu(x: np.ndarray, *, alpha: float) -> np.ndarray:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def hard_sigmoid(x: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
    return np.minimum(np.maximum(alpha * x + beta, 0.0), 1.0)


def gelu(x: np.ndarray, *, approximate: str) -> np.ndarray:
    """x times the normal distribution function; "tanh" is Hendrycks and Gimpel's approximation of it."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    if approximate != "none":
        raise ValueError(f"approximate={approximate!r} is neither 'none' nor 'tanh'")
    return 0.5 * x * _erfc(-x / math.sqrt(2.0))


def clip(x: np.ndarray, *, min: float, max: float) -> np.ndarray:
    """As torch.clamp: where min > max the result is max."""
    return np.minimum(np.maximum(x, min), max)


def prelu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """slope is [1], [C] along dimension 1 of x, or of higher rank and broadcast from the right."""
    if slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x > 0.0, x, slope * x)


UNARY: dict[str, Callable[..., np.ndarray]] = {
    "relu": relu,
    "relu6": relu6,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "hard_swish": hard_swish,
    "silu": silu,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "neg": np.negative,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "hard_sigmoid": hard_sigmoid,
    "gelu": gelu,
    "clip": clip,
    "identity": np.copy,
}

BINARY: dict[str, Callable[..., np.ndarray]] = {
    "prelu": prelu,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "pow": np.power,
}

# What `separable` may apply between its two convolutions: the unary operators without attributes.
ACTIVATIONS = {
    name: UNARY[name] for name in ("identity", "relu", "relu6", "sigmoid", "tanh", "hard_swish", "silu")
}


def dropout(x: np.ndarray, *, p: float) -> np.ndarray:
    """Identity at inference, whatever `p`."""
    del p
    return x.copy()
