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
    """VGG-A, 11 weighted layers: 7.6 GMACs, 132.9 M parameters."""
    return VGG("A", num_classes)


def vgg16(num_classes: int = 1000) -> VGG:
    """VGG-16 (D): 15.5 GMACs, 138.4 M parameters."""
    return VGG("D", num_classes)


def vgg19(num_classes: int = 1000) -> VGG:
    """VGG-19 (E): 19.6 GMACs, 143.7 M parameters."""
    return VGG("E", num_classes)
