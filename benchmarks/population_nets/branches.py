"""Networks as they are trained: convolutions beside smaller ones and a norm of their input, added up."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["mobileone", "repvgg"]


def _conv(channels: int, filters: int, kernel: int, stride: int, groups: int) -> nn.Module:
    conv = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(filters))


class _Branches(nn.Module):
    """`copies` convolutions, one of 1x1 beside larger ones, a norm where sizes stay: their sum, rectified."""

    def __init__(
        self, channels: int, filters: int, kernel: int = 3, stride: int = 1, groups: int = 1, copies: int = 1
    ) -> None:
        super().__init__()
        same = [nn.BatchNorm2d(channels)] if channels == filters and stride == 1 else []
        point = [_conv(channels, filters, 1, stride, groups)] if kernel > 1 else []
        large = [_conv(channels, filters, kernel, stride, groups) for _ in range(copies)]
        self.branches = nn.ModuleList([*same, *point, *large])

    def forward(self, x: Tensor) -> Tensor:
        total = self.branches[0](x)
        for branch in self.branches[1:]:
            total = total + branch(x)
        return total.relu()


def _classifier(layers: list[nn.Module], channels: int, classes: int) -> nn.Module:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def repvgg(
    widths: tuple[int, ...] = (48, 96, 192, 1280),
    depths: tuple[int, ...] = (2, 4, 14, 1),
    classes: int = 1000,
) -> nn.Module:
    """RepVGG-A0 (Ding et al. 2021)."""
    layers: list[nn.Module] = [_Branches(3, 48, stride=2)]
    before = 48
    for width, depth in zip(widths, depths, strict=True):
        layers += [_Branches(before if i == 0 else width, width, stride=1 + (i == 0)) for i in range(depth)]
        before = width
    return _classifier(layers, before, classes)


def mobileone(
    widths: tuple[int, ...] = (48, 128, 256, 1024),
    depths: tuple[int, ...] = (2, 8, 10, 1),
    classes: int = 1000,
) -> nn.Module:
    """MobileOne-S0 (Vasu et al. 2023), four branches each."""
    layers: list[nn.Module] = [_Branches(3, 48, stride=2, copies=4)]
    before = 48
    for width, depth in zip(widths, depths, strict=True):
        for i in range(depth):
            layers.append(_Branches(before, before, stride=1 + (i == 0), groups=before, copies=4))
            layers.append(_Branches(before, width, kernel=1, copies=4))
            before = width
    return _classifier(layers, before, classes)
