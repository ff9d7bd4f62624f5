"""Export: a net of the zoo, an nn.Module or a graph as an ONNX model.

    clcnn.onnx.save(net, "net.onnx", (1, 3, 224, 224), dynamic_batch=True)

The graph is written as it was built, before any rewriting: node for node, under the same names, constants as
initialisers. What each operator becomes is the table WRITE of ops/.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from clcnn import sources, weights
from clcnn._graph.operators import operators
from clcnn._version import __version__
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.graph import Graph, Record, Value
from clcnn.model_io import BATCH_FREE
from clcnn.onnx.call import distinct
from clcnn.onnx.export_step import TYPES, Step, filled, same_array
from clcnn.onnx.ops import WRITE

OPSET = 21
IR_VERSION = 10  # the one that opset 21 came with
MAX_BYTES = 2**31 - 1  # of a protobuf message
BATCH = "N"  # the name of a dimension that any batch size fits


class Writer:
    """An ONNX graph in the making. Names of values are unique; constants made on the way are named after
    their node."""

    def __init__(self, graph: Graph, batch_free: bool) -> None:
        graph.check_no_states("ONNX")
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: dict[str, NDArray[Any]] = {}
        graph._refuse_gradients("written as ONNX")
        self._taken: set[str] = {""}
        self._node_names: set[str] = set()
        self._names: dict[int, str] = {}
        self._graph = graph
        self._batch_free = batch_free
        used = {i for r in graph.records for i in r.inputs}
        records = [r for r in graph.records if r.kind != "constant" or r.values[0] in used]
        outputs = [r for r in records if r.kind == "output"]
        for record in records:
            if record.kind in ("input", "constant"):
                self._names[record.values[0]] = distinct(record.name, self._taken)
        self._name_outputs(outputs, {r.values[0] for r in records if r.kind in ("input", "constant")})
        for record in records:
            if record.array is not None:
                self.initialisers[self._names[record.values[0]]] = record.array
            elif record.kind == "node":
                self._write(record)
        for record in outputs:
            source = self._names[record.inputs[0] or 0]
            if source != record.name:
                self.node("Identity", [source], [record.name], record.name, {})

    def _name_outputs(self, outputs: Sequence[Record], given: set[int]) -> None:
        """In ONNX an output's name is the name of its value: the value takes the first output's name; further
        outputs of it, and outputs that are inputs or constants, become copies."""
        for record in outputs:
            if record.name in self._taken:
                raise ArgumentError(
                    f"output {record.name!r}: an input, a constant or another output has the same name, "
                    "which ONNX does not allow"
                )
            self._taken.add(record.name)
            source = record.inputs[0] or 0
            if source not in given:
                self._names.setdefault(source, record.name)

    def _write(self, record: Record) -> None:
        row = WRITE.get(record.op)
        if row is None:
            raise UnsupportedError(f"{record.name}: {record.op} has no equivalent in ONNX")
        several = len(record.values) > 1
        for number, value in enumerate(record.values):
            if value not in self._names:
                self._names[value] = distinct(
                    f"{record.name}:{number}" if several else record.name, self._taken
                )
        values = [None if i is None else self._graph._values[i] for i in record.inputs]
        row(
            Step(
                writer=self,
                name=record.name,
                op=record.op,
                inputs=tuple("" if i is None else self._names[i] for i in record.inputs),
                outputs=tuple(self._names[i] for i in record.values),
                attrs=filled(operators()[record.op]["attrs"], record.attrs),
                shapes=tuple(() if v is None else v.shape for v in values),
                dtypes=tuple("" if v is None else v.dtype for v in values),
                out_shapes=tuple(self._graph.shape(i) for i in record.values),
                batch_free=self._batch_free,
            )
        )

    def fresh(self, stem: str) -> str:
        """A name for a value inside of what `stem` becomes."""
        return distinct(f"{stem}/1", self._taken)

    def constant(self, array: NDArray[Any], node: str) -> str:
        """The name of a new initialiser for the node of this name."""
        name = distinct(f"{node}/const", self._taken)
        self.initialisers[name] = array
        return name

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        attrs: Mapping[str, Any],
    ) -> None:
        """A node; operands that are absent at the end of the list are left out, attributes that are None
        too."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        made = helper.make_node(op_type, given, list(outputs), name=distinct(name, self._node_names, "/"))
        made.attribute.extend(
            helper.make_attribute(key, value) for key, value in attrs.items() if value is not None
        )
        self.nodes.append(made)


def to_model(model: Any, input_shape: Any = None, *, dynamic_batch: bool = False) -> onnx.ModelProto:
    """What save() writes, as an onnx.ModelProto.

    Parameters
    ----------
    model, input_shape, dynamic_batch
        As of save().

    Returns
    -------
    onnx.ModelProto
        Which onnx.checker has accepted.

    Raises
    ------
    ArgumentError, ShapeError, UnsupportedError
        As of save().

    Examples
    --------
    >>> import clcnn
    >>> made = clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2))
    >>> [node.op_type for node in made.graph.node]
    ['Relu']
    """
    model, input_shape = sources.opened(model, input_shape)
    graph = sources.graph_of(model, input_shape)
    writer = Writer(graph, dynamic_batch)
    batches = _batches(graph, model, writer) if dynamic_batch else set()
    size = sum(array.nbytes for array in writer.initialisers.values())
    if size > MAX_BYTES:
        raise UnsupportedError(
            f"the constants take {size} bytes; an ONNX file without external data holds {MAX_BYTES}"
        )
    made = helper.make_model(
        helper.make_graph(
            writer.nodes,
            "clcnn",
            [_info(name, value, name in batches) for name, value in graph.inputs.items()],
            [_info(name, value, name in batches) for name, value in graph.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in writer.initialisers.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="clcnn",
        producer_version=__version__,
    )
    onnx.checker.check_model(made)
    return made


def save(
    model: Any,
    path: str | os.PathLike[str],
    input_shape: Any = None,
    *,
    dynamic_batch: bool = False,
) -> None:
    """Writes a model as an ONNX file (opset 21), which appears complete or not at all.

    The file is checked by onnx.checker first.

    Parameters
    ----------
    model : as of clcnn.compile()
        A file that clcnn.save() wrote, a module, a graph; an nn.Module (or anything with build()) needs
        input_shape.
    path : path
    input_shape
        As clcnn.compile() takes it, N,C,spatial...
    dynamic_batch : bool
        Leave the first dimension of the inputs open ("N") instead of fixing it. Default False.

    Raises
    ------
    ArgumentError, ShapeError
        What is wrong with an argument; dynamic_batch is asked of a model that only fits one batch size.
    UnsupportedError
        There is no equivalent in ONNX, or there are more than 2 GiB.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.onnx.save(clcnn.zoo.lenet5(), "lenet5.onnx", (1, 1, 28, 28), dynamic_batch=True)
    >>> clcnn.onnx.load("lenet5.onnx").inputs[0].shape
    ('N', 1, 28, 28)
    """
    made = to_model(model, input_shape, dynamic_batch=dynamic_batch)
    with weights.replacing(path) as temporary, open(temporary, "wb") as stream:
        stream.write(made.SerializeToString())


def _info(name: str, value: Value, batch: bool) -> onnx.ValueInfoProto:
    dims: list[int | str] = list(value.shape)
    if batch:
        dims[0] = BATCH
    return helper.make_tensor_value_info(name, TYPES[value.dtype], dims)


# ---- any batch size ----


def _batches(graph: Graph, model: Any, writer: Writer) -> set[str]:
    """Names of the inputs and outputs whose first dimension is the batch.

    The model is built and written a second time, with twice the batch: if any node or constant differs, it
    fits one batch size only. Raises ArgumentError that says which.
    """
    shapes = {name: value.shape for name, value in graph.inputs.items()}
    sizes = {shape[0] for shape in shapes.values() if shape}
    if len(sizes) != 1 or not all(shapes.values()):
        raise ArgumentError(
            f"dynamic_batch: all inputs must have the same first dimension, they have shapes {shapes}"
        )
    twice = {name: (2 * shape[0], *shape[1:]) for name, shape in shapes.items()}
    try:
        other = _resized(graph, twice) if isinstance(model, Graph) else sources.graph_of(model, twice)
    except (ArgumentError, ValueError) as error:
        raise ArgumentError(f"dynamic_batch: the model does not fit another batch size: {error}") from error
    second = Writer(other, True)
    for a, b in zip(writer.nodes, second.nodes):
        if a != b:
            raise ArgumentError(f"dynamic_batch: {a.name} ({a.op_type}) depends on the batch size")
    for name, array in writer.initialisers.items():
        if name not in second.initialisers or not same_array(array, second.initialisers[name]):
            raise ArgumentError(f"dynamic_batch: the constant {name} depends on the batch size")
    after = other.outputs
    grown = {name for name, value in graph.outputs.items() if after[name].shape != value.shape}
    return set(shapes) | grown


def _resized(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph with other input shapes; shapes in attributes that repeat the batch are made free of it."""
    records = []
    for r in graph.records:
        if r.kind == "input":
            r = r._replace(shape=shapes[r.name])
        elif r.op in BATCH_FREE and r.inputs[0] is not None:
            target = list(r.attrs["shape"])
            source = graph.shape(r.inputs[0])
            if source[:1] == tuple(target[:1]) and (r.op == "reshape" or len(source) == len(target)):
                target[0] = BATCH_FREE[r.op]
            r = r._replace(attrs={**r.attrs, "shape": target})
        records.append(r)
    return Graph.from_records(records)
