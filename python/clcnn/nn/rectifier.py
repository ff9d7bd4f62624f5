"""Rectifiers: activations that keep x where it is positive and change it elsewhere. Each adds one operator;
producers take them into their epilogues when a plan is compiled."""

from __future__ import annotations

from typing import Any

from clcnn import ops
from clcnn.errors import UnsupportedError
from clcnn.nn import init
from clcnn.nn._args import positive
from clcnn.nn._unary import _Activation, _InplaceActivation
from clcnn.nn.module import Layer
from clcnn.nn.parameter import Parameter


class ReLU(_InplaceActivation):
    """y = max(x, 0): the rectified linear unit. Source: Nair and Hinton 2010.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReLU(), (3,))([-2, 0, 2]))
    [0. 0. 2.]
    """

    _op = "relu"


class ReLU6(_InplaceActivation):
    """y = min(max(x, 0), 6). Source: Howard et al. 2017 (MobileNets).

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReLU6(), (3,))([-2, 2, 8]))
    [0. 2. 6.]
    """

    _op = "relu6"


class LeakyReLU(_Activation):
    """y = x where x >= 0, negative_slope * x elsewhere. Source: Maas et al. 2013.

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    negative_slope : float
        The factor of negative elements.
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.LeakyReLU(0.1), (3,))([-2, 1, 2]))
    [-0.2  1.   2. ]
    """

    _op = "leaky_relu"
    _attrs = {"negative_slope": "negative_slope"}

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = float(negative_slope)


class PReLU(Layer):
    """y = x where x >= 0, weight * x elsewhere, with a trained slope: x [N, C, ...] -> the same shape.

    `weight` is [num_parameters], float32: a slope for each channel (dimension 1), or one for all. Source: He
    et al. 2015, section 2.1.

    Parameters
    ----------
    num_parameters : int
        1, or the number of channels C.
    init_value : float
        What the slopes start from; PyTorch's name for it, `init`, is taken as well.

    Raises
    ------
    ArgumentError
        Where num_parameters is no int of at least 1.
    ShapeError
        When called on x whose channels are not num_parameters, where that is more than 1.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.PReLU(), (3,))([-2, 1, 2]))
    [-0.5  1.   2. ]
    >>> nn.PReLU(8).weight.shape
    (8,)
    """

    def __init__(self, num_parameters: int = 1, init_value: float = 0.25, **kwargs: Any) -> None:
        super().__init__()
        if "init" in kwargs:  # torch's name for the start value
            init_value = kwargs.pop("init")
        if kwargs:
            raise TypeError(f"PReLU: unexpected arguments {sorted(kwargs)}")
        self.num_parameters = positive("PReLU", "num_parameters", num_parameters)
        self.weight = Parameter((num_parameters,), init.constant(float(init_value)))

    def forward(self, x: Any) -> Any:
        return ops.prelu(x, self.constant(x.graph, "weight"), name=self.layer_name)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Layer):
    """y = x where x >= 0, slope * x elsewhere, with the mean slope (lower + upper) / 2, as at inference.

    Works on each element: x float32 of any shape -> the same shape. The random slopes of training are not
    offered. Source: Xu et al. 2015.

    Parameters
    ----------
    lower, upper : float
        The limits of the slopes, by default 1/8 and 1/3.
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Raises
    ------
    UnsupportedError
        In a trainer's step, unless eval() was called.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.RReLU(0.1, 0.3), (3,))([-2, 1, 2]))
    [-0.4  1.   2. ]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper = float(lower), float(upper)

    def forward(self, x: Any) -> Any:
        if self.training and x.graph.training:
            raise UnsupportedError(
                f"RReLU {self.layer_name or ''}: random slopes are not offered in training"
            )
        return ops.leaky_relu(x, negative_slope=(self.lower + self.upper) / 2, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"


class ELU(_Activation):
    """y = x where x >= 0, alpha * (exp(x) - 1) elsewhere. Source: Clevert et al. 2016.

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    alpha : float
        The limit for large negative x is -alpha.
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ELU(), (3,))([-2, 1, 2]).round(2))
    [-0.86  1.    2.  ]
    """

    _op = "elu"
    _attrs = {"alpha": "alpha"}

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = float(alpha)


class CELU(ELU):
    """y = max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0). Source: Barron 2017.

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    alpha : float
        The limit for large negative x is -alpha; the slope at 0 is 1 for every alpha.
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.CELU(2.0), (3,))([-2, 1, 2]).round(2))
    [-1.26  1.    2.  ]
    """

    _op = "celu"


class SELU(_InplaceActivation):
    """y = scale * (x where x > 0, alpha * (exp(x) - 1) elsewhere), alpha = 1.67326 and scale = 1.05070.

    Source: Klambauer et al. 2017.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.SELU(), (3,))([-2, 1, 2]).round(2))
    [-1.52  1.05  2.1 ]
    """

    _op = "selu"


class Threshold(Layer):
    """y = x where x > threshold, value elsewhere.

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    threshold : float
        Elements that are not above it are replaced.
    value : float
        What stands in their place.
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Threshold(0.5, 9.0), (3,))([-2, 0.5, 2]))
    [9. 9. 2.]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value = float(threshold), float(value)

    def forward(self, x: Any) -> Any:
        return ops.where(x > self.threshold, x, self.value, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class Hardtanh(_Activation):
    """y = min(max(x, min_val), max_val).

    Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    min_val, max_val : float
        The limits, by default -1 and 1.
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Hardtanh(), (3,))([-2, 0.5, 2]))
    [-1.   0.5  1. ]
    """

    _op = "clip"
    _attrs = {"min": "min_val", "max": "max_val"}

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = float(min_val)
        self.max_val = float(max_val)
