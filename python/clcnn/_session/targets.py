"""Where bound inputs and outputs of a session are, and runs that write straight there."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _core
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.tensor import Tensor

if TYPE_CHECKING:
    from clcnn.session import InferenceSession

HOST = ("cpu", "cuda_pinned")  # onnxruntime's names of memory that the host can read
NEW_TENSOR = object()


def at_address(device_type: str, element_type: Any, shape: Any, address: int, name: str) -> NDArray[Any]:
    """Host memory as an array."""
    if device_type not in HOST:
        raise UnsupportedError(
            f"{name}: an address in the memory of {device_type!r} cannot be used; bind a clcnn.Tensor with "
            "bind_ortvalue_input() or bind_ortvalue_output()"
        )
    if element_type is None or shape is None:
        raise ArgumentError(f"{name}: an address needs element_type and shape")
    dtype = np.dtype(element_type)
    count = int(np.prod(tuple(shape), dtype=np.int64))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(int(address))
    return np.frombuffer(memory, dtype).reshape(tuple(shape))


def run_into(
    session: InferenceSession, feed: Mapping[str, Any], targets: Mapping[str, Any], timeout: float | None
) -> dict[str, Any]:
    """One run of a session whose outputs go where `targets` says (see IOBinding). Kernels write straight to
    what is bound, unless the output still has to be cut or cast. Raises as session.run() does."""
    found, fed, left = session.prepared(feed, timeout)
    program, plan = found.program, found.plan
    assert program is not None
    given = {}
    for name, target in targets.items():
        if plan is not None and target is not None and program.is_direct(name):
            fresh = target is NEW_TENSOR
            given[name] = (
                Tensor(session.device, plan.outputs[name], plan.output_dtypes[name]) if fresh else target
            )
    made = program.collect(plan.run(fed, given, timeout=left) if plan is not None else {})
    results = {}
    for name, target in targets.items():
        value: Any = made[name]
        if target is NEW_TENSOR and not isinstance(value, _core.Tensor):
            value = Tensor.from_dlpack(value, session.device)
        elif target is not None and target is not NEW_TENSOR and value is not target:
            _write(target, value, name)
            value = target
        results[name] = value
    return results


def _write(target: Any, array: NDArray[Any], name: str) -> None:
    """The values of an output into what was bound for it. Raises ShapeError, DtypeError, ArgumentError."""
    if isinstance(target, _core.Tensor):
        target.write(np.ascontiguousarray(array))
    elif target.shape != array.shape or target.dtype != array.dtype:
        raise ArgumentError(
            f"output {name}: expected {array.dtype} {list(array.shape)}, bound is {target.dtype} "
            f"{list(target.shape)}"
        )
    else:
        np.copyto(target, array)
