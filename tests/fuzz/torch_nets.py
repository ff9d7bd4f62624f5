"""Random PyTorch modules, exported to ONNX: the patterns that real exporters write."""

from __future__ import annotations

import io
import logging
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

Block = Callable[[random.Random, int, int], "tuple[nn.Module, int]"]
BLOCKS: dict[str, Block] = {}


def block(make: Block) -> Block:
    """Adds a function that, given channels and the map's side, makes a module and tells its channels."""
    BLOCKS[make.__name__.strip("_")] = make
    return make


def _act(rng: random.Random) -> nn.Module:
    kinds: list[Callable[[], nn.Module]] = [
        nn.ReLU,
        nn.ReLU6,
        nn.SiLU,
        nn.Hardswish,
        nn.GELU,
        nn.Mish,
        nn.ELU,
    ]
    kinds += [nn.Sigmoid, nn.Tanh, nn.Hardsigmoid, nn.Softplus, nn.Identity]
    kinds += [lambda: nn.LeakyReLU(0.1), lambda: nn.PReLU(), lambda: nn.Hardtanh(-1, 2), nn.ReLU, nn.ReLU]
    return rng.choice(kinds)()


def _norm(rng: random.Random, c: int) -> nn.Module:
    kinds: list[Callable[[], nn.Module]] = [
        *[lambda: nn.BatchNorm2d(c)] * 4,
        nn.Identity,
        lambda: nn.InstanceNorm2d(c, affine=rng.random() < 0.5),
        lambda: nn.GroupNorm(_divisor(rng, c), c),
    ]
    return rng.choice(kinds)()


def _divisor(rng: random.Random, n: int) -> int:
    return rng.choice([d for d in range(1, n + 1) if n % d == 0])


def _conv(rng: random.Random, c: int, made: int, kernel: int = 3, **how: Any) -> nn.Sequential:
    conv = nn.Conv2d(c, made, kernel, bias=rng.random() < 0.5, **how)
    return nn.Sequential(conv, _norm(rng, made), _act(rng))


class Sum(nn.Module):
    """x plus the body's result, scaled."""

    def __init__(self, body: nn.Module, skip: nn.Module, after: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.body, self.skip, self.after, self.scale = body, skip, after, scale

    def forward(self, x: Any) -> Any:
        made = self.body(x)
        return self.after(self.skip(x) + (made if self.scale == 1.0 else self.scale * made))


class Branches(nn.Module):
    """The branches' results, added one after the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Any) -> Any:
        total = self.branches[0](x)
        for branch in self.branches[1:]:
            total = total + branch(x)
        return total


class Joined(nn.Module):
    """The branches' results, one after the other along the channels."""

    def __init__(self, *branches: nn.Module, keep: bool = False) -> None:
        super().__init__()
        self.branches, self.keep = nn.ModuleList(branches), keep

    def forward(self, x: Any) -> Any:
        return torch.cat([*([x] if self.keep else []), *(b(x) for b in self.branches)], 1)


class Apply(nn.Module):
    """A function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Excite(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, rng: random.Random, c: int) -> None:
        super().__init__()
        gate = rng.choice([nn.Sigmoid(), nn.Hardsigmoid()])
        self.linear = rng.random() < 0.3
        small = max(1, c // 4)
        if self.linear:
            self.gate = nn.Sequential(nn.Linear(c, small), nn.ReLU(), nn.Linear(small, c), gate)
        else:
            self.gate = nn.Sequential(nn.Conv2d(c, small, 1), _act(rng), nn.Conv2d(small, c, 1), gate)

    def forward(self, x: Any) -> Any:
        mean = x.mean((2, 3), keepdim=not self.linear)
        weight = self.gate(mean)
        return x * (weight[:, :, None, None] if self.linear else weight)


class Attention(nn.Module):
    """Self-attention over the map's pixels."""

    def __init__(self, rng: random.Random, c: int) -> None:
        super().__init__()
        self.heads = _divisor(rng, c)
        self.norm, self.qkv, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.split = rng.random() < 0.5
        self.fused = rng.random() < 0.3

    def forward(self, x: Any) -> Any:
        n, c, h, w = x.shape
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        made = self.qkv(tokens)
        parts = made.chunk(3, -1) if self.split else [made[..., i * c : (i + 1) * c] for i in range(3)]
        q, k, v = (p.reshape(n, h * w, self.heads, -1).transpose(1, 2) for p in parts)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5, -1) @ v
        tokens = self.out(mixed.transpose(1, 2).reshape(n, h * w, c))
        return x + tokens.transpose(1, 2).reshape(n, c, h, w)


@block
def _plain(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    made = rng.choice([1, 3, 8, 16, 24, 32, 64])
    kernel = rng.choice([1, 1, 3, 3, 3, 5])
    stride, dilation = rng.choice([1, 1, 2]), rng.choice([1, 1, 1, 2])
    modes = ["zeros"] * 5 + (["reflect", "replicate", "circular"] if side > 5 else [])
    pad = dilation * (kernel // 2)
    how = {"padding": pad, "stride": stride, "dilation": dilation, "padding_mode": rng.choice(modes)}
    return _conv(rng, c, made, kernel, **how), made


@block
def _grouped(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    groups = rng.choice([c, c, _divisor(rng, c)])
    made = groups * rng.choice([1, 1, 2, 4])
    return _conv(rng, c, made, rng.choice([1, 3, 3, 5]), padding="same", groups=groups), made


@block
def _separable(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    made = rng.choice([8, 16, 32, 64])
    stride = rng.choice([1, 2])
    deep = _conv(rng, c, c, 3, padding=1, stride=stride, groups=c)
    return nn.Sequential(deep, _conv(rng, c, made, 1)), made


@block
def _residual(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    made, stride = rng.choice([c, c, 2 * c]), rng.choice([1, 1, 2])
    first = _conv(rng, c, made, 3, padding=1, stride=stride)
    body = nn.Sequential(first, nn.Conv2d(made, made, 3, padding=1, bias=False), _norm(rng, made))
    same = made == c and stride == 1
    skip = nn.Identity() if same else nn.Sequential(nn.Conv2d(c, made, 1, stride), _norm(rng, made))
    return Sum(body, skip, _act(rng), rng.choice([1.0, 1.0, 0.2])), made


@block
def _branches(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    """As RepVGG is trained: filters of several sizes beside each other, a norm of the input, the input."""
    groups = rng.choice([1, 1, c, _divisor(rng, c)])
    made, stride = rng.choice([c, c, groups * rng.choice([1, 2, 8])]), rng.choice([1, 1, 1, 2])
    dilation = rng.choice([1, 1, 1, 2])
    branches: list[nn.Module] = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        kernel = rng.choice([(1, 1), (1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (5, 5)])
        pad = (kernel[0] // 2 * dilation, kernel[1] // 2 * dilation)
        how: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
        conv = nn.Conv2d(c, made, kernel, padding=pad, bias=rng.random() < 0.5, **how)
        branches.append(nn.Sequential(conv, _norm(rng, made)) if rng.random() < 0.6 else conv)
    if made == c and stride == 1:
        branches += rng.choice([[nn.BatchNorm2d(c)], [nn.Identity()], [nn.BatchNorm2d(c), nn.Identity()], []])
    rng.shuffle(branches)
    return nn.Sequential(
        Branches(*branches), rng.choice([nn.Identity(), nn.BatchNorm2d(made)]), _act(rng)
    ), made


@block
def _inverted(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    wide = c * rng.choice([2, 3, 4])
    parts = [_conv(rng, c, wide, 1), _conv(rng, wide, wide, rng.choice([3, 5]), padding="same", groups=wide)]
    parts += [Excite(rng, wide)] if rng.random() < 0.6 else []
    parts += [nn.Conv2d(wide, c, 1, bias=False), nn.BatchNorm2d(c)]
    return Sum(nn.Sequential(*parts), nn.Identity(), nn.Identity()), c


@block
def _dense(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    layers, growth = [], rng.choice([4, 8, 12])
    for i in range(rng.choice([2, 3])):
        into = c + i * growth
        layers.append(nn.Sequential(nn.BatchNorm2d(into), nn.ReLU(), nn.Conv2d(into, growth, 3, padding=1)))
    return nn.Sequential(*(Joined(layer, keep=True) for layer in layers)), c + len(layers) * growth


@block
def _inception(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    made = rng.choice([4, 8, 16])
    pool = rng.choice([nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=rng.random() < 0.5)])
    branches = [
        _conv(rng, c, made, 1),
        nn.Sequential(_conv(rng, c, made, 1), _conv(rng, made, made, 3, padding=1)),
        nn.Sequential(pool, _conv(rng, c, made, 1)),
    ]
    return Joined(*branches), 3 * made


@block
def _shuffle(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    groups = _divisor(rng, c)

    def shuffle(x: Any) -> Any:
        n, c, h, w = x.shape
        return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)

    return Apply(shuffle), c


@block
def _split(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    half = max(1, c // 2)
    conv = _conv(rng, c - half, c - half, 3, padding=1) if c > half else nn.Identity()

    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Any) -> Any:
            a, b = x[:, :half], x[:, half:]
            return torch.cat([a, self.conv(b)], 1)

    return (Split() if c > 1 else nn.Identity()), c


@block
def _unet(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    if side < 4:
        return nn.Identity(), c
    mode = rng.choice(["nearest", "bilinear", "bicubic"])
    corners = None if mode == "nearest" else rng.random() < 0.4
    inner = _conv(rng, c, 2 * c, 3, padding=1)
    down = rng.choice(
        [nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(c, c, 2, 2)]
    )

    class Unet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.inner = down, inner

        def forward(self, x: Any) -> Any:
            made = self.inner(self.down(x))
            made = F.interpolate(made, size=x.shape[2:], mode=mode, align_corners=corners)
            return torch.cat([made, x], 1)

    return Unet(), 3 * c


@block
def _upsample(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    if side > 12:
        return nn.AvgPool2d(2), c
    mode = rng.choice(["nearest", "bilinear"])
    corners = None if mode == "nearest" else False
    return nn.Upsample(scale_factor=rng.choice([2, 2, 3, 1.5]), mode=mode, align_corners=corners), c


@block
def _transposed(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    if side > 12:
        return nn.MaxPool2d(3, 2, 1), c
    groups = rng.choice([1, 1, c])
    made = groups * rng.choice([1, 2]) if groups > 1 else rng.choice([4, 8, 16])
    kernel, stride = rng.choice([(2, 2), (3, 2), (4, 2), (3, 1)])
    extra = {"padding": 1, "output_padding": stride - 1} if kernel == 3 else {"padding": kernel // 4}
    return nn.ConvTranspose2d(c, made, kernel, stride, groups=groups, **extra), made


@block
def _pixels(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    if side <= 8 and c % 4 == 0:
        return nn.PixelShuffle(2), c // 4
    if side % 2 == 0 and c <= 16:
        return nn.PixelUnshuffle(2), 4 * c
    return nn.Dropout(), c


@block
def _pool(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    if side < 4:
        return nn.Identity(), c
    ceil = rng.random() < 0.4
    kernel, stride = rng.choice([2, 3]), rng.choice([1, 2, 2, 3])
    pad = rng.randint(0, kernel // 2)
    made: list[Callable[[], nn.Module]] = [
        lambda: nn.MaxPool2d(kernel, stride, pad, rng.choice([1, 1, 2]) if side > 6 else 1, ceil_mode=ceil),
        lambda: nn.AvgPool2d(kernel, stride, pad, ceil, rng.random() < 0.5),
        lambda: nn.AdaptiveAvgPool2d(rng.choice([1, 1, side])),
        lambda: nn.LPPool2d(2, kernel, stride),
    ]
    return rng.choice(made)(), c


@block
def _attention(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    return (Attention(rng, c) if side <= 9 else nn.MaxPool2d(2)), c


@block
def _excite(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    return Excite(rng, c), c


@block
def _last_norm(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    """Layer normalisation with the channels last, as ConvNeXt has it."""
    norm = nn.LayerNorm(c, elementwise_affine=rng.random() < 0.7)
    wide = nn.Sequential(norm, nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = wide

        def forward(self, x: Any) -> Any:
            return x + self.wide(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    return Last(), c


@block
def _functions(rng: random.Random, c: int, side: int) -> tuple[nn.Module, int]:
    """What people write in forward()."""
    made: list[Callable[[Any], Any]] = [
        lambda x: x.clamp(-1, 1) * 0.5 + 0.5,
        lambda x: F.normalize(x, dim=1),
        lambda x: x - x.mean(dim=(2, 3), keepdim=True),
        lambda x: torch.where(x > 0, x, 0.1 * x),
        lambda x: F.pad(x, (1, 0, 0, 1)),
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect") if min(x.shape[2:]) > 1 else x,
        lambda x: x.flip(3),
        lambda x: torch.sqrt(x.abs() + 1e-3),
        lambda x: x * torch.sigmoid(x.amax(1, keepdim=True)),
        lambda x: torch.roll(x, 1, 2),
        lambda x: x / (1 + x.std(dim=(2, 3), keepdim=True)) if min(x.shape[2:]) > 1 else x,
        lambda x: torch.stack([x, -x], 2).flatten(1, 2)[:, ::2],
        lambda x: torch.softmax(x, 1),
        lambda x: torch.max(x, x.transpose(2, 3)) if x.shape[2] == x.shape[3] else x,
        lambda x: x.masked_fill(x < -1, -1.0),
        lambda x: torch.cumsum(x, 2) * 0.2,
    ]
    return Apply(rng.choice(made)), c


def _head(rng: random.Random, c: int, shape: tuple[int, ...]) -> nn.Module:
    features = c * shape[2] * shape[3]
    heads: list[Callable[[], nn.Module]] = [
        nn.Identity,
        nn.Identity,
        lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10)),
        lambda: Apply(lambda x: x.mean((2, 3))),
        lambda: nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(c, 7), nn.LogSoftmax(1)),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(min(features, 10**9), 5), nn.Softmax(1)),
        lambda: Apply(lambda x: x.argmax(1)),
        lambda: Apply(lambda x: torch.topk(x.flatten(1), 3)[0] if x[0].numel() >= 3 else x),
    ]
    return rng.choice(heads)() if features < 4000 else heads[0]()


def build(rng: random.Random) -> tuple[nn.Module, torch.Tensor]:
    """A module of a few blocks and an input for it; its statistics and slopes are random too."""
    x = torch.randn(
        rng.randint(1, 5),
        rng.choice([1, 3, 3, 4, 8, 16]),
        *(rng.choice([5, 7, 8, 9, 11, 14, 16]) for _ in "hw"),
    )
    parts: list[nn.Module] = []
    shape = x
    with torch.no_grad():
        for _ in range(rng.randint(1, 4)):
            made, _ = rng.choice(list(BLOCKS.values()))(rng, shape.shape[1], min(shape.shape[2:]))
            made.eval()
            after = made(shape)
            if after.numel() > 30_000 or min(after.shape[2:]) < 1:
                continue
            parts.append(made)
            shape = after
        parts.append(_head(rng, shape.shape[1], tuple(shape.shape)))
    net = nn.Sequential(*parts).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    return net, x


def make(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]] | None:
    """A random module, exported, and what to feed it; None where the exporter refuses it."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    torch.set_num_threads(1)
    try:
        net, x = build(rng)
    except (RuntimeError, ValueError):  # a window larger than its map
        return None
    opset, new = rng.randint(13, 20), rng.random() < 0.03
    how: dict[str, Any] = {}
    if rng.random() < 0.5:
        how["dynamic_axes"] = {"x": {0: "n"}}
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), _silence():
            warnings.simplefilter("ignore")
            data = _exported_new(net, x, rng) if new else _exported(net, x, opset, how)
    except Exception:  # what exporters cannot do is none of our business
        return None
    finally:
        logging.disable(logging.NOTSET)
    proto = onnx.load_from_string(data)
    proto.ir_version = min(proto.ir_version, 10)
    return proto, {proto.graph.input[0].name: x.numpy()}


@contextmanager
def _silence() -> Iterator[None]:
    """Without what the exporter writes of graphs that it refuses, past Python."""
    kept = [os.dup(fd) for fd in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in (1, 2):
            os.dup2(nowhere, fd)
        yield
    finally:
        for fd, old in zip((1, 2), kept):
            os.dup2(old, fd)
            os.close(old)
        os.close(nowhere)


def _exported(net: nn.Module, x: torch.Tensor, opset: int, how: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.onnx.export(net, (x,), file, opset_version=opset, dynamo=False, input_names=["x"], **how)
    return file.getvalue()


def _exported_new(net: nn.Module, x: torch.Tensor, rng: random.Random) -> bytes:
    program = torch.onnx.export(
        net, (x,), opset_version=rng.randint(18, 21), dynamo=True, verbose=False, input_names=["x"]
    )
    assert program is not None
    return bytes(program.model_proto.SerializeToString())
