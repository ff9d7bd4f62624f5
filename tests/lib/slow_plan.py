"""A plan that keeps a device busy for about a second, and what tests of waiting do with it: in this process,
and in children, which import this file."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import clcnn
from clcnn import ops
from clcnn.graph import Graph


class Slow(NamedTuple):
    plan: clcnn.Plan
    x: np.ndarray
    y: np.ndarray
    seconds: float


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def slow_graph(layers: int) -> Graph:
    w = random(32, 32, 3, 3) / 16
    g = Graph()
    y = g.input("x", (1, 32, 256, 256))
    for i in range(layers):
        y = ops.conv(y, w, padding=1, name=f"c{i}")
    g.output(y, "y")
    return g


def make(device: Any = None, least: float = 0.5) -> Slow:
    """Reference convolutions, as many as it takes for `least` seconds."""
    x, layers = random(1, 32, 256, 256), 2
    while True:
        plan = clcnn.compile(
            slow_graph(layers), device=device, algorithms={f"c{i}": "ref" for i in range(layers)}
        )
        start = time.perf_counter()
        result = plan(x)
        seconds = time.perf_counter() - start
        if seconds > least:
            return Slow(plan, x, result, seconds)
        plan.close()
        layers = math.ceil(layers * max(1.2, min(1.6 * least / seconds, 16)))


def behind(work: Callable[[], Any], until: Callable[[], bool] = lambda: True) -> threading.Thread:
    """Runs `work` in a thread, whose exceptions count for nothing, and gives it the time to begin."""

    def quietly() -> None:
        with contextlib.suppress(clcnn.Error):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    time.sleep(0.05)
    while not until():
        time.sleep(0.01)
    assert thread.is_alive(), "it was over too soon for this test"
    return thread


def raised(call: Callable[[], Any]) -> tuple[str, float]:
    """The name of the exception that a call raises, "" for none, and its seconds."""
    start = time.perf_counter()
    try:
        call()
        name = ""
    except BaseException as error:
        name = type(error).__name__
    return name, time.perf_counter() - start


def interrupted(call: Callable[[], Any], after: float = 0.2) -> tuple[str, float]:
    """The same, with Ctrl-C so many seconds after its start; seconds from then on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    name, seconds = raised(call)
    timer.join()
    return name, seconds - after


def in_fork(work: Callable[[], Any], limit: float = 20) -> None:
    """Forks; the child does `work` and ends as an interpreter does. AssertionError where it fails or takes
    longer."""
    pid = os.fork()
    if pid == 0:
        work()
        raise SystemExit(0)
    end = time.monotonic() + limit
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError(f"the child did not end within {limit} s")
        time.sleep(0.02)
    assert done[1] == 0, f"the child ended with {done[1]}"
