"""Small things that tests of the binding share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import _core
from runner import ON_VECTORS, has_blocks


def none_missing(missing: Iterable[Any], edit: str, run: str) -> None:
    """Fails if anything is missing: what it is, the file to edit, and the command to try it."""
    names = sorted(map(str, missing))
    assert not names, f"{', '.join(names)}\n    edit: {edit}\n    then run: {run}"


def need_blocks(device: clcnn.Device, op: str, algo: str) -> None:
    """Skips the test of an algorithm on channel blocks, or in vectors as wide, where the device has none."""
    if (op, algo) in ON_VECTORS and not has_blocks(device):
        pytest.skip("the device has no channel blocks")


def computed(device: clcnn.Device, op: str, algo: str, *arrays: Any) -> Any:
    """One layer by this algorithm, of which every array is an input."""
    graph = _core.Graph()
    values = [graph.input(f"x{i}", array.shape) for i, array in enumerate(arrays)]
    graph.output(graph.node(op, "y", values, {})[0], "out")
    with _core.Plan(device, graph, overrides={"y": algo}) as plan:
        return plan.run([np.ascontiguousarray(array, np.float32) for array in arrays])[0]


def need_tensor_cores(device: clcnn.Device, op: str, algo: str) -> None:
    """Skips the test of an algorithm for tensor cores where the device has not those that it needs."""
    needed = _core.ops()[op]["algos"][algo]["compute_capability"]
    if device.compute_capability < needed:
        pytest.skip(f"{algo} needs an NVIDIA GPU of compute capability {needed / 10}")


def refused(call: Callable[[], Any], kind: type[clcnn.Error], builtin: type[Exception], *parts: str) -> None:
    """`call` raises `kind`, which is also `builtin`, with all these parts in its message."""
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, builtin)
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in {caught.value}"


def python(code: str, limit: float = 300, **environment: str) -> str:
    """Runs code in a fresh interpreter, warnings being errors, and returns what it printed; at most `limit`
    seconds. The default device there is the one under test, and it can import the modules of this folder."""
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=limit,
        env={"CLCNN_DEVICE": DEVICE, **os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
