"""clcnn runs convolutional networks on any OpenCL device.

    import clcnn
    from clcnn import nn

    net = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(4704, 10))
    plan = clcnn.compile(net, (1, 1, 28, 28), device="cpu")
    y = plan(x)  # NumPy in, NumPy out

Importing this package opens no device; submodules and the C core are loaded when first used.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from clcnn._version import __version__

if TYPE_CHECKING:
    from clcnn import capi, classify, errors, image, nn, onnx, ops, optim, train, weights, zoo
    from clcnn._arguments import Precision
    from clcnn.calibration import calibrate
    from clcnn.compiler import compile
    from clcnn.device import Device, DeviceInfo, devices
    from clcnn.errors import (
        ArgumentError,
        BuildError,
        CheckpointError,
        DeviceError,
        DeviceMemoryError,
        DtypeError,
        Error,
        ModelError,
        NoDeviceError,
        NonFiniteError,
        RunTimeoutError,
        ShapeError,
        StateError,
        UnsupportedError,
    )
    from clcnn.gradients import grad
    from clcnn.graph import Graph
    from clcnn.model_io import load, save
    from clcnn.ort_values import IOBinding, OrtDevice, OrtValue
    from clcnn.plan import Plan
    from clcnn.plan_group import PlanGroup
    from clcnn.report import Profile
    from clcnn.session import InferenceSession, ModelMetadata, NodeArg
    from clcnn.session_options import (
        ExecutionMode,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_build_info,
        get_device,
        get_version_string,
        preload_dlls,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_seed,
    )
    from clcnn.state import State
    from clcnn.tensor import Tensor
    from clcnn.value import Value
    from clcnn.zeros import LayerZeros, Zeros

__all__ = [
    "ArgumentError",
    "BuildError",
    "CheckpointError",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "DeviceMemoryError",
    "DtypeError",
    "Error",
    "ExecutionMode",
    "Graph",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "LayerZeros",
    "ModelError",
    "ModelMetadata",
    "NoDeviceError",
    "NodeArg",
    "NonFiniteError",
    "OrtDevice",
    "OrtValue",
    "Plan",
    "PlanGroup",
    "Precision",
    "Profile",
    "RunOptions",
    "RunTimeoutError",
    "SessionOptions",
    "ShapeError",
    "State",
    "StateError",
    "Tensor",
    "UnsupportedError",
    "Value",
    "Zeros",
    "__version__",
    "calibrate",
    "capi",
    "classify",
    "compile",
    "devices",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "errors",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "grad",
    "image",
    "load",
    "nn",
    "onnx",
    "ops",
    "optim",
    "preload_dlls",
    "save",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
    "train",
    "weights",
    "zoo",
]

_MODULES = {"capi", "classify", "errors", "image", "nn", "onnx", "ops", "optim", "train", "weights", "zoo"}
_HOMES = {
    "calibrate": "calibration",
    "compile": "compiler",
    "Device": "device",
    "DeviceInfo": "device",
    "devices": "device",
    "grad": "gradients",
    "Graph": "graph",
    "Value": "value",
    "load": "model_io",
    "save": "model_io",
    "Plan": "plan",
    "PlanGroup": "plan_group",
    "Precision": "_arguments",
    "Profile": "report",
    "IOBinding": "ort_values",
    "OrtDevice": "ort_values",
    "OrtValue": "ort_values",
    "InferenceSession": "session",
    "ModelMetadata": "session",
    "NodeArg": "session",
    "ExecutionMode": "session_options",
    "GraphOptimizationLevel": "session_options",
    "RunOptions": "session_options",
    "SessionOptions": "session_options",
    "get_all_providers": "session_options",
    "get_available_providers": "session_options",
    "get_device": "session_options",
    "disable_telemetry_events": "session_options",
    "enable_telemetry_events": "session_options",
    "get_build_info": "session_options",
    "get_version_string": "session_options",
    "preload_dlls": "session_options",
    "set_default_logger_severity": "session_options",
    "set_default_logger_verbosity": "session_options",
    "set_seed": "session_options",
    "State": "state",
    "Tensor": "tensor",
    "LayerZeros": "zeros",
    "Zeros": "zeros",
}

# Names of onnxruntime's module that a program may look for here, and what to use instead.
_NOT_OFFERED = {
    "SparseTensor": "tensors are dense",
    "set_global_thread_pool_sizes": "OpenCL's driver has the threads",
}

if os.environ.get("CLCNN_LOG"):
    importlib.import_module("clcnn._log")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"clcnn.{name}")
    if name not in __all__:
        instead = f": {_NOT_OFFERED[name]}" if name in _NOT_OFFERED else ""
        raise AttributeError(f"module 'clcnn' has no attribute '{name}'{instead}")
    value = getattr(importlib.import_module(f"clcnn.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
