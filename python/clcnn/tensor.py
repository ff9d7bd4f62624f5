"""Tensor: values that stay on a device between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clcnn import _arrays, _core
from clcnn.device import DeviceInfo, get
from clcnn.errors import DtypeError
from clcnn.report import size

DTYPES = {np.dtype(name): name for name in ("float32", "int64", "int32", "bool", "uint8")}
CPU = (1, 0)  # DLPack's kDLCPU, device 0


class Tensor(_core.Tensor):
    """Values in device memory, in C order, not initialised. Plans take tensors as inputs and as `out=`.

    Parameters
    ----------
    device : Device or selector
        See clcnn.Device.
    shape : sequence of int
        Every dimension at least 1.
    dtype : {"float32", "int64", "int32", "bool", "uint8"}

    Raises
    ------
    ShapeError, DtypeError, DeviceMemoryError
    StateError
        The device is closed.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> with clcnn.Tensor.from_numpy(np.ones((2, 3), np.float32)) as tensor:
    ...     tensor.numpy().sum().item()
    6.0
    """

    __slots__ = ()

    def __new__(
        cls,
        device: str | int | DeviceInfo | _core.Device | None,
        shape: Sequence[int],
        dtype: str = "float32",
    ) -> Tensor:
        return super().__new__(cls, get(device), shape, dtype)

    @classmethod
    def from_numpy(
        cls, array: NDArray[Any], device: str | int | DeviceInfo | _core.Device | None = None
    ) -> Tensor:
        """A tensor with the values and the dtype of an array.

        Parameters
        ----------
        array : array
            C-contiguous, of float32, int64, int32, bool or uint8.
        device : Device or selector, optional
            See clcnn.Device.

        Returns
        -------
        Tensor

        Raises
        ------
        DtypeError, ShapeError, ArgumentError
            No array or another dtype; an empty one; one that is not contiguous.
        NoDeviceError, DeviceMemoryError

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.Tensor.from_numpy(np.zeros((2, 3), np.int64)) as tensor:
        ...     tensor.shape, tensor.dtype, tensor.nbytes
        ((2, 3), dtype('int64'), 48)
        """
        if not isinstance(array, np.ndarray):
            raise DtypeError(f"Tensor.from_numpy: expected a NumPy array, got {type(array).__name__}")
        made = cls(device, array.shape, DTYPES.get(array.dtype, "float32"))
        try:
            made.write(array)
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def from_dlpack(cls, x: Any, device: str | int | DeviceInfo | _core.Device | None = None) -> Tensor:
        """A tensor with a copy of the values of another library's tensor in host memory.

        Parameters
        ----------
        x : object
            With `__dlpack__` or `__array__`, such as a torch.Tensor.
        device : Device or selector, optional
            See clcnn.Device.

        Returns
        -------
        Tensor

        Raises
        ------
        ArgumentError
            A tensor on another device, a sparse one, and one that needs gradients. Others as from_numpy().

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.Tensor.from_dlpack(np.ones((2, 3), np.float32).T) as tensor:
        ...     tensor.shape
        (3, 2)
        """
        array = _arrays.host_array(x, "Tensor.from_dlpack")
        return cls.from_numpy(np.require(array, array.dtype.newbyteorder("="), ("C", "A")), device)

    def numpy(self) -> NDArray[Any]:
        """The values as a new array in host memory; read(out) writes them to an array that is there.

        Returns
        -------
        array
            C-contiguous, of the tensor's shape and dtype.

        Raises
        ------
        StateError
            The tensor is closed.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (1, 2)) as plan:
        ...     y = clcnn.Tensor(plan.device, (1, 2))
        ...     plan([[-1.0, 2.0]], out=y).numpy().tolist()
        [[0.0, 2.0]]
        """
        return self.read()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a clcnn.Tensor is on a device: an array of its values is always a copy")
        array = self.read()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Exports a host copy of the values (DLPack's kDLCPU). Raises BufferError for what that cannot be."""
        if stream is not None:
            raise BufferError("a clcnn.Tensor is exported from host memory, where stream must be None")
        if dl_device is not None and tuple(dl_device) != CPU:
            raise BufferError(
                f"a clcnn.Tensor is exported to the host {CPU} only, not to device {tuple(dl_device)}"
            )
        if copy is False:
            raise BufferError("a clcnn.Tensor is on a device: exporting its values is always a copy")
        if max_version is None:  # NumPy 1 does not know the argument
            return self.read().__dlpack__()
        return self.read().__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __enter__(self) -> Tensor:
        return self

    def _repr_html_(self) -> str:
        shape = " × ".join(map(str, self.shape)) or "scalar"
        return f"<code>clcnn.Tensor</code> {shape} {self.dtype} ({size(self.nbytes)}) on {self.device.name}"
