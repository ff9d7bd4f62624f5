"""Activations, with those of rectifier.py. Each adds one element-wise operator, or few; producers take them
into their epilogues when a plan is compiled."""

from __future__ import annotations

from typing import Any

from clcnn import _arguments, ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn._unary import _Activation, _InplaceActivation
from clcnn.nn.module import Layer
from clcnn.nn.rectifier import (
    CELU,
    ELU,
    SELU,
    Hardtanh,
    LeakyReLU,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Threshold,
)

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]

SAME_AS_X = 17.0  # from here on log(1 + exp(x)) is x in float32


class SiLU(_InplaceActivation):
    """y = x * sigmoid(x), also called swish. Source: Elfwing et al. 2018.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.SiLU(), (3,))([-2, 0, 2]).round(2))
    [-0.24  0.    1.76]
    """

    _op = "silu"


class Hardswish(_InplaceActivation):
    """y = x * min(max(x / 6 + 1/2, 0), 1). Source: Howard et al. 2019 (MobileNetV3).

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Hardswish(), (3,))([-2, 0, 3]).round(2))
    [-0.33  0.    3.  ]
    """

    _op = "hard_swish"


class Hardsigmoid(_InplaceActivation):
    """y = min(max(x / 6 + 1/2, 0), 1).

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Hardsigmoid(), (3,))([-6, 0, 6]))
    [0.  0.5 1. ]
    """

    _op = "hard_sigmoid"


class Sigmoid(_Activation):
    """y = 1 / (1 + exp(-x)): the logistic function. Takes no arguments.

    Works on each element: x float32 of any shape -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Sigmoid(), (3,))([-2, 0, 2]).round(2))
    [0.12 0.5  0.88]
    """

    _op = "sigmoid"


class Tanh(_Activation):
    """y = tanh(x) = (exp(x) - exp(-x)) / (exp(x) + exp(-x)). Takes no arguments.

    Works on each element: x float32 of any shape -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Tanh(), (3,))([-1, 0, 1]).round(2))
    [-0.76  0.    0.76]
    """

    _op = "tanh"


class Mish(_InplaceActivation):
    """y = x * tanh(log(1 + exp(x))). Source: Misra 2019.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Mish(), (3,))([-2, 0, 2]).round(2))
    [-0.25  0.    1.94]
    """

    _op = "mish"


class Softsign(_Activation):
    """y = x / (1 + |x|). Takes no arguments.

    Works on each element: x float32 of any shape -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Softsign(), (3,))([-1, 0, 3]).round(2))
    [-0.5   0.    0.75]
    """

    _op = "softsign"


class Softplus(Layer):
    """y = log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold.

    Works on each element: x float32 of any shape -> the same shape. Source: Dugas et al. 2001.

    Parameters
    ----------
    beta : float
        Above 0; the larger, the nearer to max(x, 0).
    threshold : float
        From where on x is taken. From 17 on it changes nothing in float32.

    Raises
    ------
    ArgumentError
        Where beta is not above 0.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Softplus(), (3,))([-2, 0, 30]).round(2))
    [ 0.13  0.69 30.  ]
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = float(beta), float(threshold)
        if not self.beta > 0:
            raise ArgumentError(f"Softplus: beta={beta!r} must be above 0")

    def forward(self, x: Any) -> Any:
        if self.beta == 1 and self.threshold >= SAME_AS_X:
            return ops.softplus(x, name=self.layer_name)
        y = ops.softplus(x * self.beta) / self.beta
        if self.threshold >= SAME_AS_X:
            return y
        return ops.where(x * self.beta > self.threshold, x, y, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Layer):
    """y = log(1 / (1 + exp(-x))). Takes no arguments.

    Works on each element: x float32 of any shape -> the same shape. Large negative x do not overflow.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.LogSigmoid(), (3,))([-100, 0, 2]).round(2))
    [-100.     -0.69   -0.13]
    """

    def forward(self, x: Any) -> Any:
        return ops.neg(ops.softplus(-x), name=self.layer_name)


class Tanhshrink(Layer):
    """y = x - tanh(x). Takes no arguments.

    Works on each element: x float32 of any shape -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Tanhshrink(), (3,))([-2, 0, 2]).round(2))
    [-1.04  0.    1.04]
    """

    def forward(self, x: Any) -> Any:
        return ops.sub(x, ops.tanh(x), name=self.layer_name)


class Hardshrink(Layer):
    """y = x where |x| > lambd, 0 elsewhere.

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    lambd : float
        At least 0.

    Raises
    ------
    ArgumentError
        Where lambd is below 0.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Hardshrink(0.5), (3,))([-2, 0.5, 2]))
    [-2.  0.  2.]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = float(lambd)
        if not self.lambd >= 0:
            raise ArgumentError(f"{type(self).__name__}: lambd={lambd!r} must be at least 0")

    def forward(self, x: Any) -> Any:
        return ops.shrink(x, lambd=self.lambd, bias=self._bias, name=self.layer_name)

    @property
    def _bias(self) -> float:
        return 0.0

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """y = x - lambd where x > lambd, x + lambd where x < -lambd, 0 elsewhere.

    Works on each element: x float32 of any shape -> the same shape. It is the soft threshold of Donoho 1995.

    Parameters
    ----------
    lambd : float
        At least 0.

    Raises
    ------
    ArgumentError
        Where lambd is below 0.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Softshrink(0.5), (3,))([-2, 0.5, 2]))
    [-1.5  0.   1.5]
    """

    @property
    def _bias(self) -> float:
        return self.lambd


class GLU(Layer):
    """y = a * sigmoid(b), where a and b are the halves of x along dim: x [..., 2 * n, ...] -> [..., n, ...].

    Source: Dauphin et al. 2017.

    Parameters
    ----------
    dim : int
        The dimension that is halved; negative ones count from the end.

    Raises
    ------
    DtypeError
        Where dim is no whole number.
    ShapeError
        When called on x whose dimension dim is odd, or that has no such dimension.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.GLU(), (1, 4))([[1, 2, 0, 0]]).round(2))
    [[0.5 1. ]]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = _arguments.whole(dim, "GLU: dim")

    def forward(self, x: Any) -> Any:
        if x.size(self.dim) % 2:
            raise ShapeError(f"GLU {self.layer_name or ''}: dim {self.dim} of {list(x.shape)} has no halves")
        a, b = x.chunk(2, self.dim)
        return ops.mul(a, ops.sigmoid(b), name=self.layer_name)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(_Activation):
    """y = x * Phi(x), where Phi is the normal distribution function. Source: Hendrycks and Gimpel 2016.

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    approximate : {"none", "tanh"}
        "none" computes (1 + erf(x / sqrt(2))) / 2 for Phi(x); "tanh" takes
        (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.

    Raises
    ------
    ArgumentError
        When called, where approximate is another word.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.GELU(), (3,))([-2, 0, 2]).round(2))
    [-0.05  0.    1.95]
    """

    _op = "gelu"
    _attrs = {"approximate": "approximate"}

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate


class Softmax(_Activation):
    """y = exp(x) / sum(exp(x)) along dim: x float32 of any shape -> the same shape, each sum 1.

    The largest element is subtracted first, so that nothing overflows.

    Parameters
    ----------
    dim : int
        The dimension that is summed over; negative ones count from the end.

    Raises
    ------
    DtypeError
        Where dim is no whole number.
    ShapeError
        When called on x that has no dimension dim.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Softmax(), (1, 3))([[0, 0, 5]]).round(2))
    [[0.01 0.01 0.99]]
    """

    _op = "softmax"
    _attrs = {"dim": "dim"}

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = _arguments.whole(dim, f"{type(self).__name__}: dim")


class Softmax2d(Softmax):
    """Softmax over the channels at each pixel: x [N, C, H, W] or [C, H, W] -> the same shape.

    Takes no arguments.

    Raises
    ------
    ShapeError
        When called on x of fewer than 3 dimensions.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Softmax2d(), (1, 2, 1, 1))([[[[3]], [[3]]]]).ravel().round(2))
    [0.5 0.5]
    """

    def __init__(self) -> None:
        super().__init__(-3)


class Softmin(Softmax):
    """y = exp(-x) / sum(exp(-x)) along dim: x float32 of any shape -> the same shape, each sum 1.

    Parameters
    ----------
    dim : int
        The dimension that is summed over; negative ones count from the end.

    Raises
    ------
    DtypeError
        Where dim is no whole number.
    ShapeError
        When called on x that has no dimension dim.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Softmin(), (1, 3))([[0, 0, 5]]).round(2))
    [[0.5 0.5 0. ]]
    """

    def forward(self, x: Any) -> Any:
        return super().forward(-x)


class LogSoftmax(Softmax):
    """y = x - log(sum(exp(x))) along dim, the logarithm of Softmax: x float32 of any shape -> the same shape.

    Parameters
    ----------
    dim : int
        The dimension that is summed over; negative ones count from the end.

    Raises
    ------
    DtypeError
        Where dim is no whole number.
    ShapeError
        When called on x that has no dimension dim.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.LogSoftmax(), (1, 2))([[1, 1]]).round(2))
    [[-0.69 -0.69]]
    """

    _op = "log_softmax"
