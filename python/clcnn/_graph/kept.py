"""Graphs as bytes, for the cache folder: their steps, and the constants that no other file has.

The bytes are a line that names the form, the hash of what follows, the length of the steps' JSON, the
JSON, and the constants. Of a constant that lies in the file which the graph came from it says where.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import _core
from clcnn._background.threads import Task, Threads
from clcnn._graph.records import Record, memory

if TYPE_CHECKING:
    from clcnn.graph import Graph

FORM = b"clcnn graph 1\n"
HASH_BYTES = 16
LENGTH_BYTES = 8  # of the JSON's length, little-endian
ALIGNMENT = 64  # of constants, in bytes
MOST_BYTES = 16 << 20  # of the constants that are kept
KINDS = ("input", "constant", "node", "output")  # of steps; graphs with others are not kept


class Place(NamedTuple):
    """Memory that holds what a file has from `offset` on."""

    address: int
    length: int
    offset: int


class Unfit(Exception):
    """The graph cannot be kept, or the bytes are none that pack() gave."""


def pack(graph: Graph, places: Sequence[Place]) -> bytes:
    """The graph as bytes. Raises Unfit."""
    rows, blobs, end = [], [], 0
    for record in graph.records:
        if record.kind not in KINDS:
            raise Unfit
        row = {key: _plain(value) for key, value in record._asdict().items() if key != "array"}
        if record.array is not None:
            at = _place_of(record.array, places)
            row["array"] = [str(record.array.dtype), list(record.array.shape), end, record.array.nbytes, at]
            if at is None:
                blobs.append(record.array.tobytes() + bytes(-record.array.nbytes % ALIGNMENT))
                end += len(blobs[-1])
        rows.append(row)
    if end > MOST_BYTES:
        raise Unfit
    head = json.dumps(rows).encode()
    head += b" " * (-(LENGTH_BYTES + len(head)) % ALIGNMENT)
    body = len(head).to_bytes(LENGTH_BYTES, "little") + head + b"".join(blobs)
    return FORM + _core.hash128(body) + body


def _plain(value: Any) -> Any:
    """What JSON has, as Python reads and writes it, for names, numbers, and attributes."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _place_of(array: NDArray[Any], places: Sequence[Place]) -> int | None:
    """Where in the file an array lies, if it does."""
    start, end = memory(array)
    if not array.flags.c_contiguous or end - start != array.nbytes or array.nbytes == 0:
        return None
    for place in places:
        if place.address <= start and end <= place.address + place.length:
            return place.offset + start - place.address
    return None


def unpack(data: bytes, file: BinaryIO) -> Graph:
    """The graph of pack(), whose other constants are read from `file`. Raises Unfit, OSError."""
    from clcnn.graph import Graph

    body = data[len(FORM) + HASH_BYTES :]
    if data[: len(FORM)] != FORM or _core.hash128(body) != data[len(FORM) : -len(body)]:
        raise Unfit
    length = int.from_bytes(body[:LENGTH_BYTES], "little")
    rows = json.loads(body[LENGTH_BYTES : LENGTH_BYTES + length])
    own = memoryview(body)[LENGTH_BYTES + length :]
    outside = [row["array"][2:] for row in rows if "array" in row and row["array"][4] is not None]
    block, starts = _room([size for _, size, _ in outside])
    threads = Threads(1)
    reading = Task(lambda: _read(file, block, zip(outside, starts)))
    try:
        threads.begin(reading)
        places = iter(starts)
        return Graph.from_records([_step(row, own, block, places) for row in rows])
    finally:
        threads.close()
        reading.result()


def _room(sizes: Sequence[int]) -> tuple[memoryview, list[int]]:
    """Memory for arrays of so many bytes, and where each begins."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return np.empty(end, np.uint8).data, starts


def _read(file: BinaryIO, block: memoryview, wanted: Iterable[tuple[Sequence[int], int]]) -> None:
    """From the file to where they belong. Raises Unfit where the file ends before."""
    for (_, size, at), start in wanted:
        file.seek(at)
        room = block[start : start + size]
        while room:
            count = file.readinto(room)  # type: ignore[attr-defined]
            if not count:
                raise Unfit
            room = room[count:]


def _step(row: dict[str, Any], own: memoryview, block: memoryview, places: Iterator[int]) -> Record:
    array = None
    if "array" in row:
        dtype, shape, start, size, at = row.pop("array")
        room, start = (own, start) if at is None else (block, next(places))
        array = np.frombuffer(room[start : start + size], dtype).reshape(shape)
    return Record(
        **row | {key: tuple(row[key]) for key in ("values", "inputs", "shape")},
        array=array,
    )
