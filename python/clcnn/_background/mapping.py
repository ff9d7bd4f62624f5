"""map() of plans: a stream of batches through several plans, results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from clcnn import _arguments
from clcnn._background.threads import Task, Threads
from clcnn.errors import StateError

W = TypeVar("W")
B = TypeVar("B")
R = TypeVar("R")


def mapped(
    workers: Sequence[W],
    work: Callable[[W, B], R],
    stop: Callable[[W], None],
    batches: Iterable[B],
    ahead: int,
) -> Iterator[R]:
    """work(worker, batch) for each batch, by whichever worker is free, in order; at most `ahead` batches and
    results are held. An exception is raised in its batch's place. In the end, whatever it is, stop(worker)
    ends what a worker may be at."""
    pid = os.getpid()
    free: SimpleQueue[W] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def job(batch: B) -> R:
        worker = free.get()  # there is one for each thread
        try:
            return work(worker, batch)
        finally:
            free.put(worker)

    threads = Threads(len(workers))
    pending: deque[Task[R]] = deque()
    try:
        for batch in _arguments.iterate(batches, "batches", "batches of arrays"):
            pending.append(Task(partial(job, batch)))
            threads.begin(pending[-1])
            if len(pending) == ahead:
                yield pending.popleft().result()
            check_process(pid)
        while pending:
            yield pending.popleft().result()
            check_process(pid)
    finally:
        if os.getpid() == pid:  # a forked child has neither the threads nor a use for them
            for task in pending:
                task.cancel()
            for worker in workers:
                stop(worker)
            threads.close()


def check_process(pid: int) -> None:
    """Raises StateError in a forked child of the process that began."""
    if os.getpid() != pid:
        raise StateError(f"map() was begun in process {pid} and cannot go on in its forked child")
