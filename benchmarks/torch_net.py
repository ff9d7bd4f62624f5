"""A clcnn.Graph, as it was built, as a torch.nn.Module with the same weights.

    net = TorchNet(clcnn.graph.trace(model, shape))
    y = net(torch.from_numpy(x))

Whatever depends on attributes alone is decided when a node is translated, so that forward() makes plain
PyTorch calls and nothing else: it can be timed, captured in a CUDA graph, compiled and exported
(`onnx_bytes`). What PyTorch cannot express raises NoEquivalent.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clcnn import _core
from clcnn.graph import Graph

Shape = Sequence[int]
Function = Callable[..., Any]


class NoEquivalent(Exception):
    """PyTorch has no such operator, or not with these attributes."""


class TorchNet(torch.nn.Module):
    """One PyTorch call for each node of `graph`, in order. Constants become parameters that need no gradient.

    forward takes the graph's inputs in order and returns its output, or a tuple of them. Raises NoEquivalent.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        shapes: dict[int | None, Shape] = {}
        self.calls: list[tuple[str, Function, tuple[int | None, ...], tuple[int, ...]]] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.constants: dict[int, str] = {}
        for r in graph.records:
            if r.kind == "input":
                self.inputs.append(r.values[0])
            elif r.kind == "constant":
                self.constants[r.values[0]] = f"c{r.values[0]}"
                self.register_parameter(f"c{r.values[0]}", _parameter(r.array))
            elif r.kind == "node":
                function = translate(r.op, with_defaults(r.op, r.attrs), shapes[r.inputs[0]])
                self.calls.append((r.op, function, r.inputs, r.values))
            else:
                self.outputs.append(r.inputs[0])
            for i in r.values:
                shapes[i] = graph._core.shape(i)
        self.last_use = self._last_uses()

    def _last_uses(self) -> list[list[int]]:
        """For each call the values that no later call needs, to be freed as by a hand-written module."""
        seen = set(self.outputs) | set(self.constants)
        free: list[list[int]] = []
        for _, _, inputs, outputs in reversed(self.calls):
            last = [i for i in dict.fromkeys((*inputs, *outputs)) if i is not None and i not in seen]
            seen.update(last)
            free.append(last)
        return free[::-1]

    def forward(self, *inputs: Tensor) -> Any:
        known: dict[int | None, Any] = {None: None, **dict(zip(self.inputs, inputs, strict=True))}
        known.update((i, getattr(self, name)) for i, name in self.constants.items())
        for (_, function, ids, made), done in zip(self.calls, self.last_use):
            result = function(*[known[i] for i in ids])
            known.update(zip(made, result) if isinstance(result, (tuple, list)) else [(made[0], result)])
            for i in done:
                del known[i]
        results = tuple(known[i] for i in self.outputs)
        return results[0] if len(results) == 1 else results


def _parameter(array: Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.from_numpy(array), requires_grad=False)


def onnx_bytes(net: TorchNet, *inputs: Tensor) -> bytes:
    """The net as an ONNX model (opset 17), batch norm folded; inputs "x0", ... and outputs "y0", ..."""
    file = io.BytesIO()
    with (
        warnings.catch_warnings()
    ):  # the exporter warns that it is the old one; the new one needs another package
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.eval(), inputs, file, dynamo=False, opset_version=17,
            input_names=[f"x{i}" for i in range(len(net.inputs))],
            output_names=[f"y{i}" for i in range(len(net.outputs))],
        )  # fmt: skip
    return file.getvalue()


def with_defaults(op: str, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes of a node: those given, and the defaults of the others."""
    rows = _core.ops()[op]["attrs"]
    return {row["name"]: attrs.get(row["name"], row["default"]) for row in rows}


def translate(op: str, attrs: Mapping[str, Any], shape: Shape) -> Function:
    """The function of tensors that computes `op`. attrs: all of them; shape: the first input's.

    Raises NoEquivalent.
    """
    if op in PLAIN:
        return PLAIN[op]
    if op not in BUILT:
        raise NoEquivalent(f"{op}: no translation")
    return BUILT[op](shape, **attrs)


# ---- attributes ----


def _list(values: Any) -> list[Any]:
    """An attribute of kind ints as a list, whether it was given as one number or several."""
    return list(values) if isinstance(values, (tuple, list)) else [values]


def _spread(values: Any, n: int) -> list[int]:
    """One value for each of n dimensions."""
    values = _list(values)
    return values * n if len(values) == 1 else values


def _pads(padding: Any, n: int) -> tuple[list[int], list[int]]:
    """Begins and ends of 1, n or 2n values of padding."""
    values = _list(padding)
    if len(values) == 2 * n:
        return values[:n], values[n:]
    return _spread(values, n), _spread(values, n)


def _pad_order(begin: Shape, end: Shape) -> list[int]:
    """F.pad's order: the last dimension first, begin and end together."""
    return [p for pair in zip(reversed(begin), reversed(end)) for p in pair]


def _axes(axes: Any, rank: int) -> list[int]:
    return [a % rank for a in _list(axes)]


# ---- operators with attributes: builders, called with the first input's shape ----


def _conv(shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int) -> Function:
    n = len(shape) - 2
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    begin, end = _pads(padding, n)
    steps, spread = _spread(stride, n), _spread(dilation, n)
    if begin == end:
        return lambda x, w, b=None: function(x, w, b, steps, begin, spread, groups)
    pads = _pad_order(begin, end)
    return lambda x, w, b=None: function(F.pad(x, pads), w, b, steps, 0, spread, groups)


def _conv_transpose(
    shape: Shape, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> Function:
    n = len(shape) - 2
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    begin, end = _pads(padding, n)
    steps, spread, extra = _spread(stride, n), _spread(dilation, n), _spread(output_padding, n)
    if begin == end:
        return lambda x, w, b=None: function(x, w, b, steps, begin, extra, groups, spread)
    if any(extra):
        raise NoEquivalent("conv_transpose: output padding with asymmetric padding")
    crop = _pad_order([-p for p in begin], [-p for p in end])
    return lambda x, w, b=None: F.pad(function(x, w, b, steps, 0, 0, groups, spread), crop)


def _gemm(shape: Shape, alpha: float, beta: float, trans_a: bool, trans_b: bool) -> Function:
    def gemm(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        a, b = (a.T if trans_a else a), (b.T if trans_b else b)
        return alpha * (a @ b) if c is None else torch.addmm(c, a, b, alpha=alpha, beta=beta)

    return gemm


def _max_pool(
    shape: Shape, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Function:
    n = len(shape) - 2
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    begin, end = _pads(padding, n)
    kernel, spread = _spread(kernel_size, n), _spread(dilation, n)
    steps = _spread(stride, n) if _list(stride) else kernel
    if begin == end and all(2 * p <= k for p, k in zip(begin, kernel)):
        return lambda x: function(x, kernel, steps, begin, spread, bool(ceil_mode))
    if ceil_mode:
        raise NoEquivalent("max_pool: ceil mode with asymmetric or large padding")
    pads = _pad_order(begin, end)
    return lambda x: function(F.pad(x, pads, value=float("-inf")), kernel, steps, 0, spread)


def _avg_pool(
    shape: Shape,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Function:
    n = len(shape) - 2
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    begin, end = _pads(padding, n)
    kernel = _spread(kernel_size, n)
    steps = _spread(stride, n) if _list(stride) else kernel
    if set(_list(dilation)) != {1}:
        raise NoEquivalent("avg_pool: dilation")
    if begin == end:
        return lambda x: function(x, kernel, steps, begin, bool(ceil_mode), bool(count_include_pad))
    if ceil_mode or not count_include_pad:
        raise NoEquivalent("avg_pool: asymmetric padding that is not counted")
    pads = _pad_order(begin, end)
    return lambda x: function(F.pad(x, pads), kernel, steps)


def _adaptive(*functions: Function) -> Callable[..., Function]:
    def build(shape: Shape, output_size: Any) -> Function:
        n = len(shape) - 2
        function, size = functions[n - 1], _spread(output_size, n)
        return lambda x: function(x, size)

    return build


def _slice(shape: Shape, starts: Any, ends: Any, axes: Any, steps: Any) -> Function:
    starts, ends = _list(starts), _list(ends)
    axes = _axes(axes, len(shape)) or list(range(len(starts)))
    steps = _spread(steps, len(starts))
    index = [slice(None)] * len(shape)
    flips = []
    for axis, start, end, step in zip(axes, starts, ends, steps):
        picked = range(shape[axis])[start:end:step]
        if step < 0:  # PyTorch has no negative steps: take the same elements forwards, then turn them round
            picked = picked[::-1]
            flips.append(axis)
        index[axis] = slice(picked.start, picked.stop, picked.step)
    where = tuple(index)
    return (lambda x: x[where].flip(flips)) if flips else (lambda x: x[where])


def _resize(
    shape: Shape,
    size: Any,
    scales: Any,
    mode: str,
    coordinates: str,
    nearest_rounding: str,
    cubic_coeff_a: float,
    exclude_outside: bool,
    antialias: bool,
    extrapolation_value: float,
    roi: Any,
) -> Function:
    n = len(shape) - 2
    known = {("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")}
    if n == 2:
        known |= {("cubic", "half_pixel"), ("cubic", "align_corners")}
    if (mode, coordinates) not in known or (mode == "nearest" and nearest_rounding != "floor"):
        raise NoEquivalent(f"resize: {mode} with {coordinates} and {nearest_rounding}")
    if antialias or (mode == "cubic" and (exclude_outside or cubic_coeff_a != -0.75)):
        raise NoEquivalent("resize: other kernels")
    if _list(size) and _list(scales):
        raise NoEquivalent("resize: size and scales")
    options: dict[str, Any] = {
        "mode": {"nearest": "nearest", "cubic": "bicubic"}.get(mode, ("linear", "bilinear", "trilinear")[n - 1])
    }
    options |= {"size": _spread(size, n)} if _list(size) else {"scale_factor": _spread(scales, n)}
    if mode != "nearest":
        options["align_corners"] = coordinates == "align_corners"
    return lambda x: F.interpolate(x, **options)


def _reduce(function: Function) -> Callable[..., Function]:
    def build(shape: Shape, axes: Any, keepdims: bool) -> Function:
        over = _axes(axes, len(shape)) or list(range(len(shape)))
        return lambda x: function(x, over, keepdim=bool(keepdims))

    return build


def _pad(shape: Shape, pads: Any, value: float, mode: str) -> Function:
    order = _pad_order(_list(pads)[: len(shape)], _list(pads)[len(shape) :])
    if mode == "constant":
        return lambda x: F.pad(x, order, value=value)
    pads = _list(pads)
    if min(pads) < 0 or (mode != "edge" and any(p >= n for p, n in zip(pads, [*shape, *shape]))):
        raise NoEquivalent("pad: by more than there is")
    spatial = len(shape) - 2
    if not 1 <= spatial <= 3 or any(order[2 * spatial :]):
        raise NoEquivalent("pad: of the first dimensions")
    words = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    return lambda x: F.pad(x, order[: 2 * spatial], mode=words[mode])


def _reshape(target: Any, shape: Shape) -> Function:
    sizes = [shape[i] if s == 0 else s for i, s in enumerate(_list(target))]
    return lambda x: x.reshape(sizes)


def _squeeze(shape: Shape, axes: Any) -> Function:
    over = tuple(_axes(axes, len(shape))) or tuple(i for i, s in enumerate(shape) if s == 1)
    return lambda x: x.squeeze(over)


def _unsqueeze(shape: Shape, axes: Any) -> Function:
    made = set(_axes(axes, len(shape) + len(_list(axes))))
    old = iter(shape)
    sizes = [1 if i in made else next(old) for i in range(len(shape) + len(made))]
    return lambda x: x.reshape(sizes)


def _expand(target: Any, shape: Shape) -> Function:
    sizes = torch.broadcast_shapes(tuple(shape), tuple(_list(target)))
    return lambda x: x.expand(sizes)


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    return F.prelu(x, slope) if slope.dim() == 1 else torch.where(x > 0, x, slope * x)


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


PLAIN: dict[str, Function] = {
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
    "linear": F.linear,
    "matmul": torch.matmul,
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
    "prelu": _prelu,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": _div,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "pow": _pow,
    "dropout": lambda x: x,
    "identity": lambda x: x,
}

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
            order = shape[dim] - 1 - torch.sort(x.flip(dim), dim, stable=True).indices.flip(dim)
        else:
            order = torch.sort(x, dim, stable=True).indices
        order = order.narrow(dim, 0, k)
        return torch.gather(x, dim, order), order

    return topk


def _reduce_prod(shape: Shape, axes: Any, keepdims: bool) -> Function:
    over = sorted(_axes(axes, len(shape)) or range(len(shape)), reverse=True)

    def prod(x: Tensor) -> Tensor:
        for axis in over:
            x = torch.prod(x, axis, keepdim=bool(keepdims), dtype=x.dtype)
        return x

    return prod


def _lp_pool(
    shape: Shape, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, p: int
) -> Function:
    if set(_list(padding)) != {0} or set(_list(dilation)) != {1} or ceil_mode:
        raise NoEquivalent("lp_pool: padding, dilation or ceil mode")
    n = len(shape) - 2
    kernel = _spread(kernel_size, n)
    steps = _spread(stride, n) if _list(stride) else kernel
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
    begin, end = _pads(padding, n)
    if begin != end or storage_order:
        raise NoEquivalent("max_pool_indices: asymmetric padding or column-major indices")
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    kernel = _spread(kernel_size, n)
    steps = _spread(stride, n) if _list(stride) else kernel
    rest = (kernel, steps, begin, _spread(dilation, n), bool(ceil_mode), True)

    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = function(x, *rest)
        planes = torch.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * n)
        return values, indices + planes * math.prod(shape[2:])

    return pool


def _max_unpool(shape: Shape, output_size: Any) -> Function:
    sizes = [*shape[:2], *_spread(output_size, len(shape) - 2)]

    def unpool(x: Tensor, indices: Tensor) -> Tensor:
        flat = torch.zeros(math.prod(sizes), dtype=x.dtype)
        return flat.scatter(0, indices.long().reshape(-1), x.reshape(-1)).reshape(sizes)

    return unpool


def _layer_norm(shape: Shape, dim: int, eps: float) -> Function:
    sizes = list(shape[dim % len(shape) :])
    return lambda x, weight=None, bias=None: F.layer_norm(x, sizes, weight, bias, eps)


BUILT: dict[str, Callable[..., Function]] = {
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
    "selu": lambda shape, alpha, gamma: lambda x: gamma * F.elu(x, alpha),
    "celu": lambda shape, alpha: lambda x: F.celu(x, alpha),
    "thresholded_relu": lambda shape, alpha: lambda x: F.threshold(x, alpha, 0.0),
    "shrink": lambda shape, lambd, bias: (
        lambda x: torch.where(x.abs() <= lambd, 0.0 * torch.nan_to_num(x), x - torch.sign(x) * bias)
    ),
    "cast": _cast,
    "is_inf": lambda shape, sign: {"both": torch.isinf, "positive": torch.isposinf, "negative": torch.isneginf}[
        sign
    ],
    "mod": _mod,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "gemm": _gemm,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d),
    "adaptive_max_pool": _adaptive(F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d),
    # some versions of torch refuse eps=0; 1e-300 is nothing beside any variance
    "batch_norm": lambda shape, eps: lambda x, w, b, mean, var: F.batch_norm(
        x, mean, var, w, b, eps=eps or 1e-300
    ),
    "local_response_norm": lambda shape, size, alpha, beta, k: (
        lambda x: F.local_response_norm(x, size, alpha, beta, k)
    ),
    "leaky_relu": lambda shape, negative_slope: lambda x: F.leaky_relu(x, negative_slope),
    "elu": lambda shape, alpha: lambda x: F.elu(x, alpha),
    "hard_sigmoid": lambda shape, alpha, beta: lambda x: torch.clamp(alpha * x + beta, 0.0, 1.0),
    "gelu": lambda shape, approximate: lambda x: F.gelu(x, approximate=approximate),
    "clip": lambda shape, min, max: lambda x: torch.clamp(x, min, max),
    "softmax": lambda shape, dim: lambda x: F.softmax(x, dim),
    "log_softmax": lambda shape, dim: lambda x: F.log_softmax(x, dim),
    "reduce_sum": _reduce(torch.sum),
    "reduce_mean": _reduce(torch.mean),
    "reduce_max": _reduce(torch.amax),
    "reduce_min": _reduce(torch.amin),
    "concat": lambda shape, dim: lambda *xs: torch.cat(xs, dim),
    "split": lambda shape, sizes, dim: lambda x: torch.split(x, _list(sizes), dim),
    "slice": _slice,
    "pad": _pad,
    "reshape": lambda first, shape: _reshape(shape, first),
    "flatten": lambda shape, start_dim, end_dim: lambda x: torch.flatten(x, start_dim, end_dim),
    "transpose": lambda shape, perm: lambda x: x.permute(_list(perm)),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "expand": lambda first, shape: _expand(shape, first),
    "resize": _resize,
}
