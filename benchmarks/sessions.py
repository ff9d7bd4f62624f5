"""A loaded net behind one interface, whoever computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import clcnn


@dataclass
class Session:
    """A loaded net. run: host array to host array. resident: one inference on data already in place."""

    run: Callable[[np.ndarray], np.ndarray]
    resident: Callable[[], Any]


@contextmanager
def of_plan(plan: Any, x: np.ndarray, device: clcnn.Device) -> Iterator[Session]:
    """On a device with memory of its own, `resident` runs from and to device tensors."""
    if device.host_unified:
        y = np.empty(next(iter(plan.outputs.values())), np.float32)
        yield Session(plan, lambda: plan(x, out=y))
    else:
        with clcnn.Tensor.from_numpy(x, device) as a, clcnn.Tensor(device, *plan.outputs.values()) as b:
            yield Session(plan, lambda: plan(a, out=b))


@contextmanager
def ours(
    graph: clcnn.Graph, x: np.ndarray, device: clcnn.Device, precision: str
) -> Iterator[tuple[Any, Session]]:
    """A plan and its session."""
    with (
        clcnn.compile(graph, device=device, precision=precision) as plan,
        of_plan(plan, x, device) as session,
    ):
        yield plan, session


def opened(name: str) -> clcnn.Device | None:
    """A device; None where there is no such one, which is told."""
    try:
        return clcnn.Device(name)
    except clcnn.NoDeviceError as error:
        print(f"skipped: {str(error).splitlines()[0]}")
        return None
