"""safetensors, through the `safetensors` package, with the checks that the package leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from .errors import WeightsError, shown
from .source import Source, element_count, native

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
    """Every tensor of the file; bfloat16 is widened to float32, other dtypes stay."""
    package = import_package()
    length = int.from_bytes(source.stream.read(LENGTH_BYTES), "little")
    if length > min(MAX_HEADER, source.size - LENGTH_BYTES):
        raise WeightsError(
            f"a header of {length} bytes is over the limit of {MAX_HEADER} or past the file's end"
        )
    header = source.stream.read(length)
    source.stream.seek(0)
    try:
        tensors = dict(package.deserialize(source.stream.read()))
    except package.SafetensorError as error:
        raise WeightsError(str(error)) from error
    # The package gives the tensors in random order; users and tests want the same one each time.
    return {name: to_array(name, tensors[name]) for name in header_names(header)}


def header_names(header: bytes) -> list[str]:
    """The tensors' names in the order of a JSON header that the package has accepted.

    Raises when a key stands there twice, of which the package silently keeps the last.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys: dict[str, object] = {}
        for name, value in pairs:
            if name in keys:
                raise WeightsError(f"the header has the key {shown(name)} twice")
            keys[name] = value
        return keys

    return [name for name in json.loads(header, object_pairs_hook=unique) if name != "__metadata__"]


def to_array(name: str, tensor: Mapping[str, Any]) -> np.ndarray:
    """The array of one entry that the package has checked against the file; it owns its memory."""
    try:
        code = DTYPES.get(tensor["dtype"])
        if code is None:
            raise WeightsError(f"dtype {shown(tensor['dtype'])} is not supported; known: {', '.join(DTYPES)}")
        dtype = np.dtype(code)
        shape = tuple(tensor["shape"])
        element_count(shape, dtype.itemsize)
    except WeightsError as error:
        raise WeightsError(f"tensor {shown(name)}: {error}") from error
    flat: np.ndarray = np.frombuffer(tensor["data"], dtype)
    if tensor["dtype"] == "BF16":
        flat = widen_bfloat16(flat)
    return native(flat).reshape(shape)


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
