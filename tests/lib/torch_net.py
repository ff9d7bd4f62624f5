"""A clcnn.Graph, as it was built, as a torch.nn.Module with the same weights.

    net = TorchNet(clcnn.graph.trace(model, shape))
    y = net(torch.from_numpy(x))

Whatever depends on attributes alone is decided when a node is translated, so that forward() makes plain
PyTorch calls and nothing else: it can be timed, captured in a CUDA graph, compiled and exported
(`onnx_bytes`). What PyTorch cannot express raises NoEquivalent.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_ops_onnx
from clcnn import _core
from clcnn.graph import Graph
from torch_attrs import Function, NoEquivalent, Shape, axes_of, list_of, pad_order, pads_of, spread


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


# ---- operators with attributes: builders, called with the first input's shape ----


def _conv(shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int) -> Function:
    n = len(shape) - 2
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    begin, end = pads_of(padding, n)
    steps, holes = spread(stride, n), spread(dilation, n)
    if begin == end:
        return lambda x, w, b=None: function(x, w, b, steps, begin, holes, groups)
    pads = pad_order(begin, end)
    return lambda x, w, b=None: function(F.pad(x, pads), w, b, steps, 0, holes, groups)


def _depthwise_nhwc(shape: Shape, stride: Any, padding: Any, dilation: Any) -> Function:
    n, *spatial, channels = shape
    conv = _conv((n, channels, *spatial), stride, padding, dilation, channels)
    return lambda x, w, b=None: conv(x.permute(0, 3, 1, 2), w, b).permute(0, 2, 3, 1)


def _conv_transpose(
    shape: Shape, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> Function:
    n = len(shape) - 2
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    begin, end = pads_of(padding, n)
    steps, holes, extra = spread(stride, n), spread(dilation, n), spread(output_padding, n)
    if begin == end:
        return lambda x, w, b=None: function(x, w, b, steps, begin, extra, groups, holes)
    if any(extra):
        raise NoEquivalent("conv_transpose: output padding with asymmetric padding")
    crop = pad_order([-p for p in begin], [-p for p in end])
    return lambda x, w, b=None: F.pad(function(x, w, b, steps, 0, 0, groups, holes), crop)


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
    begin, end = pads_of(padding, n)
    kernel, holes = spread(kernel_size, n), spread(dilation, n)
    steps = spread(stride, n) if list_of(stride) else kernel
    if begin == end and all(2 * p <= k for p, k in zip(begin, kernel)):
        return lambda x: function(x, kernel, steps, begin, holes, bool(ceil_mode))
    if ceil_mode:
        raise NoEquivalent("max_pool: ceil mode with asymmetric or large padding")
    pads = pad_order(begin, end)
    return lambda x: function(F.pad(x, pads, value=float("-inf")), kernel, steps, 0, holes)


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
    begin, end = pads_of(padding, n)
    kernel = spread(kernel_size, n)
    steps = spread(stride, n) if list_of(stride) else kernel
    if set(list_of(dilation)) != {1}:
        raise NoEquivalent("avg_pool: dilation")
    if begin == end:
        return lambda x: function(x, kernel, steps, begin, bool(ceil_mode), bool(count_include_pad))
    if ceil_mode or not count_include_pad:
        raise NoEquivalent("avg_pool: asymmetric padding that is not counted")
    pads = pad_order(begin, end)
    return lambda x: function(F.pad(x, pads), kernel, steps)


def _adaptive(*functions: Function) -> Callable[..., Function]:
    def build(shape: Shape, output_size: Any) -> Function:
        n = len(shape) - 2
        function, size = functions[n - 1], spread(output_size, n)
        return lambda x: function(x, size)

    return build


def _slice(shape: Shape, starts: Any, ends: Any, axes: Any, steps: Any) -> Function:
    starts, ends = list_of(starts), list_of(ends)
    axes = axes_of(axes, len(shape)) or list(range(len(starts)))
    steps = spread(steps, len(starts))
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
    stretched = antialias and mode != "nearest"
    known = {("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")}
    if n == 2:
        known |= {("cubic", "half_pixel"), ("cubic", "align_corners")}
    if coordinates == "tf_crop_and_resize" and n == 2 and mode != "nearest":
        return _crop(list_of(size), list_of(roi), mode)
    if (mode, coordinates) not in known or (mode == "nearest" and nearest_rounding != "floor"):
        raise NoEquivalent(f"resize: {mode} with {coordinates} and {nearest_rounding}")
    if stretched and not (n == 2 and exclude_outside):
        raise NoEquivalent("resize: antialias that repeats the edge")
    if mode == "cubic" and cubic_coeff_a != (-0.5 if stretched else -0.75):
        raise NoEquivalent("resize: another cubic")
    if mode == "cubic" and exclude_outside and not stretched:
        raise NoEquivalent("resize: cubic without what lies outside")
    if list_of(size) and list_of(scales):
        raise NoEquivalent("resize: size and scales")
    options: dict[str, Any] = {
        "mode": {"nearest": "nearest", "cubic": "bicubic"}.get(
            mode, ("linear", "bilinear", "trilinear")[n - 1]
        )
    }
    options |= {"size": spread(size, n)} if list_of(size) else {"scale_factor": spread(scales, n)}
    if mode != "nearest":
        options["align_corners"] = coordinates == "align_corners"
    if stretched:
        options["antialias"] = True
    return lambda x: F.interpolate(x, **options)


def _crop(size: list[int], roi: list[float], mode: str) -> Function:
    """tf_crop_and_resize as a grid, where it lies inside of the input."""
    if not size or min(roi) < 0.0 or max(roi) > 1.0:
        raise NoEquivalent("resize: a crop beyond the input")
    ends = [
        (roi[i], roi[2 + i]) if s > 1 else [(roi[i] + roi[2 + i]) / 2] * 2
        for i, s in enumerate(spread(size, 2))
    ]

    def crop(x: Tensor) -> Tensor:
        lines = [
            torch.linspace(2 * a - 1, 2 * b - 1, s, dtype=x.dtype) for s, (a, b) in zip(spread(size, 2), ends)
        ]
        grid = torch.stack(torch.meshgrid(*lines, indexing="ij")[::-1], -1).expand(len(x), -1, -1, -1)
        kind = {"linear": "bilinear", "cubic": "bicubic"}[mode]
        return F.grid_sample(x, grid, kind, "border", align_corners=True)

    return crop


def _reduce(function: Function) -> Callable[..., Function]:
    def build(shape: Shape, axes: Any, keepdims: bool) -> Function:
        over = axes_of(axes, len(shape)) or list(range(len(shape)))
        return lambda x: function(x, over, keepdim=bool(keepdims)).to(x.dtype)

    return build


def _pad(shape: Shape, pads: Any, value: float, mode: str) -> Function:
    order = pad_order(list_of(pads)[: len(shape)], list_of(pads)[len(shape) :])
    if mode == "constant":
        return lambda x: F.pad(x, order, value=value)
    pads = list_of(pads)
    if (
        mode == "roll"
        or min(pads) < 0
        or (mode != "edge" and any(p >= n for p, n in zip(pads, [*shape, *shape])))
    ):
        raise NoEquivalent("pad: by more than there is")
    spatial = len(shape) - 2
    if not 1 <= spatial <= 3 or any(order[2 * spatial :]):
        raise NoEquivalent("pad: of the first dimensions")
    words = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    return lambda x: F.pad(x, order[: 2 * spatial], mode=words[mode])


def _reshape(target: Any, shape: Shape) -> Function:
    sizes = [shape[i] if s == 0 else s for i, s in enumerate(list_of(target))]
    return lambda x: x.reshape(sizes)


def _squeeze(shape: Shape, axes: Any) -> Function:
    over = tuple(axes_of(axes, len(shape))) or tuple(i for i, s in enumerate(shape) if s == 1)
    return lambda x: x.squeeze(over)


def _unsqueeze(shape: Shape, axes: Any) -> Function:
    made = set(axes_of(axes, len(shape) + len(list_of(axes))))
    old = iter(shape)
    sizes = [1 if i in made else next(old) for i in range(len(shape) + len(made))]
    return lambda x: x.reshape(sizes)


def _expand(target: Any, shape: Shape) -> Function:
    sizes = torch.broadcast_shapes(tuple(shape), tuple(list_of(target)))
    return lambda x: x.expand(sizes)


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    return F.prelu(x, slope) if slope.dim() == 1 else torch.where(x > 0, x, slope * x)


def _gates(x: Tensor, order: tuple[int, ...], dim: int = 0) -> Tensor:
    """The gates of a cell, side by side in x, in the order that PyTorch wants."""
    return torch.cat([x.chunk(len(order), dim)[i] for i in order], dim)


def _eye(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1], dtype=x.dtype, device=x.device)


def _lstm_cell(x: Tensor, h: Tensor, c: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    order = (0, 2, 3, 1)  # i, f, new, o of i, o, f, new
    return torch.lstm_cell(_gates(x, order, 1), (h, c), _eye(x), _gates(r, order))


def _gru_cell(x: Tensor, h: Tensor, r: Tensor, b: Tensor) -> Tensor:
    order = (1, 0, 2)  # r, z, new of z, r, new
    return torch.gru_cell(_gates(x, order, 1), h, _eye(x), _gates(r, order), None, _gates(b, order))


def _steps(x: Tensor, h: Tensor, reverse: int) -> list[Tensor]:
    steps = list(x.split(len(h)))
    return steps[::-1] if reverse else steps


def _lstm(x: Tensor, h: Tensor, c: Tensor, r: Tensor, reverse: int) -> tuple[Tensor, Tensor]:
    made = []
    for step in _steps(x, h, reverse):
        h, c = _lstm_cell(step, h, c, r)
        made.append(h)
    return torch.cat(made[::-1] if reverse else made), c


def _gru(x: Tensor, h: Tensor, r: Tensor, b: Tensor, reverse: int) -> Tensor:
    made = []
    for step in _steps(x, h, reverse):
        h = _gru_cell(step, h, r, b)
        made.append(h)
    return torch.cat(made[::-1] if reverse else made)


PLAIN: dict[str, Function] = {
    **torch_ops_onnx.PLAIN,
    "lstm_cell": _lstm_cell,
    "gru_cell": _gru_cell,
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
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "dropout": lambda x: x,
    "identity": lambda x: x,
}

BUILT: dict[str, Callable[..., Function]] = {
    **torch_ops_onnx.BUILT,
    "conv": _conv,
    "depthwise_nhwc": _depthwise_nhwc,
    "conv_transpose": _conv_transpose,
    "gemm": _gemm,
    "lstm": lambda shape, reverse: lambda x, h, c, r: _lstm(x, h, c, r, reverse),
    "gru": lambda shape, reverse: lambda x, h, r, b: _gru(x, h, r, b, reverse),
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d),
    "adaptive_max_pool": _adaptive(F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d),
    # some versions of torch refuse eps=0; 1e-300 is nothing beside any variance
    "batch_norm": lambda shape, eps: (
        lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, eps=eps or 1e-300)
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
    "split": lambda shape, sizes, dim: lambda x: torch.split(x, list_of(sizes), dim),
    "slice": _slice,
    "pad": _pad,
    "reshape": lambda first, shape: _reshape(shape, first),
    "flatten": lambda shape, start_dim, end_dim: lambda x: torch.flatten(x, start_dim, end_dim),
    "transpose": lambda shape, perm: lambda x: x.permute(list_of(perm)),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "expand": lambda first, shape: _expand(shape, first),
    "resize": _resize,
}
