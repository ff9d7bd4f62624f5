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

        g = clcnn.Graph()
        x, labels = g.input("x", (32, 1, 28, 28)), g.input("labels", (32,), "int64")
        w = g.input("w", (8, 1, 3, 3))
        logits = ops.linear(ops.flatten(ops.relu(ops.conv(x, w, padding=1))), fc)
        loss = ops.cross_entropy(logits, labels)
        g.output(clcnn.grad(loss, w), "dw")

    loss: float32 of one element. wrt: a value, which gives a value, or a sequence of them, which gives a
    list: inputs, constants or results of layers, of float32. Nodes are named after the layers whose gradients
    they compute ("conv_1:dw"). Where the loss does not depend on a value its gradient is zeros;
    Graph.gradients() gives None there. The results can be differentiated again, where the operators that they
    are made of have gradients themselves.

    Raises UnsupportedError, with operator and layer, where an operator on the way has no gradient, and
    ArgumentError, ShapeError (a loss of several elements), DtypeError.
    """
    if not isinstance(loss, Value):
        raise ArgumentError(f"grad: expected a Value as loss, got {type(loss).__name__}")
    wanted = [wrt] if isinstance(wrt, Value) else list(wrt)
    found = [
        loss.graph.constant(np.zeros(x.shape, np.float32)) if value is None else value
        for x, value in zip(wanted, loss.graph.gradients(loss, wanted))
    ]
    return found[0] if isinstance(wrt, Value) else found
