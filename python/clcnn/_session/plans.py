"""What a session keeps for a combination of input shapes, and how long its threads wait for each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clcnn.errors import ArgumentError, DtypeError, RunTimeoutError

if TYPE_CHECKING:
    from clcnn.onnx import Program
    from clcnn.plan import Plan

LONGEST_S = 1e9  # a timeout that is longer is as good as none


@dataclass
class Compiled:
    """What runs one combination of shapes; made by the thread that needs it first, under its lock. plan is
    None where every output is known without running; program has lost its graph and values."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    program: Program | None = None
    plan: Plan | None = None


class Clock:
    """How much of a timeout is left; waiting for other threads counts."""

    def __init__(self, timeout: float | None) -> None:
        try:
            self.left = None if timeout is None else min(float(timeout), LONGEST_S)
        except (TypeError, ValueError) as error:
            raise DtypeError(f"timeout: must be a number of seconds or None, got {timeout!r}") from error
        except OverflowError:
            self.left = LONGEST_S if timeout and timeout > 0 else -1.0
        if self.left is not None and not self.left > 0:
            raise ArgumentError(f"timeout: must be a positive number of seconds or None, got {timeout!r}")
        self._timeout = self.left

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Has the lock, which another thread may hold while it compiles. Raises RunTimeoutError."""
        start = time.monotonic()
        if not lock.acquire(timeout=-1 if self.left is None else self.left):
            raise RunTimeoutError(
                f"another thread's compile for these shapes did not finish within {self._timeout:g} s"
            )
        try:
            if self.left is not None:
                self.left = max(self.left - (time.monotonic() - start), 1e-6)
            yield
        finally:
            lock.release()
