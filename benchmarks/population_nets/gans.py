"""The two sides of generative networks, and autoencoders: 4x4 filters at stride 2."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _down(a: int, b: int, norm: bool = True, stride: int = 2) -> list[nn.Module]:
    between = [nn.BatchNorm2d(b)] if norm else []
    return [nn.Conv2d(a, b, 4, stride, 1, bias=not norm), *between, nn.LeakyReLU(0.2)]


def _up(a: int, b: int) -> list[nn.Module]:
    return [nn.ReLU(), nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b)]


def discriminator(width: int = 64) -> nn.Module:
    """DCGAN's discriminator of 64x64 pixels: the last layer covers the whole map."""
    w = width
    return nn.Sequential(
        *_down(3, w, norm=False), *_down(w, 2 * w), *_down(2 * w, 4 * w), *_down(4 * w, 8 * w),
        nn.Conv2d(8 * w, 1, 4), nn.Sigmoid(),
    )  # fmt: skip


def patchgan(width: int = 64) -> nn.Module:
    """The discriminator of pix2pix: a verdict for each patch of 70x70 pixels of a pair of pictures."""
    w = width
    return nn.Sequential(
        *_down(6, w, norm=False), *_down(w, 2 * w), *_down(2 * w, 4 * w), *_down(4 * w, 8 * w, stride=1),
        nn.Conv2d(8 * w, 1, 4, 1, 1),
    )  # fmt: skip


class _Pix2Pix(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [width * min(8, 1 << i) for i in range(8)]
        self.first = nn.Conv2d(3, width, 4, 2, 1)
        self.down = nn.ModuleList(
            nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b))
            for a, b in zip(sizes, sizes[1:])
        )
        ups = [(sizes[-1], sizes[-2])] + [(2 * a, b) for a, b in zip(sizes[-2:0:-1], sizes[-3::-1])]
        self.up = nn.ModuleList(nn.Sequential(*_up(a, b)) for a, b in ups)
        self.last = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * width, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up in self.up:
            x = torch.cat([up(x), kept.pop()], 1)
        return self.last(x)


def pix2pix(width: int = 64) -> nn.Module:
    """The generator of pix2pix: a U-Net of eight levels, all 4x4 at stride 2, down to one pixel."""
    return _Pix2Pix(width)


def vae(width: int = 32, latent: int = 128) -> nn.Module:
    """A convolutional autoencoder of 64x64 pixels as tutorials have it, the mean of the code only."""
    w = width
    downs: list[nn.Module] = []
    for a, b in ((3, w), (w, 2 * w), (2 * w, 4 * w), (4 * w, 8 * w)):
        downs += [nn.Conv2d(a, b, 4, 2, 1), nn.ReLU()]
    ups: list[nn.Module] = []
    for a, b in ((8 * w, 4 * w), (4 * w, 2 * w), (2 * w, w)):
        ups += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU()]
    return nn.Sequential(
        *downs, nn.Flatten(), nn.Linear(128 * w, latent), nn.Linear(latent, 128 * w),
        nn.Unflatten(1, (8 * w, 4, 4)), *ups, nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
