"""RegNetX-16GF (Radosavovic et al. 2020). State-dict keys as torchvision's regnet_x_16gf."""

from __future__ import annotations

from typing import Any

from clcnn import nn, ops


class _ConvNorm(nn.Sequential):
    """Convolution, BN and, unless it ends a branch, ReLU: children "0", "1", "2"."""

    def __init__(
        self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1, activation: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(channels, out, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(out),
        ]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if activation else []))


class XBlock(nn.Module):
    """1x1, grouped 3x3, 1x1 and the shortcut; bottleneck ratio 1, no squeeze-and-excitation."""

    def __init__(self, channels: int, out: int, stride: int, group_width: int) -> None:
        super().__init__()
        self.proj = (
            _ConvNorm(channels, out, 1, stride, activation=False) if stride != 1 or channels != out else None
        )
        self.f = nn.Sequential(
            {
                "a": _ConvNorm(channels, out, 1),
                "b": _ConvNorm(out, out, 3, stride, groups=out // group_width),
                "c": _ConvNorm(out, out, 1, activation=False),
            }
        )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        name = f"{self.layer_name}.add" if self.layer_name else None
        return self.activation(ops.add(self.proj(x) if self.proj else x, self.f(x), name=name))


class RegNet(nn.Module):
    """x [N, 3, 224, 224] -> logits [N, num_classes]."""

    def __init__(
        self, depths: list[int], widths: list[int], group_width: int, num_classes: int = 1000
    ) -> None:
        super().__init__()
        self.stem = _ConvNorm(3, 32, 3, 2)
        channels = 32
        stages: dict[str, nn.Module] = {}
        for i, (depth, width) in enumerate(zip(depths, widths)):
            blocks: dict[str, nn.Module] = {}
            for k in range(depth):
                blocks[f"block{i + 1}-{k}"] = XBlock(channels, width, 2 if k == 0 else 1, group_width)
                channels = width
            stages[f"block{i + 1}"] = nn.Sequential(blocks)
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x: Any) -> Any:
        return self.fc(self.flatten(self.avgpool(self.trunk_output(self.stem(x)))))


def regnet_x_16gf(num_classes: int = 1000) -> RegNet:
    """RegNetX-16GF: x [N, 3, 224, 224] -> logits [N, num_classes].

    15.9 GMACs an image, 54,278,536 parameters, with torchvision's keys (regnet_x_16gf). Source: Radosavovic
    et al. 2020.

    Parameters
    ----------
    num_classes : int
        Logits, 1 or more.

    Returns
    -------
    RegNet
        In training mode, with random weights; `.load(file)` brings trained ones.

    Raises
    ------
    ArgumentError
        num_classes is below 1.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.regnet_x_16gf()
    >>> net.fc.weight.shape
    (1000, 2048)
    """
    return RegNet([2, 6, 13, 1], [256, 512, 896, 2048], 128, num_classes)
