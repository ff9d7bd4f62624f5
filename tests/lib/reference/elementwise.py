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


def selu(x: np.ndarray, *, alpha: float, gamma: float) -> np.ndarray:
    return gamma * elu(x, alpha=alpha)


def celu(x: np.ndarray, *, alpha: float) -> np.ndarray:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0) / alpha))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0.0)


def thresholded_relu(x: np.ndarray, *, alpha: float) -> np.ndarray:
    return np.where(x <= alpha, 0.0, x)


def shrink(x: np.ndarray, *, lambd: float, bias: float) -> np.ndarray:
    return np.where(np.abs(x) <= lambd, 0.0, x - np.sign(x) * bias)


def cast(x: np.ndarray, *, to: str) -> np.ndarray:
    """Floats are cut towards 0, limited to what fits, NaN gives 0; integers lose what does not fit."""
    if to == "float32":
        return x.astype(np.float32).astype(np.float64)
    if x.dtype.kind != "f" or to == "bool":
        return x.astype(to)
    limits = np.iinfo(to)
    finite = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    inside = np.where(np.abs(finite) < 2.0 ** (limits.bits - 1), finite, 0.0)
    whole = np.where(x >= 2.0 ** (limits.bits - 1), limits.max, np.trunc(inside).astype(to))
    return np.where(x <= -(2.0 ** (limits.bits - 1)), limits.min, whole).astype(to)


def is_inf(x: np.ndarray, *, sign: str) -> np.ndarray:
    return {"both": np.isinf, "positive": np.isposinf, "negative": np.isneginf}[sign](x)


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
    "selu": selu,
    "celu": celu,
    "softplus": softplus,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "thresholded_relu": thresholded_relu,
    "shrink": shrink,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "reciprocal": lambda x: 1.0 / x,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cast": cast,
    "is_nan": np.isnan,
    "is_inf": is_inf,
    "logical_not": np.logical_not,
}


def div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers are cut towards 0, and give 0 where b is 0."""
    if a.dtype.kind == "f":
        return a / b
    a, b = np.broadcast_arrays(a, b)
    remainder = np.fmod(a, b)
    return np.where(b == 0, 0, np.floor_divide(a - remainder, b)).astype(a.dtype)


def pow_(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of integers with negative exponents only 1 and -1 leave something whole."""
    if a.dtype.kind == "f":
        return np.power(a, b)
    a, b = np.broadcast_arrays(a, b)
    sign = np.where(b % 2 == 0, 1, -1)
    negative = np.where(a == 1, 1, np.where(a == -1, sign, 0))
    return np.where(b < 0, negative, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def mod(a: np.ndarray, b: np.ndarray, *, sign: str) -> np.ndarray:
    return np.fmod(a, b) if sign == "dividend" else np.mod(a, b)


BINARY: dict[str, Callable[..., np.ndarray]] = {
    "prelu": prelu,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": div,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "pow": pow_,
    "mod": mod,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

# What `separable` may apply between its two convolutions: the unary operators without attributes.
ACTIVATIONS = {
    name: UNARY[name] for name in ("identity", "relu", "relu6", "sigmoid", "tanh", "hard_swish", "silu")
}


def dropout(x: np.ndarray, *, p: float) -> np.ndarray:
    """Identity at inference, whatever `p`."""
    del p
    return x.copy()
