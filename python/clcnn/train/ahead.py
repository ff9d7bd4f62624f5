"""Batches that are made ready while the device is at work: by a thread, which also sends them there."""

from __future__ import annotations

import queue
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import clcnn
from clcnn import _core
from clcnn._background.threads import Task, Threads
from clcnn.train.pixels import Converter, Pixels

# Seconds for a thread that is to end; one that waits for its data any longer is left alone.
LONGEST_WAIT = 5.0
LOOK = 0.1  # seconds after which a thread that waits looks whether it is to end

Batch = tuple[Any, Any]  # x as it is, or on the device


class Sender:
    """Brings batches to a device, each into one of `places` tensors in turn.

    Bytes become float32 there. A CPU device reads arrays where they are, so that they are not copied.
    """

    def __init__(self, device: _core.Device, places: int) -> None:
        self.device, self._places = device, places
        self._copies = device.type != "cpu"
        self._convert = Converter(device)
        self._tensors: list[clcnn.Tensor] = []

    def __call__(self, x: Any) -> Any:
        """x, or a tensor with its values, which is good for `places` - 1 more calls."""
        plain = isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim >= 2 and x.size > 0
        if isinstance(x, Pixels) and len(x):
            self._convert(x, tensor := self._next(x.shape))
        elif plain and self._copies:
            tensor = self._next(x.shape)
            tensor.write(np.require(x, requirements="C"))
        else:
            return x
        return tensor

    def _next(self, shape: tuple[int, ...]) -> clcnn.Tensor:
        if len(self._tensors) == self._places:
            oldest = self._tensors.pop(0)
            if oldest.shape == shape:
                self._tensors.append(oldest)
                return oldest
            oldest.close()
        self._tensors.append(clcnn.Tensor(self.device, shape))
        return self._tensors[-1]

    def close(self) -> None:
        """Gives all memory back."""
        self._convert.close()
        for tensor in self._tensors:
            tensor.close()
        self._tensors.clear()


def ahead(walk: Iterable[Batch], device: _core.Device | None, depth: int) -> Generator[Batch, None, None]:
    """The batches of `walk` in their order, `depth` of them made ready ahead by a thread of its own, which
    sends them to the device; None: they stay where they are.

    What `walk` raises is raised in its place. Closing the iterator ends the thread.
    """
    if depth == 0:
        yield from walk
        return
    # Simple queues stay whole where Ctrl-C is pressed in the middle of get() and put().
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room: queue.SimpleQueue[None] = queue.SimpleQueue()  # has one for each batch that may be put
    for _ in range(depth):
        room.put(None)
    sender = None if device is None else Sender(device, depth + 2)  # one is read, one is filled
    work: Task[None] = Task(lambda: _work(walk, sender, ready, room, work))
    Threads(1).begin(work)
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            room.put(None)
            yield item
    finally:
        work.cancel()
        if work.wait(LONGEST_WAIT) and sender is not None:
            sender.close()


def _work(
    walk: Iterable[Batch],
    sender: Sender | None,
    ready: queue.SimpleQueue[Any],
    room: queue.SimpleQueue[None],
    task: Task[None],
) -> None:
    """Puts batches, and in the end None or what was raised, as long as anyone wants them."""

    def has_room() -> bool:
        while not task.cancelled:
            try:
                room.get(timeout=LOOK)
            except queue.Empty:
                continue
            return True
        return False

    try:
        for x, y in walk:
            batch = (x if sender is None else sender(x), y)
            if not has_room():
                return
            ready.put(batch)
        ready.put(None)
    except BaseException as error:  # of the caller's data: raised where it is waited for
        ready.put(error)


def copied(walk: Iterable[tuple[ArrayLike, ArrayLike]]) -> Iterator[Batch]:
    """Batches of someone else's, who may fill the same arrays again."""
    for x, y in walk:
        yield _copy(x), _copy(y)


def _copy(given: Any) -> NDArray[Any] | Any:
    return given.copy() if isinstance(given, np.ndarray) else given
