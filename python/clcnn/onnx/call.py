"""Call: one node of a model as the table's builders see it; Operand: a constant or a value of the graph."""

from __future__ import annotations

import math
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from clcnn.errors import ArgumentError, ModelError, ShapeError
from clcnn.graph import Graph, Value

if TYPE_CHECKING:
    from clcnn.onnx.lengths import Length, Lengths

DEVICE_DTYPES = ("float32", "int64", "int32", "bool")
# Element type of a model -> the one it is computed in.
HELD_IN = {
    "float16": "float32",
    "bfloat16": "float32",
    "float64": "float32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
}


MAX_NAME = 200  # bytes of a layer's name, with room for what the graph adds to it (the core takes 255)
MAX_MADE = 1 << 26  # elements of a constant made while importing


class Refusal(Exception):
    """A node that cannot be computed; the text says why. The importer collects them."""


class Steps(NamedTuple):
    """Whole numbers n held as the numbers (n - zero) * scale that they stand for; see quantised.py."""

    scale: float
    zero: int


class Whole:
    """That an operand is numbers(), which are whole, times a factor, which broadcasts to it. They are made
    when somebody asks for them."""

    def __init__(self, make: Callable[[], Operand], factor: NDArray[Any]) -> None:
        self.factor = factor.astype(np.float32)
        self._make = make
        self._made: Operand | None = None

    def numbers(self) -> Operand:
        if self._made is None:
            self._made = self._make()
        return self._made


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """What a name in a model stands for: an array known now, or a value of the graph.

    sizes: in the place of an array, one with sizes that depend on data (lengths.py). length, axis: that only
    as many elements along that axis are real as this length says. wide: the element type that the model means
    where the graph's value has another (see wide.py), "" otherwise. steps: of whole numbers, that the graph's
    value is float32 and how it stands for them. whole: of floats, the whole numbers that they are made of.
    """

    array: NDArray[Any] | None = None
    value: Value | None = None
    sizes: NDArray[np.object_] | None = None
    length: Length | None = None
    axis: int = 0
    wide: str = ""
    steps: Steps | None = None
    whole: Whole | None = None

    @property
    def logical(self) -> str:
        """The element type that the model means."""
        return self.wide or self.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        if self.value is not None:
            return self.value.shape
        known = self.sizes if self.array is None else self.array
        assert known is not None
        return known.shape

    @property
    def depends(self) -> bool:
        """Whether data decide a size of it, or it is made of such sizes."""
        return self.length is not None or self.sizes is not None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.value is not None:
            return np.dtype(self.value.dtype)
        if self.sizes is not None:
            return np.dtype(np.int64)
        assert self.array is not None
        return self.array.dtype


class Call:
    """A node's inputs and attributes, and emit() to compute with.

    inputs: None where an optional one is absent. outputs: how many the node has up to the last that is used.
    version: of the operator set.
    """

    def __init__(
        self,
        graph: Graph,
        node: onnx.NodeProto,
        version: int,
        inputs: list[Operand | None],
        attrs: dict[str, Any],
        constants: Constants,
        lengths: Lengths,
    ) -> None:
        self.graph = graph
        self.op = node.op_type
        self.name = layer_name(node.name or next((name for name in node.output if name), node.op_type))
        self.version = version
        self.inputs = inputs
        self.attrs = attrs
        self.wanted = [bool(name) for name in node.output]
        self.lengths = lengths
        self._constants = constants

    # ---- what the node says ----

    def has(self, index: int) -> bool:
        """Whether the optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int = 0) -> Operand:
        """An input that must be given."""
        operand = self.inputs[index] if index < len(self.inputs) else None
        if operand is None:
            raise ModelError(f"input {index} is missing")
        return operand

    def optional(self, index: int) -> Operand | None:
        return self.inputs[index] if self.has(index) else None

    def wants(self, index: int) -> bool:
        """Whether the output is used."""
        return index < len(self.wanted) and self.wanted[index]

    def known(self, index: int) -> NDArray[Any] | None:
        """The array of an input whose value must be known now; None when it is absent."""
        if not self.has(index):
            return None
        array = self.input(index).array
        if array is None:
            raise Refusal(f"input {index} depends on data; it must be known when the graph is built")
        return array

    def ints(self, index: int) -> list[int] | None:
        """known() as a list of integers."""
        array = self.known(index)
        if array is None:
            return None
        if array.dtype.kind not in "iub":
            raise ModelError(f"input {index} must hold integers, not {array.dtype}")
        return [int(n) for n in array.reshape(-1)]

    def number(self, index: int) -> Any:
        """known() as one number, None when absent."""
        array = self.known(index)
        if array is None:
            return None
        if array.size != 1:
            raise ModelError(f"input {index} must hold one number, but its shape is {array.shape}")
        return array.reshape(-1)[0].item()

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)

    def list_of(self, name: str, count: int, default: int) -> list[int]:
        """An attribute of `count` integers."""
        values = list(self.attrs.get(name) or [default] * count)
        if len(values) != count:
            raise ModelError(f"attribute {name} must have {count} values, but has {len(values)}: {values}")
        return values

    def axis(self, rank: int, default: int = 0, name: str = "axis") -> int:
        """The attribute `axis`, counted from the front."""
        return wrap(int(self.attrs.get(name, default)), rank)

    # ---- what it becomes ----

    def constant(self, values: Any, dtype: Any = None) -> Operand:
        """An array made while importing."""
        return Operand(np.asarray(values, dtype))

    def value(self, operand: Operand) -> Value:
        """The operand as a value of the graph; a constant is put there once, whoever uses it."""
        if operand.value is not None:
            return operand.value
        if operand.sizes is not None:
            return self.lengths.vector(operand.sizes)
        array = operand.array
        assert array is not None
        return self._constants.value(array, self.name)

    def emit(self, op: str, *inputs: Operand | None, **attrs: Any) -> Operand:
        """One operator of the core with one output."""
        return self.emit_many(op, *inputs, **attrs)[0]

    def emit_many(self, op: str, *inputs: Operand | None, **attrs: Any) -> list[Operand]:
        values = [None if x is None else self.value(x) for x in inputs]
        return [Operand(value=v) for v in self.graph.node(op, values, attrs, self.name)]

    # ---- small combinations that many builders need ----

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand:
        """x itself when it has that shape already."""
        if x.shape == tuple(shape):
            return x
        if x.array is not None:
            return Operand(x.array.reshape(shape))
        return self.emit("reshape", x, shape=list(shape))

    def transpose(self, x: Operand, perm: Sequence[int]) -> Operand:
        return x if list(perm) == sorted(perm) else self.emit("transpose", x, perm=list(perm))

    def cast(self, x: Operand, dtype: Any) -> Operand:
        """x in another element type. To those that devices lack, only where no number changes; floats are
        first limited to what integers of 8 and 16 bits hold."""
        target = np.dtype(dtype)
        if x.array is not None:
            return Operand(x.array.astype(target))
        held_in = target.name if target.name in DEVICE_DTYPES else HELD_IN.get(target.name)
        exact = target.name == "float64" or x.dtype == np.bool_ or x.logical == target.name
        if held_in == "int32" != target.name and x.dtype == np.float32:
            limits = np.iinfo(target)
            x, exact = self.emit("clip", x, min=float(limits.min), max=float(limits.max)), True
        if held_in is None or (held_in != target.name and not exact):
            raise Refusal(f"it converts to elements of type {target}; offered are {', '.join(DEVICE_DTYPES)}")
        made = Operand(value=x.value) if x.dtype.name == held_in else self.emit("cast", x, to=held_in)
        return made if held_in == target.name else replace(made, wide=target.name)

    def ones(self, shape: Sequence[int], dtype: Any) -> Operand:
        """A constant of ones, of a shape that the model decides."""
        self.check_size(shape)
        return Operand(np.ones(shape, dtype))

    def check_size(self, shape: Sequence[int]) -> None:
        """Refuses to make a constant that is too large."""
        if math.prod(shape) > MAX_MADE:
            raise Refusal(f"it makes a constant of shape {tuple(shape)}, more than {MAX_MADE} elements")

    def full(self, x: Operand, number: float) -> Operand:
        """A constant of one element, in x's type."""
        return Operand(np.full((1,) * max(x.rank, 1) if x.rank else (), number, x.dtype))


def layer_name(name: str) -> str:
    """A node's name as that of a layer: exporters write names of any length. A long one keeps both ends, and
    a number made of the whole tells it from others."""
    whole = name.encode()
    if len(whole) <= MAX_NAME:
        return name
    half = MAX_NAME // 2 - 8
    head, tail = whole[:half].decode(errors="ignore"), whole[-half:].decode(errors="ignore")
    return f"{head}...{tail}~{zlib.crc32(whole):08x}"


def distinct(wanted: str, taken: set[str], mark: str = "#") -> str:
    """`wanted`, or with a number behind it while it is taken; the result is then taken too."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{mark}{count}"
    taken.add(name)
    return name


class Constants:
    """The arrays that became constants of a graph, each of them once. Copies may have been taken of them, and
    other arrays be where they were, so that the address says nothing."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[int, tuple[weakref.ref[NDArray[Any]], Value]] = {}

    def value(self, array: NDArray[Any], name: str) -> Value:
        """The constant; `name` is that of the node that reads it first. Raises what constant_value() does."""
        known = self._known.get(id(array))
        if known is None or known[0]() is not array:
            known = weakref.ref(array), constant_value(self._graph, array, name)
            self._known[id(array)] = known
        return known[1]


def constant_value(graph: Graph, array: NDArray[Any], name: str) -> Value:
    """The array as a constant of the graph for the node of this name. Raises ShapeError without elements, and
    what held() raises."""
    if array.size == 0:
        raise ShapeError(f"{name}: a tensor of shape {array.shape} has no element, which has no meaning here")
    # ascontiguousarray() would make an array of rank 0 one of rank 1
    return graph.constant(np.require(held(array, name), requirements="C"), name + ".constant")


def held(array: NDArray[Any], what: str) -> NDArray[Any]:
    """An array in the type that it is computed in. Raises ArgumentError for numbers that do not fit."""
    target = HELD_IN.get(array.dtype.name)
    if target is None:
        return array
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ArgumentError(f"{what}: {array.max()} does not fit int64, in which uint64 is computed")
    return array.astype(target)


def wrap(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises ModelError when there is no such axis."""
    if not -rank <= axis < max(rank, 1):
        raise ModelError(f"axis {axis} is outside of a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis


def wrap_all(axes: Sequence[int], rank: int) -> list[int]:
    """wrap() for several, which must differ."""
    wrapped = [wrap(axis, rank) for axis in axes]
    if len(set(wrapped)) != len(wrapped):
        raise ModelError(f"axes {list(axes)} name the same dimension twice")
    return wrapped
