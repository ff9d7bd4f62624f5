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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, _arrays, _core
from clcnn._graph.records import Record, donatable, given_name, number, repeat, unique_name
from clcnn._graph.trace import trace
from clcnn._graph.training import Training
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.value import Value

__all__ = ["Graph", "Record", "Value", "trace"]


class Graph(Training):
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
            Default "float32".

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            The name is taken; what is wrong with shape or dtype.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("labels", (8,), "int64").dtype
        'int64'
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
            Of the constant, where it is made.

        Returns
        -------
        Value

        Raises
        ------
        DtypeError, ShapeError, ArgumentError
            As of constant().

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g, weight = clcnn.Graph(), clcnn.nn.Parameter(np.ones((4, 3), np.float32))
        >>> g.parameter(weight, "weight") is g.parameter(weight, "weight")
        True
        """
        known = self._parameters.get(id(parameter))
        if known is None:
            known = (parameter, self.constant(parameter.data, name))
            self._parameters[id(parameter)] = known
        return known[1]

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
            None for an optional input that is absent.
        name : str, optional
            The layer's.
        **attrs
            The attributes.

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            With the layer's name.

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.apply("max_pool", g.input("x", (1, 3, 8, 8)), name="pool", kernel_size=2).shape
        (1, 3, 4, 4)
        """
        return self.node(op, inputs, attrs, name)[0]

    def output(self, value: Value, name: str = "output") -> None:
        """Makes a value an output of the graph; one value may be several.

        Parameters
        ----------
        value : Value
        name : str
            Default "output".

        Raises
        ------
        ArgumentError
            The name is taken, or the value is of another graph.

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> x = g.input("x", (2, 3))
        >>> g.output(x.relu(), "y")
        >>> list(g.outputs)
        ['y']
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
            Of a number, if that can hold it, else float32. Default "float32".

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError
            A value of another graph, or none of these.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().value(2, "int64").shape
        ()
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

    # ---- life ----

    def check_no_states(self, what: str) -> None:
        """For what has no place for states, such as a file.

        Parameters
        ----------
        what : str
            What the message of the error starts with.

        Raises
        ------
        ArgumentError
            The graph has states; names one.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().check_no_states("export")
        """
        for name in self.states:
            raise ArgumentError(
                f"{what}: state {name}: a file has no states; build the graph with its arrays as constants"
            )

    def copy(self) -> Graph:
        """A graph of its own with the same values, nodes and ids; the arrays are shared.

        Returns
        -------
        Graph

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> x = g.input("x", (2, 3))
        >>> other = g.copy()
        >>> other.inputs["x"] is x, other.inputs["x"].id == x.id
        (False, True)
        """
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
        """Repeats the steps of another graph's `records`, or those read from a file.

        Parameters
        ----------
        records : iterable of Record
            Each may use what earlier ones made.

        Returns
        -------
        Graph

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            A step is refused, as when it was called.

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.graph.trace(clcnn.nn.ReLU(), (2, 3))
        >>> clcnn.Graph.from_records(g.records).outputs["output"].shape
        (2, 3)
        """
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
