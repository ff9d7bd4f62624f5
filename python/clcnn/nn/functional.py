"""torch.nn.functional on symbolic values: the same names and arguments, what has weights takes them.

Each function adds what the layer of its name adds; modules remain the home of defaults and checks.

    import clcnn.nn.functional as F

    def forward(self, x):
        return F.max_pool2d(F.relu(self.conv(x)), 2)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

from clcnn.errors import ArgumentError
from clcnn.nn import _docs, activation, padding, pool, shape
from clcnn.nn._args import Ints
from clcnn.nn._losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from clcnn.nn._normalised import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from clcnn.nn._sampled import grid_sample, interpolate
from clcnn.nn._weighted import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    linear,
    prelu,
    scaled_dot_product_attention,
)
from clcnn.nn.module import Layer
from clcnn.value import Value

SHAPE = (1, 4, 8, 8)  # of x in examples


def _of(
    name: str,
    layer: type[Layer],
    args: str = "",
    gives: tuple[int, ...] = SHAPE,
    given: tuple[int, ...] = SHAPE,
) -> Callable[..., Value]:
    """The function of a layer without parameters: F.elu(x, alpha=1.0) for ELU(alpha=1.0)(x). Its example has
    the arguments `args`, and these shapes of x and of the result."""

    def function(input: Value, *args: Any, **kwargs: Any) -> Value:
        return layer(*args, **kwargs)(input)

    first = inspect.Parameter("input", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Value")
    takes = inspect.signature(layer).parameters.values()
    signature = inspect.Signature([first, *takes], return_annotation="Value")
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _docs.of_layer(function, layer, args, given, gives)
    return function


def _pool(name: str, layer: type[pool._Pool | pool._AdaptivePool], args: str) -> Callable[..., Value]:
    """The function of a pooling layer, whose example goes from 8 elements in each dimension to 4."""
    return _of(name, layer, args, (1, 3, *[4] * layer._rank), (1, 3, *[8] * layer._rank))


celu = _of("celu", activation.CELU)
elu = _of("elu", activation.ELU)
gelu = _of("gelu", activation.GELU)
glu = _of("glu", activation.GLU, "dim=1", (1, 2, 8, 8))
hardshrink = _of("hardshrink", activation.Hardshrink)
hardsigmoid = _of("hardsigmoid", activation.Hardsigmoid)
hardswish = _of("hardswish", activation.Hardswish)
hardtanh = _of("hardtanh", activation.Hardtanh)
leaky_relu = _of("leaky_relu", activation.LeakyReLU)
logsigmoid = _of("logsigmoid", activation.LogSigmoid)
mish = _of("mish", activation.Mish)
relu = _of("relu", activation.ReLU)
relu6 = _of("relu6", activation.ReLU6)
selu = _of("selu", activation.SELU)
sigmoid = _of("sigmoid", activation.Sigmoid)
silu = _of("silu", activation.SiLU)
softmin = _of("softmin", activation.Softmin)
softplus = _of("softplus", activation.Softplus)
softshrink = _of("softshrink", activation.Softshrink)
softsign = _of("softsign", activation.Softsign)
tanh = _of("tanh", activation.Tanh)
tanhshrink = _of("tanhshrink", activation.Tanhshrink)
threshold = _of("threshold", activation.Threshold, "0.1, 20.0")

adaptive_avg_pool1d = _pool("adaptive_avg_pool1d", pool.AdaptiveAvgPool1d, "4")
adaptive_avg_pool2d = _pool("adaptive_avg_pool2d", pool.AdaptiveAvgPool2d, "4")
adaptive_avg_pool3d = _pool("adaptive_avg_pool3d", pool.AdaptiveAvgPool3d, "4")
adaptive_max_pool1d = _pool("adaptive_max_pool1d", pool.AdaptiveMaxPool1d, "4")
adaptive_max_pool2d = _pool("adaptive_max_pool2d", pool.AdaptiveMaxPool2d, "4")
adaptive_max_pool3d = _pool("adaptive_max_pool3d", pool.AdaptiveMaxPool3d, "4")
avg_pool1d = _pool("avg_pool1d", pool.AvgPool1d, "2")
avg_pool2d = _pool("avg_pool2d", pool.AvgPool2d, "2")
avg_pool3d = _pool("avg_pool3d", pool.AvgPool3d, "2")
lp_pool1d = _pool("lp_pool1d", pool.LPPool1d, "2, 2")
lp_pool2d = _pool("lp_pool2d", pool.LPPool2d, "2, 2")
lp_pool3d = _pool("lp_pool3d", pool.LPPool3d, "2, 2")

channel_shuffle = _of("channel_shuffle", shape.ChannelShuffle, "2")
pixel_shuffle = _of("pixel_shuffle", shape.PixelShuffle, "2", (1, 1, 16, 16))
pixel_unshuffle = _of("pixel_unshuffle", shape.PixelUnshuffle, "2", (1, 16, 4, 4))


def softmax(input: Value, dim: int = -1) -> Value:
    """exp(x) / sum(exp(x)) along dim: x [...] -> the same shape.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    dim : int
        The dimension to sum over, negative from the end. Default -1, the last.

    Returns
    -------
    Value
        The probabilities, float32.

    Raises
    ------
    DtypeError
        For x that is not float32.
    ShapeError
        For a dim that x does not have.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (2, 10))
    >>> F.softmax(x, dim=1).shape
    (2, 10)
    """
    return input.softmax(dim)


def log_softmax(input: Value, dim: int = -1) -> Value:
    """log(softmax(x)) along dim, x - log(sum(exp(x))): x [...] -> the same shape.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    dim : int
        The dimension to sum over, negative from the end. Default -1, the last.

    Returns
    -------
    Value
        The logarithms of the probabilities, float32.

    Raises
    ------
    DtypeError
        For x that is not float32.
    ShapeError
        For a dim that x does not have.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (2, 10))
    >>> F.log_softmax(x, dim=1).shape
    (2, 10)
    """
    return input.log_softmax(dim)


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
    sizes = (1, 3, *[8] * layer._rank), (1, 3, *[4] * layer._rank)
    function.__doc__ = _docs.of_layer(function, layer, "2", *sizes)
    return function


max_pool1d = _max_pool(pool.MaxPool1d)
max_pool2d = _max_pool(pool.MaxPool2d)
max_pool3d = _max_pool(pool.MaxPool3d)


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
    """x with elements added around its last one to three dimensions.

    Parameters
    ----------
    input : Value
        x, of any dtype, symbolic in a graph.
    pad : sequence of int
        (left, right[, top, bottom[, front, back]]): how many elements to add to the last dimension, the one
        before it, and so on; negative numbers crop.
    mode : {"constant", "reflect", "replicate", "circular"}
        What is added: `value`; elements mirrored at the outermost ones; the outermost elements; those of the
        other end.
    value : float, optional
        Of mode "constant", 0 where not given; other modes take none.

    Returns
    -------
    Value
        x with its new size.

    Raises
    ------
    ArgumentError
        For another mode, a pad without 2, 4 or 6 numbers, and a value for another mode than "constant".
    ShapeError
        For a pad that leaves nothing, or that has more dimensions than x.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.pad(x, (1, 1, 2, 2), "reflect").shape
    (1, 4, 12, 10)
    """
    if mode not in _PADS:
        raise ArgumentError(f"pad: mode={mode!r} is none of {', '.join(map(repr, _PADS))}")
    if len(pad) not in (2, 4, 6):
        raise ArgumentError(f"pad: expected 2, 4 or 6 numbers, got {list(pad)}")
    if value is not None and mode != "constant":
        raise ArgumentError(f"pad: a value is for mode='constant', not for mode={mode!r}")
    layer = _PADS[mode][len(pad) // 2 - 1]
    made: Layer = layer(tuple(pad)) if value is None else layer(tuple(pad), value)  # type: ignore[call-arg]
    return made(input)


def dropout(input: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    """x with each element set to 0 with probability p, the others divided by 1 - p, in a training step.

    x itself with training=False, and in plans of clcnn.compile(), which are for inference. Source: Srivastava
    et al. 2014, section 10.

    Parameters
    ----------
    input : Value
        x, symbolic in a graph.
    p : float
        Probability, from 0 to 1. Default 0.5.
    training : bool
        False never drops anything; pass `self.training` of a module. Default True.
    inplace : bool
        Accepted for compatibility, changes nothing.

    Returns
    -------
    Value
        Of the shape of x.

    Raises
    ------
    ArgumentError
        For a p outside 0 to 1.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.dropout(x, 0.1).shape
    (1, 4, 8, 8)
    """
    layer = shape.Dropout(p)
    return layer.train(training)(input)  # type: ignore[no-any-return]


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "elu",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]
