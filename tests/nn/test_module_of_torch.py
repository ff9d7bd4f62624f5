"""A module of PyTorch, ported: what changes is where `torch`'s names come from.

The text below is a segmentation net as people write them: containers, functions, views, indexing, parameters
in arithmetic, skip connections. It is run with clcnn's modules, and with torch's where torch is there, on the
same weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn

NET = '''
class Norm(nn.Module):
    """Layer norm over channels of [N, C, H, W], as ConvNeXt writes it."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(ones(channels))
        self.bias = nn.Parameter(zeros(channels))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / (s + self.eps) ** 0.5
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels, ratio=4):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // ratio)
        self.fc2 = nn.Linear(channels // ratio, channels)

    def forward(self, x):
        b, c, h, w = x.size()
        y = x.mean((2, 3)).view(b, c)
        y = F.softmax(self.fc2(F.silu(self.fc1(y))), dim=-1) * c
        return x * y.view(b, c, 1, 1)


class Block(nn.Module):
    """A depthwise residual block, half of whose channels pass by."""

    def __init__(self, channels, dilation=1):
        super().__init__()
        half = channels // 2
        self.half = half
        self.body = nn.Sequential(
            nn.Conv2d(half, half, 3, 1, dilation, dilation, groups=half, padding_mode="reflect"),
            Norm(half),
            nn.Conv2d(half, 2 * half, 1),
            nn.GLU(dim=1),
        )
        self.gate = Gate(half)
        self.scale = nn.Parameter(ones(1) * 0.5)

    def forward(self, x):
        left, right = x[:, : self.half], x[:, self.half :]
        right = right + self.scale * self.gate(self.body(right))
        return cat([left, right], 1)


class Attention(nn.Module):
    """Self-attention over pixels."""

    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, x):
        b, c, h, w = x.shape
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        qkv = self.qkv(tokens).reshape(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(y).transpose(1, 2).view(b, c, h, w)


class Net(nn.Module):
    """Encoder, attention, decoder."""

    def __init__(self, classes=5, width=8):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.GroupNorm(2, width), nn.Mish()
        )
        self.stages = nn.ModuleList([nn.Sequential(*[Block(width, d) for d in (1, 2)]) for _ in range(2)])
        self.down = nn.Conv2d(width, width, 2, stride=2)
        self.mix = Attention(width, heads=2)
        self.heads = nn.ModuleDict({
            "mask": nn.Sequential(nn.Conv2d(width, 4 * classes, 1), nn.PixelShuffle(2)),
            "edge": nn.Sequential(
                nn.InstanceNorm2d(width), nn.Softplus(), nn.Conv2d(width, 1, 3, padding=1)
            ),
        })

    def forward(self, x):
        x = 2 * x - 1
        x = F.pad(x, (1, 0, 1, 0), mode="replicate")[..., :-1, :-1]
        x = skip = self.stages[0](self.stem(x))
        x = self.stages[1](self.down(x))
        x = self.mix(x)
        x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
        x = F.leaky_relu(x + skip, 0.1)
        out = {name: head(x) for name, head in self.heads.items()}
        mask = out["mask"].clamp(-3, 3)
        return mask, 1 - out["edge"].sigmoid(), mask.argmax(1)
'''
SHAPE = (2, 3, 16, 24)


def net_of(nn: Any, ones: Any, zeros: Any, cat: Any) -> Any:
    names: dict[str, Any] = {"nn": nn, "F": nn.functional, "ones": ones, "zeros": zeros, "cat": cat}
    exec(compile(NET, "net", "exec"), names)
    return names["Net"]()


def ours() -> Any:
    def one(n: int) -> np.ndarray:
        return np.ones(n, np.float32)

    def zero(n: int) -> np.ndarray:
        return np.zeros(n, np.float32)

    clcnn.nn.init.manual_seed(4)
    return net_of(clcnn.nn, one, zero, lambda values, dim: clcnn.ops.concat(*values, dim=dim))


def test_the_net_compiles_and_keeps_its_names(device: clcnn.Device) -> None:
    net = ours()
    assert len(NET.splitlines()) > 100
    names = list(net.state_dict())
    assert {"stem.0.weight", "stages.1.0.body.1.weight", "mix.qkv.bias", "heads.mask.0.bias"} <= set(names)
    x = np.random.default_rng(2).random(SHAPE, np.float32)
    with clcnn.compile(net, SHAPE, device) as plan:
        mask, edge, best = plan(x)
        assert mask.shape == (2, 5, 16, 24) and edge.shape == (2, 1, 8, 12) and best.shape == (2, 16, 24)
        assert np.isfinite(mask).all() and (abs(mask) <= 3).all() and ((edge > 0) & (edge < 1)).all()
        np.testing.assert_array_equal(best, mask.argmax(1))
        assert plan.stats["chained_steps"] >= 0
    with clcnn.compile(net, SHAPE, device, fuse=False, precision="strict") as plan:
        again, edges, _ = plan(x)
    np.testing.assert_allclose(again, mask, atol=1e-4)
    np.testing.assert_allclose(edges, edge, atol=1e-5)


def test_the_net_is_torchs(device: clcnn.Device) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    theirs = net_of(torch.nn, torch.ones, torch.zeros, torch.cat).eval()
    net = ours()
    net.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    x = torch.rand(SHAPE)
    with torch.no_grad():
        wanted = [y.numpy() for y in theirs(x)]
    with clcnn.compile(net, SHAPE, device) as plan:
        found = plan(x)
    for y, z in zip(found[:2], wanted[:2], strict=True):
        np.testing.assert_allclose(y, z, atol=1e-4)
    assert (found[2] == wanted[2]).mean() > 0.999
