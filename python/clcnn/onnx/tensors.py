"""TensorProto -> NumPy, every size checked before anything is read; external data from inside the model's
folder only."""

from __future__ import annotations

import contextlib
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from clcnn.errors import ModelError, UnsupportedError
from clcnn.weights.errors import shown

MAX_ELEMENTS = 1 << 40  # of one tensor; the core's own limit

# Element types that a model may hold: bytes an element, and the field that has them when raw_data has not.
_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.FLOAT16: "int32_data",
    TensorProto.BFLOAT16: "int32_data",
    TensorProto.INT8: "int32_data",
    TensorProto.INT16: "int32_data",
    TensorProto.INT32: "int32_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT8: "int32_data",
    TensorProto.UINT16: "int32_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.BOOL: "int32_data",
}


NUMBERS = frozenset(_FIELDS)


def type_name(code: int) -> str:
    """ "float" for TensorProto.FLOAT: the word that onnxruntime uses in "tensor(float)"."""
    try:
        return str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"type {code}"


def to_array(tensor: TensorProto, folder: Path | None, what: str, raw: bytes | None = None) -> NDArray[Any]:
    """The values of a tensor; half precision is widened to float32.

    folder: where external data may lie, None if nowhere. raw: its raw_data, where that was taken out. Raises
    ModelError (sizes, external data) and UnsupportedError (element types that networks here do not have).
    """
    shape = checked_shape(tensor.dims, what)
    if tensor.data_type == TensorProto.UNDEFINED:
        raise ModelError(f"{what}: it has no element type")
    if tensor.data_type not in _FIELDS:
        raise UnsupportedError(
            f"{what}: elements of type {type_name(tensor.data_type)} are not supported where numbers belong"
        )
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{what}: tensors stored in segments are not supported")
    # NumPy has no bfloat16: it is the upper half of a float32.
    upper_half = tensor.data_type == TensorProto.BFLOAT16
    own = np.uint16 if upper_half else onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    dtype: np.dtype[Any] = np.dtype(own)
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        array = _external(tensor, folder, dtype, count, what).reshape(shape)
    elif raw is not None or tensor.HasField("raw_data"):
        raw = tensor.raw_data if raw is None else raw
        if len(raw) != count * dtype.itemsize:
            raise ModelError(
                f"{what}: shape {shape} of {dtype} needs {count * dtype.itemsize} bytes, "
                f"but its raw data has {len(raw)}"
            )
        array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    else:
        field = _FIELDS[tensor.data_type]
        if len(getattr(tensor, field)) != count:
            raise ModelError(
                f"{what}: shape {shape} needs {count} values, but {field} has {len(getattr(tensor, field))}"
            )
        try:
            held = np.array(tensor.int32_data, dtype) if upper_half else numpy_helper.to_array(tensor)
            array = np.asarray(held).reshape(shape)
        except (ValueError, OverflowError) as error:
            raise ModelError(f"{what}: {error}") from error
    return _doubled(array) if upper_half else widened(array)


def _doubled(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """float32 whose upper halves are these."""
    bits = halves.astype(np.uint32)
    np.left_shift(bits, 16, out=bits)  # in place: an operator would make a scalar of rank 0
    return bits.view(np.float32)


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """Half-precision floats (float16, bfloat16) as float32, everything else as it is."""
    narrow = array.dtype == np.float16 or array.dtype.name == "bfloat16"
    return array.astype(np.float32) if narrow else array


def declared_shape(shape: onnx.TensorShapeProto) -> list[int | None]:
    """The dimensions that a declaration fixes. None: any length, which some exporters write as -1 or 0."""
    return [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in shape.dim]


def checked_shape(dims: Any, what: str) -> tuple[int, ...]:
    """Dimensions as a tuple. Raises ModelError when one is negative or their product too large."""
    shape = tuple(int(n) for n in dims)
    if any(n < 0 for n in shape):
        raise ModelError(f"{what}: shape {shown(shape)} has a negative dimension")
    if math.prod(shape) > MAX_ELEMENTS or len(shape) > 64:
        raise ModelError(f"{what}: shape {shown(shape)} has more than 2^40 elements or 64 dimensions")
    return shape


# ---- external data -----------------------------------------------------------------------------------------


def _external(
    tensor: TensorProto, folder: Path | None, dtype: np.dtype[Any], count: int, what: str
) -> NDArray[Any]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(
            f"{what}: its data is in the file {shown(location)}, and a model given as bytes has no folder"
        )
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or count * dtype.itemsize)
    except ValueError as error:
        raise ModelError(f"{what}: offset and length of external data must be integers") from error
    if offset < 0 or length != count * dtype.itemsize:
        raise ModelError(
            f"{what}: it needs {count * dtype.itemsize} bytes, but its external data is "
            f"{length} bytes at offset {offset}"
        )
    with contextlib.ExitStack() as opened:
        handle = _open_inside(folder, location, what, opened)
        size = os.fstat(handle).st_size
        if offset + length > size:
            raise ModelError(
                f"{what}: file {shown(location)} has {size} bytes, too short for {length} bytes at "
                f"offset {offset}"
            )
        with os.fdopen(os.dup(handle), "rb") as file:
            array = np.fromfile(file, dtype.newbyteorder("<"), count, offset=offset)
    if array.size != count:
        raise ModelError(f"{what}: file {shown(location)} could not be read whole")
    return array.astype(dtype, copy=False)


def _open_inside(folder: Path, location: str, what: str, opened: contextlib.ExitStack) -> int:
    """Opens `location` below `folder` one component at a time, following no symbolic link, so that nothing
    outside of the folder can be reached, not even by a race."""
    parts = [part for part in location.replace("\\", "/").split("/") if part != "."]
    absolute = location.startswith(("/", "\\")) or ":" in location
    if absolute or not all(parts) or not parts or ".." in parts or "\0" in location:
        raise ModelError(
            f"{what}: external data {shown(location)} is refused: it must be a relative path inside the "
            "model's folder"
        )
    handle = -1
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_NONBLOCK if last else os.O_DIRECTORY)
        try:
            if handle < 0:
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened.callback(os.close, handle)
            handle = os.open(part, flags, dir_fd=handle)
        except FileNotFoundError as error:
            raise ModelError(
                f"{what}: the file of its external data, {shown(location)}, is missing"
            ) from error
        except OSError as error:
            raise ModelError(
                f"{what}: external data {shown(location)} is refused: {part!r} is a symbolic link or cannot "
                f"be opened ({error.strerror})"
            ) from error
        opened.callback(os.close, handle)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise ModelError(f"{what}: external data {shown(location)} is not a regular file")
    return handle
