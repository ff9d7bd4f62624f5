"""Initial values: PyTorch's defaults, from a seedable generator.

A parameter is filled when it is first read, so building a net whose weights are then loaded costs nothing.
Names that end in _ are torch.nn.init's: they fill a parameter now, with numbers of the same distribution.

    nn.init.manual_seed(0)
    nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn._initial import Initializer as Initializer
from clcnn.nn._initial import (
    constant,
    fan_in_uniform,
    generator,
    he_normal,
    manual_seed,
    ones,
    uniform,
    zeros,
)

if TYPE_CHECKING:
    from clcnn.nn.parameter import Parameter

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


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the size of activations from layer to layer behind a function.

    Parameters
    ----------
    nonlinearity : str
        "linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu", or the name of a convolution ("conv2d",
        "conv_transpose2d"), which counts as linear.
    param : float, optional
        The slope of "leaky_relu", by default 0.01.

    Returns
    -------
    float
        1 for linear and sigmoid, 5/3 for tanh, sqrt(2) for relu, 3/4 for selu,
        sqrt(2 / (1 + param^2)) for leaky_relu.

    Raises
    ------
    ArgumentError
        Where there is no such function.

    Examples
    --------
    >>> from clcnn import nn
    >>> round(nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    gains = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 0.75, "linear": 1.0, "sigmoid": 1.0}
    linear = {f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)}
    known = gains | linear
    if nonlinearity not in known:
        raise ArgumentError(f"calculate_gain: {nonlinearity!r} is none of {sorted([*known, 'leaky_relu'])}")
    return known[nonlinearity]


def zeros_(tensor: Parameter) -> Parameter:
    """Fills a parameter with zeros.

    Parameters
    ----------
    tensor : Parameter

    Returns
    -------
    Parameter
        The same one.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.init.zeros_(nn.Parameter((2,))).data
    array([0., 0.], dtype=float32)
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Parameter) -> Parameter:
    """Fills a parameter with ones.

    Parameters
    ----------
    tensor : Parameter

    Returns
    -------
    Parameter
        The same one.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.init.ones_(nn.Parameter((2,))).data
    array([1., 1.], dtype=float32)
    """
    return constant_(tensor, 1.0)


def constant_(tensor: Parameter, val: float) -> Parameter:
    """Fills a parameter with a number.

    Parameters
    ----------
    tensor : Parameter
    val : float

    Returns
    -------
    Parameter
        The same one.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.init.constant_(nn.Parameter((2,)), 0.5).data
    array([0.5, 0.5], dtype=float32)
    """
    return _filled(tensor, np.full(tensor.shape, val, np.float32))


def uniform_(tensor: Parameter, a: float = 0.0, b: float = 1.0) -> Parameter:
    """Fills a parameter with numbers that are uniform in [a, b).

    Parameters
    ----------
    tensor : Parameter
    a, b : float
        The limits, by default 0 and 1.

    Returns
    -------
    Parameter
        The same one.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.uniform_(nn.Parameter((8, 8)), -0.5, 0.5)
    >>> bool(abs(w.data).max() <= 0.5)
    True
    """
    return _filled(tensor, generator().uniform(a, b, tensor.shape))


def normal_(tensor: Parameter, mean: float = 0.0, std: float = 1.0) -> Parameter:
    """Fills a parameter with numbers of a normal distribution.

    Parameters
    ----------
    tensor : Parameter
    mean, std : float
        Mean and standard deviation, by default 0 and 1.

    Returns
    -------
    Parameter
        The same one.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.normal_(nn.Parameter((64, 64)), std=0.02)
    >>> bool(0.019 < w.data.std() < 0.021)
    True
    """
    return _filled(tensor, generator().normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Parameter, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Parameter:
    """Fills a parameter with numbers of a normal distribution, drawn again where they are outside [a, b].

    Parameters
    ----------
    tensor : Parameter
    mean, std : float
        Mean and standard deviation before the cut, by default 0 and 1.
    a, b : float
        The limits, by default -2 and 2: numbers, not multiples of std.

    Returns
    -------
    Parameter
        The same one.

    Raises
    ------
    ArgumentError
        Where less than one number in 10^4 would be inside.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.trunc_normal_(nn.Parameter((64, 64)))
    >>> bool(abs(w.data).max() <= 2)
    True
    """
    low, high = ((limit - mean) / std for limit in (a, b))
    if not math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)) > 2e-4:
        raise ArgumentError(f"trunc_normal_: a normal({mean}, {std}) has too little between {a} and {b}")
    rng = generator()
    values = rng.standard_normal(tensor.shape)
    while (outside := (values < low) | (values > high)).any():
        values[outside] = rng.standard_normal(int(outside.sum()))
    return _filled(tensor, mean + std * values)


def xavier_uniform_(tensor: Parameter, gain: float = 1.0) -> Parameter:
    """Fills a parameter with numbers that are uniform in [-b, b), b = gain * sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010, equation 16.

    Parameters
    ----------
    tensor : Parameter
        [out, in, *kernel]: fan_in is in, fan_out out, times the elements of a kernel.
    gain : float
        See calculate_gain().

    Returns
    -------
    Parameter
        The same one.

    Raises
    ------
    ShapeError
        For fewer than 2 dimensions.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.xavier_uniform_(nn.Parameter((8, 16)))
    >>> bool(abs(w.data).max() <= 0.5)
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Parameter, gain: float = 1.0) -> Parameter:
    """Fills a parameter with normal numbers of standard deviation gain * sqrt(2 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010.

    Parameters
    ----------
    tensor : Parameter
        [out, in, *kernel]: fan_in is in, fan_out out, times the elements of a kernel.
    gain : float
        See calculate_gain().

    Returns
    -------
    Parameter
        The same one.

    Raises
    ------
    ShapeError
        For fewer than 2 dimensions.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.xavier_normal_(nn.Parameter((64, 64)))
    >>> bool(0.12 < w.data.std() < 0.13)
    True
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def kaiming_uniform_(
    tensor: Parameter,
    a: float = 0.0,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    nonlinearity: str = "leaky_relu",
) -> Parameter:
    """Fills a parameter with numbers that are uniform in [-b, b), b = gain * sqrt(3 / fan).

    Source: He et al. 2015, section 2.2.

    Parameters
    ----------
    tensor : Parameter
        [out, in, *kernel]: fan_in is in, fan_out out, times the elements of a kernel.
    a : float
        The slope of "leaky_relu".
    mode : {"fan_in", "fan_out"}
        Keeps the size of activations, or that of gradients.
    nonlinearity : str
        The function behind the layer, which gives the gain; see calculate_gain().

    Returns
    -------
    Parameter
        The same one.

    Raises
    ------
    ArgumentError
        For an unknown mode or function.
    ShapeError
        For fewer than 2 dimensions.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.kaiming_uniform_(nn.Parameter((8, 24)), nonlinearity="relu")
    >>> bool(abs(w.data).max() <= 0.5)
    True
    """
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Parameter,
    a: float = 0.0,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    nonlinearity: str = "leaky_relu",
) -> Parameter:
    """Fills a parameter with normal numbers of standard deviation gain / sqrt(fan).

    Source: He et al. 2015, section 2.2.

    Parameters
    ----------
    tensor : Parameter
        [out, in, *kernel]: fan_in is in, fan_out out, times the elements of a kernel.
    a : float
        The slope of "leaky_relu".
    mode : {"fan_in", "fan_out"}
        Keeps the size of activations, or that of gradients.
    nonlinearity : str
        The function behind the layer, which gives the gain; see calculate_gain().

    Returns
    -------
    Parameter
        The same one.

    Raises
    ------
    ArgumentError
        For an unknown mode or function.
    ShapeError
        For fewer than 2 dimensions.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.kaiming_normal_(nn.Parameter((64, 128)), nonlinearity="relu")
    >>> bool(0.12 < w.data.std() < 0.13)
    True
    """
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Parameter, gain: float = 1.0) -> Parameter:
    """Fills a parameter with gain times an orthogonal matrix: dimension 0 by the others.

    Rows, or columns where these are fewer, are orthonormal. Source: Saxe et al. 2014.

    Parameters
    ----------
    tensor : Parameter
    gain : float
        See calculate_gain().

    Returns
    -------
    Parameter
        The same one.

    Raises
    ------
    ShapeError
        For fewer than 2 dimensions.

    Examples
    --------
    >>> from clcnn import nn
    >>> w = nn.init.orthogonal_(nn.Parameter((2, 8))).data
    >>> print(abs(w @ w.T).round(3))
    [[1. 0.]
     [0. 1.]]
    """
    _fans(tensor)
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
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
