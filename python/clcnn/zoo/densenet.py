"""DenseNet-121 (Huang et al. 2017). State-dict keys as torchvision's densenet121."""

from __future__ import annotations

from typing import Any

from clcnn import nn, ops


class DenseLayer(nn.Module):
    """BN, ReLU, 1x1, BN, ReLU, 3x3 on the concatenation of everything before it in the block."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.conv1(self.relu1(self.norm1(x)))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.Module):
    """`count` dense layers; the output is everything concatenated. The planner gives the whole block one
    buffer."""

    def __init__(self, channels: int, count: int, growth: int) -> None:
        super().__init__()
        for i in range(count):
            self.add_module(f"denselayer{i + 1}", DenseLayer(channels + i * growth, growth))

    def forward(self, x: Any) -> Any:
        features = [x]
        for name, layer in self.named_children():
            whole = features[0] if len(features) == 1 else self._join(features, f"{name}.concat")
            features.append(layer(whole))
        return self._join(features, "concat")

    def _join(self, features: list[Any], name: str) -> Any:
        return ops.concat(*features, dim=1, name=f"{self.layer_name}.{name}" if self.layer_name else None)


class Transition(nn.Module):
    """BN, ReLU, 1x1 to half the channels, 2x2 average pooling."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(channels, out, 1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Any) -> Any:
        return self.pool(self.conv(self.relu(self.norm(x))))


class DenseNet(nn.Module):
    """x [N, 3, 224, 224] -> logits [N, num_classes]."""

    def __init__(self, layers: tuple[int, ...], growth: int = 32, num_classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * growth
        parts: dict[str, nn.Module] = {
            "conv0": nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            "norm0": nn.BatchNorm2d(channels),
            "relu0": nn.ReLU(inplace=True),
            "pool0": nn.MaxPool2d(3, stride=2, padding=1),
        }
        for i, count in enumerate(layers):
            parts[f"denseblock{i + 1}"] = DenseBlock(channels, count, growth)
            channels += count * growth
            if i + 1 < len(layers):
                parts[f"transition{i + 1}"] = Transition(channels, channels // 2)
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.relu = nn.ReLU()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.flatten(self.avgpool(self.relu(self.features(x)))))


def densenet121(num_classes: int = 1000) -> DenseNet:
    """DenseNet-121: x [N, 3, 224, 224] -> logits [N, num_classes].

    2.83 GMACs an image, 7,978,856 parameters, with torchvision's keys (densenet121). Source: Huang et al.
    2017.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    DenseNet
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.densenet121()
    >>> net.classifier.weight.shape
    (1000, 1024)
    """
    return DenseNet((6, 12, 24, 16), 32, num_classes)
