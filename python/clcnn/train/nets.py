"""Small nets that are quick to train from scratch."""

from __future__ import annotations

from typing import Any

from clcnn import nn
from clcnn.nn import init
from clcnn.zoo.resnet import BasicBlock

WIDTHS = (16, 32, 64)  # channels of the blocks


class SmallResNet(nn.Module):
    """A 3x3 convolution, then a block of two of them and a shortcut at each of three sizes, with batch norms:
    76 thousand parameters. Source: He et al. 2016, section 4.2, with n = 1."""

    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = nn.ReLU()
        inputs = (WIDTHS[0], *WIDTHS)
        self.blocks = nn.Sequential()
        for before, width in zip(inputs, WIDTHS):
            smaller = width > before
            self.blocks.append(BasicBlock(before, width, 2 if smaller else 1, smaller))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(WIDTHS[-1], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        return self.fc(self.flatten(self.avgpool(self.blocks(y))))


def small_resnet(num_classes: int = 10, channels: int = 1) -> SmallResNet:
    """A small residual net with batch norms, for images (N, channels, H, W) of any size from 4x4 on."""
    return SmallResNet(num_classes, channels)
