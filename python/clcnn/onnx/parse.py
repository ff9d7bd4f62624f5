"""Parses a model file weight by weight, so that the weights are in memory once.

onnx.ModelProto.ParseFromString wants the whole file and makes a copy of it: twice the file, before the first
weight is read. But a message is a series of records, one a field, and to parse a part of the series is to
merge it into the message (https://protobuf.dev/programming-guides/encoding, "Message Structure" and "Last One
Wins"). So the file is divided before and behind the initialisers of its graph, by protobuf's own reading of
tags and lengths, and the package onnx parses each part. It parses a file whole when that is not mostly
weights, or has anything that writers of ONNX do not write, and it alone says whether a file is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import onnx
from google.protobuf.internal import decoder, wire_format
from google.protobuf.message import DecodeError

HEAD = 20  # bytes that a tag and a length have at most
LEAST_MEAN = 1 << 10  # bytes of a record, on average, in a file that is divided
LARGE = 1 << 16  # bytes of an initialiser that is divided, too
_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW = onnx.TensorProto.RAW_DATA_FIELD_NUMBER


class Parsed(NamedTuple):
    """A model; and, for each initialiser of its graph, the raw_data that was taken out of it, if any, and
    where it begins in the file, if that is known."""

    proto: onnx.ModelProto
    raw: list[bytes | None]
    at: list[int | None]


class _Indivisible(Exception):
    """Parts of the file cannot be told apart, or it is not worth it."""


def parse(file: BinaryIO) -> Parsed:
    """The model in `file`, read from its present position. Raises protobuf's DecodeError when it is none."""
    if file.seekable():
        start = file.tell()
        try:
            return _Divided(file).parsed
        except (_Indivisible, DecodeError, ValueError, TypeError):
            file.seek(start)
    proto = onnx.ModelProto()
    proto.ParseFromString(file.read())
    count = len(proto.graph.initializer)
    return Parsed(proto, [None] * count, [None] * count)


class _Record(NamedTuple):
    field: int
    start: int  # of its tag
    content: int  # what follows tag and length
    end: int


class _Divided:
    """A model that is parsed in parts, in their order."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.parsed = Parsed(onnx.ModelProto(), [], [])
        start = file.tell()
        end = file.seek(0, os.SEEK_END)
        self.left = (end - start) // LEAST_MEAN  # records that it may have
        self._merge(self.parsed.proto, start, end, _GRAPH, self._graph)

    def _graph(self, record: _Record) -> None:
        graph = self.parsed.proto.graph
        graph.SetInParent()
        self._merge(graph, record.content, record.end, _INITIALIZER, self._initializer)

    def _initializer(self, record: _Record) -> None:
        """The raw data of a large one is read to where it stays, and the rest is merged."""
        tensor = self.parsed.proto.graph.initializer.add()
        found: list[_Record] = []
        raw: bytes | None = None
        at: int | None = None
        try:
            if record.end - record.content < LARGE:
                raise _Indivisible
            self._merge(tensor, record.content, record.end, _RAW, found.append)
            if found:
                at, raw = found[-1].content, self._read(found[-1].content, found[-1].end)
        except _Indivisible:
            tensor.Clear()
            tensor.MergeFromString(self._read(record.content, record.end))
            raw = tensor.raw_data if tensor.HasField("raw_data") else None
            tensor.ClearField("raw_data")
        self.parsed.raw.append(raw)
        self.parsed.at.append(at)

    def _merge(self, message: Any, start: int, end: int, apart: int, take: Any) -> None:
        """Merges the records from `start` to `end` into `message`; those of field `apart` go to take()."""
        behind = start
        for record in self._records(start, end):
            if record.field == apart:
                message.MergeFromString(self._read(behind, record.start))
                take(record)
                behind = record.end
        message.MergeFromString(self._read(behind, end))

    def _records(self, start: int, end: int) -> Iterator[_Record]:
        while start < end:
            self.left -= 1
            if self.left < 0:
                raise _Indivisible
            head = self._read(start, start + HEAD)
            try:
                tag, behind = decoder._DecodeVarint(head, 0)
                value, behind = decoder._DecodeVarint(head, behind)
            except IndexError:  # the file ends
                raise _Indivisible from None
            field, kind = wire_format.UnpackTag(tag)
            content = start + behind
            if kind == wire_format.WIRETYPE_LENGTH_DELIMITED:
                record = _Record(field, start, content, content + value)
            elif kind == wire_format.WIRETYPE_VARINT and field not in (_GRAPH, _INITIALIZER, _RAW):
                record = _Record(field, start, content, content)
            else:
                raise _Indivisible
            if record.end > end:
                raise _Indivisible
            yield record
            start = record.end

    def _read(self, start: int, end: int) -> bytes:
        self.file.seek(start)
        return self.file.read(end - start)
