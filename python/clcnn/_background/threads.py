"""Threads that work for one that waits, which Ctrl-C may interrupt anywhere.

Python calls signal handlers in the main thread, between any two of its steps. One that raises in the middle
of a Condition, an Event, a Future or an executor leaves their locks as they are, and from then on whoever
needs them waits for ever; threading.Thread.start() waits for an Event. Here the thread that waits does only
what is one call into C, which happens or does not: start_new_thread(), SimpleQueue.put(), and acquire() and
release() of a plain lock.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from clcnn.errors import StateError

T = TypeVar("T")

LOOK_S = 0.1  # after which one that waits looks again: a signal may have kept another one from waking it


class Task(Generic[T]):
    """work() in another thread, once."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.done = False
        self.cancelled = False
        self._work: Callable[[], T] | None = work
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._taken = threading.Lock()
        self._gate = threading.Lock()  # open once it is done
        self._gate.acquire()

    def __call__(self) -> None:
        """In the other thread. A second time, and after cancel(), it does nothing."""
        if not self._taken.acquire(blocking=False):
            return
        try:
            assert self._work is not None
            self._results.append(self._work())
        except BaseException as error:  # result() raises it in the thread that waits
            self._errors.append(error)
        if self.cancelled:  # nobody asks for them
            self._results.clear()
            self._errors.clear()
        self._end()

    def _end(self) -> None:
        self._work = None
        self.done = True
        self._gate.release()

    def cancel(self) -> None:
        """Makes it done if it has not begun; else it only sees that it is not wanted any more."""
        self.cancelled = True
        if self._taken.acquire(blocking=False):
            self._end()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is done within so many seconds; None: however long it takes."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done:
            left = LOOK_S if end is None else min(LOOK_S, end - time.monotonic())
            if left <= 0:
                break
            if self._gate.acquire(timeout=left):
                self._gate.release()
        return self.done

    @property
    def error(self) -> BaseException | None:
        """What work() raised."""
        return self._errors[0] if self._errors else None

    def result(self) -> T:
        """Waits, and gives or raises what work() gave or raised; once."""
        self.wait()
        if self._errors:
            try:
                raise self._errors.pop()
            finally:
                self._errors.clear()
        return self._results.pop()


class Threads:
    """Threads that take tasks in the order in which these come.

    The end of the process waits for them only if somebody has this object then.
    """

    def __init__(self, count: int) -> None:
        self._pid = os.getpid()
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        # Put there when nobody has this object any more: a call into C, while __del__() may be interrupted.
        gone = weakref.ref(self, self._tasks.put)
        _open.add(gone)
        self._threads: list[Task[None]] = []
        for _ in range(count):
            thread = Task(partial(_serve, self._tasks, gone))
            start_new_thread(thread, ())
            self._threads.append(thread)

    def begin(self, task: Task[Any]) -> None:
        """Puts a task at the end. Raises StateError in a forked child, which has no such threads."""
        if os.getpid() != self._pid:
            raise StateError("the process was forked: the threads that do this work are not in the child")
        self._tasks.put(task)

    def finish(self, tasks: Sequence[Task[Any]], stop: Callable[[], None] = lambda: None) -> None:
        """Begins tasks, and waits for all of them in any case.

        What a signal handler raises meanwhile is raised after that; tasks that have not begun are left out
        then, and stop() is called, to make those end that have.
        """
        raised: BaseException | None = None
        while raised is None or not all(task.done for task in tasks):
            try:
                if raised is None:
                    for task in tasks:
                        self.begin(task)
                else:
                    for task in tasks:
                        task.cancel()
                    stop()
                for task in tasks:
                    task.wait()
                break
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def close(self) -> None:
        """Ends the threads after all tasks, and waits for them."""
        self._tasks.put(None)
        for thread in self._threads:
            thread.wait()
        self._threads.clear()


def _serve(tasks: SimpleQueue[Any], gone: weakref.ref[Threads]) -> None:
    """Until there comes something else than a task, which is for the other threads, too."""
    while isinstance(task := tasks.get(), Task):
        task()
        del task  # else its result would live until the next one comes
    tasks.put(task)
    _open.discard(gone)


_open: set[weakref.ref[Threads]] = set()


@atexit.register
def _close_all() -> None:
    """At the end of the program, before threads in the middle of a run would lose the interpreter."""
    for gone in list(_open):
        threads = gone()
        if threads is not None:
            threads.close()


__all__ = ["Task", "Threads"]
