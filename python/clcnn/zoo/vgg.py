"""VGG (Simonyan and Zisserman 2015), configurations A, D and E. State-dict keys as torchvision's
vgg11/vgg16/vgg19."""

from __future__ import annotations

from typing import Any

from clcnn import nn

_LAYERS: dict[str, list[int | str]] = {
    "A": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "D": [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"],
    "E": [64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"],
}


class VGG(nn.Module):
    """x [N, 3, 224, 224] -> logits [N, num_classes]."""

    def __init__(self, configuration: str, num_classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in _LAYERS[configuration]:
            if isinstance(width, str):
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, num_classes),
        )  # fmt: skip
        self.flatten = nn.Flatten()

    def forward(self, x: Any) -> Any:
        return self.classifier(self.flatten(self.avgpool(self.features(x))))


def vgg_a(num_classes: int = 1000) -> VGG:
    """VGG-A, 11 weighted layers: x [N, 3, 224, 224] -> logits [N, num_classes].

    7.6 GMACs an image, 132,863,336 parameters, with torchvision's keys (vgg11). Source: Simonyan and
    Zisserman 2015, table 1.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    VGG
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.vgg_a()
    >>> net.features[0].weight.shape
    (64, 3, 3, 3)
    """
    return VGG("A", num_classes)


def vgg16(num_classes: int = 1000) -> VGG:
    """VGG-16, configuration D: x [N, 3, 224, 224] -> logits [N, num_classes].

    15.5 GMACs an image, 138,357,544 parameters, with torchvision's keys (vgg16). Source: Simonyan and
    Zisserman 2015, table 1.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    VGG
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.vgg16()
    >>> net.classifier[-1].weight.shape
    (1000, 4096)
    """
    return VGG("D", num_classes)


def vgg19(num_classes: int = 1000) -> VGG:
    """VGG-19, configuration E: x [N, 3, 224, 224] -> logits [N, num_classes].

    19.6 GMACs an image, 143,667,240 parameters, with torchvision's keys (vgg19). Source: Simonyan and
    Zisserman 2015, table 1.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    VGG
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.vgg19()
    >>> net.classifier[-1].weight.shape
    (1000, 4096)
    """
    return VGG("E", num_classes)
