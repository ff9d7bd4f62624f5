"""NumPy's .npz, read without pickle and without trusting the sizes it declares."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import IO

import numpy as np

from .archive import DAMAGE
from .errors import WeightsError, shown
from .source import element_count, read_array

MAX_EXPANSION = 64  # declared bytes per byte of file; deflate reaches 1000, real weights stay below 20
EXPANSION_FLOOR = 64 << 20  # bytes that any file may expand to, so that small files of zeros load
HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read(archive: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    """Every array of an archive of `size` bytes by name (without `.npy`), C-contiguous, native byte order."""
    members = archive.infolist()
    declared = sum(info.file_size for info in members)
    limit = max(EXPANSION_FLOOR, MAX_EXPANSION * size)
    if declared > limit:
        raise WeightsError(
            f"the archive declares {declared} bytes of content, over the limit of {limit} "
            f"for a file of {size} bytes"
        )
    return {info.filename.removesuffix(".npy"): read_member(archive, info) for info in members}


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """One .npy member as an array; the header must account for every byte of the member."""
    try:
        with archive.open(info) as stream:
            return read_npy(stream, info.file_size)
    except DAMAGE as error:
        raise WeightsError(f"array {shown(info.filename)}: {error}") from error


def is_plain(dtype: np.dtype) -> bool:
    """Whether these are numbers that all platforms have: no long double."""
    return dtype.kind in "biufc" and dtype.itemsize <= (8 if dtype.kind == "f" else 16)


def read_npy(stream: IO[bytes], size: int) -> np.ndarray:
    """The array in a .npy stream of `size` bytes."""
    try:
        shape, fortran_order, dtype = HEADER_READERS[np.lib.format.read_magic(stream)](stream)
    except (
        Exception
    ) as error:  # NumPy evaluates the header: from SyntaxError to TokenError and RecursionError
        raise WeightsError(f"not a .npy header: {shown(str(error), 200)}") from error
    if not is_plain(dtype):
        raise WeightsError(f"dtype {shown(dtype)} is not a plain number")
    count = element_count(shape, dtype.itemsize)
    if count * dtype.itemsize != size - stream.tell():
        raise WeightsError(
            f"shape {shape} of {dtype} needs {count * dtype.itemsize} bytes, "
            f"the member has {size - stream.tell()}"
        )
    flat = read_array(stream, count, dtype)
    stream.read(1)  # reaching the end makes zipfile compare the CRC-32
    if fortran_order:
        return flat.reshape(shape[::-1]).transpose().copy(order="C")
    return flat.reshape(shape)


def write(path: str, state: Mapping[str, np.ndarray]) -> None:
    """Write the arrays uncompressed. Not by `numpy.savez`: it takes names as keywords, and "file" clashes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in state.items():
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(header.getvalue())
                stream.write(array.data if array.size else b"")
