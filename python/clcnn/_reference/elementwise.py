"""Element-wise operators. NaN and infinity go the way they go in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from clcnn._reference.spec import BROADCAST, EXACT, MAP, ONE, TWO, Array, Bound, Shape, Spec, Use

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


def leaky_relu(x: np.ndarray, *, negative_slope: float = 0.01) -> np.ndarray:
    return np.where(x > 0.0, x, negative_slope * x)


def elu(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def hard_sigmoid(x: np.ndarray, *, alpha: float = 1.0 / 6.0, beta: float = 0.5) -> np.ndarray:
    return np.minimum(np.maximum(alpha * x + beta, 0.0), 1.0)


def gelu(x: np.ndarray, *, approximate: str = "none") -> np.ndarray:
    """x times the normal distribution function; "tanh" is Hendrycks and Gimpel's approximation of it."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    if approximate != "none":
        raise ValueError(f"approximate={approximate!r} is neither 'none' nor 'tanh'")
    return 0.5 * x * _erfc(-x / math.sqrt(2.0))


def clip(x: np.ndarray, *, min: float = -math.inf, max: float = math.inf) -> np.ndarray:
    """As torch.clamp: where min > max the result is max."""
    return np.minimum(np.maximum(x, min), max)


def swish(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return x * sigmoid(alpha * x)


def star_relu(
    x: np.ndarray, *, alpha: float = 0.8944271909999159, beta: float = -0.4472135954999579
) -> np.ndarray:
    return alpha * np.maximum(x, 0.0) ** 2 + beta


def fake_quantize(x: np.ndarray, *, scale: float = 1.0, zero_point: float = 0.0) -> np.ndarray:
    """One of 256 steps from -zero_point to 255 - zero_point, `scale` apart."""
    return np.clip(np.rint(x / scale), -zero_point, 255.0 - zero_point) * scale


def prelu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """slope is [1], [C] along dimension 1 of x, or of higher rank and broadcast from the right."""
    if slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x > 0.0, x, slope * x)


def selu(
    x: np.ndarray, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> np.ndarray:
    return gamma * elu(x, alpha=alpha)


def celu(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0) / alpha))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0.0)


def thresholded_relu(x: np.ndarray, *, alpha: float = 1.0) -> np.ndarray:
    return np.where(x <= alpha, 0.0, x)


def shrink(x: np.ndarray, *, lambd: float = 0.5, bias: float = 0.0) -> np.ndarray:
    return np.where(np.abs(x) <= lambd, 0.0, x - np.sign(x) * bias)


def cast(x: np.ndarray, *, to: str = "float32") -> np.ndarray:
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


def is_inf(x: np.ndarray, *, sign: str = "both") -> np.ndarray:
    functions: dict[str, Callable[..., Array]] = {
        "both": np.isinf,
        "positive": np.isposinf,
        "negative": np.isneginf,
    }
    return functions[sign](x)


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


def relu_grad(a: Array, b: Array) -> Array:
    return np.where(b > 0.0, a, 0.0)


def gelu_grad(a: Array, b: Array) -> Array:
    near = np.clip(b, -40.0, 40.0)
    density = np.exp(-0.5 * near * near) / math.sqrt(2.0 * math.pi)
    return a * (0.5 * _erfc(-b / math.sqrt(2.0)) + near * density)


def silu_grad(a: Array, b: Array) -> Array:
    near = np.clip(b, -400.0, 400.0)
    share = sigmoid(near)
    return a * share * (1.0 + near * (1.0 - share))


def hard_swish_grad(a: Array, b: Array) -> Array:
    return a * np.where(b < -3.0, 0.0, np.where(b > 3.0, 1.0, b / 3.0 + 0.5))


def mod(a: np.ndarray, b: np.ndarray, *, sign: str = "divisor") -> np.ndarray:
    return np.fmod(a, b) if sign == "dividend" else np.mod(a, b)


def dropout(x: np.ndarray, *, p: float = 0.5) -> np.ndarray:
    """Identity at inference, whatever `p`."""
    del p
    return x.copy()


def dropout_train(x: np.ndarray, key: np.ndarray, *, p: float = 0.5, layer: int = 0) -> np.ndarray:
    """Four elements a counter: (number / 4, layer, step)."""
    number = np.arange(x.size, dtype=np.uint64)
    quad = number >> np.uint64(2)
    seed, step = (int(k) & 0xFFFFFFFFFFFFFFFF for k in key)
    low = quad & np.uint64(MASK)
    counter = [low, quad >> np.uint64(32), *(np.full_like(low, c & MASK) for c in (layer, step))]
    drawn = np.stack(philox4x32(counter, [seed & MASK, seed >> 32]))[number % np.uint64(4), number]
    kept = (drawn >= int(np.float32(p) * 2.0**32)).reshape(x.shape)
    return np.where(kept, x / (1.0 - np.float64(np.float32(p))) if p < 1 else 0.0, 0.0)


MASK = 0xFFFFFFFF


def philox4x32(counter: list[np.ndarray], key: list[int]) -> list[np.ndarray]:
    """Ten rounds of Philox on four 32-bit words, held in uint64 (Salmon et al. 2011, section 3.3)."""
    a, b, c, d = counter
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        low = np.uint64(MASK)
        a, b, c, d = (
            (right >> np.uint64(32)) ^ b ^ np.uint64(key[0]),
            right & low,
            (left >> np.uint64(32)) ^ d ^ np.uint64(key[1]),
            left & low,
        )
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return [a, b, c, d]


def _seed_and_step(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> Array:
    return np.asarray(rng.integers(0, 1 << 40, shape))


def _away_from_zero(x: Array) -> Array:
    return np.asarray(np.sign(x) * (np.abs(x) + 0.25))


def _five_times(x: Array, first: bool) -> Array:
    return 5.0 * x


def _mostly_false(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> Array:
    return np.asarray(rng.random(shape) < 0.3)


BOOLS = (Use((MAP, MAP), fed=2, dtypes=("bool", "bool")),)
INTEGERS = ("int64", "int64")

SPECS: dict[str, Spec] = {
    # activations
    "relu": Spec(relu, EXACT, ONE),
    "relu6": Spec(relu6, EXACT, ONE, domain=lambda x, first: 4.0 * x + 2.0),
    "sigmoid": Spec(sigmoid, Bound(8.0), ONE),
    "tanh": Spec(np.tanh, Bound(5.0), ONE),
    "hard_swish": Spec(hard_swish, Bound(4.0, 3e-7), ONE, domain=lambda x, first: 3.0 * x),
    "hard_sigmoid": Spec(hard_sigmoid, Bound(1.0, 2e-7), ONE, domain=lambda x, first: 3.0 * x + 1.0),
    "silu": Spec(silu, Bound(9.0), ONE),
    "leaky_relu": Spec(leaky_relu, Bound(1.1), ONE),
    "prelu": Spec(prelu, Bound(0.51), (Use((MAP, (5,)), whole=True),)),
    "elu": Spec(elu, Bound(6.0, 1e-7), ONE),
    "selu": Spec(selu, Bound(7.0, 1e-7), ONE),
    "celu": Spec(celu, Bound(7.0, 1e-7), ONE),
    "gelu": Spec(gelu, Bound(18.0, 3e-6), (Use((MAP,), {"approximate": "tanh"}), *ONE)),
    "softplus": Spec(softplus, Bound(8.0), ONE),
    "softsign": Spec(lambda x: x / (1.0 + np.abs(x)), Bound(4.0), ONE),
    "mish": Spec(lambda x: x * np.tanh(softplus(x)), Bound(14.0), ONE),
    "thresholded_relu": Spec(thresholded_relu, EXACT, ONE, domain=lambda x, first: x + 1.0),
    "shrink": Spec(shrink, Bound(0.51), ONE),
    "clip": Spec(clip, EXACT, ONE),
    "swish": Spec(swish, Bound(12.0, 1e-7), (Use((MAP,), {"alpha": 1.702}),)),
    "star_relu": Spec(star_relu, Bound(3.0, 1e-7), ONE),
    "fake_quantize": Spec(
        fake_quantize, EXACT, (Use((MAP,), {"scale": 0.25, "zero_point": 10.0}),), domain=_five_times
    ),
    "identity": Spec(np.copy, EXACT, ONE),
    "dropout": Spec(dropout, EXACT, ONE),
    "dropout_train": Spec(
        dropout_train,
        Bound(1.1),
        (Use((MAP, (2,)), fed=2, dtypes=("float32", "int64"), whole=True),),
        inputs={1: _seed_and_step},
        zeros=True,
    ),
    # functions
    "exp": Spec(np.exp, Bound(3.0), ONE),
    "log": Spec(np.log, Bound(3.0), ONE, domain=lambda x, first: np.abs(x) * 3.0 + 0.01),
    "sqrt": Spec(np.sqrt, Bound(3.0), ONE, domain=lambda x, first: np.abs(x)),
    "erf": Spec(np.vectorize(math.erf, otypes=[np.float64]), Bound(16.0), ONE),
    "reciprocal": Spec(lambda x: 1.0 / x, Bound(2.5), ONE, domain=lambda x, first: _away_from_zero(x)),
    "sin": Spec(np.sin, Bound(4.0), ONE),
    "cos": Spec(np.cos, Bound(4.0), ONE),
    "tan": Spec(np.tan, Bound(5.0), ONE),
    "asin": Spec(np.arcsin, Bound(4.0), ONE, domain=lambda x, first: np.tanh(x)),
    "acos": Spec(np.arccos, Bound(4.0), ONE, domain=lambda x, first: 0.9 * np.tanh(x)),
    "atan": Spec(np.arctan, Bound(5.0), ONE),
    "sinh": Spec(np.sinh, Bound(4.0), ONE),
    "cosh": Spec(np.cosh, Bound(4.0), ONE),
    "asinh": Spec(np.arcsinh, Bound(4.0), ONE),
    "acosh": Spec(np.arccosh, Bound(4.0), ONE, domain=lambda x, first: 1.5 + np.abs(x)),
    "atanh": Spec(np.arctanh, Bound(5.0), ONE, domain=lambda x, first: 0.9 * np.tanh(x)),
    # exact ones, and truth values
    "abs": Spec(np.abs, EXACT, ONE),
    "neg": Spec(np.negative, EXACT, ONE),
    "sign": Spec(np.sign, EXACT, ONE),
    "floor": Spec(np.floor, EXACT, ONE, domain=_five_times),
    "ceil": Spec(np.ceil, EXACT, ONE, domain=_five_times),
    "round": Spec(np.rint, EXACT, ONE, domain=_five_times),
    "cast": Spec(cast, EXACT, ONE, domain=_five_times),
    "is_nan": Spec(np.isnan, EXACT, ONE, zeros=True),
    "is_inf": Spec(is_inf, EXACT, ONE, zeros=True),
    "logical_not": Spec(np.logical_not, EXACT, (Use((MAP,), dtypes=("bool",)),), inputs={0: _mostly_false}),
    "logical_and": Spec(np.logical_and, EXACT, BOOLS),
    "logical_or": Spec(np.logical_or, EXACT, BOOLS),
    "logical_xor": Spec(np.logical_xor, EXACT, BOOLS),
    "equal": Spec(np.equal, EXACT, TWO, domain=lambda x, first: np.round(x), zeros=True),
    "less": Spec(np.less, EXACT, TWO),
    "less_equal": Spec(np.less_equal, EXACT, TWO),
    "greater": Spec(np.greater, EXACT, TWO),
    "greater_equal": Spec(np.greater_equal, EXACT, TWO),
    # arithmetic of two operands
    "add": Spec(np.add, Bound(0.51), (*BROADCAST, Use((MAP, MAP), fed=2, dtypes=INTEGERS)), whole=True),
    "sub": Spec(np.subtract, Bound(0.51), BROADCAST, whole=True),
    "mul": Spec(np.multiply, Bound(0.51), BROADCAST, whole=True),
    "div": Spec(div, Bound(2.5), BROADCAST, domain=lambda x, first: x if first else _away_from_zero(x)),
    "pow": Spec(pow_, Bound(16.0), BROADCAST, domain=lambda x, first: np.abs(x) + 0.1 if first else x),
    "mod": Spec(mod, Bound(1.0), TWO, domain=lambda x, first: 3.0 * x if first else _away_from_zero(x)),
    "relu_grad": Spec(relu_grad, EXACT, BROADCAST, zeros=True),
    "gelu_grad": Spec(gelu_grad, Bound(18.0, 3e-6), BROADCAST),
    "silu_grad": Spec(silu_grad, Bound(18.0, 3e-7), BROADCAST),
    "hard_swish_grad": Spec(
        hard_swish_grad,
        Bound(4.0, 3e-7),
        BROADCAST,
        domain=lambda x, first: x if first else 3.0 * x,
        zeros=True,
    ),
    "minimum": Spec(np.minimum, EXACT, BROADCAST),
    "maximum": Spec(np.maximum, EXACT, BROADCAST),
}

# What `separable` and `inverted_residual` may apply between their convolutions: the unary operators without
# attributes.
ACTIVATIONS: dict[str, Callable[..., Array]] = {
    name: SPECS[name].define
    for name in ("identity", "relu", "relu6", "sigmoid", "tanh", "hard_swish", "silu")
}
