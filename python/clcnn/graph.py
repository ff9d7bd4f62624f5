"""Graphs: a network as values and operators, built one call at a time.

    g = clcnn.Graph()
    x = g.input("x", (1, 3, 224, 224))
    y = ops.relu(ops.conv(x, weights, stride=2, padding=1))
    g.output(y, "y")
    plan = clcnn.compile(g, device="cpu")

Shapes are inferred as the graph is built, so that a wrong node is refused where it is written. A graph needs
no device. Graphs are not for several threads to build at once; once built, any number may compile them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, _arrays, _core
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.report import LayerRow, html_table, summary_cells, summary_text
from clcnn.value import Value

__all__ = ["Graph", "Record", "Value", "trace"]

# Inputs at the end of an operator's list that are statistics, not parameters that training would change.
STATISTICS = {"batch_norm": 2}
DONATED_BYTES = 1 << 16  # of the least array that _donate() gives away


class Record(NamedTuple):
    """One step of building a graph, enough to repeat it: Graph.from_records() does.

    kind "input": name, shape, dtype. "constant": name, array. "node": name, op, inputs (value ids, None where
    absent), attrs. "output": name and the one id in inputs. "state": as an input. "assign": the state's name,
    its id and the value's in inputs. "commit_when": the one id in inputs. "gradients": those of inputs[0]
    with respect to the others. values: the ids that the step made; ids count up from 0 over all steps.
    """

    kind: Literal["input", "constant", "state", "node", "output", "assign", "commit_when", "gradients"]
    name: str
    values: tuple[int, ...] = ()
    op: str = ""
    inputs: tuple[int | None, ...] = ()
    attrs: Mapping[str, Any] = {}
    shape: tuple[int, ...] = ()
    array: NDArray[Any] | None = None
    literal: bool = False  # a constant that is part of the expression (x + 2.0), not a parameter
    dtype: str = "float32"


class Graph:
    """A network as values and nodes. Names are unique among inputs, constants and states, and among nodes;
    one that is taken gets a number ("relu", "relu_2").

    Attributes
    ----------
    training : bool
        Whether modules in training mode compute as in a training step (clcnn.train).

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import ops
    >>> g = clcnn.Graph()
    >>> x = g.input("x", (1, 3, 8, 8))
    >>> g.output(ops.max_pool(1 - x, kernel_size=2), "y")
    >>> g.outputs["y"].shape
    (1, 3, 4, 4)
    """

    training = False

    def __init__(self) -> None:
        self._core = _core.Graph()
        self._records: list[Record] = []
        self._values: list[Value] = []
        self._value_names: Counter[str] = Counter()
        self._node_names: Counter[str] = Counter()
        self._parameters: dict[int, tuple[Any, Value]] = {}

    # ---- building ----

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """An array given at run time: N,C,spatial... of float32, or of int64, int32, bool or uint8. Raises
        ShapeError, ArgumentError (name taken), DtypeError."""
        self._core.input(name, shape, dtype)
        self._value_names[name] += 1
        value = self._new_value()
        self._records.append(Record("input", name, (value.id,), shape=value.shape, dtype=dtype))
        return value

    def constant(self, array: NDArray[Any], name: str | None = None) -> Value:
        """An array known now, such as weights. Kept, not copied: it must not change as long as the graph
        lives.

        array: C-contiguous float32, int64, int32, bool or uint8. A name makes it a parameter in summary();
        without one it is part of an expression. Raises DtypeError, ShapeError, ArgumentError (not
        contiguous).
        """
        unique = _unique(_name(name, "constant") or "const_1", self._value_names)
        self._core.constant(unique, array)
        self._value_names[unique] += 1
        value = self._new_value()
        self._records.append(
            Record(
                "constant",
                unique,
                (value.id,),
                shape=value.shape,
                array=array,
                literal=not name,
                dtype=value.dtype,
            )
        )
        return value

    def parameter(self, parameter: Any, name: str) -> Value:
        """The constant of an nn.Parameter (anything with `.data`), the same for every use of that
        parameter."""
        known = self._parameters.get(id(parameter))
        if known is None:
            known = (parameter, self.constant(parameter.data, name))
            self._parameters[id(parameter)] = known
        return known[1]

    def state(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """An array that outlives runs: that of this name in the clcnn.State which a plan is compiled with.

        Every step finds it as it was when the run began; assign() says what is in it afterwards. Raises
        ShapeError, ArgumentError (name taken), DtypeError.
        """
        self._core.state(name, shape, dtype)
        self._value_names[name] += 1
        value = self._new_value()
        self._records.append(Record("state", name, (value.id,), shape=value.shape, dtype=dtype))
        return value

    def assign(self, state: Value, value: Any) -> None:
        """What a run that commits, Plan.step(), leaves in a state; once for each. Other runs leave it as it
        is. Raises ArgumentError, ShapeError, DtypeError."""
        to, new = self.value(state), self.value(value)
        self._core.assign(to.id, new.id)
        name = next(r.name for r in self._records if to.id in r.values)
        self._records.append(Record("assign", name, (), inputs=(to.id, new.id)))

    def commit_when(self, value: Value) -> None:
        """The condition of all that is assigned, one bool: a step that finds it false leaves every state as
        it is. Raises ArgumentError (there is one), ShapeError, DtypeError."""
        at = self.value(value).id
        self._core.commit_when(at)
        self._records.append(Record("commit_when", "commit_when", (), inputs=(at,)))

    def node(
        self, op: str, inputs: Iterable[Any], attrs: Mapping[str, Any] | None = None, name: str | None = None
    ) -> tuple[Value, ...]:
        """Adds operator `op` and returns its outputs; `clcnn.ops` has a function for each.

        inputs: values, arrays or numbers (which become constants), None for an optional one that is absent. A
        number takes the dtype of the values beside it.
        name: the layer's name, numbered after the operator without one. Raises ArgumentError, ShapeError,
        DtypeError.
        """
        op = _arguments.text(op, "operator")
        given_inputs = _arguments.items(inputs, f"{op}: inputs", "a sequence of values")
        dtype = next((x.dtype for x in reversed(given_inputs) if isinstance(x, Value)), "float32")
        ids = tuple(None if x is None else self.value(x, dtype).id for x in given_inputs)
        unique = _unique(_name(name, op) or f"{op}_1", self._node_names)
        named = _arguments.mapping(attrs, f"{op} {unique}: attributes", "{name: value}")
        given = {key: value for key, value in named.items() if value is not None}
        made = self._core.node(op, unique, ids, given)
        self._node_names[unique] += 1
        values = tuple(self._new_value() for _ in made)
        self._records.append(Record("node", unique, made, op, ids, given))
        return values

    def apply(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Value:
        """node() for operators with one output."""
        return self.node(op, inputs, attrs, name)[0]

    def gradients(self, loss: Value, wrt: Iterable[Value]) -> list[Value | None]:
        """Gradients of a value of one element with respect to others, None where it does not depend on one:
        what clcnn.grad() gives, which says more."""
        ids = [self.value(x).id for x in (loss, *wrt)]
        known = {row["name"] for row in self._core.nodes()}
        found, count = self._core.gradients(ids[0], ids[1:])
        made = tuple(self._new_value().id for _ in range(len(self._values), count))
        self._node_names.update(row["name"] for row in self._core.nodes() if row["name"] not in known)
        self._records.append(Record("gradients", "gradients", made, inputs=tuple(ids)))
        return [None if i is None else self._values[i] for i in found]

    def output(self, value: Value, name: str = "output") -> None:
        """Makes a value an output of the graph."""
        at = self.value(value).id
        self._core.output(at, name)
        self._records.append(Record("output", name, (), inputs=(at,)))

    def value(self, x: Any, dtype: str = "float32") -> Value:
        """`x` itself if it is a value of this graph; an array or a number as a constant. dtype: of a number,
        if that can hold it, else float32."""
        if isinstance(x, Value):
            if x.graph is not self:
                raise ArgumentError(f"{x!r} belongs to another graph")
            return x
        if isinstance(x, np.ndarray):
            return self.constant(x)
        if hasattr(x, "as_value"):  # an nn.Parameter
            made: Value = x.as_value(self)
            return made
        if _arrays.speaks(x) and not isinstance(x, np.generic):
            return self.constant(np.require(_arrays.host_array(x, "constant"), requirements="C"))
        if isinstance(x, (int, float, np.floating, np.integer, np.bool_)):
            return self.constant(_number(x, dtype))
        raise ArgumentError(f"expected a Value, an array or a number, got {type(x).__name__}")

    def _new_value(self) -> Value:
        at = len(self._values)
        value = Value(self, at, self._core.shape(at), self._core.dtype(at))
        self._values.append(value)
        return value

    # ---- looking ----

    @property
    def records(self) -> tuple[Record, ...]:
        """All steps of building, in order."""
        return tuple(self._records)

    @property
    def inputs(self) -> dict[str, Value]:
        """The inputs by name, in the order they were made."""
        return {r.name: self._values[r.values[0]] for r in self._records if r.kind == "input"}

    @property
    def states(self) -> dict[str, Value]:
        """The states by name, in the order they were made."""
        return {r.name: self._values[r.values[0]] for r in self._records if r.kind == "state"}

    @property
    def outputs(self) -> dict[str, Value]:
        """The outputs by name, in the order they were named."""
        return {r.name: self._values[r.inputs[0] or 0] for r in self._records if r.kind == "output"}

    @property
    def constants(self) -> dict[str, NDArray[Any]]:
        """The arrays of all constants by name."""
        return {r.name: r.array for r in self._records if r.array is not None}

    def check_no_states(self, what: str) -> None:
        """For `what`, which has no place for states. Raises ArgumentError that names one."""
        for name in self.states:
            raise ArgumentError(
                f"{what}: state {name}: a file has no states; build the graph with its arrays as constants"
            )

    def shape(self, id: int) -> tuple[int, ...]:
        """Shape of the value with this id, as records hold it. Raises ArgumentError, DtypeError."""
        return self._core.shape(id)

    def layer(self, name: str) -> Value:
        """The first output of the node of this name. Raises ArgumentError that lists similar names."""
        nodes = {row["name"]: row["outputs"][0] for row in self._core.nodes()}
        name = _arguments.text(name, "layer")
        if name in nodes:
            return self._values[nodes[name]]
        import difflib

        near = difflib.get_close_matches(name, nodes, 4, 0.3)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        raise ArgumentError(f"there is no layer {_arguments.shown(name)}{hint}")

    def rows(self) -> list[LayerRow]:
        """A row for each node: name, op, output shape, parameters (a shared one counts where it comes first),
        MACs."""
        arrays = {r.values[0]: r.array for r in self._records if r.array is not None and not r.literal}
        rows = []
        for r in self._core.nodes():
            own = r["inputs"][: len(r["inputs"]) - STATISTICS.get(r["op"], 0)]
            parameters = sum(math.prod(arrays.pop(i).shape) for i in own if i in arrays)
            shape = self._values[r["outputs"][0]].shape
            rows.append(LayerRow(r["name"], r["op"], shape, parameters, r["macs"]))
        return rows

    def summary(self) -> str:
        """A table of layers: operator, output shape, parameters, multiply-adds."""
        return summary_text(self.rows())

    def copy(self) -> Graph:
        """A graph of its own with the same values, nodes and ids; the arrays are shared."""
        return Graph.from_records(self._records)

    def _donate(self, kept: Iterable[NDArray[Any]]) -> None:
        """Lets the next compile overwrite the arrays of large constants, which must be in no other use: it
        then needs no copy of them. An array that shares memory with another constant or one of `kept` is left
        out. Everything else that this graph is asked for stays right."""
        rows: list[tuple[tuple[int, int], int | None]] = [
            (_memory(r.array), r.values[0]) for r in self._records if r.array is not None
        ]
        rows += [(_memory(array), None) for array in kept]
        rows.sort(key=lambda row: row[0])
        end = 0
        for i, ((start, stop), value) in enumerate(rows):
            following = rows[i + 1][0][0] if i + 1 < len(rows) else stop
            if value is not None and stop - start >= DONATED_BYTES and end <= start and stop <= following:
                self._core.donate(value)
            end = max(end, stop)

    def _forget(self) -> None:
        """Empties the graph. Values refer to their graph, so that without this its arrays would live until
        the next collection of cycles."""
        self._core = _core.Graph()
        for table in (self._records, self._values, self._parameters):
            table.clear()

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> Graph:
        """Repeats the steps of another graph's `records` (or those read from a file)."""
        graph = cls()
        for r in records:
            if r.kind == "input":
                graph.input(r.name, r.shape, r.dtype)
            elif r.kind == "state":
                graph.state(r.name, r.shape, r.dtype)
            elif r.kind == "assign":
                to, value = r.inputs
                graph.assign(graph._known(to, r.name), graph._known(value, r.name))
            elif r.kind == "commit_when":
                graph.commit_when(graph._known(r.inputs[0], r.name))
            elif r.kind == "constant":
                if r.array is None:
                    raise ArgumentError(f"constant {r.name!r} has no array")
                graph.constant(r.array, r.name)
                graph._records[-1] = graph._records[-1]._replace(literal=r.literal)
            elif r.kind == "node":
                inputs = [None if i is None else graph._known(i, r.name) for i in r.inputs]
                graph.node(r.op, inputs, r.attrs, r.name)
            elif r.kind == "gradients":
                loss, *wrt = (graph._known(i, r.name) for i in r.inputs)
                graph.gradients(loss, wrt)
            else:
                graph.output(graph._known(r.inputs[0], r.name), r.name)
        return graph

    def _known(self, id: int | None, user: str) -> Value:
        if id is None or not 0 <= id < len(self._values):
            raise ArgumentError(f"{user!r} uses value {id}, which no earlier record makes")
        return self._values[id]

    def _refuse_gradients(self, what: str) -> None:
        """Raises UnsupportedError for a graph with gradients, of which `what` keeps no nodes."""
        if any(r.kind == "gradients" for r in self._records):
            raise UnsupportedError(f"a graph with gradients cannot be {what}; do so with the network itself")

    def __repr__(self) -> str:
        nodes = len(self._core.nodes())
        return f"<clcnn.Graph: {nodes} nodes, inputs {list(self.inputs)}, outputs {list(self.outputs)}>"

    def _repr_html_(self) -> str:
        return html_table(*summary_cells(self.rows()))


def _name(given: str | None, what: str) -> str:
    """A name that was given, "" for none."""
    return "" if given is None else _arguments.text(given, f"{what}: name")


def _memory(array: NDArray[Any]) -> tuple[int, int]:
    """Where an array lies: its first byte and the one after its last."""
    start: int = array.__array_interface__["data"][0]
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides) if n]
    return start + sum(min(n, 0) for n in reach), start + sum(max(n, 0) for n in reach) + array.itemsize


def _number(x: Any, dtype: str) -> NDArray[Any]:
    """An array of one number."""
    whole = float(x).is_integer()
    fits = {"bool": isinstance(x, (bool, np.bool_)), "int64": whole, "int32": whole}.get(dtype, False)
    return np.full(1, x, dtype if fits else np.float32)


def _unique(wanted: str, taken: Counter[str]) -> str:
    """`wanted`, or with its number counted up while the name is taken: relu -> relu_2, conv_1 -> conv_2."""
    if wanted not in taken:
        return wanted
    stem, _, number = wanted.rpartition("_")
    if not stem or not number.isdecimal():
        stem, number = wanted, "1"
    at = max(int(number), taken[f"{stem}_#"]) + 1  # "#" entries remember where counting had come to
    while f"{stem}_{at}" in taken:
        at += 1
    taken[f"{stem}_#"] = at
    return f"{stem}_{at}"


# ---- models ----


def trace(model: Any, input_shape: Any) -> Graph:
    """A graph of `model`: any object with build(graph, *inputs) -> Value, sequence or dict of them, such as
    nn.Module.

    input_shape: a shape, a sequence of shapes ("input_0", ...), or a dict of them by name. Inputs are
    float32, unless the model's input_dtypes, a dict in the order of its inputs, says otherwise.
    Raises ArgumentError (no layers, not a model), ShapeError with the layer's name.
    """
    if not hasattr(model, "build"):
        raise ArgumentError(
            f"expected a clcnn.Graph or a model with build(graph, *inputs), got {type(model).__name__}"
        )
    graph = Graph()
    shapes = _named(input_shape, "input", _is_shape)
    dtypes = dict(zip(shapes, getattr(model, "input_dtypes", {}).values()))
    values = [graph.input(name, shape, dtypes.get(name, "float32")) for name, shape in shapes.items()]
    result = model.build(graph, *values)
    for name, value in _named(result, "output", lambda x: isinstance(x, Value)).items():
        graph.output(value, name)
    if not any(r.kind == "node" for r in graph.records):
        raise ArgumentError(f"the model {type(model).__name__} is empty: it adds no layer")
    return graph


def _is_shape(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and all(isinstance(n, (int, np.integer)) for n in x)


def _named(given: Any, what: str, single: Any) -> dict[str, Any]:
    """One item as {"input": item}, several as {"input_0": ...}, a dict as it is. Raises ArgumentError."""
    if single(given):
        return {what: given}
    if isinstance(given, Mapping):
        named = dict(given)
    elif isinstance(given, (tuple, list)):
        named = {f"{what}_{i}": item for i, item in enumerate(given)}
    else:
        named = {}
    kind = "shape" if what == "input" else "Value"
    if not named or not all(isinstance(name, str) and single(item) for name, item in named.items()):
        raise ArgumentError(
            f"{what}: expected a {kind}, a sequence of them or a dict of them by name, "
            f"got {_arguments.shown(given)}"
        )
    return named
