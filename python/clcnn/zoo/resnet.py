"""Residual networks (He et al. 2016). State-dict keys as torchvision's resnet18 and resnet50 (v1.5: stride
in the 3x3)."""

from __future__ import annotations

from typing import Any

from clcnn import nn, ops


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and the shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _projection(channels, width, stride) if project else None

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(ops.add(y, self.downsample(x) if self.downsample else x, name=_join_name(self)))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions and the shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        out = width * self.expansion
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _projection(channels, out, stride) if project else None

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(ops.add(y, self.downsample(x) if self.downsample else x, name=_join_name(self)))


def _join_name(block: nn.Module) -> str | None:
    return f"{block.layer_name}.add" if block.layer_name else None


def _projection(channels: int, out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    """x [N, 3, 224, 224] -> logits [N, num_classes].

    project_first also gives the first block of stage 1 a projection where the shapes would not need one: the
    fourth one of the widespread Caffe port of ResNet-18.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: tuple[int, ...],
        num_classes: int = 1000,
        project_first: bool = False,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = 64
        for stage, count in enumerate(layers):
            width, blocks = 64 * 2**stage, []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                out = width * block.expansion
                project = stride != 1 or channels != out or (project_first and stage == 0 and i == 0)
                blocks.append(block(channels, width, stride, project))
                channels = out
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(self.flatten(self.avgpool(x)))


def resnet18(num_classes: int = 1000, caffe: bool = False) -> ResNet:
    """ResNet-18: x [N, 3, 224, 224] -> logits [N, num_classes].

    1.81 GMACs an image, 11,689,512 parameters, with torchvision's keys (resnet18). It has 21 weighted
    layers: 17 convolutions, 3 projections and 1 fully connected. Source: He et al. 2016.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.
    caffe : bool
        True adds the fourth projection, of stage 1, that the widespread Caffe port has: 1.83 GMACs,
        11,693,736 parameters.

    Returns
    -------
    ResNet
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.resnet18()
    >>> net.fc.weight.shape
    (1000, 512)
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, project_first=caffe)


def resnet50(num_classes: int = 1000) -> ResNet:
    """ResNet-50 v1.5, with the stride in the 3x3: x [N, 3, 224, 224] -> logits [N, num_classes].

    4.09 GMACs an image, 25,557,032 parameters, with torchvision's keys (resnet50). Source: He et al. 2016.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    ResNet
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.resnet50()
    >>> net.fc.weight.shape
    (1000, 2048)
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes)
