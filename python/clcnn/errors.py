"""Every exception that clcnn raises by itself.

All derive from `Error` and from the builtin that says the same, so that `except ValueError` works too.
C-level failures of the host's memory are MemoryError, and broken invariants SystemError.
"""

from __future__ import annotations

from clcnn._core import (
    ArgumentError,
    BuildError,
    DeviceError,
    DeviceMemoryError,
    DtypeError,
    Error,
    NoDeviceError,
    RunTimeoutError,
    ShapeError,
    StateError,
    UnsupportedError,
)

__all__ = [
    "ArgumentError",
    "BuildError",
    "DeviceError",
    "DeviceMemoryError",
    "DtypeError",
    "Error",
    "NoDeviceError",
    "RunTimeoutError",
    "ShapeError",
    "StateError",
    "UnsupportedError",
]
