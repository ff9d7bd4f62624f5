"""torch.nn.functional on symbolic values: the same names and arguments, what has weights takes them.

Each function adds what the layer of its name adds; modules remain the home of defaults and checks.

    import clcnn.nn.functional as F

    def forward(self, x):
        return F.max_pool2d(F.relu(self.conv(x)), 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn import activation, padding, pool, shape
from clcnn.nn._args import Ints, ntuple
from clcnn.nn.module import Layer
from clcnn.value import Value


def _of(layer: type[Layer]) -> Callable[..., Value]:
    """The function of a layer without parameters: F.elu(x, alpha=1.0) for ELU(alpha=1.0)(x)."""

    def function(input: Value, *args: Any, **kwargs: Any) -> Value:
        return layer(*args, **kwargs)(input)

    function.__name__ = function.__qualname__ = layer.__name__.lower()
    function.__doc__ = f"What nn.{layer.__name__}(...) does to `input`: {layer.__doc__}"
    return function


celu = _of(activation.CELU)
elu = _of(activation.ELU)
gelu = _of(activation.GELU)
glu = _of(activation.GLU)
hardshrink = _of(activation.Hardshrink)
hardsigmoid = _of(activation.Hardsigmoid)
hardswish = _of(activation.Hardswish)
hardtanh = _of(activation.Hardtanh)
leaky_relu = _of(activation.LeakyReLU)
logsigmoid = _of(activation.LogSigmoid)
mish = _of(activation.Mish)
relu = _of(activation.ReLU)
relu6 = _of(activation.ReLU6)
selu = _of(activation.SELU)
sigmoid = _of(activation.Sigmoid)
silu = _of(activation.SiLU)
softmin = _of(activation.Softmin)
softplus = _of(activation.Softplus)
softshrink = _of(activation.Softshrink)
softsign = _of(activation.Softsign)
tanh = _of(activation.Tanh)
tanhshrink = _of(activation.Tanhshrink)
threshold = _of(activation.Threshold)

adaptive_avg_pool1d = _of(pool.AdaptiveAvgPool1d)
adaptive_avg_pool2d = _of(pool.AdaptiveAvgPool2d)
adaptive_avg_pool3d = _of(pool.AdaptiveAvgPool3d)
adaptive_max_pool1d = _of(pool.AdaptiveMaxPool1d)
adaptive_max_pool2d = _of(pool.AdaptiveMaxPool2d)
adaptive_max_pool3d = _of(pool.AdaptiveMaxPool3d)
avg_pool1d = _of(pool.AvgPool1d)
avg_pool2d = _of(pool.AvgPool2d)
avg_pool3d = _of(pool.AvgPool3d)
lp_pool1d = _of(pool.LPPool1d)
lp_pool2d = _of(pool.LPPool2d)
lp_pool3d = _of(pool.LPPool3d)

channel_shuffle = _of(shape.ChannelShuffle)
pixel_shuffle = _of(shape.PixelShuffle)
pixel_unshuffle = _of(shape.PixelUnshuffle)


def softmax(input: Value, dim: int = -1) -> Value:
    """exp(x) / sum(exp(x)) along dim."""
    return input.softmax(dim)


def log_softmax(input: Value, dim: int = -1) -> Value:
    """log(softmax(x)) along dim."""
    return input.log_softmax(dim)


def prelu(input: Value, weight: Any) -> Value:
    """x where x >= 0, weight * x elsewhere; weight [C], or [1] for all channels."""
    return ops.prelu(input, weight)


# ---- pooling: torch's order of arguments is another one than its modules' ----


def _max_pool(layer: type[pool._MaxPool]) -> Callable[..., Value]:
    def function(
        input: Value,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Value:
        return layer(kernel_size, stride, padding, dilation, return_indices, ceil_mode)(input)

    function.__name__ = function.__qualname__ = f"max_pool{layer._rank}d"
    function.__doc__ = f"What nn.{layer.__name__}(...) does to `input`: {layer.__doc__}"
    return function


max_pool1d = _max_pool(pool.MaxPool1d)
max_pool2d = _max_pool(pool.MaxPool2d)
max_pool3d = _max_pool(pool.MaxPool3d)


# ---- layers whose weights are arguments ----


def linear(input: Value, weight: Any, bias: Any = None) -> Value:
    """x W^T + b: x [..., in], weight [out, in], bias [out]."""
    return ops.linear(input, weight, bias)


def _conv(rank: int) -> Callable[..., Value]:
    def function(
        input: Value,
        weight: Any,
        bias: Any = None,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
    ) -> Value:
        owner = f"conv{rank}d"
        sizes = _rank(owner, input, weight, rank)
        far = ntuple(owner, "dilation", dilation, rank, 1)
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(far, sizes)]
            pads = [t // 2 for t in total] + [t - t // 2 for t in total]
            if any(s != 1 for s in ntuple(owner, "stride", stride, rank, 1)):
                raise ArgumentError(f"{owner}: padding='same' needs stride 1, not {stride}")
        elif isinstance(padding, str) and padding != "valid":
            raise ArgumentError(f"{owner}: padding={padding!r} must be 'same', 'valid' or ints")
        else:
            pads = list(ntuple(owner, "padding", 0 if padding == "valid" else padding, rank, 0))
        steps = ntuple(owner, "stride", stride, rank, 1)
        return ops.conv(input, weight, bias, stride=steps, padding=pads, dilation=far, groups=groups)

    function.__name__ = function.__qualname__ = f"conv{rank}d"
    function.__doc__ = f"Convolution in {rank} dimensions: weight [out, in/groups, *kernel], bias [out]."
    return function


def _conv_transpose(rank: int) -> Callable[..., Value]:
    def function(
        input: Value,
        weight: Any,
        bias: Any = None,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
    ) -> Value:
        owner = f"conv_transpose{rank}d"
        _rank(owner, input, weight, rank)
        given = {"stride": (stride, 1), "padding": (padding, 0), "output_padding": (output_padding, 0)}
        given["dilation"] = (dilation, 1)
        attrs: dict[str, Any] = {
            name: ntuple(owner, name, x, rank, least) for name, (x, least) in given.items()
        }
        return ops.conv_transpose(input, weight, bias, groups=groups, **attrs)

    function.__name__ = function.__qualname__ = f"conv_transpose{rank}d"
    function.__doc__ = f"Transposed convolution in {rank} dimensions: weight [in, out/groups, *kernel]."
    return function


def _rank(owner: str, x: Value, weight: Any, rank: int) -> tuple[int, ...]:
    """The kernel's size. Raises ShapeError for another rank."""
    have = tuple(weight.shape)
    if len(have) != rank + 2 or x.ndim != rank + 2:
        raise ShapeError(f"{owner}: input {list(x.shape)} and weight {list(have)} must have rank {rank + 2}")
    return have[2:]


conv1d, conv2d, conv3d = _conv(1), _conv(2), _conv(3)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _conv_transpose(1),
    _conv_transpose(2),
    _conv_transpose(3),
)


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
    """(x - running_mean) / sqrt(running_var + eps) * weight + bias per channel. Raises ArgumentError for
    training=True: nn.BatchNorm2d keeps running statistics."""
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
    input: Value, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Value:
    """nn.LayerNorm with its weights as arguments."""
    _check_last("layer_norm", input, normalized_shape)
    return ops.layer_norm(input, weight, bias, dim=-len(normalized_shape), eps=eps)


def rms_norm(
    input: Value, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Value:
    """nn.RMSNorm with its weight as an argument."""
    _check_last("rms_norm", input, normalized_shape)
    least = float(np.finfo(np.float32).eps) if eps is None else eps
    return ops.rms_norm(input, weight, dim=-len(normalized_shape), eps=least)


def _check_last(owner: str, x: Value, wanted: Sequence[int]) -> None:
    if not wanted or tuple(x.shape[-len(wanted) :]) != tuple(wanted):
        raise ShapeError(f"{owner}: input {list(x.shape)} must end in {list(wanted)}")


def group_norm(
    input: Value, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Value:
    """nn.GroupNorm with its weights as arguments."""
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
    """nn.InstanceNorm2d with its weights as arguments, by the input's own statistics."""
    if not use_input_stats or running_mean is not None or running_var is not None:
        raise ArgumentError("instance_norm: running statistics are not offered")
    return ops.instance_norm(input, weight, bias, eps=eps)


def local_response_norm(
    input: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """nn.LocalResponseNorm."""
    return ops.local_response_norm(input, size=size, alpha=alpha, beta=beta, k=k)


def normalize(input: Value, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Value:
    """x / max(its 2-norm along dim, eps). Raises ArgumentError for another p."""
    if p != 2:
        raise ArgumentError(f"normalize: p={p!r}: only the norm p=2 is offered")
    return ops.l2_norm(input, dim=dim, eps=eps)


def scaled_dot_product_attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Value:
    """softmax(scale * q k^T + attn_mask) v; scale: 1 / sqrt(D) where None. dropout_p must be 0."""
    if dropout_p:
        raise ArgumentError(f"scaled_dot_product_attention: dropout_p={dropout_p} is not offered")
    return ops.scaled_dot_product_attention(
        query, key, value, attn_mask, scale=1 / math.sqrt(query.shape[-1]) if scale is None else scale,
        is_causal=is_causal,
    )  # fmt: skip


# ---- shapes ----

_PADS: dict[str, tuple[type[padding._Pad], ...]] = {
    "constant": (padding.ConstantPad1d, padding.ConstantPad2d, padding.ConstantPad3d),
    "reflect": (padding.ReflectionPad1d, padding.ReflectionPad2d, padding.ReflectionPad3d),
    "replicate": (padding.ReplicationPad1d, padding.ReplicationPad2d, padding.ReplicationPad3d),
    "circular": (padding.CircularPad1d, padding.CircularPad2d, padding.CircularPad3d),
}


def pad(
    input: Value,
    pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
    value: float | None = None,
) -> Value:
    """x with elements around its last dimensions: (left, right[, top, bottom[, front, back]])."""
    if mode not in _PADS:
        raise ArgumentError(f"pad: mode={mode!r} is none of {', '.join(map(repr, _PADS))}")
    if len(pad) not in (2, 4, 6):
        raise ArgumentError(f"pad: expected 2, 4 or 6 numbers, got {list(pad)}")
    layer = _PADS[mode][len(pad) // 2 - 1]
    made: Layer = layer(tuple(pad)) if value is None else layer(tuple(pad), value)  # type: ignore[call-arg]
    return made(input)


def interpolate(
    input: Value,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Value:
    """nn.Upsample; antialias must be False."""
    if antialias:
        raise ArgumentError("interpolate: antialias=True is not offered; see ops.resize(antialias=True)")
    return shape.Upsample(size, scale_factor, mode, align_corners, recompute_scale_factor)(input)


def dropout(input: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    """nn.Dropout; with training=False, and at inference, x itself."""
    layer = shape.Dropout(p)
    return layer.train(training)(input)  # type: ignore[no-any-return]


def grid_sample(
    input: Value,
    grid: Any,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value:
    """x [N, C, H, W] at the places of grid [N, P, Q, 2], which go from -1 to 1."""
    words: dict[str, Any] = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    return ops.grid_sample(
        input, grid, mode=words[mode], padding_mode=padding_mode, align_corners=align_corners
    )


__all__ = sorted(
    name
    for name, thing in globals().items()
    if not name.startswith("_") and getattr(thing, "__module__", "") == __name__
)  # noqa: PLE0605
