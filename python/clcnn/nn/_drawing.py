"""Values of parameters that nobody has asked for yet, drawn on all cores.

Each has a generator of its own, so that they are what they would be one by one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from clcnn._background.threads import Task, Threads

if TYPE_CHECKING:
    from clcnn.nn.parameter import Parameter

MANY = 1 << 20  # elements: fewer are drawn in less time than threads take to begin


def draw(parameters: Sequence[Parameter]) -> None:
    """Draws them all. What an initialiser raises is left to whoever reads its parameter."""
    count = min(len(os.sched_getaffinity(0)), len(parameters))
    if count < 2 or sum(p.size for p in parameters) < MANY:
        return
    waiting: SimpleQueue[Parameter] = SimpleQueue()
    for parameter in sorted(parameters, key=lambda p: -p.size):
        waiting.put(parameter)
    threads = Threads(count)
    try:
        threads.finish([Task(partial(_draw_some, waiting)) for _ in range(count)])
    finally:
        threads.close()


def _draw_some(waiting: SimpleQueue[Parameter]) -> None:
    try:
        while True:
            waiting.get_nowait().numpy()
    except Exception:  # Empty, or whatever a user's initialiser raises
        return
