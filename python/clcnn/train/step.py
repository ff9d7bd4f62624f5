"""The graphs of a trainer: a step, an evaluation, and the search for the layer that is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import clcnn
from clcnn import ops
from clcnn.errors import ShapeError
from clcnn.graph import Graph, Value
from clcnn.nn.module import Module
from clcnn.optim import Optimizer
from clcnn.train.layout import STATISTICS, BoundGraph, Layout


def moment_state(group: int, moment: str) -> str:
    """Name of the state that holds a moment of a group's parameters."""
    return f"{moment}_{group}"


def training_graph(
    net: Module, loss: Module, optimizer: Optimizer, layout: Layout, shapes: tuple[tuple[int, ...], ...]
) -> Graph:
    """A step on inputs "x" and "y" and one of settings for each group; outputs the loss, and whether the step
    was committed: loss and gradients were finite."""
    graph = BoundGraph(layout, training=True)
    value = _loss(graph, net, loss, shapes)[1]
    graph.output(value, "loss")
    finite = _finite(value)
    updates = []
    for number, group in enumerate(optimizer.param_groups):
        state = layout.group_state(number)
        slots = layout.of_state(state)
        if not slots:
            continue
        wanted = [graph.parameter(slot.parameter, slot.name) for slot in slots]
        found = clcnn.grad(value, wanted)
        flat = graph.flatten(state, {id(slot.parameter): g for slot, g in zip(slots, found, strict=True)})
        finite = ops.logical_and(
            finite, _finite(ops.reduce_sum(ops.abs(flat), axes=(0,), name=f"{state}:norm"))
        )
        updates.append((number, group, state, flat))
    for number, group, state, flat in updates:
        _update(graph, optimizer, number, group, state, flat)
    if graph.updates:
        graph.assign(graph.states[STATISTICS], graph.flatten(STATISTICS, graph.updates))
    graph.commit_when(finite)
    graph.output(finite, "finite")
    return graph


def _update(
    graph: BoundGraph, optimizer: Optimizer, number: int, group: dict[str, Any], state: str, flat: Value
) -> None:
    moments = [
        graph.state(moment_state(number, moment), graph.states[state].shape) for moment in optimizer.moments
    ]
    settings = len(optimizer.hyper(group, 1))
    hyper = graph.input(f"hyper_{number}", (settings,))
    new = optimizer.update(group, graph.states[state], flat, moments, hyper)
    for target, value in zip([graph.states[state], *moments], new, strict=True):
        graph.assign(target, value)


def evaluation_graph(
    net: Module, loss: Module | None, layout: Layout, shapes: tuple[tuple[int, ...], ...]
) -> Graph:
    """The net as at inference, on the trainer's states; with a loss also that."""
    graph = BoundGraph(layout, training=False)
    if loss is None:
        graph.output(net.build(graph, graph.input("x", shapes[0])), "result")
        return graph
    result, value = _loss(graph, net, loss, shapes)
    graph.output(result, "result")
    graph.output(value, "loss")
    return graph


def _loss(
    graph: BoundGraph, net: Module, loss: Module, shapes: tuple[tuple[int, ...], ...]
) -> tuple[Value, Value]:
    x = graph.input("x", shapes[0])
    y = graph.input("y", shapes[1], getattr(loss, "target_dtype", "float32"))
    result = net.build(graph, x)
    value = loss(result, y)
    if np.prod(value.shape, dtype=np.int64) != 1:
        raise ShapeError(f"{type(loss).__name__}: a loss must have one element, not {list(value.shape)}")
    return result, value


def _finite(x: Value) -> Value:
    """Whether a value of one element is a finite number."""
    flat = ops.reshape(x, shape=(1,))
    return ops.logical_not(ops.logical_or(ops.is_nan(flat), ops.is_inf(flat)))


def first_bad_layer(
    net: Module,
    layout: Layout,
    state: clcnn.State,
    x: NDArray[np.float32],
    key: NDArray[np.int64],
    device: Any,
) -> str | None:
    """The first layer, in the order of the net, whose result for a batch is not finite, computed as in
    training; None when all are."""
    graph = BoundGraph(layout, training=True)
    net.build(graph, graph.input("x", x.shape))
    names = [r.name for r in graph.records if r.kind == "node"]
    floats = [name for name in names if graph.layer(name).dtype == "float32"]
    for name in floats:
        graph.output(graph.layer(name), name)
    with clcnn.compile(graph, device=device, state=state) as plan:
        results = plan.run({name: x if name == "x" else key for name in plan.inputs})
    return next((name for name in floats if not np.isfinite(results[name]).all()), None)
