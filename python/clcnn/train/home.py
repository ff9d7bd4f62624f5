"""Home: the device's copy of what a trainer changes, and the way back into the net's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import clcnn
from clcnn import _core
from clcnn.optim import Optimizer
from clcnn.train.layout import Layout
from clcnn.train.ranks import Ranks
from clcnn.train.step import PROGRESS, GradientRules, gathered_state, moment_state
from clcnn.train.team import Mirrors, Team

if TYPE_CHECKING:
    from clcnn.nn.module import Module
    from clcnn.nn.parameter import Parameter


class Home:
    """The states of a layout on a device, or on several. Parameters read from it where the device is newer,
    and write to it."""

    def __init__(
        self,
        net: Module,
        optimizer: Optimizer,
        rules: GradientRules,
        devices: list[_core.Device],
        input_shape: tuple[int, ...],
        ranks: Ranks | None,
    ) -> None:
        self.input_shape = input_shape
        layout = self.layout = Layout(net, optimizer, input_shape)
        arrays: dict[str, NDArray[Any]] = {name: layout.gather(name) for name in layout.sizes}
        for number, group in enumerate(optimizer.param_groups):
            flat = arrays.get(layout.group_state(number))
            if flat is None:
                continue
            for moment in optimizer.moments(group):
                arrays[moment_state(number, moment)] = np.zeros_like(flat)
            if rules.accumulate > 1:
                arrays[gathered_state(number)] = np.zeros_like(flat)
        arrays[PROGRESS] = np.zeros(1, np.int64)
        self.state: clcnn.State | Mirrors
        if ranks is not None:
            arrays = ranks.of_first(arrays)
        if len(devices) > 1 or ranks is not None:
            self.state = Mirrors(arrays, Team(devices))
        else:
            self.state = clcnn.State(arrays, devices[0])
        self._stale = ranks is not None  # what rank 0 had counts
        for slot in layout.slots.values():
            slot.parameter.settle(self)

    @property
    def first(self) -> clcnn.State:
        """The state of the first device."""
        return self.state.states[0] if isinstance(self.state, Mirrors) else self.state

    def changed(self) -> None:
        """The device has new values, or may have them soon."""
        self._stale = True

    @property
    def progress(self) -> int:
        """How many steps were committed, which the device counts."""
        return int(self.state[PROGRESS][0])

    def refresh(self) -> None:
        """Fetches what the device has, if that is newer."""
        if not self._stale:
            return
        self._stale = False  # before the parameters are set, which asks again
        for name in self.layout.sizes:
            flat = self.state[name]
            for slot in self.layout.of_state(name):
                slot.parameter.take(flat[slot.offset : slot.end].reshape(slot.parameter.shape))

    def push(self, parameter: Parameter, array: NDArray[np.float32]) -> None:
        """Sends a parameter's new value to the device; what the device has of the others is fetched first."""
        slot = self.layout.slots[id(parameter)]
        self.refresh()
        flat = self.state[slot.state]
        flat[slot.offset : slot.end] = array.ravel()
        self.state[slot.state] = flat

    def close(self) -> None:
        """Lets the parameters go, with their last values."""
        self.refresh()
        for slot in self.layout.slots.values():
            slot.parameter.settle(None)
        self.state.close()
