"""Pooling: windows of x [N, C, *spatial] float32, each reduced to one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.nn._args import Ints, ntuple, positive
from clcnn.nn.module import Layer


def of_rank(layer: Layer, x: Any, rank: int) -> Any:
    """x, if it has so many spatial dimensions."""
    if len(x.shape) != rank + 2:
        raise layer.misfit(x, f"must have rank {rank + 2}")
    return x


class _Pool(Layer):
    """As torch.nn's layer of this name; x and the result are float32.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of a window, in elements; a tuple has a number for each spatial dimension.
    stride : int or tuple of int, optional
        Distance from one window to the next; kernel_size where not given.
    padding : int or tuple of int
        Elements added at both ends of each spatial dimension, at most half of kernel_size. Default 0.
    ceil_mode : bool
        Rounds the number of windows up: the last one may be cut off, but begins inside x or the padding
        before it. Default False.

    Raises
    ------
    ArgumentError
        For arguments.
    DtypeError
        When called on x that is not float32.
    ShapeError
        When called on x of another rank, or smaller than a window.
    """

    _rank: int

    def __init__(self, kernel_size: Ints, stride: Ints | None, padding: Ints, ceil_mode: bool) -> None:
        super().__init__()
        owner, n = type(self).__name__, self._rank
        self.kernel_size = ntuple(owner, "kernel_size", kernel_size, n, 1)
        self.stride = ntuple(owner, "stride", kernel_size if stride is None else stride, n, 1)
        self.padding = ntuple(owner, "padding", padding, n, 0)
        self.ceil_mode = bool(ceil_mode)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size)):
            raise ArgumentError(
                f"{owner}: padding={self.padding} must be at most half of kernel_size={self.kernel_size}"
            )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _MaxPool(_Pool):
    """A NaN wins over every number; padding never wins. Of W elements of x in a dimension, the result has
    floor((W + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Parameters
    ----------
    dilation : int or tuple of int
        Distance of neighbouring elements of a window. Default 1.
    return_indices : bool
        True also gives where each element was found: a pair of the result and int64 of the same shape,
        counted over the spatial dimensions of one channel. Default False.
    """

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.return_indices = bool(return_indices)
        self.dilation = ntuple(type(self).__name__, "dilation", dilation, self._rank, 1)

    def forward(self, x: Any) -> Any:
        windows: dict[str, Any] = dict(
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            name=self.layer_name,
        )
        if not self.return_indices:
            return ops.max_pool(of_rank(self, x, self._rank), **windows)
        y, places = ops.max_pool_indices(of_rank(self, x, self._rank), **windows)  # counted over all of x
        plane = np.asarray(math.prod(x.shape[2:]), np.int64)
        return y, ops.mod(places, x.graph.constant(plane))


class _AvgPool(_Pool):
    """Of W elements of x in a dimension, the result has floor((W + 2 * padding - kernel_size) / stride) + 1.

    Parameters
    ----------
    count_include_pad : bool
        Counts padding as zeros (default); False: the mean is that of the elements of x alone.
    divisor_override : None
        Accepted for compatibility: only None.

    Raises
    ------
    UnsupportedError
        For a divisor_override.
    """

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        if divisor_override is not None:
            raise UnsupportedError(f"{type(self).__name__}: divisor_override is not offered")
        self.count_include_pad = bool(count_include_pad)

    def forward(self, x: Any) -> Any:
        return ops.avg_pool(
            of_rank(self, x, self._rank),
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
            name=self.layer_name,
        )


class _AdaptivePool(Layer):
    """Of W elements in a dimension and Q in the result, window i goes from floor(i * W / Q) to, without it,
    ceil((i + 1) * W / Q); windows may overlap. As torch.nn's layer of this name; float32.

    Parameters
    ----------
    output_size : int, None, or tuple of them
        Spatial size of the result, a number for each dimension or one for all. None keeps the size of x.

    Raises
    ------
    ArgumentError
        For an output_size that is below 1 or has another number of dimensions.
    DtypeError
        When called on x that is not float32.
    ShapeError
        When called on x of another rank.
    """

    _rank: int
    _op: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * self._rank
        ntuple(type(self).__name__, "output_size", [1 if s is None else s for s in sizes], self._rank, 1)
        self.output_size = sizes

    def forward(self, x: Any) -> Any:
        spatial = tuple(of_rank(self, x, self._rank).shape)[2:]
        size = [have if want is None else want for want, have in zip(self.output_size, spatial)]
        return getattr(ops, self._op)(x, output_size=size, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class MaxPool1d(_MaxPool):
    """Largest element of each window: x [N, C, W] -> [N, C, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8))
    >>> clcnn.nn.MaxPool1d(2)(x).shape
    (1, 3, 4)
    """

    _rank = 1


class MaxPool2d(_MaxPool):
    """Largest element of each window: x [N, C, H, W] -> [N, C, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8))
    >>> clcnn.nn.MaxPool2d(2)(x).shape
    (1, 3, 4, 4)
    """

    _rank = 2


class MaxPool3d(_MaxPool):
    """Largest element of each window: x [N, C, D, H, W] -> [N, C, O, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8, 8))
    >>> clcnn.nn.MaxPool3d((1, 2, 2))(x).shape
    (1, 3, 8, 4, 4)
    """

    _rank = 3


class AvgPool1d(_AvgPool):
    """Mean of each window: x [N, C, W] -> [N, C, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8))
    >>> clcnn.nn.AvgPool1d(3, stride=2, padding=1)(x).shape
    (1, 3, 4)
    """

    _rank = 1


class AvgPool2d(_AvgPool):
    """Mean of each window: x [N, C, H, W] -> [N, C, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8))
    >>> clcnn.nn.AvgPool2d(3, stride=2, padding=1)(x).shape
    (1, 3, 4, 4)
    """

    _rank = 2


class AvgPool3d(_AvgPool):
    """Mean of each window: x [N, C, D, H, W] -> [N, C, O, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8, 8))
    >>> clcnn.nn.AvgPool3d(3, stride=2, padding=1)(x).shape
    (1, 3, 4, 4, 4)
    """

    _rank = 3


class AdaptiveAvgPool1d(_AdaptivePool):
    """Mean of windows that give a result of `output_size`: x [N, C, W] -> [N, C, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8))
    >>> clcnn.nn.AdaptiveAvgPool1d(1)(x).shape
    (1, 3, 1)
    """

    _rank, _op = 1, "adaptive_avg_pool"


class AdaptiveAvgPool2d(_AdaptivePool):
    """Mean of windows that give a result of `output_size`: x [N, C, H, W] -> [N, C, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8))
    >>> clcnn.nn.AdaptiveAvgPool2d((None, 1))(x).shape
    (1, 3, 8, 1)
    """

    _rank, _op = 2, "adaptive_avg_pool"


class AdaptiveAvgPool3d(_AdaptivePool):
    """Mean of windows that give a result of `output_size`: x [N, C, D, H, W] -> [N, C, O, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8, 8))
    >>> clcnn.nn.AdaptiveAvgPool3d(1)(x).shape
    (1, 3, 1, 1, 1)
    """

    _rank, _op = 3, "adaptive_avg_pool"


class AdaptiveMaxPool1d(_AdaptivePool):
    """Largest element of windows that give a result of `output_size`: x [N, C, W] -> [N, C, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8))
    >>> clcnn.nn.AdaptiveMaxPool1d(2)(x).shape
    (1, 3, 2)
    """

    _rank, _op = 1, "adaptive_max_pool"


class AdaptiveMaxPool2d(_AdaptivePool):
    """Largest element of windows that give a result of `output_size`: x [N, C, H, W] -> [N, C, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8))
    >>> clcnn.nn.AdaptiveMaxPool2d(2)(x).shape
    (1, 3, 2, 2)
    """

    _rank, _op = 2, "adaptive_max_pool"


class AdaptiveMaxPool3d(_AdaptivePool):
    """Largest element of windows that give a result of `output_size`: x [N, C, D, H, W] -> [N, C, O, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8, 8))
    >>> clcnn.nn.AdaptiveMaxPool3d(2)(x).shape
    (1, 3, 2, 2, 2)
    """

    _rank, _op = 3, "adaptive_max_pool"


class _LPPool(_Pool):
    """The p-th root of the sum of |x|^p, p = norm_type. PyTorch adds up x^p, which is another sum where p is
    odd and x negative. Of W elements of x in a dimension, the result has
    floor((W - kernel_size) / stride) + 1.

    Parameters
    ----------
    norm_type : int
        The power p, at least 1.
    """

    def __init__(
        self, norm_type: int, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, 0, ceil_mode)
        self.norm_type = positive(type(self).__name__, "norm_type", norm_type)

    def forward(self, x: Any) -> Any:
        return ops.lp_pool(
            of_rank(self, x, self._rank),
            kernel_size=self.kernel_size,
            stride=self.stride,
            ceil_mode=self.ceil_mode,
            p=self.norm_type,
            name=self.layer_name,
        )

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, {super().extra_repr()}"


class LPPool1d(_LPPool):
    """p-norm of each window: x [N, C, W] -> [N, C, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8))
    >>> clcnn.nn.LPPool1d(2, 2)(x).shape
    (1, 3, 4)
    """

    _rank = 1


class LPPool2d(_LPPool):
    """p-norm of each window: x [N, C, H, W] -> [N, C, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8))
    >>> clcnn.nn.LPPool2d(2, 2)(x).shape
    (1, 3, 4, 4)
    """

    _rank = 2


class LPPool3d(_LPPool):
    """p-norm of each window: x [N, C, D, H, W] -> [N, C, O, P, Q].

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (1, 3, 8, 8, 8))
    >>> clcnn.nn.LPPool3d(2, 2)(x).shape
    (1, 3, 4, 4, 4)
    """

    _rank = 3
