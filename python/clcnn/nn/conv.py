"""Convolutions, transposed convolutions and Linear, on float32."""

from __future__ import annotations

from typing import Any, Literal

from clcnn import ops
from clcnn.errors import ArgumentError
from clcnn.nn import init
from clcnn.nn._args import Ints, ntuple, positive
from clcnn.nn.module import Layer
from clcnn.nn.parameter import Parameter

PadMode = Literal["constant", "reflect", "edge", "wrap"]


class _ConvNd(Layer):
    """x, the result and the parameters are float32; the parameters start from a uniform distribution between
    -1 / sqrt(fan_in) and 1 / sqrt(fan_in), fan_in being the product of weight.shape[1:], as PyTorch's.

    Parameters
    ----------
    in_channels : int
        C, the channels of x.
    out_channels : int
        K, the channels of the result.
    kernel_size : int or tuple of int
        Size of the kernel; a tuple has a number for each spatial dimension.
    stride : int or tuple of int
        Distance from one place of the kernel to the next. Default 1.
    dilation : int or tuple of int
        Distance of neighbouring elements of the kernel. Default 1.
    groups : int
        Parts of the channels that are computed by themselves; divides in_channels and out_channels.
        groups=in_channels is a depthwise convolution. Default 1.
    bias : bool
        Adds a number for each channel of the result. Default True.

    Raises
    ------
    ArgumentError
        For arguments.
    DtypeError
        When called on x that is not float32.
    ShapeError
        When called on a shape that does not fit.
    """

    _rank: int
    _padding_modes: dict[str, PadMode] = {"zeros": "constant"}  # torch's word: that of ops.pad()

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints | str,
        dilation: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
    ) -> None:
        super().__init__()
        owner, n = type(self).__name__, self._rank
        self.in_channels = positive(owner, "in_channels", in_channels)
        self.out_channels = positive(owner, "out_channels", out_channels)
        self.groups = positive(owner, "groups", groups)
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ArgumentError(f"{owner}: {what}={channels} is not divisible by groups={groups}")
        if padding_mode not in self._padding_modes:
            offered = ", ".join(map(repr, self._padding_modes))
            raise ArgumentError(f"{owner}: padding_mode={padding_mode!r} is none of {offered}")
        self.padding_mode = padding_mode
        self.kernel_size = ntuple(owner, "kernel_size", kernel_size, n, 1)
        self.stride = ntuple(owner, "stride", stride, n, 1)
        self.dilation = ntuple(owner, "dilation", dilation, n, 1)
        self.padding: Any = padding if isinstance(padding, str) else ntuple(owner, "padding", padding, n, 0)
        self._bias = bool(bias)

    def _add_parameters(self, weight_shape: tuple[int, ...]) -> None:
        fan_in = weight_shape[1]
        for k in self.kernel_size:
            fan_in *= k
        self.weight = Parameter(weight_shape, init.fan_in_uniform(fan_in))
        self.register_parameter(
            "bias", Parameter((self.out_channels,), init.fan_in_uniform(fan_in)) if self._bias else None
        )

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        defaults = {
            "padding": (0,) * self._rank,
            "dilation": (1,) * self._rank,
            "groups": 1,
            "padding_mode": "zeros",
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)!r}"
        return text if self._bias else text + ", bias=False"


class _Conv(_ConvNd):
    """y[n, k] = bias[k] + the sum over c of weight[k, c] * x[n, c], `*` being a cross-correlation; weight
    [out_channels, in_channels / groups, *kernel_size], bias [out_channels]. Of W elements of x in a
    dimension, y has floor((W + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Parameters
    ----------
    padding : int, tuple of int, "valid" or "same"
        Elements added at both ends of each spatial dimension. "valid": none. "same": as many as keep the
        size, for stride 1 only; an odd surplus goes to the end, as in PyTorch. Default 0.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        What padding consists of: zeros; elements mirrored at the outermost ones; the outermost elements;
        those of the other end.
    """

    _padding_modes = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        )
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ArgumentError(f"{type(self).__name__}: padding={padding!r} must be 'same', 'valid' or ints")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ArgumentError(f"{type(self).__name__}: padding='same' needs stride 1, not {self.stride}")
        self._add_parameters((out_channels, in_channels // groups, *self.kernel_size))

    def _explicit_padding(self) -> list[int]:
        if self.padding == "valid":
            return [0] * self._rank
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return [t // 2 for t in total] + [t - t // 2 for t in total]
        return list(self.padding)

    def forward(self, x: Any) -> Any:
        padding = self._explicit_padding()
        if self.padding_mode != "zeros" and any(padding):
            both = padding if len(padding) == 2 * self._rank else padding * 2
            pads = [0, 0, *both[: self._rank], 0, 0, *both[self._rank :]]
            x = ops.pad(x, pads=pads, mode=self._padding_modes[self.padding_mode])
            padding = [0] * self._rank
        return ops.conv(
            x,
            self.constant(x.graph, "weight"),
            self.constant(x.graph, "bias"),
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.groups,
            name=self.layer_name,
        )


class Conv1d(_Conv):
    """Convolution: x [N, C, W] -> [N, K, Q]; see torch.nn.Conv1d.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.Conv1d(3, 8, 3, stride=2, padding=1)
    >>> layer.weight.shape
    (8, 3, 3)
    >>> layer(clcnn.Graph().input("x", (1, 3, 8))).shape
    (1, 8, 4)
    """

    _rank = 1


class Conv2d(_Conv):
    """Convolution: x [N, C, H, W] -> [N, K, P, Q]; see torch.nn.Conv2d.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.Conv2d(3, 8, 3, padding="same")
    >>> layer.weight.shape
    (8, 3, 3, 3)
    >>> layer(clcnn.Graph().input("x", (1, 3, 8, 8))).shape
    (1, 8, 8, 8)
    """

    _rank = 2


class Conv3d(_Conv):
    """Convolution: x [N, C, D, H, W] -> [N, K, O, P, Q]; see torch.nn.Conv3d.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.Conv3d(3, 8, 3)
    >>> layer.weight.shape
    (8, 3, 3, 3, 3)
    >>> layer(clcnn.Graph().input("x", (1, 3, 8, 8, 8))).shape
    (1, 8, 6, 6, 6)
    """

    _rank = 3


class _ConvTranspose(_ConvNd):
    """The adjoint of a convolution of the same arguments: each element of x adds a multiple of the kernel to
    the result. weight [in_channels, out_channels / groups, *kernel_size], bias [out_channels]. Of W elements
    of x in a dimension, the result has
    (W - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    Parameters
    ----------
    padding : int or tuple of int
        Elements left out at both ends of each spatial dimension of the result. Default 0.
    output_padding : int or tuple of int
        Elements that the result has more at the end of each dimension; smaller than stride or dilation.
        Default 0.
    padding_mode : {"zeros"}
        Accepted for compatibility.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        )
        if isinstance(padding, str):
            raise ArgumentError(f"{type(self).__name__}: padding={padding!r} must be ints")
        self.output_padding = ntuple(type(self).__name__, "output_padding", output_padding, self._rank, 0)
        self._add_parameters((in_channels, out_channels // groups, *self.kernel_size))

    def forward(self, x: Any) -> Any:
        return ops.conv_transpose(
            x,
            self.constant(x.graph, "weight"),
            self.constant(x.graph, "bias"),
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
            name=self.layer_name,
        )


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution: x [N, C, W] -> [N, K, Q]; see torch.nn.ConvTranspose1d.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.ConvTranspose1d(3, 8, 4, stride=2, padding=1)
    >>> layer.weight.shape
    (3, 8, 4)
    >>> layer(clcnn.Graph().input("x", (1, 3, 8))).shape
    (1, 8, 16)
    """

    _rank = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution: x [N, C, H, W] -> [N, K, P, Q]; see torch.nn.ConvTranspose2d.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.ConvTranspose2d(3, 8, 4, stride=2, padding=1)
    >>> layer.weight.shape
    (3, 8, 4, 4)
    >>> layer(clcnn.Graph().input("x", (1, 3, 8, 8))).shape
    (1, 8, 16, 16)
    """

    _rank = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution: x [N, C, D, H, W] -> [N, K, O, P, Q]; see torch.nn.ConvTranspose3d.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.ConvTranspose3d(3, 8, 4, stride=2, padding=1)
    >>> layer.weight.shape
    (3, 8, 4, 4, 4)
    >>> layer(clcnn.Graph().input("x", (1, 3, 8, 8, 8))).shape
    (1, 8, 16, 16, 16)
    """

    _rank = 3


class Linear(Layer):
    """y = x W^T + b: x [..., in_features] -> [..., out_features]; see torch.nn.Linear.

    weight W [out_features, in_features] and bias b [out_features], float32 as x and y, start from a uniform
    distribution between -1 / sqrt(in_features) and 1 / sqrt(in_features), as PyTorch's.

    Parameters
    ----------
    in_features : int
        Size of the last dimension of x.
    out_features : int
        Size of the last dimension of y.
    bias : bool
        Adds b. Default True.

    Raises
    ------
    ArgumentError
        For sizes below 1.
    DtypeError
        When called on x that is not float32.
    ShapeError
        When called on x that does not end in in_features.

    Examples
    --------
    >>> import clcnn
    >>> layer = clcnn.nn.Linear(8, 5)
    >>> layer.weight.shape
    (5, 8)
    >>> layer(clcnn.Graph().input("x", (2, 7, 8))).shape
    (2, 7, 5)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features = positive("Linear", "in_features", in_features)
        self.out_features = positive("Linear", "out_features", out_features)
        self.weight = Parameter((out_features, in_features), init.fan_in_uniform(in_features))
        self.register_parameter(
            "bias", Parameter((out_features,), init.fan_in_uniform(in_features)) if bias else None
        )

    def forward(self, x: Any) -> Any:
        return ops.linear(
            x, self.constant(x.graph, "weight"), self.constant(x.graph, "bias"), name=self.layer_name
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )
