"""State: arrays on a device that outlive runs, which plans read and change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from clcnn import _arguments, _core
from clcnn.device import DeviceInfo, get
from clcnn.report import size

__all__ = ["State"]


class State(_core.State):
    """Named arrays in device memory: those of the states of graphs that are compiled with it.

    Plans of any batch may share one; their runs, and reading and writing here, take turns. The memory counts
    in the device's memory_limit until close(), after which those plans raise StateError.

    Parameters
    ----------
    arrays : {name: array}
        C-contiguous arrays of float32, int64, int32, bool or uint8, which are copied.
    device : Device or selector
        See clcnn.Device.

    Raises
    ------
    DtypeError, ShapeError, ArgumentError
        What is wrong with an array, by its name.
    DeviceMemoryError, StateError
        The memory is not there; the device is closed.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> g = clcnn.Graph()
    >>> total = g.state("total", (2,))
    >>> g.assign(total, total + g.input("x", (2,)))
    >>> g.output(total, "before")
    >>> with clcnn.State({"total": np.zeros(2, np.float32)}) as state:
    ...     plan = clcnn.compile(g, state=state, device=state.device)
    ...     before = plan.step([1.0, 2.0])  # commits what the graph assigns
    ...     state["total"].tolist()
    [1.0, 2.0]
    """

    __slots__ = ()

    def __new__(
        cls, arrays: Mapping[str, NDArray[Any]], device: str | int | DeviceInfo | _core.Device | None = None
    ) -> State:
        return super().__new__(cls, get(device), _arguments.mapping(arrays, "State", "{name: array}"))

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A copy of an array on the host. Raises ArgumentError (no such array), StateError."""
        return self.read(name)

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        """Writes an array of the same shape and dtype. Raises ArgumentError, ShapeError, DtypeError,
        StateError."""
        self.write(name, array)

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __enter__(self) -> State:
        return self

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {'x'.join(map(str, self.shape(name)))}" for name in self.names())
        closed = ", closed" if self.closed else ""
        return f"<clcnn.State on {self.device.name}: {arrays} ({size(self.nbytes)}){closed}>"
