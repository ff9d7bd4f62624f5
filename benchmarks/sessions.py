"""A loaded net behind one interface, whoever computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import common
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


def onnxruntime_session(data: bytes) -> Any:
    """onnxruntime's session of a model, on all cores that this process may use."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = common.cores()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def beside_onnxruntime(
    case: str,
    data: bytes,
    feed_of: Callable[[list[Any]], dict[str, np.ndarray]],
    error_of: Callable[[list[np.ndarray], list[np.ndarray]], float],
    args: Any,
) -> dict[str, Any]:
    """A result for an ONNX model in sessions of both. feed_of: of the model's inputs; error_of: of all
    results, before anything is timed, raises common.Wrong. args: device, rounds, seconds."""
    theirs = onnxruntime_session(data)
    ours = clcnn.InferenceSession(data, device=args.device)
    feed = feed_of(theirs.get_inputs())
    error = error_of(ours.run(None, feed), theirs.run(None, feed))
    runs = {"clcnn": lambda: ours.run(None, feed), "onnxruntime": lambda: theirs.run(None, feed)}
    times = common.interleave(runs, args.rounds, args.seconds)
    mine, other = times["clcnn"]["min"], times["onnxruntime"]["min"]
    return {
        "case": case, "batch": 1, "precision": "highest", "clcnn_ms": mine, "peer": "onnxruntime",
        "peer_ms": other, "ratio": other / mine, "rms_error": error,
    }  # fmt: skip
