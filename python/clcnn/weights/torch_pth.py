"""PyTorch checkpoints, the zip and the older stream, read without torch and without running code from them.

Formats (after torch/serialization.py):
zip     `NAME/data.pkl` with persistent ids ("storage", type, key, location, count); the raw storage `key` is
        the uncompressed member `NAME/data/key`; `NAME/byteorder` is "little" or "big".
stream  five pickles: a magic number, protocol 1001, system information, the object, the list of storage keys;
        then for each of these keys an int64 element count and the raw elements.
In both, a tensor is a call `_rebuild_tensor_v2(storage, offset, size, stride, ...)`: a window on a storage.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .archive import DAMAGE
from .errors import WeightsError, shown
from .pickle_machine import Global, Machine
from .safetensors_file import widen_bfloat16
from .source import Source, element_count, read_array

MAGIC = 0x1950A86A20F9469CFC6C
MAGIC_OPCODE = b"\x8a\x0a" + MAGIC.to_bytes(10, "little") + b"."  # LONG1 and STOP, behind two bytes of PROTO
PROTOCOL = 1001
MAX_PICKLE = 64 << 20  # bytes of data.pkl, which has about 200 a tensor
COPY_ROOM = 1 << 20  # bytes that copies of windows may take in any file
COPY_FACTOR = 4  # bytes of such copies per byte of file
WRAPPERS = (
    "state_dict",
    "model_state_dict",
    "model",
)  # keys under which training scripts keep the state dict
MAX_WRAPPING = 3

STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "ComplexFloatStorage": "c8",
    "ComplexDoubleStorage": "c16",
}


@dataclass(frozen=True)
class Storage:
    """`count` elements from `start` on in the storage `key` of the file."""

    key: str
    kind: str
    start: int
    count: int


@dataclass(frozen=True)
class Window:
    """A tensor: the elements at `offset` + sum(index * stride) of a storage."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class Storages:
    """The storages that a pickle names: key -> (kind, element count), as declared by its persistent ids."""

    def __init__(self) -> None:
        self.declared: dict[str, tuple[str, int]] = {}

    def persistent(self, identity: Any) -> Storage:
        """A whole storage, or a view on one (which files of PyTorch 0.3 and older have)."""
        if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
            raise WeightsError(f"persistent id {shown(identity)} is not a storage")
        kind, key, _, count = identity[1:5]
        kind = kind.name.rpartition(".")[2] if isinstance(kind, Global) else None
        if kind not in STORAGES or not isinstance(key, str) or not is_size(count):
            raise WeightsError(f"persistent id {shown(identity)} is not a storage of a known type")
        if self.declared.setdefault(key, (kind, count)) != (kind, count):
            raise WeightsError(f"storage {shown(key)} is declared as {count} {kind} and as something else")
        if len(identity) == 5 or identity[5] is None:
            return Storage(key, kind, 0, count)
        _, start, length = identity[5]
        if not is_size(start) or not is_size(length) or start + length > count:
            raise WeightsError(f"a view of storage {shown(key)} lies outside of its {count} elements")
        return Storage(key, kind, start, length)


def is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Window:
    """`torch._utils._rebuild_tensor[_v2]`: a window on a storage, which `check_window` judges later."""
    if not isinstance(storage, Storage) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise TypeError("a storage, an offset, a size and a stride are needed")
    return Window(storage, offset, size, stride)


def check_window(window: Window) -> None:
    """Raise unless the window lies within its storage."""
    offset, size, stride = window.offset, window.size, window.stride
    if len(size) != len(stride) or not all(map(is_size, (offset, *size, *stride))):
        raise WeightsError(
            f"offset {shown(offset)}, size {shown(size)} and stride {shown(stride)} must be "
            "non-negative 64-bit integers, as many sizes as strides"
        )
    count = element_count(size, np.dtype(STORAGES[window.storage.kind]).itemsize)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if count and last >= window.storage.count:
        raise WeightsError(
            f"size {size}, stride {stride} and offset {offset} reach element {last} of storage "
            f"{shown(window.storage.key)}, which has {window.storage.count}"
        )


def rebuild_parameter(data: Any, *_: Any) -> Any:
    """`torch._utils._rebuild_parameter[_with_state]`: the tensor itself, without hooks and state."""
    if not isinstance(data, Window):
        raise TypeError("a tensor is needed")
    return data


def ordered_dict(pairs: Any = ()) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise TypeError("OrderedDict needs str keys")
        result[key] = value
    return result


ALLOWED: dict[str, Callable[..., Any] | None] = {
    "collections.OrderedDict": ordered_dict,
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
    "torch.Size": lambda sizes: sizes,
    "torch.device": lambda *words: shown(words),
    **{f"torch.{kind}": None for kind in STORAGES},
    **{f"torch.cuda.{kind}": None for kind in STORAGES},
    **{
        f"torch.{name}": None
        for name in (
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "bool",
            "complex64",
            "complex128",
        )
    },
}


def is_stream(head: bytes) -> bool:
    """Whether a file that begins with these bytes is PyTorch's older stream of pickles."""
    return head[:1] == b"\x80" and head[2:].startswith(MAGIC_OPCODE)


def is_archive(names: list[str]) -> bool:
    """Whether a zip archive with these members is a PyTorch checkpoint."""
    return any(name == "data.pkl" or name.endswith("/data.pkl") for name in names)


def read_stream(source: Source) -> dict[str, np.ndarray]:
    """The state dict in PyTorch's older stream."""
    storages = Storages()
    stream = source.stream
    magic, protocol, system = (Machine(stream, {}).run() for _ in range(3))
    if magic != MAGIC or protocol != PROTOCOL or not isinstance(system, dict):
        raise WeightsError(f"protocol {shown(protocol)} of PyTorch's stream is not {PROTOCOL}")
    order = "<" if system.get("little_endian", True) else ">"
    tensors = find_state_dict(Machine(stream, ALLOWED, storages.persistent).run())
    keys = Machine(stream, {}).run()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise WeightsError("the list of storage keys is not a list of str")
    if len(set(keys)) != len(keys) or set(keys) != set(storages.declared):
        odd = [*(set(keys) ^ set(storages.declared)), *keys][0]
        raise WeightsError(
            f"storage {shown(odd)} is not both listed once and used: the file lists {len(keys)}, "
            f"its tensors use {len(storages.declared)}"
        )
    owners = find_owners(tensors)
    data = {}
    for key in keys:
        try:
            array = read_counted(source, storages.declared[key], order, key in owners)
        except WeightsError as error:
            raise WeightsError(f"{label(key, owners)}: {error}") from error
        if array is not None:
            data[key] = array
    if stream.tell() != source.size:
        raise WeightsError(f"{source.size - stream.tell()} bytes are left over behind the last storage")
    return cut_windows(tensors, data, source.size)


def find_owners(tensors: dict[str, Window]) -> dict[str, str]:
    """Storage key -> a tensor in it, for the storages that the tensors need."""
    return {window.storage.key: name for name, window in tensors.items()}


def label(key: str, owners: dict[str, str]) -> str:
    return f"tensor {shown(owners[key])}, storage {shown(key)}" if key in owners else f"storage {shown(key)}"


def read_counted(source: Source, declared: tuple[str, int], order: str, wanted: bool) -> np.ndarray | None:
    """The next storage of the stream: its int64 count and elements; skipped (None) when not wanted."""
    kind, expected = declared
    dtype = np.dtype(order + STORAGES[kind])
    head = source.stream.read(8)
    count = int.from_bytes(head, "little" if order == "<" else "big", signed=True)
    if len(head) < 8 or count != expected:
        raise WeightsError(f"the file declares {count} elements, its tensors {expected}")
    left = source.size - source.stream.tell()
    if count * dtype.itemsize > left:
        raise WeightsError(f"{count} {kind} need {count * dtype.itemsize} bytes, the file has {left} left")
    if not wanted:
        source.stream.seek(count * dtype.itemsize, 1)
        return None
    return widened(read_array(source.stream, count, dtype), kind)


def read_archive(archive: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    """The state dict in PyTorch's zip, which is a file of `size` bytes."""
    members = {info.filename: info for info in archive.infolist()}
    pickles = [name for name in members if is_archive([name])]
    if len(pickles) != 1:
        raise WeightsError(f"the archive has {len(pickles)} members data.pkl")
    root = pickles[0].removesuffix("data.pkl")
    if members[pickles[0]].file_size > MAX_PICKLE:
        raise WeightsError(f"data.pkl is over the limit of {MAX_PICKLE} bytes")
    order = byte_order(archive, members.get(root + "byteorder"))
    storages = Storages()
    loaded = Machine(io.BytesIO(archive.read(pickles[0])), ALLOWED, storages.persistent).run()
    tensors = find_state_dict(loaded)
    owners = find_owners(tensors)
    data = {}
    for key in owners:
        try:
            data[key] = read_member(archive, members.get(f"{root}data/{key}"), storages.declared[key], order)
        except DAMAGE as error:
            raise WeightsError(f"{label(key, owners)}: {error}") from error
    return cut_windows(tensors, data, size)


def byte_order(archive: zipfile.ZipFile, info: zipfile.ZipInfo | None) -> str:
    """NumPy's sign for the storages' byte order; archives without `byteorder` are little-endian."""
    word = b"little"
    if info:
        with archive.open(info) as stream:
            word = stream.read(8)
    if word not in (b"little", b"big"):
        raise WeightsError(f"byte order {shown(word)} is neither little nor big")
    return "<" if word == b"little" else ">"


def read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo | None, declared: tuple[str, int], order: str
) -> np.ndarray:
    """A storage from its member, which must be stored and of exactly the declared size."""
    kind, count = declared
    dtype = np.dtype(order + STORAGES[kind])
    if info is None:
        raise WeightsError("the archive does not have it")
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != count * dtype.itemsize:
        raise WeightsError(
            f"{count} {kind} must be {count * dtype.itemsize} bytes uncompressed, "
            f"the member has {info.file_size}"
        )
    with archive.open(info) as stream:
        array = read_array(stream, count, dtype)
        stream.read(1)  # reaching the end makes zipfile compare the CRC-32
    return widened(array, kind)


def widened(array: np.ndarray, kind: str) -> np.ndarray:
    return widen_bfloat16(array) if kind == "BFloat16Storage" else array


def find_state_dict(loaded: Any) -> dict[str, Window]:
    """The dict of tensors in what a checkpoint holds, looking under the usual wrapper keys."""
    for _ in range(MAX_WRAPPING):
        inner = (
            next((loaded[key] for key in WRAPPERS if isinstance(loaded.get(key), dict)), None)
            if isinstance(loaded, dict)
            else None
        )
        if inner is None:
            break
        loaded = inner
    if not isinstance(loaded, dict):
        raise WeightsError(f"the file holds a {type(loaded).__name__}, not a state dict")
    for name, value in loaded.items():
        if not isinstance(name, str):
            raise WeightsError(f"key {shown(name)} of the state dict is not a str")
        if not isinstance(value, Window):
            raise WeightsError(
                f"entry {shown(name)} is of type {type(value).__name__}, not a tensor "
                f"(a state dict is looked for at the top and under {', '.join(WRAPPERS)})"
            )
        try:
            check_window(value)
        except WeightsError as error:
            raise WeightsError(f"tensor {shown(name)}: {error}") from error
    return loaded


def cut_windows(tensors: dict[str, Window], data: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The tensors as C-contiguous arrays: views of their storages (shared ones stay shared), or copies.

    Copies may take COPY_FACTOR times the file's size: a zero stride, or many windows, declares any amount.
    """
    room = max(COPY_ROOM, COPY_FACTOR * size)
    result = {}
    for name, window in tensors.items():
        flat = data[window.storage.key]
        if 0 in window.size:
            result[name] = np.empty(window.size, flat.dtype)
            continue
        start = (window.storage.start + window.offset) * flat.itemsize
        # The step along an axis of one element is never taken, but may be any number.
        steps = zip(window.size, window.stride, strict=True)
        strides = tuple(step * flat.itemsize if n > 1 else 0 for n, step in steps)
        array = np.ndarray(window.size, flat.dtype, flat, start, strides)
        if not array.flags.c_contiguous:
            room -= array.nbytes
            if room < 0:
                raise WeightsError(
                    f"tensor {shown(name)}: copies of strided tensors need more than {COPY_FACTOR} "
                    f"times the file's {size} bytes"
                )
            array = array.copy(order="C")
        result[name] = array
    return result
