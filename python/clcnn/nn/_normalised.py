"""The functions of nn.functional that normalise, with statistics and weights as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.value import Value


def batch_norm(
    input: Value,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    """y = (x - running_mean) / sqrt(running_var + eps) * weight + bias per channel: x [N, C, ...].

    Source: Ioffe and Szegedy 2015.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    running_mean, running_var : Value or array
        Mean and variance, [C].
    weight, bias : Value or array, optional
        [C]; 1 and 0 where not given.
    training : bool
        Only False: nn.BatchNorm1d, 2d and 3d keep running statistics.
    momentum : float
        Accepted for compatibility: means nothing without training.
    eps : float
        Added to the variance. Default 1e-5.

    Returns
    -------
    Value
        y, of the shape of x, float32.

    Raises
    ------
    ArgumentError
        For training=True.
    DtypeError
        For operands that are not float32.
    ShapeError
        For statistics or weights that are not [C].

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> import numpy as np
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.batch_norm(x, np.zeros(4, np.float32), np.ones(4, np.float32)).shape
    (1, 4, 8, 8)
    """
    if training:
        raise ArgumentError(
            "batch_norm: training=True has no place for running statistics; use nn.BatchNorm2d"
        )
    ones, zeros = np.ones(input.shape[1], np.float32), np.zeros(input.shape[1], np.float32)
    return ops.batch_norm(
        input,
        ones if weight is None else weight,
        zeros if bias is None else bias,
        running_mean,
        running_var,
        eps=eps,
    )


def layer_norm(
    input: Value,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Value:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions of x [...].

    Source: Ba et al. 2016.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    normalized_shape : int or sequence of int
        Sizes of the dimensions, in which x ends.
    weight, bias : Value or array, optional
        Of this shape; 1 and 0 where not given.
    eps : float
        Added to the variance. Default 1e-5.

    Returns
    -------
    Value
        y, of the shape of x, float32.

    Raises
    ------
    DtypeError
        For operands that are not float32.
    ShapeError
        For x that does not end in normalized_shape, and other weights.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (2, 5, 8))
    >>> F.layer_norm(x, 8).shape
    (2, 5, 8)
    """
    dims = _last_dims("layer_norm", input, normalized_shape)
    return ops.layer_norm(input, weight, bias, dim=-dims, eps=eps)


def rms_norm(
    input: Value, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None
) -> Value:
    """y = x / sqrt(mean of x^2 + eps) * weight over the last dimensions of x [...].

    Source: Zhang and Sennrich 2019.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    normalized_shape : int or sequence of int
        Sizes of the dimensions, in which x ends.
    weight : Value or array, optional
        Of this shape; 1 where not given.
    eps : float, optional
        Added to the mean, 2^-23 where not given.

    Returns
    -------
    Value
        y, of the shape of x, float32.

    Raises
    ------
    DtypeError
        For operands that are not float32.
    ShapeError
        For x that does not end in normalized_shape, and other weights.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (2, 5, 8))
    >>> F.rms_norm(x, (8,)).shape
    (2, 5, 8)
    """
    dims = _last_dims("rms_norm", input, normalized_shape)
    least = float(np.finfo(np.float32).eps) if eps is None else eps
    return ops.rms_norm(input, weight, dim=-dims, eps=least)


def _last_dims(owner: str, x: Value, wanted: int | Sequence[int]) -> int:
    """How many dimensions, the last ones of x, are normalised."""
    sizes = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    if not sizes or tuple(x.shape[-len(sizes) :]) != sizes:
        raise ShapeError(f"{owner}: input {list(x.shape)} must end in {list(sizes)}")
    return len(sizes)


def group_norm(
    input: Value, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Value:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over groups of channels of x [N, C, ...].

    Source: Wu and He 2018.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    num_groups : int
        Divides C.
    weight, bias : Value or array, optional
        [C]; 1 and 0 where not given.
    eps : float
        Added to the variance. Default 1e-5.

    Returns
    -------
    Value
        y, of the shape of x, float32.

    Raises
    ------
    DtypeError
        For operands that are not float32.
    ShapeError
        For channels that num_groups does not divide, and other weights.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.group_norm(x, 2).shape
    (1, 4, 8, 8)
    """
    return ops.group_norm(input, weight, bias, groups=num_groups, eps=eps)


def instance_norm(
    input: Value,
    running_mean: None = None,
    running_var: None = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over each channel of each item of x [N, C, ...].

    Source: Ulyanov et al. 2016.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    running_mean, running_var : None
        Accepted for compatibility: only None.
    weight, bias : Value or array, optional
        [C]; 1 and 0 where not given.
    use_input_stats : bool
        Only True.
    momentum : float
        Means nothing without running statistics.
    eps : float
        Added to the variance. Default 1e-5.

    Returns
    -------
    Value
        y, of the shape of x, float32.

    Raises
    ------
    ArgumentError
        For running statistics.
    DtypeError
        For operands that are not float32.
    ShapeError
        For weights that are not [C].

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.instance_norm(x).shape
    (1, 4, 8, 8)
    """
    if not use_input_stats or running_mean is not None or running_var is not None:
        raise ArgumentError("instance_norm: running statistics are not offered")
    return ops.instance_norm(input, weight, bias, eps=eps)


def local_response_norm(
    input: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """y = x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta: x [N, C, ...].

    Source: Krizhevsky et al. 2012, section 3.3, with PyTorch's alpha / size.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    size : int
        Number of channels to sum over.
    alpha, beta, k : float
        As in the formula: 1e-4, 0.75 and 1 where not given.

    Returns
    -------
    Value
        y, of the shape of x, float32.

    Raises
    ------
    ArgumentError
        For a size below 1.
    DtypeError
        For x that is not float32.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.local_response_norm(x, 3).shape
    (1, 4, 8, 8)
    """
    return ops.local_response_norm(input, size=size, alpha=alpha, beta=beta, k=k)


def normalize(input: Value, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Value:
    """y = x / max(the 2-norm of x along dim, eps): x [...] -> the same shape.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    p : float
        Only 2.
    dim : int
        The dimension, negative from the end. Default 1.
    eps : float
        The least divisor. Default 1e-12.

    Returns
    -------
    Value
        y, float32.

    Raises
    ------
    ArgumentError
        For another p.
    DtypeError
        For x that is not float32.
    ShapeError
        For a dim that x does not have.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (2, 16))
    >>> F.normalize(x).shape
    (2, 16)
    """
    if p != 2:
        raise ArgumentError(f"normalize: p={p!r}: only the norm p=2 is offered")
    return ops.l2_norm(input, dim=dim, eps=eps)
