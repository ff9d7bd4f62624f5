"""Gradients: nodes of the same graph that compute how a loss changes with other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from clcnn.errors import ArgumentError
from clcnn.graph import Value


@overload
def grad(loss: Value, wrt: Value) -> Value: ...
@overload
def grad(loss: Value, wrt: Sequence[Value]) -> list[Value]: ...
def grad(loss: Value, wrt: Value | Sequence[Value]) -> Value | list[Value]:
    """Gradients of `loss` with respect to `wrt`, as values of the same graph, each of the shape of its own.

    Nodes are named after the layers whose gradients they compute ("conv_1:dw"). Where the loss does not
    depend on a value its gradient is zeros; Graph.gradients() gives None there. The results can be
    differentiated again, where the operators that they are made of have gradients themselves.

    Parameters
    ----------
    loss : Value
        float32 of one element.
    wrt : Value, or sequence of Values
        Inputs, constants or results of layers, of float32.

    Returns
    -------
    Value, or list of Values
        As wrt was given.

    Raises
    ------
    UnsupportedError
        An operator on the way has no gradient; names operator and layer.
    ArgumentError, ShapeError, DtypeError
        A loss of several elements, say.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> g = clcnn.Graph()
    >>> x = g.input("x", (3,))
    >>> g.output(clcnn.grad((x * x).sum(), x), "dx")
    >>> with clcnn.compile(g) as plan:
    ...     plan([1.0, 2.0, 3.0]).tolist()
    [2.0, 4.0, 6.0]
    """
    if not isinstance(loss, Value):
        raise ArgumentError(f"grad: expected a Value as loss, got {type(loss).__name__}")
    wanted = [wrt] if isinstance(wrt, Value) else list(wrt)
    found = [
        loss.graph.constant(np.zeros(x.shape, np.float32)) if value is None else value
        for x, value in zip(wanted, loss.graph.gradients(loss, wanted))
    ]
    return found[0] if isinstance(wrt, Value) else found
