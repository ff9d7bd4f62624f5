"""Layers that move or keep data: flatten, shuffles, resizing, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clcnn import _arguments, ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn._args import Ints, ntuple, positive
from clcnn.nn.module import Layer


class Identity(Layer):
    """y = x, of any shape.

    Parameters
    ----------
    *args, **kwargs
        Accepted as in PyTorch, change nothing.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Identity(), (3,))([1, 2, 3]))
    [1. 2. 3.]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return ops.identity(x, name=self.layer_name)


class Dropout(Layer):
    """Passes x on at inference; in training sets elements to 0 at random: x of any shape -> the same shape.

    In a trainer's step, unless eval() was called, each element becomes 0 with probability p, and the others
    are divided by 1 - p. Source: Srivastava et al. 2014, section 10.

    Parameters
    ----------
    p : float
        The probability of 0, in [0, 1].
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Raises
    ------
    ArgumentError
        Where p is outside [0, 1].

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Dropout(0.2), (3,))([1, 2, 3]))
    [1. 2. 3.]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"{type(self).__name__}: p={p} must lie in [0, 1]")
        self.p = float(p)

    def forward(self, x: Any) -> Any:
        if self.training and x.graph.training:
            return self._train(x)
        return ops.dropout(x, p=self.p, name=self.layer_name)

    def _train(self, x: Any) -> Any:
        return x.graph.dropout(x, self.p, self.layer_name)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _ChannelDropout(Dropout):
    """In a trainer's step, unless eval() was called, each channel of each item becomes 0 with probability p,
    and the others are divided by 1 - p. At inference x is passed on. Source: Tompson et al. 2015
    (SpatialDropout).

    Parameters
    ----------
    p : float
        The probability of 0, in [0, 1].
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.

    Raises
    ------
    ArgumentError
        Where p is outside [0, 1].
    """

    def _train(self, x: Any) -> Any:
        channels = x.graph.constant(np.ones((*x.shape[:2], *(1 for _ in x.shape[2:])), np.float32))
        return x * x.graph.dropout(channels, self.p, self.layer_name)


class Dropout1d(_ChannelDropout):
    """Drops whole channels of x [N, C, W] in training.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Dropout1d(0.2)
    Dropout1d(p=0.2)
    """


class Dropout2d(_ChannelDropout):
    """Drops whole channels of x [N, C, H, W] in training.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Dropout2d(0.2)
    Dropout2d(p=0.2)
    """


class Dropout3d(_ChannelDropout):
    """Drops whole channels of x [N, C, D, H, W] in training.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Dropout3d(0.2)
    Dropout3d(p=0.2)
    """


class Flatten(Layer):
    """Merges neighbouring dimensions into one: x [N, C, H, W] -> [N, C * H * W] by default.

    Parameters
    ----------
    start_dim, end_dim : int
        The first and the last dimension that are merged; negative ones count from the end.

    Raises
    ------
    DtypeError
        Where an argument is no whole number.
    ShapeError
        When called on x without these dimensions.
    ArgumentError
        When called on x where start_dim comes after end_dim.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Flatten(), (1, 2, 1, 2))([[[[1, 2]], [[3, 4]]]]))
    [[1. 2. 3. 4.]]
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = _arguments.whole(start_dim, "Flatten: start_dim")
        self.end_dim = _arguments.whole(end_dim, "Flatten: end_dim")

    def forward(self, x: Any) -> Any:
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Layer):
    """Splits a dimension into several: x [..., n, ...] -> [..., *unflattened_size, ...].

    Parameters
    ----------
    dim : int
        The dimension that is split; negative ones count from the end.
    unflattened_size : sequence of int
        The new sizes, whose product is n. One of them may be -1: what is left.

    Raises
    ------
    ShapeError
        When called on x without this dimension, or of another n.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Unflatten(1, (2, 2)), (1, 4))([[1, 2, 3, 4]]))
    [[[1. 2.]
      [3. 4.]]]
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = int(dim), tuple(int(n) for n in unflattened_size)

    def forward(self, x: Any) -> Any:
        shape = list(x.shape)
        dim = self.dim + len(shape) if self.dim < 0 else self.dim
        if not 0 <= dim < len(shape):
            raise ShapeError(f"Unflatten {self.layer_name or ''}: dim={self.dim} is outside input {shape}")
        return ops.reshape(
            x, shape=[*shape[:dim], *self.unflattened_size, *shape[dim + 1 :]], name=self.layer_name
        )

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Layer):
    """Turns blocks of channels into blocks of pixels: x [N, C * r^2, H, W] -> [N, C, H * r, W * r].

    r is upscale_factor. Source: Shi et al. 2016.

    Parameters
    ----------
    upscale_factor : int
        How many times as high and as wide the result is.

    Raises
    ------
    ArgumentError
        Where upscale_factor is no int of at least 1.
    ShapeError
        When called on x of another rank, or whose channels r^2 does not divide.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.PixelShuffle(2), (1, 4, 1, 1))([[[[1]], [[2]], [[3]], [[4]]]])[0, 0])
    [[1. 2.]
     [3. 4.]]
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = positive("PixelShuffle", "upscale_factor", upscale_factor)

    def forward(self, x: Any) -> Any:
        r = self.upscale_factor
        if x.ndim != 4 or x.shape[1] % r**2:
            raise self.misfit(x, f"must be [N, C * {r}^2, H, W]")
        n, c, h, w = x.shape
        apart = x.reshape(n, c // r**2, r, r, h, w).permute(0, 1, 4, 2, 5, 3)
        return ops.reshape(apart, shape=(n, c // r**2, h * r, w * r), name=self.layer_name)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Layer):
    """Turns blocks of pixels into blocks of channels: x [N, C, H * r, W * r] -> [N, C * r^2, H, W].

    r is downscale_factor. Undoes PixelShuffle.

    Parameters
    ----------
    downscale_factor : int
        How many times lower and narrower the result is.

    Raises
    ------
    ArgumentError
        Where downscale_factor is no int of at least 1.
    ShapeError
        When called on x of another rank, or whose height or width r does not divide.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.PixelUnshuffle(2), (1, 1, 2, 2))([[[[1, 2], [3, 4]]]]).ravel())
    [1. 2. 3. 4.]
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = positive("PixelUnshuffle", "downscale_factor", downscale_factor)

    def forward(self, x: Any) -> Any:
        r = self.downscale_factor
        if x.ndim != 4 or x.shape[2] % r or x.shape[3] % r:
            raise self.misfit(x, f"must be [N, C, H * {r}, W * {r}]")
        n, c, h, w = x.shape
        apart = x.reshape(n, c, h // r, r, w // r, r).permute(0, 1, 3, 5, 2, 4)
        return ops.reshape(apart, shape=(n, c * r**2, h // r, w // r), name=self.layer_name)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Layer):
    """Mixes the channels of groups: x [N, C, ...] -> the same shape.

    The channels, as a matrix of `groups` rows, are transposed. Source: Zhang et al. 2018 (ShuffleNet).

    Parameters
    ----------
    groups : int
        Divides C.

    Raises
    ------
    ArgumentError
        Where groups is no int of at least 1.
    ShapeError
        When called on x of fewer than 3 dimensions, or whose channels groups does not divide.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ChannelShuffle(2), (1, 4, 1))([[[1], [2], [3], [4]]]).ravel())
    [1. 3. 2. 4.]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = positive("ChannelShuffle", "groups", groups)

    def forward(self, x: Any) -> Any:
        if x.ndim < 3 or x.shape[1] % self.groups:
            raise self.misfit(x, f"must be [N, C, ...] with C divisible by groups={self.groups}")
        n, c, *spatial = x.shape
        apart = x.reshape(n, self.groups, c // self.groups, *spatial).transpose(1, 2)
        return ops.reshape(apart, shape=x.shape, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


# How torch's modes are said to ops.resize().
_UPSAMPLE_MODES: dict[str, dict[str, Any]] = {
    "nearest": {"mode": "nearest", "coordinates": "asymmetric", "nearest_rounding": "floor"},
    "nearest-exact": {
        "mode": "nearest",
        "coordinates": "half_pixel",
        "nearest_rounding": "round_prefer_ceil",
    },
    "linear": {"mode": "linear"},
    "bilinear": {"mode": "linear"},
    "trilinear": {"mode": "linear"},
    "bicubic": {"mode": "cubic", "cubic_coeff_a": -0.75},
}


class Upsample(Layer):
    """Resizes the spatial dimensions to `size` or by `scale_factor`: x [N, C, *spatial] -> [N, C, *size].

    Parameters
    ----------
    size : int, or one for each spatial dimension, optional
        The sizes of the result.
    scale_factor : float, or one for each spatial dimension, optional
        How many times as large the result is; a size is rounded down. Either this or size is given.
    mode : {"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"}
        How values between elements are found. The three linear ones are the same, for x of any rank;
        "bicubic" is Keys's cubic convolution with a = -0.75.
    align_corners : bool, optional
        True puts the outermost elements of x and of the result at the same places, otherwise their outer
        edges. Not for the nearest modes.
    recompute_scale_factor : bool, optional
        True takes places from the sizes, not from scale_factor.

    Raises
    ------
    ArgumentError
        For an unknown mode, align_corners with a nearest one, both or neither of size and scale_factor; when
        called, for factors that are not positive, and for other numbers of sizes or factors than x has
        spatial dimensions.
    ShapeError
        When called on x without 1 to 3 spatial dimensions, or where nothing would be left of one.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.Upsample(scale_factor=2), (1, 1, 3))([[[1, 2, 3]]]))
    [[[1. 1. 2. 2. 3. 3.]]]
    >>> print(clcnn.compile(nn.Upsample(5, mode="linear", align_corners=True), (1, 1, 3))([[[1, 2, 3]]]))
    [[[1.  1.5 2.  2.5 3. ]]]
    """

    def __init__(
        self,
        size: Ints | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise ArgumentError("Upsample: give either size or scale_factor")
        if mode not in _UPSAMPLE_MODES:
            raise ArgumentError(f"Upsample: mode={mode!r} must be one of {sorted(_UPSAMPLE_MODES)}")
        if mode.startswith("nearest") and align_corners is not None:
            raise ArgumentError("Upsample: align_corners is only for linear modes and bicubic")
        self.recompute_scale_factor = bool(recompute_scale_factor)
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, x: Any) -> Any:
        n = len(x.shape) - 2
        attrs = dict(_UPSAMPLE_MODES[self.mode])
        if self.size is not None:
            attrs["size"] = ntuple("Upsample", "size", self.size, n, 1)
        else:
            factor: Any = self.scale_factor
            scales = [float(f) for f in (factor if isinstance(factor, Sequence) else [factor] * n)]
            if self.recompute_scale_factor:
                attrs["size"] = [int(size * scale) for size, scale in zip(x.shape[2:], scales)]
            else:
                attrs["scales"] = scales
        if "coordinates" not in attrs:
            attrs["coordinates"] = "align_corners" if self.align_corners else "half_pixel"
        return ops.resize(x, name=self.layer_name, **attrs)

    def extra_repr(self) -> str:
        what = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes to the nearest element: x [N, C, H, W] -> [N, C, P, Q].

    It is Upsample(mode="nearest").

    Parameters
    ----------
    size : int or 2 ints, optional
        (P, Q).
    scale_factor : float or 2 floats, optional
        P / H and Q / W. Either this or size is given.

    Raises
    ------
    ArgumentError
        For both or neither of size and scale_factor; when called, for factors that are not positive.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.UpsamplingNearest2d(scale_factor=2), (1, 1, 1, 2))([[[[1, 2]]]])[0, 0])
    [[1. 1. 2. 2.]
     [1. 1. 2. 2.]]
    """

    def __init__(self, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes by linear interpolation: x [N, C, H, W] -> [N, C, P, Q].

    It is Upsample(mode="bilinear", align_corners=True).

    Parameters
    ----------
    size : int or 2 ints, optional
        (P, Q).
    scale_factor : float or 2 floats, optional
        P / H and Q / W. Either this or size is given.

    Raises
    ------
    ArgumentError
        For both or neither of size and scale_factor; when called, for factors that are not positive.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.UpsamplingBilinear2d((1, 3)), (1, 1, 1, 2))([[[[1, 2]]]])[0, 0])
    [[1.  1.5 2. ]]
    """

    def __init__(self, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
