"""Steps and evaluations whose batch is divided among devices.

A step has two parts: each device computes the gradients of its part of the batch, which go to all others
meanwhile; every device adds them up, in the order of the devices, and makes the same update of the sum. So
devices whose states are equal before are equal after.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import _core, ops
from clcnn.errors import StateError
from clcnn.graph import Graph, Value
from clcnn.plan import Plan
from clcnn.state import State
from clcnn.train import batches
from clcnn.train.exchange import exchange, source_name
from clcnn.train.layout import STATISTICS, BoundGraph, Slot, joined
from clcnn.train.ranks import Ranks
from clcnn.train.step import Recipe, apply, evaluation_graph, gradients_of, loss_of
from clcnn.train.team import Mirrors, Team

BUCKET = 32 << 20  # bytes of gradients that travel together, or one parameter that has more
LEAST = 1 << 20  # of such a bucket, but for the last one

Shapes = tuple[tuple[int, ...], ...]
Compile = Callable[[Graph, _core.Device, State], Plan]


def cut(count: int, parts: int) -> list[slice]:
    """`count` samples in at most so many parts, which differ by one sample at most; none is empty."""
    bounds = [count * i // parts for i in range(parts + 1)]
    return [slice(a, b) for a, b in zip(bounds, bounds[1:]) if b > a]


# ---- graphs ----


def buckets(slots: list[Slot]) -> list[list[Slot]]:
    """Slots that stand side by side, in buckets of at most BUCKET bytes and half of what is left, so that
    little has to travel when backward has ended."""
    found: list[list[Slot]] = []
    room, left = 0, sum(4 * slot.parameter.size for slot in slots)
    for slot in slots:
        size = 4 * slot.parameter.size
        if not found or size > room:
            found.append([])
            room = min(BUCKET, max(LEAST, left // 2))
        found[-1].append(slot)
        room -= size
        left -= size
    return found


def gradient_graph(recipe: Recipe, shapes: Shapes) -> Graph:
    """Of a part of a batch: loss and gradients times the input "share", and, where there are running
    statistics, the new ones times the input "samples". Outputs: "loss", the buckets of each group,
    "statistics"."""
    layout = recipe.layout
    graph = BoundGraph(layout, training=True)
    value = ops.reshape(loss_of(graph, recipe.net, recipe.loss, shapes)[1], shape=(1,))
    value = value * graph.input("share", (1,))
    graph.output(value, "loss")
    for number, found in gradients_of(graph, recipe.optimizer, value).items():
        for slots in buckets(layout.of_state(layout.group_state(number))):
            pieces = [ops.reshape(found[id(slot.parameter)], shape=(-1,)) for slot in slots]
            graph.output(joined(pieces), bucket_name(slots))
    statistics = graph.statistics()
    if statistics is not None:
        graph.output(statistics * graph.input("samples", (1,)), STATISTICS)
    return graph


def bucket_name(slots: list[Slot]) -> str:
    """Of the output that holds the gradients of these parameters."""
    return f"{slots[0].state}:{slots[0].offset}:{slots[-1].end}"


def apply_graph(recipe: Recipe, statistics: bool, update: bool, sources: int) -> Graph:
    """What every device makes of the sums, which it takes of each piece in the order of its sources: inputs
    "loss", which is a sum, and the buckets of each group and "statistics" from each source."""
    layout = recipe.layout
    graph = BoundGraph(layout, training=True)
    loss = graph.input("loss", (1,))

    def added_up(piece: str, size: int) -> Value:
        given = (graph.input(source_name(piece, i), (size,)) for i in range(sources))
        return functools.reduce(operator.add, given)

    flats: dict[int, Value] = {}
    for number, _ in enumerate(recipe.optimizer.param_groups):
        found = buckets(layout.of_state(layout.group_state(number)))
        if found:
            flats[number] = joined([added_up(bucket_name(slots), _elements(slots)) for slots in found])
    new = added_up(STATISTICS, layout.sizes[STATISTICS]) if statistics else None
    apply(graph, recipe, loss, flats, new, update)
    return graph


def _elements(slots: list[Slot]) -> int:
    return slots[-1].end - slots[0].offset


# ---- plans ----


class Weight(NamedTuple):
    """What a part counts for: its loss in that of the batch, its samples among those that count."""

    loss: float
    samples: float  # 0: left out, since a mean over no label is no number


class SharedPlan:
    """What the plans of all devices share: how the batch is cut, and what each part counts for."""

    def __init__(self, recipe: Recipe, states: Mirrors, shapes: Shapes, ranks: Ranks | None = None) -> None:
        self._recipe, self._states, self._shapes, self._ranks = recipe, states, shapes, ranks
        self._team: Team = states.team
        own = len(self._team.devices)
        counts = [own] if ranks is None else ranks.all(own)
        before = 0 if ranks is None else sum(counts[: ranks.rank])
        self._parts = cut(shapes[0][0], sum(counts))[before : before + own]
        self._plans: list[Plan] = []

    def _compile(self, graph: Callable[[Shapes], Graph], compile: Compile) -> list[Plan]:
        """A plan for each device that has a part of the batch."""
        made = []
        for part, device, state in zip(self._parts, self._team.devices, self._states.states):
            shapes = tuple((part.stop - part.start, *shape[1:]) for shape in self._shapes)
            made.append(compile(graph(shapes), device, state))
            self._plans.append(made[-1])
        return made

    def _weights(self, y: NDArray[Any]) -> list[Weight]:
        """What each part counts for in the batch."""
        parts = [y[part] for part in self._parts]
        mine = [(batches.counted(self._recipe.loss, part), len(part)) for part in parts]
        every = mine if self._ranks is None else [pair for pairs in self._ranks.all(mine) for pair in pairs]
        total = sum(counted for counted, _ in every)
        samples = sum(size for counted, size in every if counted or not total)
        summed = getattr(self._recipe.loss, "reduction", None) == "sum" or not total
        return [
            Weight(1.0 if summed else counted / total, size / samples if counted or not total else 0.0)
            for counted, size in mine
        ]

    def close(self) -> None:
        """Gives the plans' memory back."""
        for plan in self._plans:
            plan.close()


class SharedStep(SharedPlan):
    """A step: what Plan.step() is for one device."""

    def __init__(
        self,
        recipe: Recipe,
        states: Mirrors,
        shapes: Shapes,
        update: bool,
        compile: Compile,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(recipe, states, shapes, ranks)
        team = self._team
        whole = gradient_graph(recipe, shapes)  # there is none of a part where others have all samples
        self._gradients = self._compile(lambda part: gradient_graph(recipe, part), compile)
        pieces = {name: value.shape[0] for name, value in whole.outputs.items() if name != "loss"}
        self._exchange = exchange(states, pieces, len(self._parts), ranks)
        graph = apply_graph(recipe, STATISTICS in whole.outputs, update, self._exchange.sources)
        self._apply = [compile(graph, d, s) for d, s in zip(team.devices, states.states)]
        self._plans += self._apply
        taken = [*whole.inputs, *graph.inputs]
        self.inputs = [name for name in taken if name in ("x", "y", "key", "kept") or name[:5] == "hyper"]

    def step(self, *inputs: NDArray[Any], timeout: float | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Loss, and whether the step was committed, which it is by all devices or by none."""
        self._states.check()
        given = dict(zip(self.inputs, inputs, strict=True))
        return self._team.lead(lambda: self._lead(given, timeout))

    def _lead(
        self, given: dict[str, NDArray[Any]], timeout: float | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        weights = self._weights(given["y"])
        busy = [i for i, weight in enumerate(weights) if weight.samples]
        for i in set(range(len(weights))) - set(busy):
            self._exchange.leave_out(i)
        losses = self._team.spread(lambda i: self._differentiate(i, given, weights[i], timeout), busy)
        loss = functools.reduce(operator.add, losses) if losses else np.zeros(1, np.float32)
        if self._ranks is not None:
            self._ranks.add(loss)
        sums = self._exchange.gather(busy)
        if self._team.interrupted and self._ranks is None:  # else the other ranks would go on alone
            raise StateError("the step was interrupted")  # which nobody sees: Ctrl-C is raised
        return loss, self._commit([{**given, **mine, "loss": loss} for mine in sums], timeout)

    def _differentiate(
        self, i: int, given: dict[str, NDArray[Any]], weight: Weight, timeout: float | None
    ) -> NDArray[Any]:
        """Returns the loss."""
        part, plan = self._parts[i], self._gradients[i]
        mine = {**given, "x": given["x"][part], "y": given["y"][part]}
        mine |= {
            "share": np.full(1, weight.loss, np.float32),
            "samples": np.full(1, weight.samples, np.float32),
        }
        if "key" in mine:
            rank = 0 if self._ranks is None else self._ranks.rank
            number = (rank << 8) + i
            mine["key"] = mine["key"] + np.array([number << 32, 0])  # else all would drop the same elements
        targets, relays = self._exchange.targets(i)
        run = plan._core.run  # which has relays
        inputs = [mine[name] for name in plan.inputs]
        loss: NDArray[Any] = run(inputs, [None, *targets], timeout, False, relays and [[], *relays])[0]
        return loss

    def _commit(self, given: list[dict[str, Any]], timeout: float | None) -> NDArray[Any]:
        names = list(self._apply[0].inputs)

        def commit(i: int) -> NDArray[Any]:
            finite: NDArray[Any] = self._apply[i].step(*(given[i][name] for name in names), timeout=timeout)
            return finite

        try:
            return self._team.spread(commit)[0]
        except BaseException:
            self._states.tear()
            raise


class SharedEvaluation(SharedPlan):
    """The net as at inference: what calling a Plan is for one device."""

    def __init__(
        self, recipe: Recipe, states: Mirrors, shapes: Shapes, with_loss: bool, compile: Compile
    ) -> None:
        super().__init__(recipe, states, shapes)
        loss = recipe.loss if with_loss else None
        self._compile(lambda part: evaluation_graph(recipe.net, loss, recipe.layout, part), compile)
        self._with_loss = with_loss

    def __call__(self, *inputs: NDArray[Any]) -> Any:
        self._states.check()

        def work(i: int) -> Any:
            return self._plans[i](*(array[self._parts[i]] for array in inputs))

        members = range(len(self._parts))
        results = self._team.lead(lambda: self._team.spread(work, members))
        if not self._with_loss:
            return np.concatenate(results)
        weights = self._weights(inputs[1])
        loss = sum(float(r[1].ravel()[0]) * w.loss for r, w in zip(results, weights) if w.samples)
        return np.concatenate([r[0] for r in results]), np.array([loss], np.float32)
