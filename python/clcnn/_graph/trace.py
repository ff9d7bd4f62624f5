"""trace(): a graph of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arguments
from clcnn.errors import ArgumentError

if TYPE_CHECKING:
    from clcnn.graph import Graph


def trace(model: Any, input_shape: Any) -> Graph:
    """A graph of a model.

    Parameters
    ----------
    model : object
        With build(graph, *inputs), which gives a Value, a sequence or a dict of them, such as nn.Module.
    input_shape : shape, sequence of shapes, or dict of shapes by name
        A sequence has names "input_0" and so on. Inputs are float32, unless the model's input_dtypes, a
        dict in the order of its inputs, says otherwise.

    Returns
    -------
    Graph

    Raises
    ------
    ArgumentError
        Not a model, or one without layers.
    ShapeError
        With the layer's name.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.graph.trace(clcnn.nn.MaxPool2d(2), (1, 3, 8, 8)).outputs["output"].shape
    (1, 3, 4, 4)
    """
    if not hasattr(model, "build"):
        raise ArgumentError(
            f"expected a clcnn.Graph or a model with build(graph, *inputs), got {type(model).__name__}"
        )
    from clcnn.graph import Graph, Value

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
