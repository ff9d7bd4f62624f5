"""What a graph tells of itself: its inputs and outputs, its layers, and a table of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from clcnn import _arguments
from clcnn._graph.records import Record
from clcnn.errors import ArgumentError
from clcnn.report import LayerRow, html_table, summary_cells, summary_text

if TYPE_CHECKING:
    from clcnn._core import Graph as CoreGraph
    from clcnn.value import Value

# Inputs at the end of an operator's list that are statistics, not parameters that training would change.
STATISTICS = {"batch_norm": 2}


class Facts:
    """The part of clcnn.Graph that only looks."""

    if TYPE_CHECKING:
        _core: CoreGraph
        _records: list[Record]
        _values: list[Value]

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
        """The arrays of all constants by name: those that were given, not copies."""
        return {r.name: r.array for r in self._records if r.array is not None}

    def shape(self, id: int) -> tuple[int, ...]:
        """Shape of the value with an id, as records hold it.

        Parameters
        ----------
        id : int
            `Value.id`.

        Returns
        -------
        tuple of int

        Raises
        ------
        ArgumentError, DtypeError
            The graph has no such value; id is no int.

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.shape(g.input("x", (2, 3)).id)
        (2, 3)
        """
        return self._core.shape(id)

    def layer(self, name: str) -> Value:
        """The first output of a node, such as one that is to be an output of the graph too.

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

        Examples
        --------
        >>> import clcnn
        >>> g = clcnn.graph.trace(clcnn.zoo.lenet5(), (1, 1, 28, 28))
        >>> g.output(g.layer("features.3"), "maps")
        >>> g.outputs["maps"].shape
        (1, 16, 10, 10)
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
        """A row for each node, in order: what summary() prints.

        Returns
        -------
        list of LayerRow
            `name`, `op`, the output's `shape`, `parameters` (a shared one counts where it comes first) and
            `macs`, multiply-adds.

        Examples
        --------
        >>> import clcnn
        >>> [row.parameters for row in clcnn.graph.trace(clcnn.nn.Linear(3, 4), (1, 3)).rows()]
        [16]
        """
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

    def __repr__(self) -> str:
        nodes = len(self._core.nodes())
        return f"<clcnn.Graph: {nodes} nodes, inputs {list(self.inputs)}, outputs {list(self.outputs)}>"

    def _repr_html_(self) -> str:
        return html_table(*summary_cells(self.rows()))
