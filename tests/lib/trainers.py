"""What tests of trainers share: all that their devices hold, and interrupts at a time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from clcnn import train


def assert_same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
    """Arrays of the same names and bits."""
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def bits(trainer: train.Trainer) -> dict[str, np.ndarray]:
    """All that the devices have, which is the same on all."""
    states = getattr(trainer._bound.state, "states", [trainer._bound.state])
    first = {name: states[0][name] for name in states[0].names()}
    for state in states[1:]:
        assert_same(first, {name: state[name] for name in state.names()})
    return first


@contextmanager
def alarm_after(seconds: float, handler: Callable[..., Any]) -> Iterator[None]:
    """Calls a signal handler in the main thread once that time is over, if the block is not."""
    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def interrupt_after(seconds: float) -> Any:
    """KeyboardInterrupt in the block once that time is over."""
    return alarm_after(seconds, _interrupt)
