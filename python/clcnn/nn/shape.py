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
    """y = x; any arguments are accepted, as in PyTorch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return ops.identity(x, name=self.layer_name)


class Dropout(Layer):
    """Passes its input on at inference. In a training step, unless eval() was called, each element becomes
    0 with probability p, and the others are divided by 1 - p. Source: Srivastava et al. 2014, section 10."""

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
    def _train(self, x: Any) -> Any:
        channels = x.graph.constant(np.ones((*x.shape[:2], *(1 for _ in x.shape[2:])), np.float32))
        return x * x.graph.dropout(channels, self.p, self.layer_name)


class Dropout1d(_ChannelDropout):
    """Drops whole channels of x [N, C, W] in a training step."""


class Dropout2d(_ChannelDropout):
    """Drops whole channels of x [N, C, H, W] in a training step."""


class Dropout3d(_ChannelDropout):
    """Drops whole channels of x [N, C, D, H, W] in a training step."""


class Flatten(Layer):
    """Merges dimensions start_dim..end_dim into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = _arguments.whole(start_dim, "Flatten: start_dim")
        self.end_dim = _arguments.whole(end_dim, "Flatten: end_dim")

    def forward(self, x: Any) -> Any:
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Layer):
    """Splits dimension `dim` into `unflattened_size`."""

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
    """x [N, C * r^2, H, W] -> [N, C, H * r, W * r], r = upscale_factor: blocks of channels become blocks of
    pixels. Source: Shi et al. 2016."""

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
    """x [N, C, H * r, W * r] -> [N, C * r^2, H, W], r = downscale_factor: undoes PixelShuffle."""

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
    """The channels of x [N, C, ...] as a matrix of `groups` rows, transposed. Source: Zhang et al. 2018."""

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
    """Resizes the spatial dimensions of x [N, C, *spatial] to `size`, or by `scale_factor`.

    mode: "nearest", "nearest-exact", or "linear" / "bilinear" / "trilinear" / "bicubic", which take
    align_corners. recompute_scale_factor: True takes coordinates from the sizes, not from scale_factor.
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
    """Upsample(mode="nearest")."""

    def __init__(self, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample(mode="bilinear", align_corners=True)."""

    def __init__(self, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
