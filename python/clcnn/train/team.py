"""A team of devices: a thread for each, and the same states on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import clcnn
from clcnn import _core
from clcnn._background.threads import Task, Threads
from clcnn.device import blame, named
from clcnn.errors import ArgumentError, Error, StateError

T = TypeVar("T")


def check_alike(devices: Iterable[_core.Device]) -> None:
    """Raises ArgumentError where devices would round differently, and so drift apart."""
    first, *others = [(named(d), d.info()) for d in devices]
    for name, info in others:
        for key in ("name", "driver", "platform_version", "compute_units"):
            if info[key] != first[1][key]:
                raise ArgumentError(
                    f"Trainer: devices must be of one kind, to round alike: {name} has {key} {info[key]}, "
                    f"{first[0]} {first[1][key]}"
                )


class Team:
    """Threads that work for devices, and one that leads them.

    Only the main thread is interrupted by Ctrl-C, and it does nothing but wait: what the leader has begun, it
    ends on all devices, before KeyboardInterrupt is raised. `interrupted` lets it leave out what it need not
    begin any more.
    """

    def __init__(self, devices: Iterable[_core.Device]) -> None:
        self.devices = list(devices)
        self._led: Task[Any] | None = None
        self._leader = Threads(1)
        self._workers = [Threads(1) for _ in self.devices]

    @property
    def interrupted(self) -> bool:
        """Whether a signal handler has raised while the leader was at what it is at."""
        return self._led is not None and self._led.cancelled

    def lead(self, work: Callable[[], T]) -> T:
        """Calls `work` in the leader's thread, after what it is at, and waits for it in any case."""

        def led() -> T:
            self._led = task
            return work()

        task = Task(led)
        self._leader.finish([task])
        return task.result()

    def spread(self, work: Callable[[int], T], members: Iterable[int] | None = None) -> list[T]:
        """In the leader's thread: work(i) for each device of these numbers at once. Waits for all, then
        raises the first exception, with the name of its device."""
        chosen = list(range(len(self.devices)) if members is None else members)
        tasks = [Task(partial(work, i)) for i in chosen]
        for i, task in zip(chosen, tasks):
            self._workers[i].begin(task)
        for i, task in zip(chosen, tasks):
            task.wait()
            if isinstance(task.error, Error) and len(self.devices) > 1:
                blame(self.devices[i], task.error)
        return [task.result() for task in tasks]

    def each(self, work: Callable[[int], T]) -> list[T]:
        """work(i) for each device at once, led."""
        return self.lead(lambda: self.spread(work))

    def close(self) -> None:
        """Ends the threads."""
        for threads in (self._leader, *self._workers):
            threads.close()


class Mirrors:
    """The same states on all devices of a team: read from the first, written to all."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], team: Team) -> None:
        self.team = team
        self.states = team.each(lambda i: clcnn.State(arrays, device=team.devices[i]))
        self._torn: set[str] = set()
        self.shared: dict[Any, Any] = {}  # what steps on batches of several shapes have in common

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.team.lead(lambda: self.states[0][name])

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        def write(i: int) -> None:
            self.states[i][name] = array

        self._torn.add(name)
        self.team.each(write)
        self._torn.discard(name)

    def names(self) -> list[str]:
        """Names of the arrays."""
        return self.states[0].names()

    def tear(self) -> None:
        """Notes that the devices may differ: one of them failed while all were at work on their states."""
        self._torn.update(self.names())

    def check(self) -> None:
        """Raises StateError where the devices may differ."""
        if self._torn:
            raise StateError(
                f"state {min(self._torn)}: a device failed while all wrote it: restore() a checkpoint"
            )

    def close(self) -> None:
        """Gives the device memory back, and ends the team."""
        self.shared.clear()
        self.team.each(lambda i: self.states[i].close())
        self.team.close()


PIECE = 1 << 15  # elements that are added at a time: those of two arrays stay in a core's cache


def add_up(team: Team, arrays: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """In the leader's thread: the sum of arrays of one length in their order, in the first of them; each
    thread of the team adds a part of all elements, piece by piece in its cache."""
    total, others = arrays[0], arrays[1:]
    workers = range(len(team.devices) if total.size > PIECE else 1)
    bounds = np.linspace(0, total.size, len(workers) + 1).astype(np.int64)

    def part(i: int) -> None:
        for at in range(bounds[i], bounds[i + 1], PIECE):
            piece = slice(at, min(at + PIECE, bounds[i + 1]))
            for other in others:
                np.add(total[piece], other[piece], out=total[piece])

    if not others:
        return total
    if len(workers) == 1:  # other threads would take longer to wake
        part(0)
    else:
        team.spread(part, workers)
    return total
