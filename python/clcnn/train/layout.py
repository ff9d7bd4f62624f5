"""Where parameters, moments and running statistics lie: flat arrays on the device, with equal offsets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import ops
from clcnn.errors import ArgumentError
from clcnn.graph import Graph, Value, trace
from clcnn.nn.module import Module
from clcnn.nn.parameter import Parameter
from clcnn.optim import Optimizer

STATISTICS = "statistics"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one parameter or buffer: elements from `offset` on of the state of this name."""

    name: str
    parameter: Parameter
    state: str
    offset: int

    @property
    def end(self) -> int:
        """The element after its last one."""
        return self.offset + self.parameter.size


class Layout:
    """The slots of a net's parameters, a state for each group of the optimiser, and of its buffers.

    Parameters stand in the order in which backward finishes their gradients: the last layer's first.
    """

    def __init__(self, net: Module, optimizer: Optimizer, shapes: Any) -> None:
        names = {id(p): name for name, p in net._named_state()}
        used = [p for p, _ in trace(net, shapes)._parameters.values()]
        order = {id(p): i for i, p in enumerate(reversed(used))}
        self.slots: dict[int, Slot] = {}
        self.sizes: dict[str, int] = {}
        self.unused: list[str] = []
        self.frozen: list[Parameter] = []
        for number, group in enumerate(optimizer.param_groups):
            strange = [p for p in group["params"] if id(p) not in names]
            if strange:
                raise ArgumentError(f"the optimiser has {strange[0]!r}, which is no parameter of the net")
            self.frozen += [p for p in group["params"] if not p.requires_grad]
            trained = [p for p in group["params"] if p.requires_grad]
            self.unused += [names[id(p)] for p in trained if id(p) not in order]
            reached = sorted((p for p in trained if id(p) in order), key=lambda p: order[id(p)])
            self._place(self.group_state(number), reached, names)
        if not self.slots:
            raise ArgumentError(
                "there is nothing to train: the net uses no parameter of the optimiser, or all are frozen"
            )
        changing = (module for module in net.modules() if not module.frozen)
        buffers = [p for module in changing for p in module._buffers.values() if id(p) in order]
        self._place(STATISTICS, buffers, names)

    @staticmethod
    def group_state(number: int) -> str:
        """Name of the state that holds the parameters of a group."""
        return f"params_{number}"

    def _place(self, state: str, parameters: Iterable[Parameter], names: Mapping[int, str]) -> None:
        offset = 0
        for parameter in parameters:
            if id(parameter) in self.slots:
                continue
            slot = Slot(names[id(parameter)], parameter, state, offset)
            self.slots[id(parameter)] = slot
            offset = slot.end
        if offset:
            self.sizes[state] = offset

    def of_state(self, state: str) -> list[Slot]:
        """The slots of a state, in order."""
        return [slot for slot in self.slots.values() if slot.state == state]

    def gather(self, state: str) -> NDArray[np.float32]:
        """A flat array of what the parameters of a state hold now."""
        return np.concatenate([slot.parameter.data.ravel() for slot in self.of_state(state)])


class Target(NamedTuple):
    """What a buffer moves towards: factor * value, by `momentum` of the way."""

    value: Value
    momentum: float
    factor: float


class BoundGraph(Graph):
    """A graph in which the parameters of a layout are slices of states instead of constants.

    training: whether modules that are in training mode compute as in training; what their buffers then move
    towards is in `targets`.
    """

    def __init__(self, layout: Layout, training: bool) -> None:
        super().__init__()
        self.training = training
        self.layout = layout
        for name, size in layout.sizes.items():
            self.state(name, (size,))
        self.targets: dict[int, Target] = {}
        self.dropouts = 0

    def parameter(self, parameter: Any, name: str) -> Value:
        slot = self.layout.slots.get(id(parameter))
        if slot is None:
            return super().parameter(parameter, name)
        if id(parameter) not in self._parameters:
            self._parameters[id(parameter)] = (parameter, self.part(slot, self.states[slot.state], name))
        return self._parameters[id(parameter)][1]

    def dropout(self, x: Value, p: float, name: str | None) -> Value:
        """Drops elements at random; the input "key" holds the trainer's seed and the number of the step."""
        key = self.inputs["key"] if "key" in self.inputs else self.input("key", (2,), "int64")
        self.dropouts += 1
        return ops.dropout_train(x, key, p=p, layer=self.dropouts, name=name)

    def part(self, slot: Slot, flat: Value, name: str | None = None) -> Value:
        """The piece of a flat value at a slot, in its parameter's shape."""
        piece = ops.slice(flat, starts=[slot.offset], ends=[slot.end], axes=[0])
        return ops.reshape(piece, shape=slot.parameter.shape, name=name)

    def follow(self, parameter: Parameter, value: Value, momentum: float, factor: float = 1.0) -> None:
        """Notes that a buffer moves towards factor * value, by `momentum` of the way, when the step is
        committed."""
        self.targets[id(parameter)] = Target(value, momentum, factor)

    def statistics(self) -> Value | None:
        """What the flat statistics become, if any buffer moves; others stay as they are. All that lie side by
        side are computed together: a net has many of few elements."""
        if not self.targets:
            return None
        flat, pieces = self.states[STATISTICS], []
        for moves, run in itertools.groupby(
            self.layout.of_state(STATISTICS), lambda slot: id(slot.parameter) in self.targets
        ):
            slots = list(run)
            old = ops.slice(flat, starts=[slots[0].offset], ends=[slots[-1].end], axes=[0])
            pieces.append(self._moved(old, slots) if moves else old)
        return joined(pieces)

    def _moved(self, old: Value, slots: list[Slot]) -> Value:
        targets = [self.targets[id(slot.parameter)] for slot in slots]
        sizes = [slot.parameter.size for slot in slots]
        new = joined([ops.reshape(target.value, shape=(-1,)) for target in targets])
        factors, momenta = ([getattr(t, name) for t in targets] for name in ("factor", "momentum"))
        return old + (new * self._each(factors, sizes) - old) * self._each(momenta, sizes)

    def _each(self, numbers: list[float], sizes: list[int]) -> Value:
        """numbers[i] for sizes[i] elements."""
        return self.constant(np.repeat(np.array(numbers, np.float32), sizes))

    def flatten(self, state: str, values: Mapping[int, Value]) -> Value:
        """The flat value of a state, from the values of its parameters (by id); those missing stay as they
        are."""
        flat = self.states[state]
        pieces = []
        for slot in self.layout.of_state(state):
            value = values.get(id(slot.parameter))
            whole = self.part(slot, flat) if value is None else value
            pieces.append(ops.reshape(whole, shape=(-1,)))
        return joined(pieces)


def joined(pieces: list[Value]) -> Value:
    """Flat values, one after the other."""
    return pieces[0] if len(pieces) == 1 else ops.concat(*pieces, dim=0)
