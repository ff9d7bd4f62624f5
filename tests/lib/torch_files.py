"""Files as torch.save writes them, made without torch, for the tests of `clcnn.weights` to bend."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
KINDS = {
    "f4": "FloatStorage",
    "f8": "DoubleStorage",
    "f2": "HalfStorage",
    "i8": "LongStorage",
    "b1": "BoolStorage",
}


@dataclass(frozen=True)
class Name:
    """A global, written as such whether or not its module exists here."""

    module: str
    name: str


@dataclass(frozen=True)
class Call:
    """What unpickles as callee(*arguments)."""

    callee: Name
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Storage:
    """A storage, written as a persistent id; `count` and `kind` are what the pickle claims."""

    key: str
    kind: str
    count: Any
    extra: tuple[Any, ...] = ()


class TorchPickler(pickle._Pickler):
    """Protocol-2 pickles with `Name`, `Call` and `Storage` in them."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, Name):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            self.save(obj.callee)
            self.save(obj.arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(obj, save_persistent_id)

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Storage):
            return ("storage", Name("torch", obj.kind), obj.key, "cpu", obj.count, *obj.extra)
        return None


def dumps(obj: Any) -> bytes:
    stream = io.BytesIO()
    TorchPickler(stream, 2).dump(obj)
    return stream.getvalue()


ORDERED_DICT = Name("collections", "OrderedDict")
REBUILD = Name("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Name("torch._utils", "_rebuild_parameter")


def tensor(storage: Storage, size: Any, stride: Any, offset: Any = 0) -> Call:
    """A tensor over a storage, as torch pickles it."""
    return Call(REBUILD, (storage, offset, size, stride, False, Call(ORDERED_DICT, ())))


def whole(key: str, array: np.ndarray) -> Call:
    """A tensor that is all of its storage."""
    strides = tuple(step // array.itemsize for step in array.strides)
    return tensor(Storage(key, KINDS[array.dtype.str[1:]], array.size), array.shape, strides)


def stream_file(
    obj: Any,
    storages: dict[str, np.ndarray],
    order: str = "<",
    *,
    magic: int = MAGIC,
    protocol: int = PROTOCOL,
    counts: dict[str, int] | None = None,
    pickled: bytes | None = None,
) -> bytes:
    """The older form: five pickles, then count and data of each storage. `pickled` replaces the object's."""
    parts = [pickle.dumps(magic, 2), pickle.dumps(protocol, 2)]
    parts.append(
        pickle.dumps({"protocol_version": PROTOCOL, "little_endian": order == "<", "type_sizes": {}}, 2)
    )
    parts.append(pickled if pickled is not None else dumps(obj))
    parts.append(pickle.dumps(list(storages), 2))
    for key, array in storages.items():
        parts.append(struct.pack(order + "q", (counts or {}).get(key, array.size)))
        parts.append(array.astype(array.dtype.newbyteorder(order)).tobytes())
    return b"".join(parts)


def zip_file(
    obj: Any,
    storages: dict[str, np.ndarray],
    order: str = "<",
    *,
    root: str = "archive",
    pickled: bytes | None = None,
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    """The zip form; `method` is the storages' compression, which torch never uses."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{root}/data.pkl", pickled if pickled is not None else dumps(obj))
        archive.writestr(f"{root}/byteorder", "little" if order == "<" else "big")
        for key, array in storages.items():
            content = array.astype(array.dtype.newbyteorder(order)).tobytes()
            archive.writestr(f"{root}/data/{key}", content, method)
        archive.writestr(f"{root}/version", "3\n")
    return stream.getvalue()
