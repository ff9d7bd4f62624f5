"""Networks of one dimension, for sound."""

from __future__ import annotations

from torch import Tensor, nn


def m5(width: int = 64, classes: int = 35) -> nn.Module:
    """M5 on a waveform: a window of 80 samples at stride 4, then windows of 3."""
    layers: list[nn.Module] = []
    channels = [1, width, width, 2 * width, 4 * width]
    for i, (a, b) in enumerate(zip(channels, channels[1:])):
        window, stride = (80, 4) if i == 0 else (3, 1)
        layers += [nn.Conv1d(a, b, window, stride), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4 * width, classes))


class _Dilated(nn.Module):
    """1x1, a depthwise window of 3 with gaps, 1x1, added to what came in: a block of Conv-TasNet."""

    def __init__(self, width: int, inner: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(width, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner),
            nn.Conv1d(inner, inner, 3, padding=dilation, dilation=dilation, groups=inner),
            nn.PReLU(), nn.GroupNorm(1, inner), nn.Conv1d(inner, width, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def tcn(width: int = 128, inner: int = 256, depth: int = 7, classes: int = 48) -> nn.Module:
    """A temporal convolution network over 40 bands: windows with gaps of 1, 2, 4, ... steps, twice."""
    blocks = [_Dilated(width, inner, 1 << i) for _ in range(2) for i in range(depth)]
    return nn.Sequential(nn.Conv1d(40, width, 1), *blocks, nn.Conv1d(width, classes, 1))
