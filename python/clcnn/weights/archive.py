"""Checked access to the zip archives that npz files and PyTorch checkpoints are."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import WeightsError, shown
from .source import Source

LOCAL_HEADER = 30  # bytes of a member's local header before its name: the least that lies between two members
ENCRYPTED = 0x1
# What zipfile raises on damaged input, beyond its own error.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextmanager
def open_archive(source: Source) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive in `source`; everything that zipfile raises inside becomes WeightsError.

    Duplicate names and overlapping members (with which a small file declares a lot) are refused here.
    """
    try:
        with zipfile.ZipFile(source.stream) as archive:
            check_members(archive, source.size)
            yield archive
    except WeightsError:
        raise
    except DAMAGE as error:
        raise WeightsError(f"damaged zip archive: {error}") from error


def check_members(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse archives whose directory contradicts itself: members then take at most the file's size."""
    members = archive.infolist()
    names = set()
    for info in members:
        if info.filename in names:
            raise WeightsError(f"the archive has two members {shown(info.filename)}")
        names.add(info.filename)
        if info.flag_bits & ENCRYPTED or info.compress_type not in METHODS:
            raise WeightsError(f"member {shown(info.filename)} is encrypted or compressed in an unknown way")
        if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
            raise WeightsError(f"stored member {shown(info.filename)} declares two different sizes")
    by_offset = sorted(members, key=lambda info: info.header_offset)
    ends = [info.header_offset for info in by_offset[1:]] + [size]
    for info, end in zip(by_offset, ends, strict=True):
        if info.header_offset < 0 or info.header_offset + LOCAL_HEADER + info.compress_size > end:
            raise WeightsError(f"member {shown(info.filename)} overlaps the next one or ends past the file")
