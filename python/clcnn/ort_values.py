"""onnxruntime's OrtValue and IOBinding: inputs and outputs of a session that stay where they are.

    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "opencl")  # a clcnn.Tensor on the session's device
    session.run_with_iobinding(binding)
    y = binding.get_outputs()[0]

Device memory is that of clcnn.Tensor; pointers are taken in host memory alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clcnn import _arguments, _arrays, _core, session_options
from clcnn._session.targets import HOST, NEW_TENSOR, at_address, run_into
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.tensor import Tensor

if TYPE_CHECKING:
    from clcnn.session import InferenceSession

__all__ = ["IOBinding", "OrtDevice", "OrtValue"]

PROVIDER_OF = {"cuda": "CUDAExecutionProvider", "gpu": "CUDAExecutionProvider", "dml": "DmlExecutionProvider"}
OPENCL = "opencl"  # the device that is taken where none is named
WORDS = {"float32": "float", "float64": "double"}  # onnxruntime's, where they are not NumPy's


class OrtDevice:
    """Where values are, as onnxruntime says it.

    Parameters
    ----------
    device_type : str
        "cpu", "cuda" or "opencl"; others are taken where they are used, or refused there.
    device_id : int
        The number among devices of this type.

    Raises
    ------
    DtypeError
        device_type is no string.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.OrtDevice.make("opencl", 0).device_type()
    'opencl'
    """

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        self._type, self._id = _arguments.text(device_type, "device_type"), int(device_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int) -> OrtDevice:
        """As the constructor.

        Parameters
        ----------
        ort_device_name : str
        device_id : int

        Returns
        -------
        OrtDevice
        """
        return OrtDevice(ort_device_name, device_id)

    def device_type(self) -> str:
        """The type's name."""
        return self._type

    def device_id(self) -> int:
        """The number among devices of this type."""
        return self._id


def _opened(device_type: str, device_id: int) -> Any:
    """What names the device to clcnn. Raises ArgumentError, NoDeviceError."""
    if device_type == OPENCL:
        return None if device_id == 0 else device_id
    if device_type not in PROVIDER_OF:
        known = ", ".join([*HOST, OPENCL, *PROVIDER_OF])
        raise ArgumentError(f"device_type {device_type!r} is none of {known}")
    return session_options.choose([(PROVIDER_OF[device_type], {"device_id": device_id})], None).device


class OrtValue:
    """An array in host memory, or a clcnn.Tensor on a device.

    Parameters
    ----------
    data : array or Tensor
        Kept, not copied.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32)).shape()
    [2, 3]
    """

    def __init__(self, data: NDArray[Any] | _core.Tensor) -> None:
        self._data = data

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """The array itself for "cpu", else a tensor with its values.

        Parameters
        ----------
        numpy_obj : array
            Or a tensor of another library in host memory.
        device_type : str
            "cpu", "cuda_pinned", "opencl", "cuda", "gpu" or "dml". Default "cpu".
        device_id : int
            The number among devices of this type. Default 0.

        Returns
        -------
        OrtValue

        Raises
        ------
        ArgumentError
            Another device_type.
        NoDeviceError, DeviceMemoryError
            There is no such device; its memory is full.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32), "opencl").device_name()
        'opencl'
        """
        array = _arrays.host_array(numpy_obj, "OrtValue")
        if device_type in HOST:
            return OrtValue(array)
        return OrtValue(Tensor.from_dlpack(array, _opened(device_type, device_id)))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: DTypeLike, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Memory for values of a shape and a type: zeros in host memory, not initialised on devices.

        Parameters
        ----------
        shape : sequence of int
        element_type : NumPy's dtype
        device_type, device_id
            As for ortvalue_from_numpy().

        Returns
        -------
        OrtValue

        Raises
        ------
        ArgumentError, DtypeError, ShapeError
            Another device_type; a type or shape that a clcnn.Tensor cannot have.
        NoDeviceError, DeviceMemoryError

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.OrtValue.ortvalue_from_shape_and_type((2, 3), np.int64).data_type()
        'tensor(int64)'
        """
        dtype = np.dtype(element_type)
        if device_type in HOST:
            return OrtValue(np.zeros(tuple(shape), dtype))
        return OrtValue(Tensor(_opened(device_type, device_id), shape, dtype.name))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A tensor of another library in host memory, without a copy.

        Parameters
        ----------
        data : object
            With `__dlpack__` or `__array__`.
        is_bool_tensor : bool
            Its bytes are bools. Default False.

        Returns
        -------
        OrtValue

        Raises
        ------
        ArgumentError
            A tensor on another device, a sparse one, and one that needs gradients.
        """
        array = _arrays.host_array(data, "OrtValue")
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    @property
    def data(self) -> NDArray[Any] | _core.Tensor:
        """The array or tensor itself."""
        return self._data

    def numpy(self) -> NDArray[Any]:
        """The values in host memory: the array itself, or a copy of the tensor's."""
        return np.asarray(self._data)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._data, dtype) if copy else np.asarray(self._data, dtype)

    def shape(self) -> list[int]:
        """The sizes of the dimensions."""
        return list(self._data.shape)

    def data_type(self) -> str:
        """The type in onnxruntime's words: "tensor(float)"."""
        name = np.dtype(self._data.dtype).name
        return f"tensor({WORDS.get(name, name)})"

    def device_name(self) -> str:
        """ "cpu" for host memory, else "opencl"."""
        return OPENCL if isinstance(self._data, _core.Tensor) else "cpu"

    def is_tensor(self) -> bool:
        """True: there is nothing else."""
        return True

    def has_value(self) -> bool:
        """True: no value is optional."""
        return True

    def data_ptr(self) -> int:
        """The address of the first element. Raises UnsupportedError for a tensor on a device."""
        if isinstance(self._data, _core.Tensor):
            raise UnsupportedError("OrtValue.data_ptr(): OpenCL memory has no address; pass the value itself")
        address: int = self._data.ctypes.data
        return address

    def update_inplace(self, np_arr: Any) -> None:
        """Takes other values of the same shape and type.

        Parameters
        ----------
        np_arr : array

        Raises
        ------
        ArgumentError, ShapeError, DtypeError
            The shape or the type is another one.
        """
        if isinstance(self._data, _core.Tensor):
            self._data.write(_arrays.host_array(np_arr, "OrtValue"))
            return
        array = _arrays.typed(np_arr, self._data.dtype, "OrtValue")
        if array.shape != self._data.shape or array.dtype != self._data.dtype:
            raise ArgumentError(
                f"OrtValue.update_inplace(): expected {self._data.dtype} {list(self._data.shape)}, got "
                f"{array.dtype} {list(array.shape)}"
            )
        np.copyto(self._data, array)


class IOBinding:
    """Where a session's run finds its inputs and leaves its outputs.

    Kernels write straight to what is bound, unless an output has to be cut or cast at the end.

    Parameters
    ----------
    session : InferenceSession
        session.io_binding() makes a binding for it.

    Examples
    --------
    >>> import clcnn
    >>> session = clcnn.InferenceSession("net.onnx")  # doctest: +SKIP
    >>> binding = session.io_binding()  # doctest: +SKIP
    >>> binding.bind_cpu_input("x", x)  # doctest: +SKIP
    >>> binding.bind_output("y", "opencl")  # doctest: +SKIP
    >>> session.run_with_iobinding(binding)  # doctest: +SKIP
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}  # None: a new array; NEW_TENSOR: a new tensor
        self._results: dict[str, Any] = {}

    # ---- inputs ----

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """An array for an input.

        Parameters
        ----------
        name : str
        arr_on_cpu : array
            Kept, not copied.

        Raises
        ------
        ArgumentError
            The model has no such input.
        """
        self._inputs[self._known(name, self._session.get_inputs())] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int
    ) -> None:
        """Host memory at an address for an input.

        Parameters
        ----------
        name : str
        device_type : {"cpu", "cuda_pinned"}
        device_id : int
            Any.
        element_type : NumPy's dtype
        shape : sequence of int
        buffer_ptr : int
            The address, which must stay readable until the input is bound anew.

        Raises
        ------
        ArgumentError
            The model has no such input.
        UnsupportedError
            Memory of another device.
        """
        self.bind_cpu_input(name, at_address(device_type, element_type, shape, buffer_ptr, name))

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """An OrtValue, or a clcnn.Tensor, for an input.

        Parameters
        ----------
        name : str
        ortvalue : OrtValue or Tensor
            Kept, not copied.

        Raises
        ------
        ArgumentError
            The model has no such input.
        """
        self.bind_cpu_input(name, ortvalue.data if isinstance(ortvalue, OrtValue) else ortvalue)

    # ---- outputs ----

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Wants an output: in a new array, in a new tensor, or in host memory at an address.

        Parameters
        ----------
        name : str
        device_type : str
            "cpu" or "cuda_pinned": an array. Others: a clcnn.Tensor of the session's device.
        device_id : int
            Any.
        element_type : NumPy's dtype, optional
        shape : sequence of int, optional
            Both are needed for an address.
        buffer_ptr : int, optional
            The address of host memory that takes the output.

        Raises
        ------
        ArgumentError
            The model has no such output, or element_type or shape is missing.
        UnsupportedError
            An address in memory of another device.
        """
        target: Any = None if device_type in HOST else NEW_TENSOR
        if buffer_ptr is not None:
            target = at_address(device_type, element_type, shape, buffer_ptr, name)
        self._outputs[self._known(name, self._session.get_outputs())] = target

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """An OrtValue, or a clcnn.Tensor, that takes an output.

        Parameters
        ----------
        name : str
        ortvalue : OrtValue or Tensor
            Of the output's shape and type.

        Raises
        ------
        ArgumentError
            The model has no such output.
        """
        target = ortvalue.data if isinstance(ortvalue, OrtValue) else ortvalue
        self._outputs[self._known(name, self._session.get_outputs())] = target

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return [OrtValue(self._results[name]) for name in self._outputs if name in self._results]

    def copy_outputs_to_cpu(self) -> list[NDArray[Any]]:
        """The outputs of the last run as arrays, in the order in which they were bound."""
        return [value.numpy() for value in self.get_outputs()]

    def synchronize_inputs(self) -> None:
        """Nothing: a run reads what is bound when it begins."""

    def synchronize_outputs(self) -> None:
        """Nothing: a run has ended when run_with_iobinding() returns."""

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs, and the results of the last run."""
        self._outputs.clear()
        self._results.clear()

    def run(self, timeout: float | None = None) -> None:
        """What session.run_with_iobinding() does.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Raises
        ------
        ArgumentError
            No output is bound. And what session.run() raises.
        """
        if not self._outputs:
            raise ArgumentError("run_with_iobinding: no output is bound; see bind_output()")
        self._results = run_into(self._session, self._inputs, self._outputs, timeout)

    @staticmethod
    def _known(name: str, rows: Sequence[Any]) -> str:
        names = [row.name for row in rows]
        if name not in names:
            raise ArgumentError(f"io_binding: there is no {_arguments.shown(name)}; the model has {names}")
        return name
