"""Networks that take less than a few milliseconds: for words, points, faces, signals and games."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _conv(a: int, b: int, window: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    layers = [nn.Conv2d(a, b, window, stride, window // 2, groups=groups, bias=False), nn.BatchNorm2d(b)]
    return nn.Sequential(*layers, nn.ReLU())


def ds_cnn(width: int = 64, blocks: int = 4, classes: int = 12) -> nn.Module:
    """DS-CNN, which spots words in 49 frames of 10 coefficients."""
    layers: list[nn.Module] = [nn.Conv2d(1, width, (10, 4), 2, (5, 1)), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(blocks):
        layers += [_conv(width, width, groups=width), _conv(width, width, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class _PointNet(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.turn = nn.Sequential(
            self._points(3, 64, 128, 1024), self._flat(1024, 512, 256), nn.Linear(256, 9)
        )
        self.first, self.last = self._points(3, 64, 64), self._points(64, 64, 128, 1024)
        self.head = nn.Sequential(self._flat(1024, 512, 256), nn.Linear(256, classes))

    @staticmethod
    def _points(*widths: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*layers)

    @staticmethod
    def _flat(*widths: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        turn = self.turn[0](x).amax(2)
        turn = self.turn[2](self.turn[1](turn)).view(-1, 3, 3) + torch.eye(3)
        x = torch.bmm(x.transpose(1, 2), turn).transpose(1, 2)
        return self.head(self.last(self.first(x)).amax(2))


def pointnet(classes: int = 40) -> nn.Module:
    """PointNet: the same layers for each point, whose axes it turns first, and the maximum of all."""
    return _PointNet(classes)


def lenet(classes: int = 10) -> nn.Module:
    """LeNet-5 on 28 x 28 digits."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


def mlp(width: int = 256, depth: int = 3, inputs: int = 784, classes: int = 10) -> nn.Module:
    """A few layers on a row of numbers."""
    widths = [inputs] + [width] * depth
    layers: list[nn.Module] = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))


def dqn(actions: int = 6) -> nn.Module:
    """The network that learned to play games, on four frames of 84 x 84."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
    )  # fmt: skip


class _Recurrent(nn.Module):
    def __init__(self, kind: str, inputs: int, width: int, depth: int, both: bool, classes: int) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(inputs, width, depth, batch_first=True, bidirectional=both)
        self.head = nn.Linear(width * (1 + both), classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


def recurrent(
    kind: str = "GRU",
    inputs: int = 40,
    width: int = 128,
    depth: int = 2,
    both: bool = False,
    classes: int = 30,
) -> nn.Module:
    """Recurrent layers over [batch, steps, inputs], and a linear layer for each step."""
    return _Recurrent(kind, inputs, width, depth, both, classes)


class _Codec(nn.Module):
    def __init__(self, width: int, strides: tuple[int, ...], depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(1, width, 7, padding=3)]
        for stride in strides:
            layers += [
                _Unit(width),
                nn.ELU(),
                nn.Conv1d(width, 2 * width, 2 * stride, stride, (stride + 1) // 2),
            ]
            width *= 2
        self.body = nn.Sequential(*layers)
        self.rnn = nn.LSTM(width, width, depth, batch_first=True)
        self.last = nn.Sequential(nn.ELU(), nn.Conv1d(width, 128, 7, padding=3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x).transpose(1, 2)
        return self.last((self.rnn(x)[0] + x).transpose(1, 2))


class _Unit(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ELU(), nn.Conv1d(width, width // 2, 3, padding=1), nn.ELU(), nn.Conv1d(width // 2, width, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def codec(width: int = 32, strides: tuple[int, ...] = (2, 4, 5, 8), depth: int = 2) -> nn.Module:
    """The encoder of a sound codec in the manner of EnCodec, with its two layers of LSTM."""
    return _Codec(width, strides, depth)


def autoencoder(width: int = 16) -> nn.Module:
    """A signal of one dimension, made short and long again."""
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for a, b in ((1, width), (width, 2 * width), (2 * width, 4 * width)):
        down += [nn.Conv1d(a, b, 7, 2, 3), nn.BatchNorm1d(b), nn.ReLU()]
        up = [nn.ConvTranspose1d(b, a, 4, 2, 1), nn.ReLU() if a > 1 else nn.Tanh(), *up]
    return nn.Sequential(*down, *up)


class _Unet1d(nn.Module):
    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [width << i for i in range(levels)]
        self.down = nn.ModuleList(self._twice(a, b) for a, b in zip([2, *widths], widths))
        self.up = nn.ModuleList(self._twice(a + b, a) for a, b in zip(widths, widths[1:]))
        self.last = nn.Conv1d(width, 2, 1)

    @staticmethod
    def _twice(a: int, b: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for first in (a, b):
            layers += [nn.Conv1d(first, b, 5, padding=2), nn.BatchNorm1d(b), nn.LeakyReLU(0.2)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        left: list[Tensor] = []
        for i, part in enumerate(self.down):
            x = part(x if i == 0 else nn.functional.max_pool1d(x, 2))
            left.append(x)
        for skip, part in zip(left[-2::-1], reversed(self.up)):
            x = part(torch.cat([nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"), skip], 1))
        return self.last(x)


def unet1d(width: int = 16, levels: int = 4) -> nn.Module:
    """A U-Net over two channels of a signal."""
    return _Unet1d(width, levels)


def ecg(width: int = 32, blocks: int = 4, classes: int = 5) -> nn.Module:
    """Windows of 16 over 12 leads, pooled, for the classes of heartbeats."""
    layers: list[nn.Module] = []
    for i in range(blocks):
        a, b = (12, width) if i == 0 else (width << (i - 1), width << i)
        layers += [nn.Conv1d(a, b, 16, padding=8), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width << (blocks - 1), classes)
    )


def fsrcnn(width: int = 56, inner: int = 12, depth: int = 4, scale: int = 2) -> nn.Module:
    """A picture enlarged by a transposed convolution at the end."""
    layers: list[nn.Module] = [nn.Conv2d(1, width, 5, padding=2), nn.PReLU(width)]
    layers += [nn.Conv2d(width, inner, 1), nn.PReLU(inner)]
    for _ in range(depth):
        layers += [nn.Conv2d(inner, inner, 3, padding=1), nn.PReLU(inner)]
    layers += [nn.Conv2d(inner, width, 1), nn.PReLU(width)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 1, 9, scale, 4, output_padding=scale - 1))


def onet() -> nn.Module:
    """The last of MTCNN's three networks, on a face of 48 x 48."""
    layers: list[nn.Module] = []
    for a, b, window, pool in ((3, 32, 3, 3), (32, 64, 3, 3), (64, 64, 3, 2), (64, 128, 2, 0)):
        layers += [nn.Conv2d(a, b, window), nn.PReLU(b)]
        layers += [nn.MaxPool2d(pool, 2, ceil_mode=True)] if pool else []
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1152, 256), nn.PReLU(256), nn.Linear(256, 10))


def pnet() -> nn.Module:
    """The first of MTCNN's three networks, over a whole picture."""
    return nn.Sequential(
        nn.Conv2d(3, 10, 3), nn.PReLU(10), nn.MaxPool2d(2, 2, ceil_mode=True),
        nn.Conv2d(10, 16, 3), nn.PReLU(16), nn.Conv2d(16, 32, 3), nn.PReLU(32), nn.Conv2d(32, 6, 1),
    )  # fmt: skip


class _Blaze(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(a, a, 5, stride, 2, groups=a), nn.Conv2d(a, b, 1), nn.BatchNorm2d(b)
        )
        self.stride, self.more = stride, b - a

    def forward(self, x: Tensor) -> Tensor:
        short = nn.functional.max_pool2d(x, 2) if self.stride == 2 else x
        return nn.functional.relu(self.body(x) + nn.functional.pad(short, (0, 0, 0, 0, 0, self.more)))


def blazeface() -> nn.Module:
    """BlazeFace's body: depthwise windows of 5, and 1x1."""
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 5, 2, 2), nn.ReLU()]
    for a, b, stride in (
        (24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 36, 1), (36, 42, 1), (42, 48, 2), (48, 56, 1),
        (56, 64, 1), (64, 72, 1), (72, 80, 1), (80, 88, 1), (88, 96, 2), (96, 96, 1), (96, 96, 1),
        (96, 96, 1),
    ):  # fmt: skip
        layers.append(_Blaze(a, b, stride))
    return nn.Sequential(*layers, nn.Conv2d(96, 6 * 16, 3, padding=1))


class _TextCnn(nn.Module):
    def __init__(self, width: int, filters: int, classes: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv1d(width, filters, window) for window in (3, 4, 5))
        self.head = nn.Linear(3 * filters, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([nn.functional.relu(part(x)).amax(2) for part in self.parts], 1))


def text_cnn(width: int = 128, filters: int = 100, classes: int = 4) -> nn.Module:
    """Windows of 3, 4 and 5 words, and the maximum of each filter."""
    return _TextCnn(width, filters, classes)


def resnet8(width: int = 16, classes: int = 10) -> nn.Module:
    """MLPerf Tiny's ResNet-8 on 32 x 32."""
    layers: list[nn.Module] = [_conv(3, width)]
    for a, b, stride in ((width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)):
        layers.append(_Residual(a, b, stride))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))


class _Residual(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(a, b, 3, stride), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b))
        self.short = nn.Conv2d(a, b, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.body(x) + self.short(x))
