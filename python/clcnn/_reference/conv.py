"""Convolution, transposed convolution, and what rewrites make of several convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clcnn._reference import elementwise
from clcnn._reference.spatial import begins_ends, padded, per_dim, taps, window_count
from clcnn._reference.spec import FP32, Shape, Spec, Use


def conv_output_shape(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Shape [N,K,*spatial] of the convolution of x[N,C,*spatial] with w[K,C/g,*kernel]."""
    n = len(x_shape) - 2
    begin, end = begins_ends(padding, n)
    spatial = map(
        window_count,
        x_shape[2:],
        w_shape[2:],
        per_dim(stride, n, "stride"),
        begin,
        end,
        per_dim(dilation, n, "dilation"),
    )
    return (x_shape[0], w_shape[0], *spatial)


def conv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> np.ndarray:
    """Cross-correlation as torch.nn.functional.convNd, one matrix product for every kernel tap."""
    n = x.ndim - 2
    batch, channels = x.shape[:2]
    if w.ndim != x.ndim or channels != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(f"x {x.shape}, w {w.shape} and groups={groups} do not match")
    shape = conv_output_shape(x.shape, w.shape, stride=stride, padding=padding, dilation=dilation)
    weights = w.reshape(groups, w.shape[0] // groups, w.shape[1], *w.shape[2:])
    out = np.zeros((batch, groups, w.shape[0] // groups, int(np.prod(shape[2:]))))
    steps = per_dim(stride, n, "stride"), per_dim(dilation, n, "dilation")
    for tap, part in taps(padded(x, *begins_ends(padding, n), 0.0), w.shape[2:], shape[2:], *steps):
        at: Any = (..., *tap)
        out += weights[at] @ part.reshape(batch, groups, channels // groups, -1)
    out = out.reshape(shape)
    return out if b is None else out + b.reshape(-1, *[1] * n)


def depthwise_nhwc(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
) -> np.ndarray:
    """`conv` of x[N,height,width,C] with one filter w[C,1,*kernel] for each channel; channels stay last."""
    if x.ndim != 4 or w.ndim != 4 or w.shape[:2] != (x.shape[-1], 1):
        raise ValueError(f"x {x.shape} and w {w.shape} do not match")
    y = conv(
        np.moveaxis(x, -1, 1), w, b, stride=stride, padding=padding, dilation=dilation, groups=x.shape[-1]
    )
    return np.moveaxis(y, 1, -1)


def conv_transpose_output_shape(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    output_padding: Sequence[int],
) -> tuple[int, ...]:
    """Shape [N,K,*spatial] of the transposed convolution of x[N,C,*spatial] with w[C,K/g,*kernel]."""
    n = len(x_shape) - 2
    begin, end = begins_ends(padding, n)
    spatial = tuple(
        (i - 1) * s + d * (k - 1) + 1 + e - p - q
        for i, s, d, k, e, p, q in zip(
            x_shape[2:],
            per_dim(stride, n, "stride"),
            per_dim(dilation, n, "dilation"),
            w_shape[2:],
            per_dim(output_padding, n, "output_padding"),
            begin,
            end,
        )
    )
    if min(spatial) < 1:
        raise ValueError(f"padding {padding} leaves nothing of the output {spatial}")
    return (x_shape[0], w_shape[1] * groups, *spatial)


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
    output_padding: Sequence[int] = (0,),
) -> np.ndarray:
    """Adjoint of `conv` with w[C,K/g,*kernel], as torch.nn.functional.conv_transposeNd: every tap scatters
    its product onto a strided view of the uncropped output."""
    n = x.ndim - 2
    batch, channels = x.shape[:2]
    if w.ndim != x.ndim or channels != w.shape[0] or channels % groups:
        raise ValueError(f"x {x.shape}, w {w.shape} and groups={groups} do not match")
    strides, dilations = per_dim(stride, n, "stride"), per_dim(dilation, n, "dilation")
    begin, end = begins_ends(padding, n)
    kernel, spatial = w.shape[2:], x.shape[2:]
    shape = conv_transpose_output_shape(
        x.shape,
        w.shape,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        output_padding=output_padding,
    )
    full = [o + p + q for o, p, q in zip(shape[2:], begin, end)]
    inputs = x.reshape(batch, groups, channels // groups, -1)
    weights = w.reshape(groups, channels // groups, w.shape[1], *kernel).swapaxes(1, 2)
    out = np.zeros((batch, groups * w.shape[1], *full))
    for tap, part in taps(out, kernel, spatial, strides, dilations):
        at: Any = (..., *tap)
        part += (weights[at] @ inputs).reshape(part.shape)
    out = out[(slice(None), slice(None), *(slice(p, p + o) for p, o in zip(begin, shape[2:])))]
    return out if b is None else out + b.reshape(-1, *[1] * n)


def conv_filter_grad(
    x: np.ndarray,
    dy: np.ndarray,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> np.ndarray:
    """The gradient of conv's weights: one matrix product for every kernel tap."""
    n = x.ndim - 2
    kernel = per_dim(kernel_size, n, "kernel_size")
    filters, channels = dy.shape[1] // groups, x.shape[1] // groups
    slopes = dy.reshape(len(dy), groups, filters, -1)
    out = np.zeros((groups, filters, channels, *kernel))
    steps = per_dim(stride, n, "stride"), per_dim(dilation, n, "dilation")
    for tap, part in taps(padded(x, *begins_ends(padding, n), 0.0), kernel, dy.shape[2:], *steps):
        at: Any = (..., *tap)
        out[at] = np.einsum("ngko,ngco->gkc", slopes, part.reshape(len(x), groups, channels, -1))
    return out.reshape(dy.shape[1], channels, *kernel)


def separable(
    x: np.ndarray,
    dw_w: np.ndarray,
    dw_b: np.ndarray | None,
    pw_w: np.ndarray,
    pw_b: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    activation: str = "identity",
) -> np.ndarray:
    """Depthwise convolution with dw_w[C,1,*kernel], `activation` (a name of `elementwise.ACTIVATIONS`), then
    the 1x1 convolution with pw_w[K,C,1,..]."""
    middle = conv(x, dw_w, dw_b, stride=stride, padding=padding, dilation=dilation, groups=x.shape[1])
    middle = elementwise.ACTIVATIONS[activation](middle)
    return conv(middle, pw_w, pw_b, stride=(1,), padding=(0,), dilation=(1,), groups=1)


def inverted_residual(
    x: np.ndarray,
    expand_w: np.ndarray,
    expand_b: np.ndarray | None,
    dw_w: np.ndarray,
    dw_b: np.ndarray | None,
    pw_w: np.ndarray,
    pw_b: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    expand_activation: str = "identity",
    activation: str = "identity",
) -> np.ndarray:
    """The 1x1 convolution with expand_w[M,C,1,..], `expand_activation`, then what `separable` says of the M
    channels."""
    wide = conv(x, expand_w, expand_b, stride=(1,), padding=(0,), dilation=(1,), groups=1)
    wide = elementwise.ACTIVATIONS[expand_activation](wide)
    geometry: Any = {"stride": stride, "padding": padding, "dilation": dilation}
    return separable(wide, dw_w, dw_b, pw_w, pw_b, activation=activation, **geometry)


def squeeze_excite(
    x: np.ndarray,
    w1: np.ndarray,
    b1: np.ndarray | None,
    w2: np.ndarray,
    b2: np.ndarray | None = None,
    *,
    activation: str = "identity",
) -> np.ndarray:
    """The mean of each channel, a layer of w1[R,C], `activation` as for `separable`, and a layer of w2[K,R]:
    [N,K], with as many ones behind it as weights have."""

    def layer(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
        y = x @ w.reshape(w.shape[:2]).T
        return y if b is None else y + b

    means = x.reshape(*x.shape[:2], -1).mean(-1)
    gate = layer(elementwise.ACTIVATIONS[activation](layer(means, w1, b1)), w2, b2)
    return gate.reshape(*gate.shape, *w2.shape[2:])


def _rectified(x: np.ndarray, first: bool) -> np.ndarray:
    return np.maximum(x, 0.0) if first else x


def _layer(x: Shape, w: Shape, bias: bool = True, **attrs: Any) -> Use:
    return Use((x, w, (w[0],) if bias else None), attrs)


SPECS: dict[str, Spec] = {
    "conv": Spec(
        conv,
        FP32,
        (
            _layer((2, 8, 9, 11), (12, 8, 3, 3), padding=1),
            _layer((1, 64, 14, 14), (64, 64, 3, 3), padding=1),
            _layer((2, 32, 7, 9), (24, 32, 1, 1)),
            _layer((2, 16, 11, 9), (16, 1, 3, 3), padding=1, groups=16),
            _layer((2, 16, 11, 9), (16, 1, 5, 5), False, stride=2, padding=(1, 2, 2, 1), groups=16),
            _layer((1, 3, 23, 21), (8, 3, 7, 7), stride=2, padding=3),
            _layer((2, 12, 10, 8), (18, 4, 3, 2), False, dilation=2, padding=(2, 0, 1, 3), groups=3),
            _layer((3, 4, 17), (6, 4, 3), stride=2, padding=1),
            _layer((1, 3, 5, 6, 7), (4, 3, 2, 3, 3), padding=1),
        ),
        whole=True,
        roles=("x", "weight", "bias"),
        domain=_rectified,
    ),
    "depthwise_nhwc": Spec(
        depthwise_nhwc,
        FP32,
        (
            _layer((2, 11, 9, 16), (16, 1, 3, 3), padding=1),
            _layer((2, 11, 9, 5), (5, 1, 5, 5), False, stride=2, padding=(1, 2, 2, 1)),
            _layer((1, 14, 14, 64), (64, 1, 7, 7), padding=3),
        ),
        whole=True,
        roles=("x", "weight", "bias"),
        domain=_rectified,
    ),
    "conv_transpose": Spec(
        conv_transpose,
        FP32,
        (
            Use(((2, 6, 5, 4), (6, 3, 2, 2), (3,)), {"stride": 2}),
            Use(((2, 6, 5, 4), (6, 3, 3, 3), (3,)), {"stride": 2, "padding": 1, "output_padding": 1}),
        ),
        whole=True,
        roles=("x", "weight", "bias"),
        domain=_rectified,
    ),
    "conv_filter_grad": Spec(
        conv_filter_grad,
        FP32,
        (
            Use(((2, 8, 9, 11), (2, 12, 9, 11)), {"kernel_size": 3, "padding": 1}, fed=2),
            Use(((3, 6, 9), (3, 4, 5)), {"kernel_size": 3, "padding": 1, "stride": 2, "groups": 2}, fed=2),
        ),
        whole=True,
    ),
    # The self-test tries these as the graphs that the rewriter makes them of.
    "separable": Spec(
        separable, FP32, (), whole=True, roles=("x", "weight", "bias", "weight", "bias"), domain=_rectified
    ),
    "inverted_residual": Spec(
        inverted_residual,
        FP32,
        (),
        whole=True,
        roles=("x", "weight", "bias", "weight", "bias", "weight", "bias"),
        domain=_rectified,
    ),
    "squeeze_excite": Spec(squeeze_excite, FP32, (), roles=("x", "weight", "bias", "weight", "bias")),
}
