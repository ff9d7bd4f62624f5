"""PyTorch's answer to a case: a second opinion on the definitions of `reference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from reference import fill
from reference.spatial import begins_ends, per_dim


class NoEquivalent(Exception):
    """PyTorch has no such operator, or not with these attributes."""


def _torch_pads(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """torch's order: the last dimension first, begin and end together."""
    return [p for pair in zip(reversed(begin), reversed(end)) for p in pair]


def _by_rank(
    x: torch.Tensor, one: Callable[..., Any], two: Callable[..., Any], three: Callable[..., Any]
) -> Any:
    return (one, two, three)[x.dim() - 3]


def _conv(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> torch.Tensor:
    n = x.dim() - 2
    x = F.pad(x, _torch_pads(*begins_ends(padding, n)))
    return _by_rank(x, F.conv1d, F.conv2d, F.conv3d)(x, w, b, stride, 0, dilation, groups)


def _conv_transpose(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    output_padding: Any,
) -> torch.Tensor:
    n = x.dim() - 2
    function = _by_rank(x, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
    begin, end = begins_ends(padding, n)
    if begin == end:
        return function(
            x,
            w,
            b,
            per_dim(stride, n, ""),
            begin,
            per_dim(output_padding, n, ""),
            groups,
            per_dim(dilation, n, ""),
        )
    y = function(x, w, b, per_dim(stride, n, ""), 0, 0, groups, per_dim(dilation, n, ""))
    return F.pad(y, _torch_pads([-p for p in begin], [-p for p in end]))


def _separable(
    x: torch.Tensor,
    dw: torch.Tensor,
    dw_b: torch.Tensor | None,
    pw: torch.Tensor,
    pw_b: torch.Tensor | None = None,
    *,
    activation: str,
    **geometry: Any,
) -> torch.Tensor:
    middle = _conv(x, dw, dw_b, groups=x.shape[1], **geometry)
    middle = middle if activation == "identity" else _FUNCTIONS[activation](middle)
    return _conv(middle, pw, pw_b, stride=1, padding=(0,), dilation=1, groups=1)


def _max_pool(
    x: torch.Tensor, *, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: int
) -> torch.Tensor:
    n = x.dim() - 2
    begin, end = begins_ends(padding, n)
    kernel = per_dim(kernel_size, n, "")
    plain = begin == end and all(2 * p <= k for p, k in zip(begin, kernel))
    if not plain:
        if ceil_mode:
            raise NoEquivalent("asymmetric padding with ceil mode")
        x = F.pad(x, _torch_pads(begin, end), value=float("-inf"))
    function = _by_rank(x, F.max_pool1d, F.max_pool2d, F.max_pool3d)
    return function(
        x,
        kernel,
        per_dim(stride, n, "") if stride else kernel,
        begin if plain else 0,
        per_dim(dilation, n, ""),
        bool(ceil_mode),
    )


def _avg_pool(
    x: torch.Tensor,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: int,
    count_include_pad: int,
) -> torch.Tensor:
    n = x.dim() - 2
    begin, end = begins_ends(padding, n)
    kernel = per_dim(kernel_size, n, "")
    if set(dilation) != {1}:
        raise NoEquivalent("dilated averages")
    if begin != end:
        if ceil_mode or not count_include_pad:
            raise NoEquivalent("asymmetric padding that is not counted")
        x, begin = F.pad(x, _torch_pads(begin, end)), (0,) * n
    function = _by_rank(x, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
    return function(
        x,
        kernel,
        per_dim(stride, n, "") if stride else kernel,
        begin,
        bool(ceil_mode),
        bool(count_include_pad),
    )


def _adaptive(x: torch.Tensor, output_size: Any, *functions: Callable[..., Any]) -> torch.Tensor:
    return _by_rank(x, *functions)(x, per_dim(output_size, x.dim() - 2, ""))


def _prelu(x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    return F.prelu(x, slope) if slope.dim() == 1 else torch.where(x > 0, x, slope * x)


def _gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor | None = None,
    *,
    alpha: float,
    beta: float,
    trans_a: int,
    trans_b: int,
) -> torch.Tensor:
    a, b = (a.T if trans_a else a), (b.T if trans_b else b)
    return alpha * (a @ b) if c is None else torch.addmm(c, a, b, alpha=alpha, beta=beta)


def _slice(x: torch.Tensor, *, starts: Any, ends: Any, axes: Any, steps: Any) -> torch.Tensor:
    """torch has no negative steps: reverse the axis and mirror the bounds."""
    for axis, start, end, step in zip(axes or range(len(starts)), starts, ends, steps * len(starts)):
        size = x.shape[axis]
        picked = range(size)[start:end:step]
        x = x.index_select(axis, torch.tensor(list(picked), dtype=torch.int64))
    return x


def _pad(x: torch.Tensor, *, pads: Any, value: float) -> torch.Tensor:
    return F.pad(x, _torch_pads(pads[: x.dim()], pads[x.dim() :]), value=value)


def _resize(
    x: torch.Tensor, *, size: Any, scales: Any, mode: str, coordinates: str, nearest_rounding: str
) -> torch.Tensor:
    n = x.dim() - 2
    if (mode, coordinates) not in (
        ("nearest", "asymmetric"),
        ("linear", "half_pixel"),
        ("linear", "align_corners"),
    ):
        raise NoEquivalent(f"{mode} with {coordinates}")
    if nearest_rounding != "floor" or (size and scales):
        raise NoEquivalent(nearest_rounding)
    how = "nearest" if mode == "nearest" else ("linear", "bilinear", "trilinear")[n - 1]
    target = {"size": per_dim(size, n, "")} if size else {"scale_factor": per_dim(scales, n, "")}
    corners = {} if mode == "nearest" else {"align_corners": coordinates == "align_corners"}
    return F.interpolate(x, mode=how, **target, **corners)


def _reduce(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, axes, keepdims: function(x, tuple(axes) or tuple(range(x.dim())), keepdim=bool(keepdims))


def _unsqueeze(x: torch.Tensor, *, axes: Any) -> torch.Tensor:
    for axis in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "separable": _separable,
    "linear": F.linear,
    "matmul": torch.matmul,
    "gemm": _gemm,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": lambda x, output_size: _adaptive(
        x, output_size, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d
    ),
    "adaptive_max_pool": lambda x, output_size: _adaptive(
        x, output_size, F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d
    ),
    "batch_norm": lambda x, w, b, mean, var, eps: F.batch_norm(x, mean, var, w, b, eps=eps),
    "local_response_norm": F.local_response_norm,
    "relu": F.relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hard_swish": F.hardswish,
    "silu": F.silu,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "neg": torch.neg,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "hard_sigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0.0, 1.0),
    "gelu": F.gelu,
    "clip": torch.clamp,
    "prelu": _prelu,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "pow": torch.pow,
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
    "reduce_sum": _reduce(torch.sum),
    "reduce_mean": _reduce(torch.mean),
    "reduce_max": _reduce(torch.amax),
    "reduce_min": _reduce(torch.amin),
    "concat": lambda *x, dim: torch.cat(x, dim),
    "split": lambda x, sizes, dim: torch.split(x, list(sizes), dim),
    "slice": _slice,
    "pad": _pad,
    "reshape": lambda x, shape: x.reshape([x.shape[i] if s == 0 else s for i, s in enumerate(shape)]),
    "flatten": torch.flatten,
    "transpose": lambda x, perm: x.permute(perm),
    "squeeze": lambda x, axes: x.squeeze(axes) if axes else x.squeeze(),
    "unsqueeze": _unsqueeze,
    "expand": lambda x, shape: x.expand(torch.broadcast_shapes(x.shape, shape)),
    "resize": _resize,
    "dropout": lambda x, p: F.dropout(x, p, training=False),
    "identity": lambda x: x,
}


def run(op: str, inputs: Sequence[torch.Tensor | None], attrs: dict[str, Any]) -> Any:
    """Output of one operator. Raises NoEquivalent where PyTorch cannot say."""
    return _FUNCTIONS[op](*inputs, **fill(op, attrs))


def run_case(case: Any, data: Sequence[np.ndarray], dtype: torch.dtype) -> np.ndarray | list[np.ndarray]:
    """Output of a whole case computed by PyTorch in `dtype`. Raises NoEquivalent where it cannot say."""
    known: dict[str | None, Any] = {None: None}
    known.update((i.name, torch.from_numpy(a).to(dtype)) for i, a in zip(case.inputs, data))
    with torch.no_grad():
        for node in case.nodes:
            known[node.output] = run(node.op, [known[name] for name in node.inputs], node.attrs)
    out = known[case.nodes[-1].output]
    return [o.numpy() for o in out] if isinstance(out, (tuple, list)) else out.numpy()
