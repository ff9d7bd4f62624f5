"""Step: one node of a clcnn graph on its way into an ONNX graph, as the writers in ops/ see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

if TYPE_CHECKING:
    from clcnn.onnx.export import Writer

Shape = tuple[int, ...]

TYPES = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a clcnn graph on its way into an ONNX graph.

    inputs: ONNX value names, "" where an optional operand is absent. attrs: every attribute, those not given
    as their default; kinds `ints` and `floats` are tuples. batch_free: whether the first dimension of
    shapes in attributes must not be written as a number.
    """

    writer: Writer
    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    out_shapes: tuple[Shape, ...]
    batch_free: bool

    @property
    def x(self) -> str:
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """Shape of the first operand."""
        return self.shapes[0]

    @property
    def spatial(self) -> int:
        """Number of spatial dimensions of the first operand."""
        return len(self.shape) - 2

    def ints(self, attr: str, count: int) -> list[int]:
        """An attribute of kind ints as `count` values: one serves all."""
        values = [int(v) for v in self.attrs[attr]]
        return values * count if len(values) == 1 else values

    def pads(self) -> list[int]:
        """Padding as all begins, then all ends."""
        values = [int(v) for v in self.attrs["padding"]]
        return values if len(values) == 2 * self.spatial else self.ints("padding", self.spatial) * 2

    def axes(self) -> list[int]:
        """The attribute axes, none negative."""
        return [int(a) % len(self.shape) for a in self.attrs["axes"]]

    def add(self, op_type: str, *inputs: str, outputs: Sequence[str] | None = None, **attrs: Any) -> None:
        """A node that makes this step's outputs; attributes that are None are left out. Absent operands at
        the end of the list are left out too."""
        self.writer.node(op_type, inputs, self.outputs if outputs is None else outputs, self.name, attrs)

    def middle(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """A node that makes a value used by this step alone; returns its name."""
        made = self.writer.fresh(self.outputs[0])
        self.add(op_type, *inputs, outputs=[made], **attrs)
        return made

    def add_counted(self, found: str) -> None:
        """This step's two outputs made of rows of which data say how many: a fixed number, -1 behind those
        found, and how many they are."""
        shape = self.out_shapes[0]
        none = self.middle("Expand", self.number(-1, "int64"), self.integers(shape))
        both = self.middle("Concat", found, none, axis=0)
        ends = (self.integers([n]) for n in (0, shape[0], 0))
        self.add("Slice", both, *ends, outputs=self.outputs[:1])
        count = self.middle("Slice", self.middle("Shape", found), *(self.integers([n]) for n in (0, 1)))
        self.add("Identity", count, outputs=self.outputs[1:])

    def integers(self, values: Sequence[int]) -> str:
        """The name of an int64 initialiser [n]."""
        return self.writer.constant(np.array(values, np.int64), self.name)

    def number(self, value: float, dtype: str = "float32") -> str:
        """The name of an initialiser without dimensions."""
        return self.writer.constant(np.array(value, dtype), self.name)

    def full(self, shape: Shape, value: float) -> str:
        """The name of a float32 initialiser of one value."""
        return self.writer.constant(np.full(shape, value, np.float32), self.name)


Emit = Callable[[Step], None]


def plain(op_type: str, **attrs: str) -> Emit:
    """A row for an operator that ONNX has too. attrs: {name in ONNX: name here}."""

    def emit(step: Step) -> None:
        given = {name: _native(step.attrs[own]) for name, own in attrs.items()}
        step.add(op_type, *step.inputs, **given)

    return emit


def _native(value: Any) -> Any:
    """An attribute as onnx.helper takes it: booleans are integers."""
    if isinstance(value, bool):
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def filled(kinds: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes of a node: those given, the defaults of the others; lists as tuples. kinds: the rows of
    the operator's attribute table."""
    made = {}
    for row in kinds:
        value = given.get(row["name"], row["default"])
        if row["kind"] in ("ints", "floats"):
            many = isinstance(value, (Sequence, np.ndarray))
            value = tuple(value) if many else () if value is None else (value,)
        elif row["kind"] == "bool":
            value = bool(value)
        made[row["name"]] = value
    return made


def same_array(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two initialisers hold the same bits."""
    return a is b or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
