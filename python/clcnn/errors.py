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

# What is added to the docstrings of the core's own classes, which say when each is raised.
_MORE = {
    Error: """
Examples
--------
>>> import clcnn
>>> try:
...     clcnn.Device("abacus")
... except clcnn.Error as error:
...     print(type(error).__name__)
NoDeviceError
""",
    ArgumentError: """
The message names the argument, what was given, and what may be.

Examples
--------
>>> import clcnn
>>> try:
...     clcnn.compile(clcnn.nn.ReLU(), (1, 2), precision="low")
... except ValueError as error:
...     print(type(error).__name__)
ArgumentError
""",
    ShapeError: """
Raised where a graph is built, with the layer's name, and by plans for arrays of other shapes.

Examples
--------
>>> import numpy as np
>>> import clcnn
>>> x = clcnn.Graph().input("x", (2, 3))
>>> try:
...     x + np.ones(4, np.float32)
... except clcnn.ShapeError as error:
...     print(error)
add add_1: shapes [2, 3] and [4] do not broadcast (from the right, sizes must be equal or 1)
""",
    DtypeError: """
Examples
--------
>>> import clcnn
>>> x = clcnn.Graph().input("x", (2, 3), "int64")
>>> try:
...     x.exp()
... except clcnn.DtypeError as error:
...     print(error)
exp exp_1: input "x" is int64, expected float32 (see cast)
""",
    UnsupportedError: """
Examples
--------
>>> import clcnn
>>> net = clcnn.nn.Conv2d(3, 8, 3)
>>> try:
...     clcnn.compile(net, (1, 3, 9, 9), algorithms={"conv_1": "winograd5"})
... except clcnn.UnsupportedError as error:
...     print(error)
conv conv_1: algorithm 'winograd5' cannot be used here: F(2x2, 5x5) is for 5x5 filters
""",
    BuildError: """
Raised by clcnn.compile(): by a driver's compiler that refuses a kernel, or kernels of Device(kernel_dir=).

Attributes
----------
kernel : str
    Its file, without folder and ending.
options : str
    What it was built with.
log : str
    All that the driver's compiler said.

Examples
--------
>>> import clcnn
>>> try:
...     plan = clcnn.compile(clcnn.nn.ReLU(), (1, 2))
... except clcnn.BuildError as error:
...     print(error.kernel, error.options, error.log)
""",
    DeviceError: """
Where the device was lost, close() it and open it anew.

Attributes
----------
code : int
    Of OpenCL or CLBlast.
name, call : str, or None
    The code's name, and the function that gave it.

Examples
--------
>>> import clcnn
>>> try:
...     y = clcnn.compile(clcnn.nn.ReLU(), (1, 2))([[-1.0, 1.0]])
... except clcnn.DeviceError as error:
...     print(error.call, error.name)
""",
    DeviceMemoryError: """
Examples
--------
>>> import clcnn
>>> try:
...     clcnn.compile(clcnn.nn.ReLU(), (1, 1 << 20), memory_limit="1M")
... except MemoryError as error:
...     print(type(error).__name__)
DeviceMemoryError
""",
    NoDeviceError: """
Examples
--------
>>> import clcnn
>>> try:
...     device = clcnn.Device("gpu")
... except clcnn.NoDeviceError:
...     device = clcnn.Device()
""",
    StateError: """
Examples
--------
>>> import clcnn
>>> plan = clcnn.compile(clcnn.nn.ReLU(), (1, 2))
>>> plan.close()
>>> try:
...     plan([[-1.0, 1.0]])
... except clcnn.StateError as error:
...     print(error)
the plan is closed
""",
    RunTimeoutError: """
The plan can be used again when the device has finished; a Trainer needs restore() first.

Examples
--------
>>> import clcnn
>>> with clcnn.compile(clcnn.nn.ReLU(), (1, 2)) as plan:
...     try:
...         plan([[-1.0, 1.0]], timeout=1e-9)
...     except TimeoutError as error:
...         print(type(error).__name__)
RunTimeoutError
""",
}
for _kind, _text in _MORE.items():
    _kind.__doc__ = f"{_kind.__doc__}\n{_text}"


class ModelError(Error, ValueError):
    """A model file, or the model in it, breaks a rule of its format: the message names the place and the
    rule.

    Raised by clcnn.onnx.load(), by what takes ONNX files, and where a model contradicts itself for the
    shapes given.

    Examples
    --------
    >>> import clcnn
    >>> try:
    ...     clcnn.onnx.load(b"no model")
    ... except clcnn.ModelError as error:
    ...     print(str(error)[:28])
    the model is not an ONNX mod
    """


class CheckpointError(Error, ValueError):
    """A checkpoint is damaged, or of another net or optimiser: the message lists all differences.

    Raised by clcnn.train.Trainer.resume() and restore(), before anything is changed.

    Examples
    --------
    >>> from pathlib import Path
    >>> import clcnn
    >>> from clcnn import nn, optim, train
    >>> _ = Path("last.ckpt").write_bytes(b"no checkpoint")
    >>> net = nn.Linear(2, 2)
    >>> with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
    ...     try:
    ...         trainer.restore("last.ckpt")
    ...     except clcnn.CheckpointError:
    ...         print("begin anew")
    begin anew
    """


class NonFiniteError(Error, ArithmeticError):
    """A training step gave a loss or a gradient that is infinite or no number, and changed nothing.

    Raised by clcnn.train.Trainer.step() and fit(); the message names the step and the first layer.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> from clcnn import nn, optim, train
    >>> net = nn.Linear(2, 1)
    >>> with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
    ...     try:
    ...         trainer.step(np.full((1, 2), np.inf, np.float32), np.zeros((1, 1), np.float32))
    ...     except clcnn.NonFiniteError as error:
    ...         print(str(error)[:7])
    step 1:
    """


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
