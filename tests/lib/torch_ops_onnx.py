"""Translations to PyTorch, continued: the operators that ONNX models ask for besides those of networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_attrs import Function, NoEquivalent, Shape, axes_of, list_of, pads_of, spread


def _div(a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point():
        return a / b
    safe = torch.where(b == 0, 1, b)  # PyTorch refuses to divide integers by 0
    return torch.where(b == 0, 0, torch.div(a, safe, rounding_mode="trunc"))


def _mod(shape: Shape, sign: str) -> Function:
    function = torch.fmod if sign == "dividend" else torch.remainder

    def mod(a: Tensor, b: Tensor) -> Tensor:
        if a.is_floating_point():
            return function(a, b)
        return torch.where(b == 0, 0, function(a, torch.where(b == 0, 1, b)))

    return mod


def _cast(shape: Shape, to: str) -> Function:
    kind = {"float32": None, "int64": torch.int64, "int32": torch.int32, "bool": torch.bool}[to]

    def cast(x: Tensor) -> Tensor:
        if kind is None:
            return x if x.is_floating_point() else x.to(torch.float32)
        if x.is_floating_point() and kind is not torch.bool and not bool((x.abs() < 2.0**31).all()):
            raise NoEquivalent("cast: what does not fit is undefined")
        return x.to(kind)

    return cast


def _pow(a: Tensor, b: Tensor) -> Tensor:
    if not a.is_floating_point() and bool((b < 0).any()):
        raise NoEquivalent("pow: integers with negative exponents")
    return torch.pow(a, b)


def _sign(x: Tensor) -> Tensor:
    if x.is_floating_point():
        return torch.where(torch.isnan(x), x, torch.sign(x))  # PyTorch gives 0 for NaN
    return torch.sign(x)


def _gather(shape: Shape, dim: int) -> Function:
    size = shape[dim]

    def gather(x: Tensor, indices: Tensor) -> Tensor:
        flat = x.index_select(dim, (indices.long() % size).reshape(-1))
        at = dim % len(shape)
        return flat.reshape(*x.shape[:at], *indices.shape, *x.shape[at + 1 :])

    return gather


def _gather_elements(shape: Shape, dim: int) -> Function:
    return lambda x, indices: torch.gather(x, dim, indices.long() % shape[dim])


def _gather_nd(shape: Shape, batch_dims: int) -> Function:
    if batch_dims:
        raise NoEquivalent("gather_nd: batch dimensions")
    return lambda x, indices: x[tuple(indices.long().unbind(-1))]


def _grid_sample(shape: Shape, mode: str, padding_mode: str, align_corners: bool) -> Function:
    words = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    return lambda x, grid: F.grid_sample(x, grid, words[mode], padding_mode, bool(align_corners))


def _arg(function: Function) -> Callable[..., Function]:
    def build(shape: Shape, dim: int, keepdims: bool, select_last_index: bool) -> Function:
        last = shape[dim] - 1 if select_last_index else 0
        if not select_last_index:
            return lambda x: function(x, dim, keepdim=bool(keepdims))
        return lambda x: last - function(x.flip(dim), dim, keepdim=bool(keepdims))

    return build


def _cumsum(shape: Shape, dim: int, exclusive: bool, reverse: bool) -> Function:
    def cumsum(x: Tensor) -> Tensor:
        turned = x.flip(dim) if reverse else x
        sums = torch.cumsum(turned, dim, dtype=x.dtype)
        if exclusive:
            zero = torch.zeros_like(sums.narrow(dim, 0, 1))
            sums = torch.cat([zero, sums.narrow(dim, 0, shape[dim] - 1)], dim)
        return sums.flip(dim) if reverse else sums

    return cumsum


def _topk(shape: Shape, k: int, dim: int, largest: bool, sorted: bool) -> Function:
    def topk(x: Tensor) -> tuple[Tensor, Tensor]:
        if largest:  # PyTorch's own topk leaves the order of equals open
            order = shape[dim] - 1 - torch.sort(x.flip(dim), dim=dim, stable=True).indices.flip(dim)
        else:
            order = torch.sort(x, dim=dim, stable=True).indices
        order = order.narrow(dim, 0, k)
        return torch.gather(x, dim, order), order

    return topk


def _reduce_prod(shape: Shape, axes: Any, keepdims: bool) -> Function:
    over = sorted(axes_of(axes, len(shape)) or range(len(shape)), reverse=True)

    def prod(x: Tensor) -> Tensor:
        for axis in over:
            x = torch.prod(x, axis, keepdim=bool(keepdims), dtype=x.dtype)
        return x

    return prod


def _lp_pool(
    shape: Shape, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, p: int
) -> Function:
    if set(list_of(padding)) != {0} or set(list_of(dilation)) != {1} or ceil_mode:
        raise NoEquivalent("lp_pool: padding, dilation or ceil mode")
    n = len(shape) - 2
    kernel = spread(kernel_size, n)
    steps = spread(stride, n) if list_of(stride) else kernel
    pool, count = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1], float(math.prod(kernel))
    return lambda x: (pool(x.abs() ** p, kernel, steps) * count) ** (1.0 / p)


def _max_pool_indices(
    shape: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    storage_order: int,
) -> Function:
    n = len(shape) - 2
    begin, end = pads_of(padding, n)
    if begin != end or storage_order:
        raise NoEquivalent("max_pool_indices: asymmetric padding or column-major indices")
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    kernel = spread(kernel_size, n)
    steps = spread(stride, n) if list_of(stride) else kernel
    rest = (kernel, steps, begin, spread(dilation, n), bool(ceil_mode), True)

    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        if bool(torch.isnan(x).any()):
            raise NoEquivalent("max_pool_indices: PyTorch takes the last NaN")
        values, indices = function(x, *rest)
        planes = torch.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * n)
        return values, indices + planes * math.prod(shape[2:])

    return pool


def _max_unpool(shape: Shape, output_size: Any) -> Function:
    sizes = [*shape[:2], *spread(output_size, len(shape) - 2)]

    def unpool(x: Tensor, indices: Tensor) -> Tensor:
        flat = torch.zeros(math.prod(sizes), dtype=x.dtype)
        return flat.scatter(0, indices.long().reshape(-1), x.reshape(-1)).reshape(sizes)

    return unpool


def _moved(shape: Shape, dim: int, dims: int) -> tuple[list[int], list[int], list[int]]:
    """The dimensions from dim on that are normalised together, at the end; how to get back; their sizes."""
    first = dim % len(shape)
    mine = list(range(first, first + dims if dims else len(shape)))
    there = [i for i in range(len(shape)) if i not in mine] + mine
    return there, [there.index(i) for i in range(len(shape))], [shape[i] for i in mine]


def _layer_norm(shape: Shape, dim: int, dims: int, eps: float) -> Function:
    there, back, sizes = _moved(shape, dim, dims)
    return lambda x, weight=None, bias=None: F.layer_norm(x.permute(there), sizes, weight, bias, eps).permute(
        back
    )


def _rms_norm(shape: Shape, dim: int, dims: int, eps: float) -> Function:
    there, back, sizes = _moved(shape, dim, dims)
    return lambda x, weight=None: F.rms_norm(x.permute(there), sizes, weight, eps).permute(back)


def _attention(shape: Shape, scale: float, is_causal: bool) -> Function:
    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        if is_causal and mask is not None:  # PyTorch takes one of the two
            later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
            mask = mask.masked_fill(later, -math.inf)
        causal = bool(is_causal) and mask is None
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale or None)

    return attention


PLAIN: dict[str, Function] = {
    "div": _div,
    "pow": _pow,
    "where": torch.where,
    "softplus": lambda x: F.softplus(x, threshold=50.0),
    "softsign": F.softsign,
    "mish": lambda x: x * torch.tanh(F.softplus(x, threshold=50.0)),
    "erf": torch.erf,
    "reciprocal": torch.reciprocal,
    "sign": _sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "is_nan": torch.isnan,
    "logical_not": torch.logical_not,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "equal": torch.eq,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
}


def _rotary_embedding(shape: Shape, interleaved: bool) -> Function:
    def turned(x: Tensor) -> Tensor:
        if not interleaved:
            first, second = x.chunk(2, -1)
            return torch.cat([-second, first], -1)
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)

    return lambda x, cos, sin: x * cos + turned(x) * sin


BUILT: dict[str, Callable[..., Function]] = {
    "rotary_embedding": _rotary_embedding,
    "scaled_dot_product_attention": _attention,
    "grid_sample": _grid_sample,
    "argmax": _arg(torch.argmax),
    "argmin": _arg(torch.argmin),
    "cumsum": _cumsum,
    "topk": _topk,
    "reduce_prod": _reduce_prod,
    "lp_pool": _lp_pool,
    "max_pool_indices": _max_pool_indices,
    "max_unpool": _max_unpool,
    "instance_norm": lambda shape, eps: lambda x, w=None, b=None: F.group_norm(x, shape[1], w, b, eps),
    "group_norm": lambda shape, groups, eps: lambda x, w=None, b=None: F.group_norm(x, groups, w, b, eps),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "l2_norm": lambda shape, dim, eps: lambda x: F.normalize(x, dim=dim, eps=eps),
    "swish": lambda shape, alpha: lambda x: x * torch.sigmoid(alpha * x),
    "star_relu": lambda shape, alpha, beta: lambda x: alpha * F.relu(x) ** 2 + beta,
    "selu": lambda shape, alpha, gamma: lambda x: gamma * F.elu(x, alpha),
    "celu": lambda shape, alpha: lambda x: F.celu(x, alpha),
    "thresholded_relu": lambda shape, alpha: lambda x: F.threshold(x, alpha, 0.0),
    "shrink": lambda shape, lambd, bias: (
        lambda x: torch.where(x.abs() <= lambd, 0.0 * torch.nan_to_num(x), x - torch.sign(x) * bias)
    ),
    "cast": _cast,
    "is_inf": lambda shape, sign: {
        "both": torch.isinf,
        "positive": torch.isposinf,
        "negative": torch.isneginf,
    }[sign],
    "mod": _mod,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
}
