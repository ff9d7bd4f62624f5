"""What a session knows of its model: the file, what the file says of itself, its inputs and outputs, and how
arrays are held against them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arguments, _arrays, _core
from clcnn.errors import ArgumentError, DtypeError, ShapeError, StateError, UnsupportedError

if TYPE_CHECKING:
    from clcnn.onnx import Model, ValueInfo

# Arguments of onnxruntime's constructor that clcnn has nothing for.
NOT_OFFERED = ("disabled_optimizers", "enable_fallback", "read_config_from_model")


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model's file says of itself: onnxruntime's attributes.

    Attributes
    ----------
    producer_name : str
        The program that wrote the file.
    graph_name, graph_description : str
    domain, description : str
        Of the model.
    version : int
        The model's own version.
    custom_metadata_map : dict of str
        Whatever else the file says.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (2, 3))
    >>> with clcnn.InferenceSession("net.onnx") as session:
    ...     session.get_modelmeta().producer_name
    'clcnn'
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


@dataclass(frozen=True)
class File:
    """A model's file, all of the model being in it, and how it was when it was read."""

    path: Path
    size: int
    changed_ns: int

    @classmethod
    def at(cls, path: Path) -> File:
        state = path.stat()
        return cls(path, state.st_size, state.st_mtime_ns)

    def load(self) -> Model:
        from clcnn import onnx

        try:
            same = self.at(self.path) == self
        except OSError as error:
            raise StateError(f"the session's model is gone: {error}") from error
        if not same:
            raise StateError(f"{self.path} has changed since the session was made from it")
        return onnx.load(self.path)


def opened(source: Any) -> tuple[File | None, Model]:
    """A model, and its file where it can be read again from there: not if some of it is in other files."""
    from clcnn import onnx

    if isinstance(source, onnx.Model):
        return None, source
    if not isinstance(source, (str, os.PathLike)):
        return None, onnx.load(source)
    file = File.at(Path(_arguments.path(source, "path_or_bytes")).absolute())
    model = onnx.load(source)
    whole = sum(array.nbytes for array in model.arrays.values()) <= file.size
    return file if whole else None, model


def metadata(model: Model) -> ModelMetadata:
    header, graph = model.header, model.graph_proto
    return ModelMetadata(
        header.producer_name,
        graph.name,
        header.domain,
        header.doc_string,
        graph.doc_string,
        header.model_version,
        {entry.key: entry.value for entry in header.metadata_props},
    )


# ---- inputs and outputs ----


ELEMENTS = {"float": np.float32, "double": np.float64}  # onnxruntime's words that are not NumPy's


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a session's model.

    Attributes
    ----------
    name : str
    shape : list
        For each dimension a number, a symbol, or None where it is unknown.
    type : str
        In onnxruntime's words: "tensor(float)".

    Examples
    --------
    >>> import clcnn
    >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (2, 3))
    >>> with clcnn.InferenceSession("net.onnx") as session:
    ...     session.get_inputs()
    [NodeArg(name='input', shape=[2, 3], type='tensor(float)')]
    """

    name: str
    shape: list[int | str | None]
    type: str


def node_arg(info: ValueInfo) -> NodeArg:
    """The row for an input or output; no dimensions where not even the rank is declared."""
    return NodeArg(info.name, list(info.shape or ()), info.type)


def overridden(info: ValueInfo, sizes: Mapping[str, int]) -> ValueInfo:
    """The input with symbols replaced by the sizes that the options fix."""
    if info.shape is None or not sizes:
        return info
    return info._replace(shape=tuple(sizes.get(n, n) if isinstance(n, str) else n for n in info.shape))


def is_fixed(info: ValueInfo) -> bool:
    """Whether every dimension is declared as a number."""
    return info.shape is not None and all(isinstance(n, int) for n in info.shape)


def shape_of(info: ValueInfo) -> tuple[int, ...]:
    """The dimensions that are declared as numbers: all, where is_fixed()."""
    return tuple(n for n in info.shape or () if isinstance(n, int))


def dtype_of(info: ValueInfo) -> np.dtype[Any]:
    """The element type of an input or output."""
    word = info.type.removeprefix("tensor(").removesuffix(")")
    return np.dtype(ELEMENTS.get(word, word))


def fitting(info: ValueInfo, given: Any) -> Any:
    """The array for an input, or the clcnn.Tensor that was given; lists of numbers take the input's type.
    Raises DtypeError, ShapeError that say what was expected and what came."""
    wanted = dtype_of(info)
    array: Any = (
        given if isinstance(given, _core.Tensor) else _arrays.typed(given, wanted, f"input {info.name!r}")
    )
    if np.dtype(array.dtype) != wanted:
        raise DtypeError(
            f"input {info.name!r}: expected {info.type}, an array of {wanted}, got {array.dtype}; "
            f"convert it with .astype(np.{wanted})"
        )
    _check_shape(info, array.shape)
    return array


def combinations(infos: Sequence[ValueInfo], given: Any, most: int) -> list[dict[str, tuple[int, ...]]]:
    """Combinations of input shapes, at most so many, each {name: shape}, or a shape where there is one input.
    Raises ShapeError, ArgumentError."""
    rows = _arguments.items(given, "shapes", "a sequence of shapes, or of {name: shape}")
    if len(rows) > most:
        raise ArgumentError(f"shapes: {len(rows)} combinations, and the session keeps {most} (max_plans)")
    return [_combination(infos, row) for row in rows]


def _combination(infos: Sequence[ValueInfo], given: Any) -> dict[str, tuple[int, ...]]:
    """Inputs of fixed shape may be left out."""
    known = [info.name for info in infos]
    if not isinstance(given, Mapping):
        if len(known) != 1:
            raise ArgumentError(f"shapes: expected {{name: shape}} for the inputs {known}, got {given!r}")
        given = {known[0]: given}
    unknown = [name for name in given if name not in known]
    missing = [info.name for info in infos if info.name not in given and not is_fixed(info)]
    if unknown or missing:
        raise ArgumentError(f"shapes: missing {missing}, unknown {unknown}; the model's inputs are {known}")
    return {
        info.name: fitting_shape(info, given[info.name]) if info.name in given else shape_of(info)
        for info in infos
    }


def fitting_shape(info: ValueInfo, given: Any) -> tuple[int, ...]:
    """A shape for an input. Raises ShapeError and what whole() does."""
    what = f"input {info.name!r}: a dimension"
    dims = _arguments.items(given, f"input {info.name!r}", "a shape")
    shape = tuple(_arguments.whole(n, what, 1) for n in dims)
    _check_shape(info, shape)
    return shape


def _check_shape(info: ValueInfo, given: tuple[int, ...]) -> None:
    shape = info.shape
    if shape is not None and (
        len(shape) != len(given) or any(isinstance(n, int) and n != m for n, m in zip(shape, given))
    ):
        words = ", ".join("?" if n is None else str(n) for n in shape)
        raise ShapeError(f"input {info.name!r}: expected shape ({words}), got {given}")


def refuse(others: Mapping[str, Any]) -> None:
    """Raises ArgumentError, UnsupportedError for arguments of a session beyond its own."""
    for name, value in others.items():
        if name not in NOT_OFFERED:
            raise ArgumentError(f"InferenceSession has no argument {name!r}")
        if value:
            raise UnsupportedError(f"{name}={value!r}: clcnn has nothing that it could be mapped to")


def wanted(infos: Sequence[ValueInfo], output_names: Sequence[str] | None) -> list[str]:
    """The outputs that run() is asked for; all where none is named. Raises ArgumentError."""
    known = [info.name for info in infos]
    if not output_names:
        return known
    names = [output_names] if isinstance(output_names, str) else list(output_names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ArgumentError(f"output_names: the model has no output {unknown}; it has {known}")
    return names
