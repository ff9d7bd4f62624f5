"""calibrate(): the zeros that images leave in a model's maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, _core, sources
from clcnn._reference import fill
from clcnn._reference.spatial import begins_ends, padded, per_dim, taps
from clcnn.compiler import compile
from clcnn.device import DeviceInfo
from clcnn.errors import ArgumentError, DtypeError, ShapeError
from clcnn.graph import Graph, Record
from clcnn.zeros import LayerZeros, Zeros, layers_of, weights_of

BLOCK = 16  # channels
TILE, TILES = 4, 14  # results of a side of a tile of Winograd's, and tiles of a register tile

Array = NDArray[Any]
Batch = dict[str, Array]


def calibrate(
    model: Any,
    images: Array | Mapping[str, Array] | Iterable[Array | Mapping[str, Array]],
    device: str | int | DeviceInfo | _core.Device | None = None,
) -> Zeros:
    """Runs images through a model and counts the zeros in the input of each convolution and linear layer.

    Parameters
    ----------
    model
        As compile() takes it.
    images : array N,C,spatial..., or several of one size
        For a model of several inputs dicts of arrays by name. They should be prepared as those that the
        plan will see. One image is computed at a time; where the batch size is fixed, as that of a Graph,
        so many. Negative zero counts as zero; NaN and infinity do not.
    device : Device or selector, optional

    Returns
    -------
    Zeros
        For compile(zeros=...) and save(zeros=...).

    Raises
    ------
    ArgumentError
        No images, no layer with weights.
    ShapeError, DtypeError
        Naming the image. And what compile() raises.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> zeros = clcnn.calibrate(clcnn.zoo.lenet5(), np.zeros((1, 1, 28, 28), np.float32))
    >>> zeros["features.0"].element
    1.0
    """
    model, _ = sources.opened(model, None)
    batches = _batches(images)
    first = next(batches, None)
    if first is not None:
        with _Probe(model, first, device) as probe:
            for i, batch in enumerate(chain([first], batches)):
                probe.add(batch, f"images[{i}]")
            if probe.count:
                return probe.zeros()
    raise ArgumentError("calibrate: there is no image")


def _batches(images: Any) -> Iterator[Batch]:
    """Each batch as arrays by the name of the input, "" for the only one."""
    if isinstance(images, (np.ndarray, Mapping)):
        images = [images]
    for i, batch in enumerate(_arguments.iterate(images, "images", "an array of images, or several")):
        named = dict(batch) if isinstance(batch, Mapping) else {"": batch}
        for name, array in named.items():
            what = f"images[{i}]{f'[{name!r}]' if name else ''}"
            if not isinstance(_arguments.plain(array, what), np.ndarray):
                raise DtypeError(f"{what}: expected an array, got {_arguments.shown(array)}")
            if array.ndim == 0:
                raise ShapeError(f"{what}: expected N,C,spatial..., got a single number")
        if len({len(array) for array in named.values()}) > 1:
            raise ShapeError(f"images[{i}]: inputs have different numbers of images")
        yield named


def _sizes(model: Any) -> list[int]:
    """Batch sizes at which a model may be compiled: its own where that is fixed, else one image."""
    if isinstance(model, Graph):
        shapes: list[Any] = [value.shape for value in model.inputs.values()]
    elif hasattr(model, "specialise"):  # of clcnn.onnx
        shapes = [info.shape for info in model.inputs]
    else:
        return [1, *(shape[0] for shape in getattr(model, "input_shapes", {}).values() if shape[:1] > (1,))]
    first = next(iter(shapes), None) or (1,)
    return [first[0] if isinstance(first[0], int) else 1]


def _graph_for(model: Any, batch: Batch) -> tuple[Graph, int]:
    """The graph of a model for such images, and its batch size."""
    for size in _sizes(model):
        shapes = {name: (size, *array.shape[1:]) for name, array in batch.items()}
        try:
            return sources.graph_of(model, None if isinstance(model, Graph) else shapes.get("", shapes)), size
        except (ShapeError, ArgumentError) as error:
            given = ", ".join(str(array.shape) for array in batch.values())
            refused = ShapeError(f"images[0]: shape {given} does not fit the model: {error}")
    raise refused


class _Probe:
    """A plan that gives the input of each layer, and what was counted so far."""

    def __init__(
        self, model: Any, batch: Batch, device: str | int | DeviceInfo | _core.Device | None
    ) -> None:
        graph, self.size = _graph_for(model, batch)
        self.graph, self.layers = graph, layers_of(graph)
        if not self.layers:
            raise ArgumentError("calibrate: the model has no convolution and no linear layer")
        self.count = 0
        self.inputs = {name: value.shape for name, value in graph.inputs.items()}
        self.sums = {name: np.zeros(len(LayerZeros._fields)) for name in self.layers}
        self.sources = {value.id: name for name, value in graph.inputs.items()}
        wanted = [layer.inputs[0] or 0 for layer in self.layers.values()]
        more = {id: f"calibrate:{id}" for id in wanted if id not in self.sources}
        self.sources |= more
        outputs = [Record("output", name, inputs=(id,)) for id, name in more.items()]
        self.plan = compile(Graph.from_records([*graph.records, *outputs]), device=device, tune="off")

    def __enter__(self) -> _Probe:
        return self

    def __exit__(self, *args: object) -> None:
        self.plan.close()

    def add(self, batch: Batch, what: str) -> None:
        """Counts the zeros that some images leave."""
        if list(batch) == [""] and len(self.inputs) == 1:
            batch = dict(zip(self.inputs, batch.values()))
        if batch.keys() != self.inputs.keys():
            names = ", ".join(self.inputs)
            raise ArgumentError(f"{what}: expected a dict of arrays for the inputs {names}")
        for name, array in batch.items():
            wanted = ("N", *self.inputs[name][1:])
            if array.shape[1:] != wanted[1:] or len(array) % self.size:
                times = f", N a multiple of {self.size}" if self.size > 1 else ""
                raise ShapeError(f"{what}: expected shape ({_shown(wanted)}){times}, got {array.shape}")
        for first in range(0, len(next(iter(batch.values()))), self.size):
            self._count({n: np.ascontiguousarray(a[first : first + self.size]) for n, a in batch.items()})

    def _count(self, inputs: Batch) -> None:
        values = inputs | self.plan.run(inputs)
        for name, layer in self.layers.items():
            x = values[self.sources[layer.inputs[0] or 0]]
            self.sums[name] += _counted(x, layer, self.graph)
        self.count += 1

    def zeros(self) -> Zeros:
        """The means of what was counted."""
        shares = {name: LayerZeros(*(total / self.count).tolist()) for name, total in self.sums.items()}
        return Zeros(shares, {name: weights_of(self.graph, layer) for name, layer in self.layers.items()})


def _shown(shape: Iterable[Any]) -> str:
    return ", ".join(map(str, shape))


# ---- counting ----


@dataclass(frozen=True)
class _Windows:
    """Where the windows of results lie in a map, along each dimension."""

    kernel: tuple[int, ...]
    out: tuple[int, ...]
    stride: tuple[int, ...]
    begin: tuple[int, ...]
    dilation: tuple[int, ...]

    def parts(self, x: Array) -> Iterator[Array]:
        """What each place of the windows meets; nothing where that is outside of the map."""
        rows = zip(x.shape[2:], self.kernel, self.out, self.stride, self.begin, self.dilation)
        after = [max(0, (o - 1) * s + (k - 1) * d + 1 - n - b) for n, k, o, s, b, d in rows]
        whole = padded(x, self.begin, after, 0)
        return (part for _, part in taps(whole, self.kernel, self.out, self.stride, self.dilation))

    def tiles(self) -> _Windows:
        """The same of tiles of results."""
        rows = zip(self.kernel, self.stride, self.dilation)
        return _Windows(
            kernel=tuple((TILE - 1) * s + (k - 1) * d + 1 for k, s, d in rows),
            out=tuple(-(-o // TILE) for o in self.out),
            stride=tuple(TILE * s for s in self.stride),
            begin=self.begin,
            dilation=(1,) * len(self.kernel),
        )


def _counted(x: Array, layer: Record, graph: Graph) -> LayerZeros:
    """The zeros of one batch."""
    attrs = fill(layer.op, dict(layer.attrs))
    if layer.op == "conv":
        n = x.ndim - 2
        windows = _Windows(
            kernel=weights_of(graph, layer)[2:],
            out=graph.shape(layer.values[0])[2:],
            stride=per_dim(attrs["stride"], n, "stride"),
            begin=begins_ends(attrs["padding"], n)[0],
            dilation=per_dim(attrs["dilation"], n, "dilation"),
        )
        return count(x != 0, windows)
    there = np.atleast_2d(x.T if attrs.get("trans_a") else x) != 0
    there = np.moveaxis(there, -1, 1)  # the inputs are channels
    ones = (1,) * (there.ndim - 2)
    return count(there, _Windows(ones, there.shape[2:], ones, (0,) * len(ones), ones))


def count(there: Array, windows: _Windows) -> LayerZeros:
    """The zeros of a map N,C,spatial..., of which is known where there are none."""
    channels, spatial = there.shape[1], tuple(range(2, there.ndim))
    blocks = np.logical_or.reduceat(there, range(0, channels, BLOCK), axis=1)
    pixels = there.sum(axis=1, keepdims=True, dtype=np.int64)
    met = np.add.reduce(list(windows.parts(pixels)))
    room = channels * np.add.reduce(list(windows.parts(np.ones_like(pixels[:1]))))
    inside = np.broadcast_to(room > 0, met.shape)
    tiles = np.logical_or.reduce(list(windows.tiles().parts(there)))
    rows = np.moveaxis(tiles, 1, 0).reshape(channels, -1)
    register_tiles = np.logical_or.reduceat(rows, range(0, rows.shape[1], TILES), axis=1)
    return LayerZeros(
        element=_zero(there),
        channel=_zero(np.logical_or.reduce(there, axis=spatial)),
        block=_zero(blocks),
        window=1.0 - float(np.mean((met / np.maximum(room, 1))[inside])) if inside.any() else 0.0,
        tile=_zero(register_tiles),
    )


def _zero(there: Array) -> float:
    """The share that is not there."""
    return 1.0 - np.count_nonzero(there) / there.size
