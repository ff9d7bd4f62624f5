"""LeNet-5, AlexNet and OverFeat: chains of a few layers."""

from __future__ import annotations

from typing import Any

from clcnn import nn


class LeNet5(nn.Module):
    """LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: x [N, 1, 28, 28] -> logits [N, num_classes]."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, num_classes),
        )

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x))


class AlexNet(nn.Module):
    """AlexNet as in "One weird trick" (Krizhevsky 2014): x [N, 3, 224, 224] -> logits. Keys as torchvision's
    alexnet."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        )  # fmt: skip
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(),
            nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, num_classes),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.classifier(self.flatten(self.avgpool(self.features(x))))


class OverFeat(nn.Module):
    """OverFeat, fast model (Sermanet et al. 2013), as in convnet-benchmarks: x [N, 3, 231, 231] -> logits."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(96, 256, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(256, 512, 3, padding=1), nn.ReLU(),
            nn.Conv2d(512, 1024, 3, padding=1), nn.ReLU(),
            nn.Conv2d(1024, 1024, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(1024 * 6 * 6, 3072), nn.ReLU(), nn.Linear(3072, 4096), nn.ReLU(),
            nn.Linear(4096, num_classes),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x))


def lenet5(num_classes: int = 10) -> LeNet5:
    """LeNet-5 for digits, with ReLU and max pooling: x [N, 1, 28, 28] -> logits [N, num_classes].

    0.42 million multiply-adds an image, 61,706 parameters. Source: LeCun et al. 1998.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    LeNet5
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.lenet5()
    >>> net.classifier[-1].weight.shape
    (10, 84)
    """
    return LeNet5(num_classes)


def alexnet(num_classes: int = 1000) -> AlexNet:
    """AlexNet, one weird trick: x [N, 3, 224, 224] -> logits [N, num_classes].

    0.714 GMACs an image, 61,100,840 parameters, with torchvision's keys (alexnet). Source: Krizhevsky 2014.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    AlexNet
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.alexnet()
    >>> net.classifier[-1].weight.shape
    (1000, 4096)
    """
    return AlexNet(num_classes)


def overfeat(num_classes: int = 1000) -> OverFeat:
    """OverFeat, fast model: x [N, 3, 231, 231] -> logits [N, num_classes].

    2.80 GMACs an image, 145,920,872 parameters; the shapes of convnet-benchmarks. Source: Sermanet et al.
    2013.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    OverFeat
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.overfeat()
    >>> net.classifier[-1].weight.shape
    (1000, 4096)
    """
    return OverFeat(num_classes)
