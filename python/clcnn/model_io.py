"""Models in one file: clcnn.save() and clcnn.load().

A model file is a safetensors file: the tensors are the constants, and the metadata holds the graph as JSON
under the key "clcnn", so that every safetensors reader finds the weights and any text tool the graph::

    version  1
    inputs   [{"name": "input", "shape": [1, 3, 224, 224]}, ...]; of another type than float32 also "dtype"
    nodes    [{"name": "conv1", "op": "conv", "inputs": ["input", "conv1.weight", null], "outputs": ["conv1"],
               "attrs": {"stride": [2, 2]}}, ...] in an order in which every value is made before it is used
    outputs  [{"name": "output", "value": "conv1"}, ...]
    zeros    {"conv1": {"element": 0.5, ...}, ...} as clcnn.Zeros.rows() gives them; not there where none
             are known

Values are strings: an input's name, a tensor's name, or one of a node's outputs. Floats that JSON lacks are
the strings "Infinity", "-Infinity" and "NaN". A file is data from strangers: nothing in it is executed, and
every rule that it breaks raises ModelFileError with the node's name.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clcnn import _arguments, sources, weights
from clcnn._graph.operators import operators
from clcnn.errors import ArgumentError, Error
from clcnn.graph import Graph, Record, Value, trace
from clcnn.nn import init
from clcnn.nn.module import Module
from clcnn.nn.parameter import Parameter
from clcnn.weights.errors import shown
from clcnn.zeros import Given, Zeros, of_graph, of_model

__all__ = ["GraphModel", "ModelFileError", "load", "save"]

KEY = "clcnn"  # of the metadata; a single one, since safetensors writes several in random order
VERSION = 1
LENGTH_BYTES = 8  # safetensors begins with its header's length, little-endian
MAX_HEADER = 100_000_000  # bytes; safetensors' own limit
NOT_IN_JSON = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
# Attributes whose first entry repeats the batch size, and what says the same for every batch size.
BATCH_FREE = {"reshape": 0, "expand": 1}
DTYPES = ("float32", "int64", "int32", "bool", "uint8")  # of inputs and tensors


class ModelFileError(Error, ValueError):
    """A model file broke a rule: the message names the file, the node and the rule.

    Examples
    --------
    >>> from pathlib import Path
    >>> import clcnn
    >>> _ = Path("net.clcnn").write_bytes(b"no model")
    >>> try:
    ...     clcnn.load("net.clcnn")
    ... except clcnn.model_io.ModelFileError as error:
    ...     print(str(error)[:27])
    net.clcnn: not a model file
    """


# ---- saving ----


def save(model: Any, path: str | os.PathLike[str], input_shape: Any = None, *, zeros: Given = None) -> None:
    """Writes graph and weights to one file, which appears complete or not at all.

    Parameters
    ----------
    model : as of compile()
        A file of ONNX that is saved so starts faster. An nn.Module (or anything with build()) needs
        input_shape.
    path : path
    input_shape
        As compile() takes it. Other batch sizes can be used after loading.
    zeros
        As compile() takes them, which then finds them in the file; None: those that a model out of a file
        came with.

    Raises
    ------
    ArgumentError, ShapeError, OSError

    Examples
    --------
    >>> import os, tempfile
    >>> import clcnn
    >>> path = os.path.join(tempfile.mkdtemp(), "lenet5.clcnn")
    >>> clcnn.save(clcnn.zoo.lenet5(), path, (1, 1, 28, 28))
    >>> clcnn.load(path).input_shapes
    {'input': (1, 1, 28, 28)}
    """
    model, input_shape = sources.opened(model, input_shape)
    graph = sources.graph_of(model, input_shape)
    document, tensors = describe(graph)
    known = of_graph(of_model(model) if zeros is None else zeros, graph)
    if known:
        document["zeros"] = known.rows()
    weights.save_safetensors(path, tensors, {KEY: json.dumps(document, allow_nan=False)})


def describe(graph: Graph) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The graph as a JSON document, and its constants by name. Raises ArgumentError for an empty graph, or
    one with states or gradients."""
    graph.check_no_states("save")
    graph._refuse_gradients("saved")
    names: dict[int, str] = {}
    document: dict[str, Any] = {"version": VERSION, "inputs": [], "nodes": [], "outputs": []}
    used = {i for record in graph.records for i in record.inputs}
    records = [r for r in graph.records if r.kind != "constant" or r.values[0] in used]
    taken = {r.name for r in records if r.kind in ("input", "constant")}
    tensors = {r.name: r.array for r in records if r.array is not None}
    for record in records:
        if record.kind in ("input", "constant"):
            names[record.values[0]] = record.name
        if record.kind == "input":
            other = {} if record.dtype == DTYPES[0] else {"dtype": record.dtype}
            document["inputs"].append({"name": record.name, "shape": list(record.shape), **other})
        elif record.kind == "node":
            for value, name in zip(record.values, output_names(record, taken), strict=True):
                names[value] = name
            document["nodes"].append(describe_node(record, names, graph))
        elif record.kind == "output":
            document["outputs"].append({"name": record.name, "value": names[record.inputs[0] or 0]})
    if not document["nodes"]:
        raise ArgumentError("the graph is empty: it has no node")
    return document, tensors


def output_names(record: Record, taken: set[str]) -> list[str]:
    """Names for a node's outputs: its own, numbered when there are several or it is taken by another
    value."""
    made = []
    for number in range(len(record.values)):
        stem = record.name if len(record.values) == 1 else f"{record.name}:{number}"
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}#{count}"
        taken.add(name)
        made.append(name)
    return made


def describe_node(record: Record, names: Mapping[int, str], graph: Graph) -> dict[str, Any]:
    """The JSON row of a node."""
    attrs = {key: plain(value) for key, value in record.attrs.items()}
    if record.op in BATCH_FREE and attrs.get("shape"):
        source = graph.shape(record.inputs[0] or 0)
        if source[:1] == (attrs["shape"][0],) and (
            record.op == "reshape" or len(source) == len(attrs["shape"])
        ):
            attrs["shape"][0] = BATCH_FREE[record.op]
    return {
        "name": record.name,
        "op": record.op,
        "inputs": [None if i is None else names[i] for i in record.inputs],
        "outputs": [names[i] for i in record.values],
        "attrs": attrs,
    }


def plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (Sequence, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (int, np.integer)):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else json.dumps(number)


# ---- loading ----


class GraphModel(Module):
    """A model out of a file: an nn.Module whose layers are the file's nodes and whose parameters its tensors
    of float32; those of other types, such as indices, are constants of its graph.

    load() makes it. Compile it at the saved shapes (`input_shapes`) or, if its operators allow, at any other
    batch size. state_dict() and load_state_dict() work as for every module.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.save(clcnn.zoo.lenet5(), "lenet5.clcnn", (1, 1, 28, 28))
    >>> net = clcnn.load("lenet5.clcnn")
    >>> net.input_shapes
    {'input': (1, 1, 28, 28)}
    >>> with clcnn.compile(net, (8, 1, 28, 28)) as plan:
    ...     plan.outputs
    {'output': (8, 10)}
    """

    def __init__(self, document: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self._document = document
        self._zeros = Zeros.from_rows(document["zeros"]) if "zeros" in document else None
        self._constants = {name: array for name, array in tensors.items() if array.dtype != np.float32}
        for name, array in tensors.items():
            if name in self._constants:
                continue
            parameter = Parameter(array.shape, init.zeros)
            parameter.data = array
            self._parameters[name] = parameter

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes that the model was saved with, by input name."""
        return {row["name"]: tuple(row["shape"]) for row in self._document["inputs"]}

    @property
    def input_dtypes(self) -> dict[str, str]:
        """The types of the inputs, in their order, by name."""
        return {row["name"]: row.get("dtype", DTYPES[0]) for row in self._document["inputs"]}

    @property
    def zeros(self) -> Zeros | None:
        """What save() was told of the zeros in the inputs of its layers, which compile() takes; or None."""
        return self._zeros

    def forward(self, *inputs: Value) -> Any:
        rows = self._document["inputs"]
        if len(inputs) != len(rows):
            raise ArgumentError(
                f"the model has {len(rows)} inputs ({', '.join(r['name'] for r in rows)}), got {len(inputs)}"
            )
        graph = inputs[0].graph
        values = {row["name"]: value for row, value in zip(rows, inputs, strict=True)}
        prefix = self.layer_prefix()
        for name, parameter in self._parameters.items():
            values[name] = graph.parameter(parameter, prefix + name)
        for name, array in self._constants.items():
            values[name] = graph.constant(array, prefix + name)
        for node in self._document["nodes"]:
            operands = [None if name is None else values[name] for name in node["inputs"]]
            made = graph.node(node["op"], operands, node["attrs"], prefix + node["name"])
            if len(made) != len(node["outputs"]):
                raise ModelFileError(
                    f"node {shown(node['name'])}: {node['op']} makes {len(made)} outputs, "
                    f"the file names {len(node['outputs'])}"
                )
            values.update(zip(node["outputs"], made, strict=True))
        outputs = {row["name"]: values[row["value"]] for row in self._document["outputs"]}
        return next(iter(outputs.values())) if list(outputs) == ["output"] else outputs

    def layer_prefix(self) -> str:
        """The dotted path of this model inside of the one that is being traced, with its dot."""
        path = self.__dict__.get("_path")
        return f"{path}." if path else ""

    def extra_repr(self) -> str:
        return f"{len(self._document['nodes'])} nodes, inputs {self.input_shapes}"


def load(path: str | os.PathLike[str]) -> GraphModel:
    """Reads a model that save() wrote, as an nn.Module for clcnn.compile().

    Every rule is checked here, by building the graph once at its saved shapes; that needs no device.

    Parameters
    ----------
    path : path

    Returns
    -------
    GraphModel
        Its `input_shapes` are those it was saved with.

    Raises
    ------
    ModelFileError
        Not a model file, or one that breaks a rule.
    OSError

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.load("net.clcnn")  # doctest: +SKIP
    >>> plan = clcnn.compile(net, net.input_shapes)  # doctest: +SKIP
    """
    file = Path(_arguments.path(path, "load"))
    try:
        document = checked_document(read_graph(file))
        tensors = weights.load(file, strip_prefix="")
        model = GraphModel(decoded(document, tensors), tensors)
        of_graph(model.zeros, trace(model, model.input_shapes))
    except ModelFileError as error:
        raise ModelFileError(f"{file}: {error}") from error
    except weights.WeightsError as error:  # names the file itself
        raise ModelFileError(str(error)) from error
    except Error as error:
        raise ModelFileError(f"{file}: {error}") from error
    return model


def read_graph(path: Path) -> Any:
    """The JSON value that the metadata of a safetensors file holds."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if size <= LENGTH_BYTES or length > min(MAX_HEADER, size - LENGTH_BYTES):
            raise ModelFileError("not a model file: it is no safetensors file, or a truncated one")
        header = parse(stream.read(length), "header")
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or KEY not in metadata:
        raise ModelFileError("not a model file: it carries no graph that clcnn.save() wrote")
    return parse(metadata[KEY], "graph")


def parse(text: Any, what: str) -> Any:
    """JSON text to a value; keys that stand twice in an object and numbers that JSON lacks are refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ModelFileError(
                f"{what}: an object has the same key twice: {shown([key for key, _ in pairs])}"
            )
        return dict(pairs)

    def refuse(name: str) -> Any:
        raise ModelFileError(f"{what}: {name} is no JSON number")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{what}: not readable as JSON: {error}") from error


# ---- the rules of a document ----


def label_of(node: Mapping[str, Any]) -> str:
    return f"node {shown(node['name'])}"


def rows_of(
    document: dict[str, Any], key: str, fields: Mapping[str, type], optional: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """The list under `key`: objects with exactly these fields, of these types; some may be absent."""
    rows: Any = document.get(key)
    if not isinstance(rows, list):
        raise ModelFileError(f"graph: {key!r} must be a list")
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ModelFileError(f"{key}[{at}]: must be an object, got {shown(row)}")
        if not set(fields) - set(optional) <= set(row) <= set(fields):
            raise ModelFileError(
                f"{key}[{at}] {shown(row.get('name'))}: has {sorted(row)}, expected {sorted(fields)}"
            )
        for field, kind in fields.items():
            if field in row and not isinstance(row[field], kind):
                raise ModelFileError(
                    f"{key}[{at}] {shown(row.get('name'))}: {field!r} must be a {kind.__name__}, "
                    f"got {shown(row[field])}"
                )
    return list(rows)


def checked_document(document: Any) -> dict[str, Any]:
    """The document, of which form and names are known to be right; shapes and attributes are the core's."""
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise ModelFileError(
            f"version {shown(version)} of the format is not known; this clcnn reads version {VERSION}"
        )
    inputs = rows_of(document, "inputs", {"name": str, "shape": list, "dtype": str}, ["dtype"])
    nodes = rows_of(
        document, "nodes", {"name": str, "op": str, "inputs": list, "outputs": list, "attrs": dict}
    )
    outputs = rows_of(document, "outputs", {"name": str, "value": str})
    if not (inputs and nodes and outputs):
        raise ModelFileError("graph: inputs, nodes and outputs must not be empty")
    for row in inputs:
        check_input(row)
    for node in nodes:
        check_node(node)
    for what, rows in (("inputs", inputs), ("nodes", nodes), ("outputs", outputs)):
        twice = repeated(row["name"] for row in rows)
        if twice is not None:
            raise ModelFileError(f"two {what} are called {shown(twice)}")
    others = {key: document[key] for key in ("zeros",) if key in document}
    return {"inputs": inputs, "nodes": nodes, "outputs": outputs, **others}


def check_input(row: Mapping[str, Any]) -> None:
    sizes, dtype = row["shape"], row.get("dtype", DTYPES[0])
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in sizes):
        raise ModelFileError(f"input {shown(row['name'])}: shape {shown(sizes)} must be a list of integers")
    if dtype not in DTYPES:
        raise ModelFileError(
            f"input {shown(row['name'])}: dtype {shown(dtype)} must be one of {', '.join(DTYPES)}"
        )


def check_node(node: Mapping[str, Any]) -> None:
    if node["op"] not in operators():
        raise ModelFileError(f"{label_of(node)}: there is no operator {shown(node['op'])}")
    if not all(name is None or isinstance(name, str) for name in node["inputs"]):
        raise ModelFileError(f"{label_of(node)}: inputs must be names or null, got {shown(node['inputs'])}")
    if not (node["outputs"] and all(isinstance(name, str) for name in node["outputs"])):
        raise ModelFileError(f"{label_of(node)}: outputs must be names, got {shown(node['outputs'])}")


def repeated(names: Iterable[str]) -> str | None:
    """The first name that comes a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def check_tensor(name: str, array: np.ndarray) -> None:
    if array.dtype.name not in DTYPES:
        raise ModelFileError(f"tensor {shown(name)}: must be one of {', '.join(DTYPES)}, not {array.dtype}")
    if array.size == 0:
        raise ModelFileError(f"tensor {shown(name)}: shape {list(array.shape)} has no elements")


def decoded(document: dict[str, Any], tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The document with attributes as values, every value known to be made once and before it is used."""
    for name, array in tensors.items():
        check_tensor(name, array)
    names = [row["name"] for row in document["inputs"]]
    for node in document["nodes"]:
        names += node["outputs"]
    twice = repeated([*tensors, *names])
    if twice is not None:
        raise ModelFileError(f"two values are called {shown(twice)}")
    made = {*tensors, *(row["name"] for row in document["inputs"])}
    later, used = set(names), set()
    nodes = []
    for node in document["nodes"]:
        for name in (name for name in node["inputs"] if name is not None):
            if name not in made:
                raise ModelFileError(
                    f"{label_of(node)}: uses {shown(name)} before it is made; nodes must be in order, and "
                    "without a cycle"
                    if name in later
                    else f"{label_of(node)}: uses {shown(name)}, which nothing makes"
                )
            used.add(name)
        made.update(node["outputs"])
        nodes.append({**node, "attrs": decoded_attrs(node)})
    for row in document["outputs"]:
        if row["value"] not in made:
            raise ModelFileError(f"output {shown(row['name'])}: nothing makes {shown(row['value'])}")
        used.add(row["value"])
    unused = next((name for name in tensors if name not in used), None)
    if unused is not None:
        raise ModelFileError(f"tensor {shown(unused)} is used by no node")
    return {**document, "nodes": nodes}


def decoded_attrs(node: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with the floats that JSON lacks; their names and kinds are checked, their values are the
    core's."""
    kinds = {attr["name"]: attr["kind"] for attr in operators()[node["op"]]["attrs"]}
    attrs = {}
    for name, value in node["attrs"].items():
        if name not in kinds:
            raise ModelFileError(f"{label_of(node)}: {node['op']} has no attribute {shown(name)}")
        items = value if isinstance(value, list) else [value]
        if kinds[name] in ("float", "floats"):
            items = [NOT_IN_JSON.get(item, item) if isinstance(item, str) else item for item in items]
        wanted = str if kinds[name] == "enum" else (int, float)
        if not all(isinstance(item, wanted) for item in items):
            raise ModelFileError(f"{label_of(node)}: attribute {name} is a {kinds[name]}, got {shown(value)}")
        attrs[name] = items if isinstance(value, list) else items[0]
    return attrs
