"""GoogLeNet (Szegedy et al. 2015): torchvision's form (batch norm, 3x3 in place of 5x5; its keys), or the
original's shapes as convnet-benchmarks runs them (no LRN, no auxiliary heads, biases in place of batch norm,
5x5)."""

from __future__ import annotations

from typing import Any

from clcnn import nn, ops
from clcnn.errors import ArgumentError

_INCEPTIONS = {  # 1x1 | 3x3 reduce, 3x3 | 5x5 reduce, 5x5 | pool projection
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


class BasicConv2d(nn.Module):
    """Convolution without bias, BN (eps 1e-3), ReLU; or convolution with bias, ReLU."""

    def __init__(self, channels: int, out: int, batch_norm: bool, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, bias=not batch_norm, **kwargs)
        self.bn = nn.BatchNorm2d(out, eps=1e-3) if batch_norm else None
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        x = self.conv(x)
        return self.relu(self.bn(x) if self.bn else x)


class Inception(nn.Module):
    """Four branches, concatenated."""

    def __init__(self, channels: int, widths: tuple[int, ...], batch_norm: bool, kernel: int) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pool = widths
        bn = batch_norm
        self.branch1 = BasicConv2d(channels, one, bn, kernel_size=1)
        self.branch2 = nn.Sequential(
            BasicConv2d(channels, reduce3, bn, kernel_size=1),
            BasicConv2d(reduce3, three, bn, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            BasicConv2d(channels, reduce5, bn, kernel_size=1),
            BasicConv2d(reduce5, five, bn, kernel_size=kernel, padding=kernel // 2),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True),
            BasicConv2d(channels, pool, bn, kernel_size=1),
        )

    def forward(self, x: Any) -> Any:
        name = f"{self.layer_name}.concat" if self.layer_name else None
        return ops.concat(
            self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x), dim=1, name=name
        )


class GoogLeNet(nn.Module):
    """x [N, 3, 224, 224] -> logits [N, num_classes], without the auxiliary heads."""

    def __init__(self, num_classes: int = 1000, variant: str = "torchvision") -> None:
        super().__init__()
        if variant not in ("torchvision", "v1"):
            raise ArgumentError(f"googlenet: variant={variant!r} must be 'torchvision' or 'v1'")
        bn = variant == "torchvision"
        self.conv1 = BasicConv2d(3, 64, bn, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = _pool(bn)
        self.conv2 = BasicConv2d(64, 64, bn, kernel_size=1)
        self.conv3 = BasicConv2d(64, 192, bn, kernel_size=3, padding=1)
        self.maxpool2 = _pool(bn)
        channels = 192
        for name, widths in _INCEPTIONS.items():
            if name == "4a":
                self.maxpool3 = _pool(bn)
            if name == "5a":  # torchvision's last pool is 2x2
                self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True) if bn else _pool(bn)
            setattr(self, f"inception{name}", Inception(channels, widths, bn, 3 if bn else 5))
            channels = widths[0] + widths[2] + widths[4] + widths[5]
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(channels, num_classes)

    def load_state_dict(self, state: Any, strict: bool = True) -> None:
        """As Module.load_state_dict; the auxiliary heads (aux1, aux2), which only training uses, are left
        out."""
        heads = ("aux1.", "aux2.")
        super().load_state_dict({k: v for k, v in state.items() if not k.startswith(heads)}, strict)

    def forward(self, x: Any) -> Any:
        for layer in self.children():
            x = layer(x)
        return x


def _pool(torchvision: bool) -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True) if torchvision else nn.MaxPool2d(3, stride=2, padding=1)


def googlenet(num_classes: int = 1000, variant: str = "torchvision") -> GoogLeNet:
    """GoogLeNet without auxiliary heads: x [N, 3, 224, 224] -> logits [N, num_classes].

    1.50 GMACs an image and 6,624,904 parameters, or 1.58 GMACs and 6,998,552 parameters for "v1". Source:
    Szegedy et al. 2015.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.
    variant : {"torchvision", "v1"}
        "torchvision": batch norm, 3x3 in place of 5x5, torchvision's keys. "v1": the paper's shapes, biases
        in place of batch norm, no local response normalisation.

    Returns
    -------
    GoogLeNet
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1; variant is neither.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.googlenet()
    >>> net.fc.weight.shape
    (1000, 1024)
    """
    return GoogLeNet(num_classes, variant)
