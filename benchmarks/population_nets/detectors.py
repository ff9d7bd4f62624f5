"""Networks that find boxes: a trunk, a pyramid of maps, and heads; all results in one tensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES = 80


class _Conv(nn.Sequential):
    """Convolution, batch norm, SiLU."""

    def __init__(self, a: int, b: int, window: int = 1, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(a, b, window, stride, (window - 1) // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU()
        )


class _Bottleneck(nn.Module):
    def __init__(self, width: int, add: bool) -> None:
        super().__init__()
        self.body, self.add = nn.Sequential(_Conv(width, width), _Conv(width, width, 3)), add

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.add else self.body(x)


class _CSP(nn.Module):
    """Half of the channels go through bottlenecks, half around them."""

    def __init__(self, a: int, b: int, blocks: int, add: bool = True) -> None:
        super().__init__()
        half = b // 2
        self.through = nn.Sequential(_Conv(a, half), *(_Bottleneck(half, add) for _ in range(blocks)))
        self.around = _Conv(a, half)
        self.join = _Conv(b, b)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([self.through(x), self.around(x)], 1))


class _Pyramid(nn.Module):
    """Maxima of windows of 5, 9 and 13 pixels, side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = _Conv(width, width // 2), _Conv(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        maps = [self.before(x)]
        for _ in range(3):
            maps.append(self.pool(maps[-1]))
        return self.after(torch.cat(maps, 1))


class _Yolo(nn.Module):
    def __init__(self, w: int, anchors: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(_Conv(3, w, 6, 2), _Conv(w, 2 * w, 3, 2), _CSP(2 * w, 2 * w, 1))
        self.c3 = nn.Sequential(_Conv(2 * w, 4 * w, 3, 2), _CSP(4 * w, 4 * w, 2))
        self.c4 = nn.Sequential(_Conv(4 * w, 8 * w, 3, 2), _CSP(8 * w, 8 * w, 3))
        self.c5 = nn.Sequential(_Conv(8 * w, 16 * w, 3, 2), _CSP(16 * w, 16 * w, 1), _Pyramid(16 * w))
        self.less5, self.less4 = _Conv(16 * w, 8 * w), _Conv(8 * w, 4 * w)
        self.up4, self.up3 = _CSP(16 * w, 8 * w, 1, False), _CSP(8 * w, 4 * w, 1, False)
        self.down3, self.down4 = _Conv(4 * w, 4 * w, 3, 2), _Conv(8 * w, 8 * w, 3, 2)
        self.pan4, self.pan5 = _CSP(8 * w, 8 * w, 1, False), _CSP(16 * w, 16 * w, 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(k * w, anchors * (5 + CLASSES), 1) for k in (4, 8, 16))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.anchors = anchors

    def forward(self, x: Tensor) -> Tensor:
        c3 = self.c3(self.stem(x))
        c4 = self.c4(c3)
        p5 = self.less5(self.c5(c4))
        p4 = self.less4(self.up4(torch.cat([self.up(p5), c4], 1)))
        n3 = self.up3(torch.cat([self.up(p4), c3], 1))
        n4 = self.pan4(torch.cat([self.down3(n3), p4], 1))
        n5 = self.pan5(torch.cat([self.down4(n4), p5], 1))
        return torch.cat([self._boxes(head(m)) for head, m in zip(self.heads, (n3, n4, n5))], 1)

    def _boxes(self, y: Tensor) -> Tensor:
        """[batch, boxes, 5 + classes], each between 0 and 1."""
        n, _, h, w = y.shape
        y = y.view(n, self.anchors, 5 + CLASSES, h, w).permute(0, 1, 3, 4, 2)
        return y.reshape(n, self.anchors * h * w, 5 + CLASSES).sigmoid()


def yolo() -> nn.Module:
    """CSPDarknet, path aggregation and three heads, of YOLOv5s' size."""
    return _Yolo(32)


class _RetinaNet(nn.Module):
    def __init__(self, width: int, anchors: int = 9) -> None:
        super().__init__()
        from torchvision.models import resnet50

        r = resnet50(weights=None)
        self.stem = nn.Sequential(r.conv1, r.bn1, r.relu, r.maxpool, r.layer1)
        self.stages = nn.ModuleList([r.layer2, r.layer3, r.layer4])
        self.inner = nn.ModuleList(nn.Conv2d(n, width, 1) for n in (512, 1024, 2048))
        self.outer = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.more = nn.ModuleList(nn.Conv2d(n, width, 3, 2, 1) for n in (2048, width))
        self.classes, self.boxes = (self._head(width, anchors * n) for n in (CLASSES, 4))

    @staticmethod
    def _head(width: int, out: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(32, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(width, out, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        inner = [conv(m) for conv, m in zip(self.inner, maps)]
        for i in (1, 0):
            inner[i] = inner[i] + F.interpolate(inner[i + 1], size=inner[i].shape[-2:], mode="nearest")
        levels = [conv(m) for conv, m in zip(self.outer, inner)]
        levels.append(self.more[0](maps[-1]))
        levels.append(self.more[1](F.relu(levels[-1])))
        return torch.cat(
            [torch.cat([self._flat(h(m)) for h in (self.classes, self.boxes)], 1) for m in levels], 1
        )

    @staticmethod
    def _flat(y: Tensor) -> Tensor:
        return y.permute(0, 2, 3, 1).flatten(1)


def retinanet() -> nn.Module:
    """ResNet-50 with a feature pyramid of five levels and RetinaNet's heads, which all levels share."""
    return _RetinaNet(256)
