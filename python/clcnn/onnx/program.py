"""Program: what a model becomes for given shapes, and how arrays get in and out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn.graph import Graph, Value


@dataclass(frozen=True)
class Program:
    """A graph, and the outputs that need no graph.

    graph: None when every output is known without running. feeds: the model's inputs that the graph takes, in
    its order; inputs without elements and those whose values are built in are not among them. outputs: names
    of all outputs of the model, in order. fixed: outputs known now. cuts: output -> the graph's output that
    says how many of its rows are real (non-max suppression finds fewer boxes than there is room for). casts:
    output -> NumPy dtype it is converted to at the end. values: the value of the graph, or the constant,
    behind each name of the model.
    """

    graph: Graph | None
    feeds: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    cuts: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value | NDArray[Any]] = field(default_factory=dict)

    def feed(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The arrays that the plan of `graph` takes, from those of the model: C-contiguous, half precision
        widened."""
        arrays = {name: np.asarray(inputs[name]) for name in self.feeds}
        return {
            # ascontiguousarray() would make an array of rank 0 one of rank 1
            name: np.require(
                array.astype(np.float32) if array.dtype == np.float16 else array, requirements="C"
            )
            for name, array in arrays.items()
        }

    def collect(self, results: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The model's outputs by name, from what Plan.run() gave (an empty dict when there is no graph)."""
        collected = {}
        for name in self.outputs:
            array = self.fixed[name] if name in self.fixed else results[name]
            if name in self.cuts:
                array = array[: int(results[self.cuts[name]][0])]
            if name in self.casts:
                array = array.astype(self.casts[name])
            collected[name] = array
        return collected
