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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, _arrays, _core
from clcnn._graph.records import Record, donatable, given_name, number, repeat, unique_name
from clcnn._graph.trace import trace
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.report import LayerRow, html_table, summary_cells, summary_text
from clcnn.value import Value

__all__ = ["Graph", "Record", "Value", "trace"]

# Inputs at the end of an operator's list that are statistics, not parameters that training would change.
STATISTICS = {"batch_norm": 2}


class Graph:
    """A network as values and nodes.

    Names are unique among inputs, constants and states, and among nodes; one that is taken gets a number
    ("relu", "relu_2"). A graph needs no device.

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
        """An array given at run time.

        Parameters
        ----------
        name : str
        shape : sequence of int
            N, C, spatial...; each dimension at least 1.
        dtype : {"float32", "int64", "int32", "bool", "uint8"}

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            The name is taken; what is wrong with shape or dtype.
        """
        self._core.input(name, shape, dtype)
        self._value_names[name] += 1
        value = self._new_value()
        self._records.append(Record("input", name, (value.id,), shape=value.shape, dtype=dtype))
        return value

    def constant(self, array: NDArray[Any], name: str | None = None) -> Value:
        """An array known now, such as weights.

        Parameters
        ----------
        array : array
            C-contiguous, of float32, int64, int32, bool or uint8. Kept, not copied: it must not change
            as long as the graph lives.
        name : str, optional
            Makes it a parameter in summary(); without one it is part of an expression.

        Returns
        -------
        Value

        Raises
        ------
        DtypeError, ShapeError, ArgumentError
            Another type, an empty array, one that is not contiguous.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.Graph().constant(np.ones((4, 3), np.float32), "weight").shape
        (4, 3)
        """
        unique = unique_name(given_name(name, "constant") or "const_1", self._value_names)
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
        """The constant of an nn.Parameter, the same for every use of that parameter.

        Parameters
        ----------
        parameter : nn.Parameter
            Or anything with `.data`, an array.
        name : str

        Returns
        -------
        Value
        """
        known = self._parameters.get(id(parameter))
        if known is None:
            known = (parameter, self.constant(parameter.data, name))
            self._parameters[id(parameter)] = known
        return known[1]

    def state(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """An array that outlives runs: that of this name in the clcnn.State which a plan is compiled with.

        Every step finds it as it was when the run began; assign() says what is in it afterwards.

        Parameters
        ----------
        name : str
        shape : sequence of int
        dtype : {"float32", "int64", "int32", "bool", "uint8"}

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            The name is taken; what is wrong with shape or dtype.
        """
        self._core.state(name, shape, dtype)
        self._value_names[name] += 1
        value = self._new_value()
        self._records.append(Record("state", name, (value.id,), shape=value.shape, dtype=dtype))
        return value

    def assign(self, state: Value, value: Any) -> None:
        """What a run that commits, Plan.step(), leaves in a state; other runs leave it as it is.

        Parameters
        ----------
        state : Value
            Given by state(), and assigned to once.
        value : Value, array or number
            Of the same shape and dtype.

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            `state` is none, or was assigned to; `value` does not fit.
        """
        to, new = self.value(state), self.value(value)
        self._core.assign(to.id, new.id)
        name = next(r.name for r in self._records if to.id in r.values)
        self._records.append(Record("assign", name, (), inputs=(to.id, new.id)))

    def commit_when(self, value: Value) -> None:
        """The condition of all that is assigned: a step that finds it false leaves every state as it is.

        Parameters
        ----------
        value : Value
            One bool.

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            There is a condition already; `value` is not one bool.
        """
        at = self.value(value).id
        self._core.commit_when(at)
        self._records.append(Record("commit_when", "commit_when", (), inputs=(at,)))

    def node(
        self, op: str, inputs: Iterable[Any], attrs: Mapping[str, Any] | None = None, name: str | None = None
    ) -> tuple[Value, ...]:
        """Adds operator `op` and returns its outputs; `clcnn.ops` has a function for each.

        Parameters
        ----------
        op : str
        inputs : iterable of Value, array or number
            Arrays and numbers become constants, a number of the dtype of the values beside it. None for
            an optional input that is absent.
        attrs : {name: value}, optional
            None leaves an attribute at its default.
        name : str, optional
            The layer's; without one it is numbered after the operator.

        Returns
        -------
        tuple of Value

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            With the layer's name.

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> (y,) = g.node("add", [g.input("x", (2, 3)), 1.0])
        >>> y.shape
        (2, 3)
        """
        op = _arguments.text(op, "operator")
        given_inputs = _arguments.items(inputs, f"{op}: inputs", "a sequence of values")
        dtype = next((x.dtype for x in reversed(given_inputs) if isinstance(x, Value)), "float32")
        ids = tuple(None if x is None else self.value(x, dtype).id for x in given_inputs)
        unique = unique_name(given_name(name, op) or f"{op}_1", self._node_names)
        named = _arguments.mapping(attrs, f"{op} {unique}: attributes", "{name: value}")
        given = {key: value for key, value in named.items() if value is not None}
        made = self._core.node(op, unique, ids, given)
        self._node_names[unique] += 1
        values = tuple(self._new_value() for _ in made)
        self._records.append(Record("node", unique, made, op, ids, given))
        return values

    def apply(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Value:
        """node() for operators with one output, which it returns.

        Parameters
        ----------
        op : str
        *inputs : Value, array or number
        name : str, optional
        **attrs
            The attributes.
        """
        return self.node(op, inputs, attrs, name)[0]

    def gradients(self, loss: Value, wrt: Iterable[Value]) -> list[Value | None]:
        """Gradients of a value with respect to others; clcnn.grad() says more.

        Parameters
        ----------
        loss : Value
            float32 of one element.
        wrt : iterable of Value

        Returns
        -------
        list of Value
            None where the loss does not depend on a value.

        Raises
        ------
        UnsupportedError
            An operator on the way has no gradient.
        ArgumentError, ShapeError, DtypeError
        """
        ids = [self.value(x).id for x in (loss, *wrt)]
        known = {row["name"] for row in self._core.nodes()}
        found, count = self._core.gradients(ids[0], ids[1:])
        made = tuple(self._new_value().id for _ in range(len(self._values), count))
        self._node_names.update(row["name"] for row in self._core.nodes() if row["name"] not in known)
        self._records.append(Record("gradients", "gradients", made, inputs=tuple(ids)))
        return [None if i is None else self._values[i] for i in found]

    def output(self, value: Value, name: str = "output") -> None:
        """Makes a value an output of the graph.

        Parameters
        ----------
        value : Value
        name : str

        Raises
        ------
        ArgumentError
            The name is taken, or the value is of another graph.
        """
        at = self.value(value).id
        self._core.output(at, name)
        self._records.append(Record("output", name, (), inputs=(at,)))

    def value(self, x: Any, dtype: str = "float32") -> Value:
        """`x` itself if it is a value of this graph, else a constant of it.

        Parameters
        ----------
        x : Value, array, nn.Parameter or number
        dtype : str
            Of a number, if that can hold it, else float32.

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError
            A value of another graph, or none of these.
        """
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
            return self.constant(number(x, dtype))
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
        """The first output of a node.

        Parameters
        ----------
        name : str
            The layer's.

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError
            There is no such layer; lists similar names.
        """
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
        """A table of layers: operator, output shape, parameters, multiply-adds.

        Returns
        -------
        str

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> y = g.input("x", (1, 3, 8, 8)).relu()
        >>> print(g.summary().splitlines()[-1])
        1 layers, 0 parameters, 0 multiply-adds
        """
        return summary_text(self.rows())

    def copy(self) -> Graph:
        """A graph of its own with the same values, nodes and ids; the arrays are shared."""
        return Graph.from_records(self._records)

    def _donate(self, kept: Iterable[NDArray[Any]]) -> None:
        """Lets the next compile overwrite the arrays of large constants, which must be in no other use: it
        then needs no copy of them. An array that shares memory with another constant or one of `kept` is left
        out. Everything else that this graph is asked for stays right."""
        for value in donatable(self._records, kept):
            self._core.donate(value)

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
        repeat(graph, records)
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
