"""MobileNet v1 (Howard et al. 2017): depthwise-separable convolutions. State-dict keys as timm's
mobilenetv1_100."""

from __future__ import annotations

from typing import Any

from clcnn import nn

_BLOCKS = [  # stages of (output channels, stride)
    [(64, 1)],
    [(128, 2), (128, 1)],
    [(256, 2), (256, 1)],
    [(512, 2), *[(512, 1)] * 5],
    [(1024, 2), (1024, 1)],
]


class DepthwiseSeparable(nn.Module):
    """3x3 depthwise, BN, ReLU6, 1x1 pointwise, BN, ReLU6."""

    def __init__(self, channels: int, out: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.conv_dw = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.act1 = activation()
        self.conv_pw = nn.Conv2d(channels, out, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.act2 = activation()

    def forward(self, x: Any) -> Any:
        x = self.act1(self.bn1(self.conv_dw(x)))
        return self.act2(self.bn2(self.conv_pw(x)))


class MobileNetV1(nn.Module):
    """x [N, 3, 224, 224] -> logits [N, num_classes]. activation: nn.ReLU (the paper) or nn.ReLU6 (timm)."""

    def __init__(self, num_classes: int = 1000, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.conv_stem = nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.act1 = activation()
        channels = 32
        stages = []
        for stage in _BLOCKS:
            blocks = []
            for out, stride in stage:
                blocks.append(DepthwiseSeparable(channels, out, stride, activation))
                channels = out
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x: Any) -> Any:
        x = self.blocks(self.act1(self.bn1(self.conv_stem(x))))
        return self.classifier(self.flatten(self.avgpool(x)))


def mobilenet_v1(num_classes: int = 1000, relu6: bool = False) -> MobileNetV1:
    """MobileNet v1 1.0: x [N, 3, 224, 224] -> logits [N, num_classes].

    0.569 GMACs an image, 4,231,976 parameters, with timm's keys (mobilenetv1_100). Source: Howard et al.
    2017.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.
    relu6 : bool
        True takes ReLU6, as timm does; False ReLU, as the paper.

    Returns
    -------
    MobileNetV1
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.mobilenet_v1()
    >>> net.classifier.weight.shape
    (1000, 1024)
    """
    return MobileNetV1(num_classes, nn.ReLU6 if relu6 else nn.ReLU)
