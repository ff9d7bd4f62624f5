"""Every exception that clcnn raises by itself.

All derive from `Error` and from the builtin that says the same, so that `except ValueError` works too.
C-level failures of the host's memory are MemoryError, and broken invariants SystemError.

Examples
--------
>>> import clcnn
>>> try:
...     clcnn.zoo.get("lenet6")
... except clcnn.ArgumentError as error:
...     print(isinstance(error, ValueError), str(error)[:39])
True there is no net 'lenet6' in the zoo; it
>>> clcnn.DeviceMemoryError.__bases__[0] is clcnn.DeviceError
True
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


class ModelError(Error, ValueError):
    """A model file, or the model in it, breaks a rule of its format: the message names the place and the
    rule."""


class CheckpointError(Error, ValueError):
    """A checkpoint is damaged, or of another net or optimiser: the message lists all differences."""


class NonFiniteError(Error, ArithmeticError):
    """A training step gave a loss or a gradient that is infinite or no number, and changed nothing."""


__all__ = [
    "ArgumentError",
    "BuildError",
    "CheckpointError",
    "DeviceError",
    "DeviceMemoryError",
    "DtypeError",
    "Error",
    "ModelError",
    "NoDeviceError",
    "NonFiniteError",
    "RunTimeoutError",
    "ShapeError",
    "StateError",
    "UnsupportedError",
]
