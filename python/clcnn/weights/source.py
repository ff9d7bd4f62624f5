"""Where weights are read from: one seekable stream of known size, and exact reads into arrays."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

import numpy as np

from clcnn import _arguments
from clcnn.errors import DtypeError

from .errors import WeightsError

MAX_RANK = 32  # NumPy 1's own limit; no layer comes near it


class Source:
    """A seekable binary stream with the name that messages give it and its size in bytes.

    path: of the file, if it was opened from one.
    """

    def __init__(self, stream: BinaryIO, name: str, path: str | None = None) -> None:
        self.stream = stream
        self.name = name
        self.path = path
        self.size = stream.seek(0, os.SEEK_END)
        stream.seek(0)


@contextmanager
def open_source(source: object) -> Iterator[Source]:
    """Open a path, bytes or a binary file object as a `Source`; only what was opened here is closed."""
    if isinstance(source, (str, os.PathLike)):
        path = _arguments.path(source, "weights")
        with open(path, "rb") as stream:
            yield Source(stream, os.fspath(source), path)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        yield Source(io.BytesIO(source), f"<{len(source)} bytes>")
    elif hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, bytes):
            raise DtypeError(f"weights must be opened in binary mode: read() gave {type(data).__name__}")
        yield Source(io.BytesIO(data), str(getattr(source, "name", f"<{len(data)} bytes>")))
    else:
        raise DtypeError(f"weights come from a path, bytes or a binary file, not {type(source).__name__}")


def read_array(stream: IO[bytes], count: int, dtype: np.dtype) -> np.ndarray:
    """Read `count` elements of `dtype` into a new 1-D array in native byte order.

    The caller has checked that the stream can hold them: this allocates before it reads.
    Raises WeightsError when the stream ends early.
    """
    array = np.empty(count, dtype)
    left = array.data.cast("B") if count else memoryview(b"")
    while left:
        got = stream.readinto(left)  # type: ignore[attr-defined]  # files and zip members have it, IO does not
        if not got:
            raise WeightsError(f"the data ends {len(left)} bytes early")
        left = left[got:]
    return native(array)


def native(array: np.ndarray) -> np.ndarray:
    """The array in native byte order; bools as 0 or 1, since no other byte has a meaning in NumPy."""
    if array.dtype.kind == "b":
        return np.asarray(array.view(np.uint8) != 0)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def element_count(shape: tuple[int, ...], itemsize: int) -> int:
    """Number of elements of `shape`; WeightsError when it cannot be an array's shape."""
    if len(shape) > MAX_RANK:
        raise WeightsError(f"a rank of {len(shape)} is over the limit of {MAX_RANK}")
    count = span = 1
    for size in shape:
        if size < 0:
            raise WeightsError(f"shape {shape} has a negative size")
        count *= size
        span *= size or 1
    # NumPy refuses by the same rule, which ignores zero sizes; Python's integers cannot overflow.
    if span * itemsize >= 2**63:
        raise WeightsError(f"shape {shape} overflows 64 bits")
    return count
