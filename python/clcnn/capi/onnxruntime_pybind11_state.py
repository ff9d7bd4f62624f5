"""onnxruntime's exceptions, as programs catch them: each stands for what clcnn raises instead.

from clcnn.capi.onnxruntime_pybind11_state import InvalidArgument
"""

from __future__ import annotations

from clcnn.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    Error,
    ModelError,
    NoDeviceError,
    ShapeError,
    StateError,
    UnsupportedError,
)

Fail = RuntimeException = EngineError = Error
EPFail = (DeviceError, NoDeviceError)
DeviceReset = DeviceError
InvalidArgument = (ArgumentError, ShapeError, DtypeError)
InvalidGraph = InvalidProtobuf = ModelError
ModelLoadCanceled = ModelLoaded = ModelRequiresCompilation = NoModel = StateError
NoSuchFile = NotFound = FileNotFoundError
NotImplemented = UnsupportedError

__all__ = [
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
]
