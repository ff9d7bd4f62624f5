"""Images as bytes, a quarter of what float32 takes on the way to a device, which makes numbers of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import clcnn
from clcnn import _core, ops
from clcnn.errors import DtypeError, ShapeError
from clcnn.graph import Graph
from clcnn.plan import Plan


@dataclass(frozen=True, eq=False)
class Pixels:
    """A batch of images as bytes (N, C, H, W) that stand for (bytes / 255 - mean) / std.

    np.asarray() gives the float32 that they stand for; Trainer.fit() sends the bytes, and the device makes
    float32 of them.

    Parameters
    ----------
    data : array of uint8
        N, C, spatial...
    mean, std : tuple of float
        A number for each channel.

    Raises
    ------
    DtypeError
        The array is of another type.
    ShapeError
        The channels of data, mean and std are not as many.

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn.train import Pixels
    >>> white = Pixels(np.full((1, 1, 2, 2), 255, np.uint8), mean=(0.5,), std=(0.25,))
    >>> np.asarray(white).max().item()
    2.0
    """

    data: NDArray[np.uint8]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.data.dtype != np.uint8:
            raise DtypeError(f"Pixels: expected an array of uint8, got {self.data.dtype}")
        channels = len(self.mean)
        if self.data.ndim < 2 or self.data.shape[1] != channels or len(self.std) != channels:
            raise ShapeError(
                f"Pixels: images {list(self.data.shape)}, {channels} means and {len(self.std)} deviations "
                "must be of as many channels"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the batch."""
        return self.data.shape

    def __len__(self) -> int:
        return len(self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """What they stand for, as float32 unless another type is asked for."""
        ones = (1,) * (self.data.ndim - 2)
        mean, std = (np.array(v, np.float32).reshape(-1, *ones) for v in (self.mean, self.std))
        found = (self.data.astype(np.float32) / np.float32(255) - mean) / std
        return found if dtype is None else found.astype(dtype, copy=False)


class Converter:
    """Makes float32 of batches of bytes on a device, by a small plan for each shape."""

    def __init__(self, device: _core.Device) -> None:
        self.device = device
        self._plans: dict[Any, Plan] = {}

    def __call__(self, pixels: Pixels, out: clcnn.Tensor) -> None:
        """Writes what the bytes stand for to `out`, a tensor of their shape."""
        key = (pixels.shape, pixels.mean, pixels.std)
        if key not in self._plans:
            self._plans[key] = clcnn.compile(_graph(pixels), device=self.device)
        self._plans[key](np.require(pixels.data, requirements="C"), out=out)

    def close(self) -> None:
        """Gives the plans back."""
        for plan in self._plans.values():
            plan.close()
        self._plans.clear()


def _graph(pixels: Pixels) -> Graph:
    """bytes / 255 - mean, over std, as one product and one sum."""
    graph = Graph()
    ones = (1,) * (len(pixels.shape) - 2)
    mean, std = (np.array(v, np.float64).reshape(-1, *ones) for v in (pixels.mean, pixels.std))
    scale, shift = (graph.constant(v.astype(np.float32)) for v in (1 / (255 * std), -mean / std))
    graph.output(ops.cast(graph.input("bytes", pixels.shape, "uint8")) * scale + shift, "x")
    return graph
