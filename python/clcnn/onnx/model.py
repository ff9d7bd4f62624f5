"""load(): an ONNX file as a checked Model, from which graphs for given shapes are made."""

from __future__ import annotations

import html
import io
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import numpy_helper

from clcnn import _arguments
from clcnn._graph.kept import Place
from clcnn._graph.records import memory
from clcnn.errors import ArgumentError, Error, ModelError, ShapeError, UnsupportedError
from clcnn.onnx import analysis, check, importer, parse, tensors
from clcnn.onnx.program import Program
from clcnn.report import html_table
from clcnn.weights.errors import shown

if TYPE_CHECKING:
    from clcnn.graph import Graph

MAX_BYTES = 2**31 - 1  # of a protobuf message


class ValueInfo(NamedTuple):
    """An input or output of a model.

    Attributes
    ----------
    name : str
    shape : tuple, or None
        For each dimension a number, a symbol such as "batch", or None where it is unknown. None in place of
        the tuple when not even the rank is declared.
    type : str
        In onnxruntime's words, such as "tensor(float)".

    Examples
    --------
    >>> import clcnn
    >>> clcnn.onnx.ValueInfo("x", ("batch", 3, None, None), "tensor(float)").shape
    ('batch', 3, None, None)
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    type: str


class Model:
    """What load() returns. It does not change, and any number of threads may use it.

    clcnn.compile() takes it as it is; the methods here are for what looks into models.

    Attributes
    ----------
    inputs, outputs : list of ValueInfo
        Initialisers that are listed among the graph's inputs are no inputs.
    opset : int
        Version of ONNX's own operators.
    opsets : {domain: int}
        Versions of all domains.
    nodes : list of onnx.NodeProto
        In the order of the file.
    arrays : {name: array}
        Initialisers and tensor constants, read-only.
    value_inputs : tuple of str
        Inputs whose values decide shapes or attributes (the `shape` of a Reshape, say): graphs are
        specialised on them.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> data = clcnn.onnx.to_model(clcnn.zoo.lenet5(), (1, 1, 28, 28)).SerializeToString()
    >>> model = clcnn.onnx.load(data)
    >>> [info.name for info in model.inputs], len(model.nodes)
    (['input'], 12)
    >>> with clcnn.compile(model) as plan:
    ...     plan(np.zeros((1, 1, 28, 28), np.float32)).shape
    (1, 10)
    """

    def __init__(self, parsed: parse.Parsed, folder: Path | None) -> None:
        """Takes a parsed model apart; load() is the way to get one."""
        proto, raw, at = parsed
        self.opsets = check.check_model(proto)
        self.opset = self.opsets.get("", 0)
        self.arrays = {
            t.name: tensors.to_array(t, folder, f"initialiser {shown(t.name)}", data)
            for t, data in zip(proto.graph.initializer, raw)
        }
        constant = [node for node in proto.graph.node if _is_tensor_constant(node)]
        for node in constant:
            what = check.label(node)
            self.arrays[node.output[0]] = tensors.to_array(node.attribute[0].t, folder, what)
        outside = [*proto.graph.initializer, *(node.attribute[0].t for node in constant)]
        self._whole = all(t.data_location != onnx.TensorProto.EXTERNAL for t in outside)
        self._places = [
            Place(memory(self.arrays[t.name])[0], len(data), start)
            for t, data, start in zip(proto.graph.initializer, raw, at)
            if data is not None and start is not None and self.arrays[t.name].nbytes == len(data)
        ]
        for array in self.arrays.values():
            array.flags.writeable = False
        for info in proto.graph.input:
            _check_initial(info, self.arrays.get(info.name))
        initial = {t.name for t in proto.graph.initializer}
        self._skeleton = _without(proto, self.arrays)
        self._whole &= not analysis.embed_tensors(self._skeleton, folder)
        self.functions = {check.function_key(f): f for f in self._skeleton.functions}
        self.nodes = list(self._skeleton.graph.node)
        self.order = check.node_order(
            self.nodes, {*self.arrays, *(i.name for i in proto.graph.input)}.__contains__
        )
        self.inputs = [_value_info(i) for i in proto.graph.input if i.name not in initial]
        self.outputs = [_value_info(o) for o in proto.graph.output]
        self.value_inputs = analysis.value_inputs(self)
        analysis.refuse_unsupported(self)

    @property
    def places(self) -> list[Place] | None:
        """Where arrays that are as they stand in the model's file come from; None where the model has parts
        in other files."""
        return self._places if self._whole else None

    @property
    def header(self) -> onnx.ModelProto:
        """The model without its weights: producer, version, metadata."""
        return self._skeleton

    @property
    def graph_proto(self) -> onnx.GraphProto:
        """The graph without its initialisers and tensor constants, which are in `arrays`."""
        return self._skeleton.graph

    def serialized(self) -> bytes:
        """The model as one ONNX file, external data included.

        Returns
        -------
        bytes

        Raises
        ------
        ModelError
            It would have more than 2 GB.

        Examples
        --------
        >>> import clcnn
        >>> data = clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2)).SerializeToString()
        >>> clcnn.onnx.load(clcnn.onnx.load(data).serialized()).opset
        21
        """
        whole = onnx.ModelProto()
        whole.CopyFrom(self._skeleton)
        whole.ir_version = max(whole.ir_version, 4)  # before, initialisers had to be inputs too
        if sum(array.nbytes for array in self.arrays.values()) > MAX_BYTES:
            raise ModelError("the model has more than the 2 GB that an ONNX file can hold")
        whole.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in self.arrays.items())
        return bytes(whole.SerializeToString())

    def specialise(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, NDArray[Any]] | None = None,
    ) -> Program:
        """A graph for these shapes, with constants and the arithmetic on shapes folded.

        Parameters
        ----------
        shapes : {name: shape}, optional
            Not needed for inputs without unknown dimensions.
        values : {name: array}, optional
            Of `value_inputs`, all of them.

        Returns
        -------
        Program
            The graph, and the outputs that need none.

        Raises
        ------
        ShapeError
            A shape does not fit; names input, expected and given.
        ArgumentError
            A name is unknown, or a value is missing.
        UnsupportedError
            Lists all nodes that are not supported.
        ModelError
            The model contradicts itself.

        Examples
        --------
        >>> import clcnn
        >>> made = clcnn.onnx.to_model(clcnn.nn.MaxPool2d(2), (1, 3, 8, 8), dynamic_batch=True)
        >>> program = clcnn.onnx.load(made.SerializeToString()).specialise({"input": (4, 3, 8, 8)})
        >>> program.graph.outputs["output"].shape
        (4, 3, 4, 4)
        """
        return self._specialised(shapes, values, whole=False)

    def graph(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, NDArray[Any]] | None = None,
    ) -> Graph:
        """The graph of specialise(), in which outputs that hang on no input come last.

        Parameters
        ----------
        shapes, values
            As of specialise().

        Returns
        -------
        Graph

        Raises
        ------
        UnsupportedError
            Nothing is left to run. And what specialise() raises.

        Examples
        --------
        >>> import clcnn
        >>> data = clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2)).SerializeToString()
        >>> [row.op for row in clcnn.onnx.load(data).graph().rows()]
        ['relu']
        """
        graph = self._specialised(shapes, values, whole=True).graph
        if graph is None:
            raise UnsupportedError("the model's outputs are all constant: there is nothing to run")
        return graph

    def _specialised(
        self,
        shapes: Mapping[str, Sequence[int]] | None,
        values: Mapping[str, NDArray[Any]] | None,
        *,
        whole: bool,
    ) -> Program:
        known = self._checked_values(values or {})
        return importer.specialise(self, self._checked_shapes(shapes or {}, known), known, whole=whole)

    def _checked_values(self, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        missing = [name for name in self.value_inputs if name not in values]
        if missing:
            raise ArgumentError(
                f"values of {missing} are needed: they decide shapes or attributes in the model"
            )
        unknown = [name for name in values if name not in self.value_inputs]
        if unknown:
            raise ArgumentError(
                f"values: {unknown} are none of the inputs that decide shapes, {self.value_inputs}"
            )
        return {
            name: tensors.widened(np.asarray(_arguments.plain(array, f"input {name!r}")))
            for name, array in values.items()
        }

    def _checked_shapes(
        self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, NDArray[Any]]
    ) -> dict[str, tuple[int, ...]]:
        names = [i.name for i in self.inputs]
        unknown = [name for name in shapes if name not in names]
        if unknown:
            raise ArgumentError(f"the model has no inputs {unknown}; its inputs are {names}")
        symbols: dict[str, tuple[int, str]] = {}
        result = {}
        for info in self.inputs:
            given = values[info.name].shape if info.name in values else shapes.get(info.name)
            result[info.name] = _fitted(info, given, symbols)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (self.serialized(),)

    def __repr__(self) -> str:
        rows = [f"{i.name}{'?' if i.shape is None else list(i.shape)}" for i in self.inputs]
        return f"<clcnn.onnx.Model: {len(self.nodes)} nodes, opset {self.opset}, inputs {', '.join(rows)}>"

    def _repr_html_(self) -> str:
        counts = Counter(node.op_type for node in self.nodes)
        rows = [
            ("input", i.name, "?" if i.shape is None else str(list(i.shape)), i.type) for i in self.inputs
        ]
        rows += [
            ("output", o.name, "?" if o.shape is None else str(list(o.shape)), o.type) for o in self.outputs
        ]
        nodes = html.escape(", ".join(f"{name} x{n}" for name, n in counts.most_common()))
        table = html_table(["", "name", "shape", "type"], rows)
        return f"<code>clcnn.onnx.Model</code>, opset {self.opset}, {len(self.nodes)} nodes: {nodes}{table}"


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Model:
    """Reads and checks an ONNX model.

    External data must lie inside the folder of the file. Half-precision weights are widened to float32.

    Parameters
    ----------
    source : path, or bytes
        A file or its content.

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        Not ONNX, damaged, breaks a rule of the format.
    UnsupportedError
        Counts all nodes that cannot be computed.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import clcnn
    >>> data = clcnn.onnx.to_model(clcnn.zoo.lenet5(), (1, 1, 28, 28)).SerializeToString()
    >>> [info.shape for info in clcnn.onnx.load(data).inputs]
    [(1, 1, 28, 28)]
    """
    folder = None
    if isinstance(source, (bytes, bytearray, memoryview)):
        name = "the model"
        opened: BinaryIO = io.BytesIO(source)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(_arguments.path(source, "load"))
        name, opened = path.name, path.open("rb")
        folder = path.resolve().parent
    else:
        raise ArgumentError(f"load: expected a path or bytes, got {type(source).__name__}")
    with opened as file:
        try:
            parsed = parse.parse(file)
        except DecodeError as error:
            raise ModelError(f"{name} is not an ONNX model, or is damaged: {error}") from error
    try:
        return Model(parsed, folder)
    except Error as error:
        raise type(error)(f"{name}: {error}") from error


def _check_initial(info: onnx.ValueInfoProto, array: NDArray[Any] | None) -> None:
    """An initialiser that is listed among the inputs must be as declared there."""
    tensor = info.type.tensor_type
    if array is None or not tensor.HasField("shape"):
        return
    dims = tensors.declared_shape(tensor.shape)
    if len(dims) != array.ndim or any(d not in (None, n) for d, n in zip(dims, array.shape)):
        words = ", ".join("?" if d is None else str(d) for d in dims)
        raise ModelError(
            f"initialiser {shown(info.name)} is declared with shape ({words}), but its shape is {array.shape}"
        )


def _is_tensor_constant(node: onnx.NodeProto) -> bool:
    plain = node.op_type == "Constant" and check.default_domain(node.domain) == ""
    return plain and len(node.attribute) == 1 and node.attribute[0].name == "value" and len(node.output) == 1


def _without(proto: onnx.ModelProto, arrays: Mapping[str, Any]) -> onnx.ModelProto:
    """A copy without what has become one of `arrays`, so that the bytes of `proto` can be freed."""
    proto.graph.ClearField("initializer")
    nodes = [
        node for node in proto.graph.node if not (_is_tensor_constant(node) and node.output[0] in arrays)
    ]
    skeleton = onnx.ModelProto()
    skeleton.graph.node.extend(nodes)
    proto.graph.ClearField("node")
    skeleton.MergeFrom(proto)
    return skeleton


def _value_info(proto: onnx.ValueInfoProto) -> ValueInfo:
    kind = proto.type.WhichOneof("value")
    if kind != "tensor_type":
        words = (kind or "unknown").removesuffix("_type")
        raise UnsupportedError(f"{shown(proto.name)} is of type {words}: inputs and outputs must be tensors")
    tensor = proto.type.tensor_type
    if tensor.elem_type not in tensors.NUMBERS:
        raise UnsupportedError(
            f"{shown(proto.name)} is a tensor of {tensors.type_name(tensor.elem_type)}: inputs and outputs "
            "must be tensors of numbers"
        )
    shape: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        dims = tensors.declared_shape(tensor.shape)
        tensors.checked_shape([n or 0 for n in dims], f"the declared shape of {shown(proto.name)}")
        shape = tuple(
            d.dim_param or None if n is None else n for n, d in zip(dims, tensor.shape.dim, strict=True)
        )
    return ValueInfo(proto.name, shape, f"tensor({tensors.type_name(tensor.elem_type)})")


def _fitted(
    info: ValueInfo, given: Sequence[int] | None, symbols: dict[str, tuple[int, str]]
) -> tuple[int, ...]:
    """The shape of an input, checked against its declaration and against symbols of earlier inputs."""
    expected = info.shape
    if given is None:
        if expected is None or not all(isinstance(n, int) for n in expected):
            raise ShapeError(
                f"input {info.name!r}: its shape is {_words(expected)}, so a shape must be given for it"
            )
        return tuple(n for n in expected if isinstance(n, int))
    try:
        shape = tuple(int(n) for n in given)
    except (TypeError, ValueError):
        raise ShapeError(f"input {info.name!r}: {_arguments.shown(given)} is no shape") from None
    if expected is not None and (
        len(shape) != len(expected)
        or any(isinstance(e, int) and e != n for e, n in zip(expected, shape, strict=True))
    ):
        raise ShapeError(f"input {info.name!r}: expected shape {_words(expected)}, got {shape}")
    if any(n < 0 for n in shape) or math.prod(shape) > tensors.MAX_ELEMENTS:
        raise ShapeError(f"input {info.name!r}: {shape} is no shape")
    for symbol, n in zip(expected or (), shape, strict=False):
        if isinstance(symbol, str):
            before, where = symbols.setdefault(symbol, (n, info.name))
            if before != n:
                raise ShapeError(
                    f"input {info.name!r}: dimension {symbol!r} is {n} in {shape}, "
                    f"but {before} in input {where!r}"
                )
    return shape


def _words(shape: tuple[int | str | None, ...] | None) -> str:
    if shape is None:
        return "unknown"
    return f"({', '.join('?' if n is None else str(n) for n in shape)})"
