"""Pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.nn._args import Ints, ntuple, positive
from clcnn.nn.module import Layer


class _Pool(Layer):
    """Windows of kernel_size, `stride` apart (default: kernel_size), over the spatial dimensions of x [N, C,
    *spatial]."""

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
    """Largest element of each window; NaN wins. Padding never wins.

    With return_indices=True also where it was found, int64, counted over the spatial dimensions of its map.
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
            return ops.max_pool(x, **windows)
        y, places = ops.max_pool_indices(x, **windows)  # counted over all of x
        plane = np.asarray(math.prod(x.shape[2:]), np.int64)
        return y, ops.mod(places, x.graph.constant(plane))


class _AvgPool(_Pool):
    """Mean of each window; count_include_pad counts padding as zeros."""

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
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
            name=self.layer_name,
        )


class _AdaptivePool(Layer):
    """Windows chosen so that the output has `output_size`; None keeps a dimension."""

    _rank: int
    _op: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * self._rank
        ntuple(type(self).__name__, "output_size", [1 if s is None else s for s in sizes], self._rank, 1)
        self.output_size = sizes

    def forward(self, x: Any) -> Any:
        spatial = tuple(x.shape)[2:]
        if len(spatial) != self._rank:
            raise self.misfit(x, f"must have rank {self._rank + 2}")
        size = [have if want is None else want for want, have in zip(self.output_size, spatial)]
        return getattr(ops, self._op)(x, output_size=size, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class MaxPool1d(_MaxPool):
    """x [N, C, W]."""

    _rank = 1


class MaxPool2d(_MaxPool):
    """x [N, C, H, W]."""

    _rank = 2


class MaxPool3d(_MaxPool):
    """x [N, C, D, H, W]."""

    _rank = 3


class AvgPool1d(_AvgPool):
    """x [N, C, W]."""

    _rank = 1


class AvgPool2d(_AvgPool):
    """x [N, C, H, W]."""

    _rank = 2


class AvgPool3d(_AvgPool):
    """x [N, C, D, H, W]."""

    _rank = 3


class AdaptiveAvgPool1d(_AdaptivePool):
    """x [N, C, W]."""

    _rank, _op = 1, "adaptive_avg_pool"


class AdaptiveAvgPool2d(_AdaptivePool):
    """x [N, C, H, W]."""

    _rank, _op = 2, "adaptive_avg_pool"


class AdaptiveAvgPool3d(_AdaptivePool):
    """x [N, C, D, H, W]."""

    _rank, _op = 3, "adaptive_avg_pool"


class AdaptiveMaxPool1d(_AdaptivePool):
    """x [N, C, W]."""

    _rank, _op = 1, "adaptive_max_pool"


class AdaptiveMaxPool2d(_AdaptivePool):
    """x [N, C, H, W]."""

    _rank, _op = 2, "adaptive_max_pool"


class AdaptiveMaxPool3d(_AdaptivePool):
    """x [N, C, D, H, W]."""

    _rank, _op = 3, "adaptive_max_pool"


class _LPPool(_Pool):
    """The p-th root of the sum of |x|^p over each window, p = norm_type; PyTorch adds up x^p, which
    is another sum where p is odd and x negative."""

    def __init__(
        self, norm_type: int, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, 0, ceil_mode)
        self.norm_type = positive(type(self).__name__, "norm_type", norm_type)

    def forward(self, x: Any) -> Any:
        return ops.lp_pool(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            ceil_mode=self.ceil_mode,
            p=self.norm_type,
            name=self.layer_name,
        )

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, {super().extra_repr()}"


class LPPool1d(_LPPool):
    """x [N, C, W]."""

    _rank = 1


class LPPool2d(_LPPool):
    """x [N, C, H, W]."""

    _rank = 2


class LPPool3d(_LPPool):
    """x [N, C, D, H, W]."""

    _rank = 3
