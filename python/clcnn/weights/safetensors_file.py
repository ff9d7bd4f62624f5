"""safetensors, through the `safetensors` package, with the checks that the package leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from .errors import WeightsError, shown
from .source import Source, element_count, read_array

MAX_HEADER = 100_000_000  # bytes; the format's own limit
LENGTH_BYTES = 8
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "C64": "<c8",
    "BOOL": "?",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "<u1",
}


def is_safetensors(head: bytes) -> bool:
    """Whether a file that begins with these bytes is in the format: a 64-bit length, then a JSON object."""
    return len(head) > LENGTH_BYTES and head[LENGTH_BYTES] == ord("{")


def read(source: Source) -> dict[str, np.ndarray]:
    """Every tensor of the file; bfloat16 is widened to float32, other dtypes stay.

    Each is read from the file to where it stays, so that what a path names is in memory once.
    """
    length = int.from_bytes(source.stream.read(LENGTH_BYTES), "little")
    if length > min(MAX_HEADER, source.size - LENGTH_BYTES):
        raise WeightsError(
            f"a header of {length} bytes is over the limit of {MAX_HEADER} or past the file's end"
        )
    header = source.stream.read(length)
    check(source)
    rows = rows_of(header)
    return {name: read_tensor(source, name, row, LENGTH_BYTES + length) for name, row in rows.items()}


def check(source: Source) -> None:
    """Lets the package look at header and size of the file. Raises WeightsError with what it says."""
    package = import_package()
    try:
        if source.path is None:
            source.stream.seek(0)
            package.deserialize(source.stream.read())
        else:
            with package.safe_open(source.path, framework="np"):
                pass
    except package.SafetensorError as error:
        raise WeightsError(str(error)) from error


def rows_of(header: bytes) -> dict[str, dict[str, Any]]:
    """The tensors' rows, in the order of a JSON header that the package has accepted.

    Raises when a key stands there twice, of which the package silently keeps the last.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys: dict[str, object] = {}
        for name, value in pairs:
            if name in keys:
                raise WeightsError(f"the header has the key {shown(name)} twice")
            keys[name] = value
        return keys

    rows = json.loads(header, object_pairs_hook=unique)
    return {name: row for name, row in rows.items() if name != "__metadata__"}


def read_tensor(source: Source, name: str, row: Mapping[str, Any], base: int) -> np.ndarray:
    """The array of a row of the header, whose places count from `base`."""
    try:
        code = DTYPES.get(row["dtype"])
        if code is None:
            raise WeightsError(f"dtype {shown(row['dtype'])} is not supported; known: {', '.join(DTYPES)}")
        dtype = np.dtype(code)
        shape = tuple(row["shape"])
        count = element_count(shape, dtype.itemsize)
    except WeightsError as error:
        raise WeightsError(f"tensor {shown(name)}: {error}") from error
    source.stream.seek(base + row["data_offsets"][0])
    flat = read_array(source.stream, count, dtype)
    return (widen_bfloat16(flat) if row["dtype"] == "BF16" else flat).reshape(shape)


def widen_bfloat16(bits: np.ndarray) -> np.ndarray:
    """float32 values of bfloat16 bits (uint16): bfloat16 is the upper half of float32, so this is exact."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def write(path: str, state: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None) -> None:
    """Write C-contiguous arrays; WeightsError for a dtype that the format lacks."""
    package = import_package()
    from safetensors.numpy import save

    codes = {np.dtype(code) for code in DTYPES.values()}
    for name, array in state.items():
        if array.dtype.newbyteorder("<") not in codes:
            raise WeightsError(f"tensor {shown(name)}: safetensors has no dtype for {array.dtype}")
    try:
        content = save(dict(state), metadata=dict(metadata) if metadata else None)
    except package.SafetensorError as error:
        raise WeightsError(str(error)) from error
    with open(path, "wb") as stream:
        stream.write(content)


def import_package() -> ModuleType:
    """The `safetensors` package, imported only when a file needs it."""
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            "safetensors files need the package safetensors: pip install safetensors"
        ) from error
    return safetensors
