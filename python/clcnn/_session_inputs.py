"""What a session says of its inputs and outputs, and how arrays are held against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arrays, _core
from clcnn.errors import DtypeError, ShapeError

if TYPE_CHECKING:
    from clcnn.onnx import ValueInfo

ELEMENTS = {"float": np.float32, "double": np.float64}  # onnxruntime's words that are not NumPy's


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: its name, its shape (a number, a symbol or None, unknown, for each dimension), and
    its type in onnxruntime's words, "tensor(float)"."""

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
    shape = info.shape
    if shape is not None and (
        len(shape) != len(array.shape)
        or any(isinstance(n, int) and n != m for n, m in zip(shape, array.shape))
    ):
        words = ", ".join("?" if n is None else str(n) for n in shape)
        raise ShapeError(f"input {info.name!r}: expected shape ({words}), got {array.shape}")
    return array
