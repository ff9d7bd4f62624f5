"""Arguments of public functions, refused in clcnn's own words where they are of the wrong kind."""

from __future__ import annotations

import math
import operator
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from clcnn.errors import ArgumentError, DtypeError

Precision = Literal["strict", "highest", "high", "medium"]
"""How exactly sums are computed, and how weights and maps are stored: see clcnn.compile()."""


def shown(value: object, limit: int = 80) -> str:
    """`repr` of something a file holds, cut to `limit` characters: it may be very long or deep."""
    text = repr(value[: limit + 1]) if isinstance(value, (str, bytes)) else reprlib.repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def text(value: Any, what: str) -> str:
    """A string without NUL and lone surrogates."""
    if not isinstance(value, str):
        raise DtypeError(f"{what}: expected a string, got {shown(value)}")
    if "\0" in value or not _encodes(value):
        raise ArgumentError(f"{what}: must not have a NUL character or a lone surrogate, got {shown(value)}")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def path(value: Any, what: str) -> str:
    """A path as text that the system can be asked for."""
    try:
        found = os.fsdecode(os.fspath(value))
        os.fsencode(found)
    except TypeError as error:
        raise DtypeError(f"{what}: expected a path, got {shown(value)}") from error
    except UnicodeError as error:
        raise ArgumentError(f"{what}: {shown(value)} is no path: {error}") from error
    if "\0" in found:
        raise ArgumentError(f"{what}: a path has no NUL character, got {shown(value)}")
    return found


def whole(value: Any, what: str, least: float = -math.inf) -> int:
    """A whole number, of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise DtypeError(f"{what}: expected a whole number, got {shown(value)}") from error
    if number < least:
        raise ArgumentError(f"{what}: {number} is less than {least}")
    return number


def items(value: Any, what: str, expected: str) -> list[Any]:
    """What a sequence, or another iterable that is no text, has."""
    if not isinstance(value, (str, bytes)):
        try:
            return list(value)
        except TypeError:  # no iterable
            pass
    raise DtypeError(f"{what}: expected {expected}, got {shown(value)}")


def iterate(value: Any, what: str, expected: str) -> Iterator[Any]:
    """iter(), of what may have no end."""
    if not isinstance(value, (str, bytes)):
        try:
            return iter(value)
        except TypeError:  # no iterable
            pass
    raise DtypeError(f"{what}: expected {expected}, got {shown(value)}")


def mapping(value: Any, what: str, expected: str) -> dict[Any, Any]:
    """A copy of a mapping; nothing for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DtypeError(f"{what}: expected {expected}, got {shown(value)}")
    return dict(value)


def names(value: str | Iterable[str], what: str) -> list[str]:
    """One name or several."""
    given = [value] if isinstance(value, str) else items(value, what, "names")
    return [text(name, what) for name in given]


def plain(value: Any, what: str) -> Any:
    """The value itself, if it is no masked array: what is masked would count as if it were not."""
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):  # whose import takes 10 ms
        raise DtypeError(
            f"{what}: expected a plain NumPy array, got a masked one, whose mask would not count; "
            "pass x.filled(value)"
        )
    return value
