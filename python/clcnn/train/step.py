"""The graphs of a trainer: a step, an evaluation, and the search for the layer that is not finite."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
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

PROGRESS = "progress"  # state that counts the steps that were committed
LEAST_NORM = 1e-6  # what clip_norm adds to the norm that it divides by, as PyTorch does


def moment_state(group: int, moment: str) -> str:
    """Name of the state that holds a moment of a group's parameters."""
    return f"{moment}_{group}"


def gathered_state(group: int) -> str:
    """Name of the state that holds what several steps add up of a group's gradients."""
    return f"gathered_{group}"


@dataclass(frozen=True)
class GradientRules:
    """What becomes of gradients before an optimiser gets them: the mean over `accumulate` steps, every
    element at most clip_value, then the norm of all at most clip_norm, as torch.nn.utils.clip_grad_norm_ has
    it."""

    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int = 1


@dataclass(frozen=True)
class Recipe:
    """What a trainer is made of, as the graphs of its steps need it."""

    net: Module
    loss: Module
    optimizer: Optimizer
    layout: Layout
    rules: GradientRules


def training_graph(recipe: Recipe, shapes: tuple[tuple[int, ...], ...], update: bool) -> Graph:
    """A step on inputs "x" and "y"; outputs the loss, and whether the step was committed: loss and gradients
    were finite.

    update: changes the parameters, with an input of settings for each group; else the step only adds its
    gradients to those of the steps before, or begins with them (input "kept" of 1 or 0).
    """
    layout = recipe.layout
    graph = BoundGraph(layout, training=True)
    value = loss_of(graph, recipe.net, recipe.loss, shapes)[1]
    graph.output(value, "loss")
    flats = {
        number: graph.flatten(layout.group_state(number), found)
        for number, found in gradients_of(graph, recipe.optimizer, value).items()
    }
    apply(graph, recipe, value, flats, graph.statistics(), update)
    return graph


def apply(
    graph: BoundGraph,
    recipe: Recipe,
    loss: Value,
    flats: dict[int, Value],
    statistics: Value | None,
    update: bool,
) -> None:
    """Adds what a step makes of its loss, the flat gradient of each group and the new statistics: new states,
    where all is finite."""
    rules = recipe.rules
    watched = [loss]
    for number, flat in flats.items():
        watched.append(ops.reduce_sum(flat, axes=(0,), name=f"{graph.layout.group_state(number)}:sum"))
    if rules.accumulate > 1:
        flats = _gather(graph, flats, rules.accumulate, update)
    if update:
        flats, norms = _clip(flats, rules)
        watched += norms  # squares overflow where sums do not
        for number, flat in flats.items():
            _update(graph, recipe.optimizer, number, flat)
    if statistics is not None:
        graph.assign(graph.states[STATISTICS], statistics)
    progress = graph.state(PROGRESS, (1,), "int64")
    graph.assign(progress, progress + 1)
    finite = _finite(watched)
    graph.commit_when(finite)
    graph.output(finite, "finite")


def gradients_of(graph: BoundGraph, optimizer: Optimizer, loss: Value) -> dict[int, dict[int, Value]]:
    """For each group that has parameters to train: their gradients, by id."""
    groups = {}
    for number, _ in enumerate(optimizer.param_groups):
        slots = graph.layout.of_state(graph.layout.group_state(number))
        if slots:
            found = gradients(
                loss, [(graph.parameter(slot.parameter, slot.name), slot.name) for slot in slots]
            )
            groups[number] = {id(slot.parameter): g for slot, g in zip(slots, found, strict=True)}
    return groups


def gradients(loss: Value, parameters: list[tuple[Value, str]]) -> list[Value]:
    """Gradients of parameters, zeros where the loss does not depend on one: warns of it by its name."""
    found = loss.graph.gradients(loss, [value for value, _ in parameters])
    for (_, name), gradient in zip(parameters, found, strict=True):
        if gradient is None:
            warnings.warn(f"the loss does not depend on parameter {name!r}", stacklevel=2)
    return [
        loss.graph.constant(np.zeros(value.shape, np.float32)) if gradient is None else gradient
        for (value, _), gradient in zip(parameters, found, strict=True)
    ]


def _gather(graph: BoundGraph, flats: dict[int, Value], count: int, update: bool) -> dict[int, Value]:
    """Gradients with those of the steps before, each with its share in the mean of `count`."""
    kept = None if update else graph.input("kept", (1,))
    sums = {}
    for number, flat in flats.items():
        before = graph.state(gathered_state(number), flat.shape)
        sums[number] = (before if kept is None else before * kept) + flat * (1.0 / count)
        if kept is not None:
            graph.assign(before, sums[number])
    return sums


def _clip(flats: dict[int, Value], rules: GradientRules) -> tuple[dict[int, Value], list[Value]]:
    """Gradients as the rules clip them, and norms that this took."""
    norms = []
    if rules.clip_value is not None:
        limit = rules.clip_value
        flats = {number: ops.clip(flat, min=-limit, max=limit) for number, flat in flats.items()}
    if rules.clip_norm is not None:
        squares = [ops.reduce_sum(flat * flat, axes=(0,)) for flat in flats.values()]
        norm = ops.sqrt(functools.reduce(lambda a, b: a + b, squares), name="gradients:norm")
        norms.append(norm)
        factor = ops.minimum(rules.clip_norm / (norm + LEAST_NORM), 1.0)
        flats = {number: flat * factor for number, flat in flats.items()}
    return flats, norms


def _update(graph: BoundGraph, optimizer: Optimizer, number: int, flat: Value) -> None:
    group = optimizer.param_groups[number]
    parameters = graph.states[graph.layout.group_state(number)]
    moments = [
        graph.state(moment_state(number, moment), parameters.shape) for moment in optimizer.moments(group)
    ]
    settings = len(optimizer.hyper(group, 1))
    hyper = graph.input(f"hyper_{number}", (settings,))
    new = optimizer.update(group, parameters, flat, moments, hyper)
    for target, value in zip([parameters, *moments], new, strict=True):
        graph.assign(target, value)


def evaluation_graph(
    net: Module, loss: Module | None, layout: Layout, shapes: tuple[tuple[int, ...], ...]
) -> Graph:
    """The net as at inference, on the trainer's states; with a loss also that."""
    graph = BoundGraph(layout, training=False)
    if loss is None:
        graph.output(net.build(graph, graph.input("x", shapes[0])), "result")
        return graph
    result, value = loss_of(graph, net, loss, shapes)
    graph.output(result, "result")
    graph.output(value, "loss")
    return graph


def loss_of(
    graph: BoundGraph, net: Module, loss: Module, shapes: tuple[tuple[int, ...], ...]
) -> tuple[Value, Value]:
    x = graph.input("x", shapes[0])
    y = graph.input("y", shapes[1], getattr(loss, "target_dtype", "float32"))
    result = net.build(graph, x)
    value = loss(result, y)
    if np.prod(value.shape, dtype=np.int64) != 1:
        raise ShapeError(f"{type(loss).__name__}: a loss must have one element, not {list(value.shape)}")
    return result, value


def _finite(values: list[Value]) -> Value:
    """Whether values of one element each are finite numbers: nought times others is NaN."""
    noughts = [ops.reshape(x, shape=(1,)) * 0.0 for x in values]
    return ops.equal(functools.reduce(lambda a, b: a + b, noughts), np.zeros(1, np.float32))


def first_not_finite(
    net: Module,
    loss: Module,
    layout: Layout,
    parts: list[dict[str, NDArray[Any]]],
    state: clcnn.State,
) -> str:
    """What is not finite in a step on these parts of a batch, first in the order in which it is computed: the
    result of a layer, the loss, the gradient of a parameter."""
    bad = None
    for given in parts:
        graph = BoundGraph(layout, training=True)
        net.build(graph, graph.input("x", given["x"].shape))
        names = [r.name for r in graph.records if r.kind == "node"]
        for name in (name for name in names if graph.layer(name).dtype == "float32"):
            graph.output(graph.layer(name), f"layer {name!r}")
        bad = bad or _first_bad(graph, given, state)
    for given in parts:
        graph = BoundGraph(layout, training=True)
        value = loss_of(graph, net, loss, (given["x"].shape, given["y"].shape))[1]
        graph.output(value, "the loss")
        trained = [slot for slot in layout.slots.values() if slot.state != STATISTICS]
        wanted = [graph.parameter(slot.parameter, slot.name) for slot in trained]
        for slot, found in zip(trained, clcnn.grad(value, wanted), strict=True):
            graph.output(found, f"the gradient of {slot.name!r}")
        bad = bad or _first_bad(graph, given, state)
    if bad is None:
        return "every gradient is finite, the sum of their absolute values or squares is not"
    return f"{bad} is the first result that is not finite"


def _first_bad(graph: Graph, given: dict[str, NDArray[Any]], state: clcnn.State) -> str | None:
    """The first output that is not finite."""
    with clcnn.compile(graph, device=state.device, state=state) as plan:
        results = plan.run({name: given[name] for name in plan.inputs})
    return next((name for name in graph.outputs if not np.isfinite(results[name]).all()), None)
