"""Program: what a model becomes for given shapes, and how arrays get in and out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, _core
from clcnn.errors import DtypeError
from clcnn.graph import Graph, Value
from clcnn.onnx.call import held


class Cut(NamedTuple):
    """Of an output, that only its first elements along an axis are real: as many as the graph's output `size`
    says."""

    axis: int
    size: str

    def of(self, array: NDArray[Any], results: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The real elements."""
        return first_of(array, self.axis, int(results[self.size][0]))


def first_of(array: NDArray[Any], axis: int, count: int) -> NDArray[Any]:
    """The first `count` elements along an axis."""
    return array[(slice(None),) * axis + (slice(count),)]


@dataclass(frozen=True)
class Program:
    """What a model becomes for given shapes: a graph, and the outputs that need no graph.

    Attributes
    ----------
    graph : Graph, or None
        None when every output is known without running.
    feeds : {name: str}
        The model's inputs that the graph takes, in its order, and the NumPy names of their element types;
        inputs without elements and those whose values are built in are not among them.
    outputs : tuple of str
        All outputs of the model, in order.
    fixed : {name: array}
        Outputs known now.
    cuts : {name: Cut}
        What of an output is real (non-max suppression finds fewer boxes than there is room for).
    casts : {name: str}
        The NumPy dtype that an output is converted to at the end.
    values : {name: Value or array}
        The value of the graph, or the constant, behind each name of the model.
    lengths : {name: (int, Value)}
        Of those of which only the first elements along an axis are real, the axis and the value that says
        how many.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> data = clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2)).SerializeToString()
    >>> program = clcnn.onnx.load(data).specialise()
    >>> with clcnn.compile(program.graph) as plan:
    ...     results = plan.run(program.feed({"input": np.float32([[-1, 1]])}))
    >>> program.collect(results)["output"].tolist()
    [[0.0, 1.0]]
    """

    graph: Graph | None
    feeds: Mapping[str, str]
    outputs: tuple[str, ...]
    fixed: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value | NDArray[Any]] = field(default_factory=dict)
    lengths: Mapping[str, tuple[int, Value]] = field(default_factory=dict)

    def feed(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The arrays that the plan of `graph` takes: C-contiguous, in element types that devices have.

        Parameters
        ----------
        inputs : {name: array}
            All of the model's inputs.

        Returns
        -------
        {name: array}

        Raises
        ------
        DtypeError
            An array is of another type than the model's.
        ArgumentError
            Unsigned numbers beyond int64.
        """
        fed = {}
        for name, dtype in self.feeds.items():
            if isinstance(inputs[name], _core.Tensor):
                fed[name] = inputs[name]
                continue
            array = np.asarray(_arguments.plain(inputs[name], f"input {name!r}"))
            if array.dtype.name != dtype:
                raise DtypeError(f"input {name!r}: expected {dtype}, got {array.dtype.name}")
            # ascontiguousarray() would make an array of rank 0 one of rank 1
            fed[name] = np.require(held(array, f"input {name!r}"), requirements="C")
        return fed

    def is_direct(self, name: str) -> bool:
        """Whether an output of the model is an output of the plan as it is.

        Parameters
        ----------
        name : str

        Returns
        -------
        bool
        """
        return not any(name in rows for rows in (self.fixed, self.cuts, self.casts))

    def collect(self, results: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The model's outputs by name.

        Parameters
        ----------
        results : {name: array}
            What Plan.run() gave; an empty dict when there is no graph.

        Returns
        -------
        {name: array}
            In the order of `outputs`, in the types that the model declares.
        """
        collected = {}
        for name in self.outputs:
            array = self.fixed[name] if name in self.fixed else results[name]
            if name in self.cuts:
                array = self.cuts[name].of(array, results)
            if name in self.casts:
                array = array.astype(self.casts[name])
            collected[name] = array
        return collected
