"""Compiles in a thread of their own: drivers build for seconds without looking up, and meanwhile this thread
takes Ctrl-C and tells how far it is.

A compile that is stopped goes on in its thread until the program that the driver is building is there, and
then ends; nothing waits for it but the end of the process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from clcnn import _core
from clcnn._background import builders
from clcnn._background.threads import Task
from clcnn._log import logger
from clcnn._progress import Line
from clcnn.errors import StateError

T = TypeVar("T")

LOOK_S = 0.05  # between looks at how far the compile is
COMPILER_STACK = 8 << 20  # bytes; drivers compile with deep recursion
# What the core tells, in words.
WORDS = {"programs": "building programs", "weights": "packing weights", "first run": "first run"}


class Stopped(Exception):
    """In the compile's thread: nobody wants its plan any more."""


class Watch:
    """What the core calls while it compiles: with what is done, or with nothing to ask whether to go on."""

    def __init__(self, background: bool = False) -> None:
        self.stopped = False
        self._background = background  # nobody waits for it: it ends when the program does
        self.text = "choosing algorithms"
        self._last = time.perf_counter()

    def __call__(self, what: str = "", done: int = 0, wanted: int = 0) -> None:
        self.stopped |= self._background and not threading.main_thread().is_alive()
        if self.stopped:
            raise Stopped
        if not what:
            return
        now = time.perf_counter()
        if done:
            logger.debug(
                "built %s in %.0f ms, %d of %d programs", what, 1e3 * (now - self._last), done, wanted
            )
        else:
            logger.debug("%s%s", WORDS[what], f": {wanted} are not in memory" if wanted else "")
        self._last = now
        if done or wanted:
            self.text = f"{WORDS['programs']}, {done} of {wanted}"
        elif what != "programs":
            self.text = WORDS[what]

    def build(
        self, device: _core.Device, cache_dir: str, most: int, programs: list[builders.Program]
    ) -> None:
        """Has other processes build programs into the disk cache, as many as they can."""
        count = builders.processes(most, len(programs), device.global_mem)
        if not count:
            return

        def look(done: int) -> None:
            self.text = f"{WORDS['programs']}, {done} of {len(programs)}"
            self()

        begun = time.perf_counter()
        try:
            done = builders.build(programs, device.index, cache_dir, count, look)
        except OSError as error:
            logger.debug("no other processes build programs: %s", error)
            return
        logger.debug(
            "%d processes built %d of %d programs in %.0f ms",
            count, done, len(programs), 1e3 * (time.perf_counter() - begun),
        )  # fmt: skip


class Loading(Watch):
    """Of a compile that waits for no compiler: BuildError where a program has to be built."""

    loads_only = True


class Job(Generic[T]):
    """work(watch) in a thread of its own. background: the end of the program does not wait for all of it."""

    def __init__(
        self, work: Callable[[Watch], T], background: bool = False, watch: Watch | None = None
    ) -> None:
        self.watch = watch or Watch(background)
        self._task = Task(partial(work, self.watch))
        self._pid = os.getpid()
        _start(self._task)

    @property
    def done(self) -> bool:
        return self._task.done

    def stop(self) -> None:
        """Ends it before the next program; does not wait."""
        self.watch.stopped = True
        self._task.cancel()

    def wait(self, timeout: float | None) -> bool:
        """Whether it is done within so many seconds; None: however long it takes."""
        self._check_process()
        return self._task.wait(timeout)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StateError(
                "the process was forked in the middle of a compile, which cannot go on in the child"
            )

    def result(self) -> T:
        """What work() gave or raised; once. Ctrl-C ends waiting and the work."""
        line = Line()
        try:
            while not self._task.wait(LOOK_S):
                self._check_process()
                line.show(self.watch.text)
        except BaseException:
            self.stop()
            raise
        finally:
            line.close()
        return self._task.result()


def _start(run: Callable[[], None]) -> None:
    before = threading.stack_size(COMPILER_STACK)
    try:
        threading.Thread(target=run, name="clcnn compile").start()
    finally:
        threading.stack_size(before)


def patiently(work: Callable[[Watch], T], watch: Watch | None = None) -> T:
    """work(watch). Signals are the main thread's, so that there it runs in another one."""
    if threading.current_thread() is not threading.main_thread():
        return work(watch or Watch())
    return Job(work, watch=watch).result()


__all__ = ["Job", "Loading", "Watch", "patiently"]
