"""Zeros: how many zeros the inputs of layers have, which decides whether it pays to look for them.

    zeros = clcnn.calibrate(net, photos)       # an array of images, or several
    plan = clcnn.compile(net, shape, zeros=zeros)
    zeros.save("net.zeros.json")               # clcnn.compile(net, shape, zeros="net.zeros.json")

They are for choices only: a plan's results are right whatever the data. Without them no algorithm is chosen
that pays only where many elements are zero.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Union

from clcnn import _arguments
from clcnn.errors import ArgumentError, DtypeError
from clcnn.graph import Graph, Record
from clcnn.report import html_table, text_table

KEY = "clcnn_zeros"  # of a file: its version
VERSION = 1
WEIGHTED = ("conv", "linear", "gemm", "matmul")  # the last two where the second operand is a constant


class LayerZeros(NamedTuple):
    """Shares of zeros, from 0 to 1, in the input of a layer.

    Zeros that lie together can be left out more cheaply than single ones. The inputs of a linear layer are
    channels of one pixel.

    Parameters
    ----------
    element : float
        Of its elements.
    channel : float
        Of the channels of an image that are zero everywhere.
    block : float
        Of the blocks of 16 channels of a pixel.
    window : float
        Of the elements of the windows that filters meet, on average, padding not counted.
    tile : float
        Of the channels that are zero wherever a register tile of `winograd` reads (14 tiles of 4x4 results
        one after the other).

    Examples
    --------
    >>> import clcnn
    >>> clcnn.LayerZeros(0.5, channel=0.1)
    LayerZeros(element=0.5, channel=0.1, block=0.0, window=0.0, tile=0.0)
    """

    element: float
    channel: float = 0.0
    block: float = 0.0
    window: float = 0.0
    tile: float = 0.0


Given = Union["Zeros", str, os.PathLike[str], Mapping[str, float | LayerZeros], float, None]


class Zeros(Mapping[str, LayerZeros]):
    """LayerZeros by the name of the layer: what clcnn.calibrate() returns. Prints as a table.

    Parameters
    ----------
    layers : {layer: LayerZeros or share of zero elements}
    weights : {layer: shape}, optional
        Shapes of the layers' weights, where they are known, by which a compile tells another model.

    Raises
    ------
    ArgumentError
        A share that is not from 0 to 1.
    DtypeError
        What is no number.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.Zeros({"conv1": clcnn.LayerZeros(0.5)})["conv1"].element
    0.5
    """

    def __init__(
        self, layers: Mapping[str, float | LayerZeros], weights: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        given = _arguments.mapping(layers, "zeros", "{layer: shares}")
        self._layers = {name: _checked(name, shares) for name, shares in given.items()}
        self.weights = dict(weights or {})

    def __getitem__(self, layer: str) -> LayerZeros:
        return self._layers[layer]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    # ---- looking ----

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        head = ["layer", *(f"{field} %" for field in LayerZeros._fields)]
        return head, [[name, *(f"{100 * s:.1f}" for s in shares)] for name, shares in self.items()]

    def __str__(self) -> str:
        return text_table(*self._cells())

    def __repr__(self) -> str:
        return f"<clcnn.Zeros: {len(self)} layers>"

    def _repr_html_(self) -> str:
        return html_table(*self._cells())

    # ---- files ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a JSON file, which appears complete or not at all.

        Parameters
        ----------
        path : path

        Raises
        ------
        OSError
        DtypeError
            path is no path.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Zeros({"conv1": 0.5}).save("net.zeros.json")
        >>> clcnn.Zeros.load("net.zeros.json")["conv1"].element
        0.5
        """
        from clcnn.wisdom import replace

        rows = json.dumps({KEY: VERSION, "layers": self.rows()}, indent=1)
        replace(Path(_arguments.path(path, "save")), rows + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Zeros:
        """Reads what save() wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        Zeros

        Raises
        ------
        ArgumentError
            The file is none of these, is damaged, or is of another version.
        OSError
            It cannot be read.

        Examples
        --------
        See save().
        """
        file = Path(_arguments.path(path, "load"))
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"{file}: not a file of clcnn.Zeros, or a damaged one: {error}") from error
        version = document.get(KEY) if isinstance(document, dict) else None
        if version != VERSION or isinstance(version, bool):
            raise ArgumentError(
                f"{file}: not a file of clcnn.Zeros, or one of another version: {KEY} must be {VERSION}, "
                f"got {_arguments.shown(version)}"
            )
        try:
            return cls.from_rows(document.get("layers"))
        except (ArgumentError, DtypeError) as error:
            raise ArgumentError(f"{file}: a damaged file of clcnn.Zeros: {error}") from error

    def rows(self) -> dict[str, dict[str, Any]]:
        """The layers as JSON has them.

        Returns
        -------
        {layer: dict}
            Shares by the names of LayerZeros' fields, and "weights", the shape of the layer's weights, where
            it is known.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Zeros({"conv1": 0.5}).rows()["conv1"]["element"]
        0.5
        """
        return {
            name: shares._asdict() | ({"weights": list(self.weights[name])} if name in self.weights else {})
            for name, shares in self.items()
        }

    @classmethod
    def from_rows(cls, rows: Any) -> Zeros:
        """What rows() gave.

        Parameters
        ----------
        rows : {layer: dict}

        Returns
        -------
        Zeros

        Raises
        ------
        ArgumentError, DtypeError
            A share is missing, is no number, or not from 0 to 1.

        Examples
        --------
        >>> import clcnn
        >>> rows = clcnn.Zeros({"conv1": 0.5}).rows()
        >>> list(clcnn.Zeros.from_rows(rows))
        ['conv1']
        """
        layers, weights = {}, {}
        for name, row in _object(rows, "layers").items():
            fields = _object(row, f"layer {_arguments.shown(name)}")
            shape = fields.pop("weights", None)
            if fields.keys() != set(LayerZeros._fields):
                raise ArgumentError(
                    f"layer {_arguments.shown(name)}: expected {', '.join(LayerZeros._fields)}, "
                    f"got {_arguments.shown(list(fields))}"
                )
            layers[name] = LayerZeros(**fields)
            if shape is not None:
                what = f"layer {_arguments.shown(name)}: weights"
                items = _arguments.items(shape, what, "a shape")
                weights[name] = tuple(_arguments.whole(n, what, 1) for n in items)
        return cls(layers, weights)


def _object(value: Any, what: str) -> dict[str, Any]:
    """A copy of a JSON object."""
    if not isinstance(value, dict):
        raise DtypeError(f"{what}: expected an object, got {_arguments.shown(value)}")
    return dict(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _checked(layer: Any, given: Any) -> LayerZeros:
    """Shares as floats; a number alone is that of elements, which lie anywhere."""
    what = f"zeros: layer {_arguments.shown(_arguments.text(layer, 'zeros: layer'))}"
    if _is_number(given):
        given = LayerZeros(float(given), window=float(given))
    shares = _arguments.items(given, what, f"a share or {len(LayerZeros._fields)} of them")
    if len(shares) != len(LayerZeros._fields) or not all(map(_is_number, shares)):
        raise DtypeError(f"{what}: expected a share or LayerZeros, got {_arguments.shown(given)}")
    for field, share in zip(LayerZeros._fields, shares):
        if not 0 <= share <= 1:  # nor is NaN
            raise ArgumentError(f"{what}: the share {field} must be from 0 to 1, got {share}")
    return LayerZeros(*map(float, shares))


# ---- of a graph ----


def layers_of(graph: Graph) -> dict[str, Record]:
    """The layers with weights of which zeros can be told, by name."""
    constants = {r.values[0] for r in graph.records if r.kind == "constant"}
    return {
        r.name: r
        for r in graph.records
        if r.op in WEIGHTED
        and r.inputs[0] not in constants
        and (r.op in ("conv", "linear") or r.inputs[1] in constants)
    }


def weights_of(graph: Graph, layer: Record) -> tuple[int, ...]:
    """The shape of a layer's weights."""
    return graph.shape(layer.inputs[1] or 0)


def of_model(model: Any) -> Zeros | None:
    """What a model was saved with."""
    zeros = getattr(model, "zeros", None)
    return zeros if isinstance(zeros, Zeros) else None


def of_graph(given: Given, graph: Graph) -> Zeros:
    """What compile(zeros=) was given, for the layers of a graph: Zeros, a path of a file, {layer: share}, or
    a share for all. Raises ArgumentError for a layer that is not there or has other weights."""
    if given is None:
        return Zeros({})
    layers = layers_of(graph)
    source = "zeros"
    if isinstance(given, Zeros):
        zeros = given
    elif isinstance(given, (str, os.PathLike)):
        source, zeros = f"zeros of {os.fspath(given)}", Zeros.load(given)
    elif isinstance(given, Mapping):
        zeros = Zeros(given)
    else:
        zeros = Zeros(dict.fromkeys(layers, given))
    for name in zeros:
        _check_layer(source, name, zeros.weights.get(name), graph, layers)
    return zeros


def _check_layer(
    source: str, name: str, weights: tuple[int, ...] | None, graph: Graph, layers: Mapping[str, Record]
) -> None:
    if name not in layers:
        try:
            graph.layer(name)
        except ArgumentError as error:
            raise ArgumentError(f"{source}: {error}") from error
        raise ArgumentError(
            f"{source}: layer {_arguments.shown(name)} has no weights: zeros are told of convolutions and "
            "linear layers"
        )
    have = weights_of(graph, layers[name])
    if weights is not None and weights != have:
        raise ArgumentError(
            f"{source}: they are of another model: layer {_arguments.shown(name)} had weights of shape "
            f"{weights}, here they are {have}"
        )
