"""Layers that move or keep data: flatten, padding, resizing, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clcnn import _arguments, ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn._args import Ints, ntuple
from clcnn.nn.module import Module


class Identity(Module):
    """y = x; any arguments are accepted, as in PyTorch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return ops.identity(x, name=self.layer_name)


class Dropout(Module):
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


class Flatten(Module):
    """Merges dimensions start_dim..end_dim into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = _arguments.whole(start_dim, "Flatten: start_dim")
        self.end_dim = _arguments.whole(end_dim, "Flatten: end_dim")

    def forward(self, x: Any) -> Any:
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
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


class _ConstantPad(Module):
    """Pads the last dimensions: (left, right[, top, bottom[, front, back]]), or one int for all. Negative
    values crop."""

    _rank: int

    def __init__(self, padding: Ints, value: float = 0.0) -> None:
        super().__init__()
        limit = -(2**31)
        self.padding = ntuple(type(self).__name__, "padding", padding, 2 * self._rank, limit)
        self.value = float(value)

    def forward(self, x: Any) -> Any:
        keep = len(x.shape) - self._rank
        if keep < 0:
            raise ShapeError(
                f"{type(self).__name__} {self.layer_name or ''}: input {list(x.shape)} has too few dimensions"
            )
        begins = [0] * keep + list(self.padding[0::2])[::-1]
        ends = [0] * keep + list(self.padding[1::2])[::-1]
        return ops.pad(x, pads=begins + ends, value=self.value, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension."""

    _rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions."""

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions."""

    _rank = 3


class ZeroPad1d(ConstantPad1d):
    """ConstantPad1d with 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)


class ZeroPad2d(ConstantPad2d):
    """ConstantPad2d with 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)


class ZeroPad3d(ConstantPad3d):
    """ConstantPad3d with 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)


_UPSAMPLE_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}


class Upsample(Module):
    """Resizes the spatial dimensions of x [N, C, *spatial] to `size`, or by `scale_factor`.

    mode "nearest", or "linear" / "bilinear" / "trilinear" with PyTorch's align_corners.
    """

    def __init__(
        self,
        size: Ints | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise ArgumentError("Upsample: give either size or scale_factor")
        if mode not in _UPSAMPLE_MODES:
            raise ArgumentError(f"Upsample: mode={mode!r} must be one of {sorted(_UPSAMPLE_MODES)}")
        if mode == "nearest" and align_corners is not None:
            raise ArgumentError("Upsample: align_corners is only for linear modes")
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, x: Any) -> Any:
        n = len(x.shape) - 2
        attrs: dict[str, Any] = {"mode": _UPSAMPLE_MODES[self.mode]}
        if self.size is not None:
            attrs["size"] = ntuple("Upsample", "size", self.size, n, 1)
        else:
            factor: Any = self.scale_factor
            attrs["scales"] = [float(f) for f in (factor if isinstance(factor, Sequence) else [factor] * n)]
        if self.mode == "nearest":  # PyTorch's "nearest" is floor(i / scale)
            attrs.update(coordinates="asymmetric", nearest_rounding="floor")
        else:
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
