"""Networks from pictures, or from a few numbers, to pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def dcgan(width: int = 64) -> nn.Module:
    """The generator of DCGAN: 100 numbers to 64x64 pixels by transposed convolutions of 4x4 at stride 2."""
    layers: list[nn.Module] = []
    channels = [100, 8 * width, 4 * width, 2 * width, width]
    for i, (a, b) in enumerate(zip(channels, channels[1:])):
        first = i == 0
        layers += [
            nn.ConvTranspose2d(a, b, 4, 1 if first else 2, 0 if first else 1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def _twice(a: int, b: int) -> nn.Sequential:
    """Two 3x3 convolutions, each with batch norm and ReLU."""
    layers: list[nn.Module] = []
    for i in (a, b):
        layers += [nn.Conv2d(i, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class _UNet(nn.Module):
    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        sizes = [width << i for i in range(levels)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *sizes], sizes))
        self.pool = nn.MaxPool2d(2)
        pairs = list(zip(sizes[:0:-1], sizes[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.join = nn.ModuleList(_twice(a, b) for a, b in pairs)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(self.pool(x) if i else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


def unet() -> nn.Module:
    """U-Net: five levels, transposed convolutions of 2x2 at stride 2 on the way up."""
    return _UNet(64, 5)


def espcn(scale: int = 3) -> nn.Module:
    """Super-resolution of one channel with the pixel shuffle last."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
        nn.Conv2d(32, scale**2, 3, padding=1), nn.PixelShuffle(scale),
    )  # fmt: skip


class _Residual(nn.Module):
    """x + scale * body(x)"""

    def __init__(self, *body: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        self.body, self.scale = nn.Sequential(*body), scale

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + (y * self.scale if self.scale != 1.0 else y)


def _same(a: int, b: int, window: int = 3) -> nn.Conv2d:
    """A convolution that keeps the picture's size."""
    return nn.Conv2d(a, b, window, padding=window // 2)


def edsr(width: int = 64, blocks: int = 16) -> nn.Module:
    """EDSR of the baseline's size, twice the pixels: residual blocks without normalisation."""
    trunk = [_Residual(_same(width, width), nn.ReLU(), _same(width, width), scale=0.1) for _ in range(blocks)]
    return nn.Sequential(
        _same(3, width), _Residual(*trunk, _same(width, width)),
        _same(width, 4 * width), nn.PixelShuffle(2), _same(width, 3),
    )  # fmt: skip


def srresnet(width: int = 64, blocks: int = 16) -> nn.Module:
    """SRResNet, four times the pixels: 9x9 at both ends, PReLU, pixel shuffle."""

    def normed() -> list[nn.Module]:
        return [_same(width, width), nn.BatchNorm2d(width)]

    trunk = [_Residual(*normed(), nn.PReLU(), *normed()) for _ in range(blocks)]
    ups: list[nn.Module] = []
    for _ in range(2):
        ups += [_same(width, 4 * width), nn.PixelShuffle(2), nn.PReLU()]
    return nn.Sequential(
        _same(3, width, 9), nn.PReLU(), _Residual(*trunk, *normed()), *ups, _same(width, 3, 9),
    )  # fmt: skip


def dncnn(width: int = 64, depth: int = 17) -> nn.Module:
    """DnCNN, which takes noise away: one kind of layer, from end to end at the picture's size."""
    layers: list[nn.Module] = [_same(1, width), nn.ReLU()]
    for _ in range(depth - 2):
        layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, _same(width, 1))


def _reflected(a: int, b: int, window: int, stride: int = 1) -> list[nn.Module]:
    """A convolution of a map that is padded by reflection, and its instance norm."""
    return [
        nn.ReflectionPad2d(window // 2),
        nn.Conv2d(a, b, window, stride),
        nn.InstanceNorm2d(b, affine=True),
    ]


def _repeated(width: int, blocks: int) -> list[nn.Module]:
    return [
        _Residual(*_reflected(width, width, 3), nn.ReLU(), *_reflected(width, width, 3))
        for _ in range(blocks)
    ]


def style(width: int = 32) -> nn.Module:
    """Style transfer in the manner of Johnson and others: 9x9 at both ends, nearest pixels on the way up."""
    w = width
    ups: list[nn.Module] = []
    for a, b in ((4 * w, 2 * w), (2 * w, w)):
        ups += [nn.Upsample(scale_factor=2, mode="nearest"), *_reflected(a, b, 3), nn.ReLU()]
    return nn.Sequential(
        *_reflected(3, w, 9), nn.ReLU(),
        *_reflected(w, 2 * w, 3, 2), nn.ReLU(),
        *_reflected(2 * w, 4 * w, 3, 2), nn.ReLU(),
        *_repeated(4 * w, 5), *ups,
        nn.ReflectionPad2d(4), nn.Conv2d(w, 3, 9),
    )  # fmt: skip


def cyclegan(width: int = 64) -> nn.Module:
    """CycleGAN's generator: 3x3 transposed convolutions at stride 2 with output padding."""
    w = width
    ups: list[nn.Module] = []
    for a, b in ((4 * w, 2 * w), (2 * w, w)):
        ups += [nn.ConvTranspose2d(a, b, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(b), nn.ReLU()]
    downs: list[nn.Module] = []
    for a, b in ((w, 2 * w), (2 * w, 4 * w)):
        downs += [nn.Conv2d(a, b, 3, 2, 1), nn.InstanceNorm2d(b), nn.ReLU()]
    return nn.Sequential(
        *_reflected(3, w, 7), nn.ReLU(), *downs, *_repeated(4 * w, 6), *ups,
        nn.ReflectionPad2d(3), nn.Conv2d(w, 3, 7), nn.Tanh(),
    )  # fmt: skip
