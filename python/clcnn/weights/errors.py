"""The one error of reading and writing weights, and how names from a file are shown in it."""

from __future__ import annotations

import reprlib

from clcnn.errors import Error


class WeightsError(Error, ValueError):
    """A weight file, or the weights in it, broke a rule: the message names file, tensor and rule."""


def shown(value: object, limit: int = 80) -> str:
    """`repr` of something a file holds, cut to `limit` characters: it may be very long or deep."""
    text = repr(value[: limit + 1]) if isinstance(value, (str, bytes)) else reprlib.repr(value)
    return text if len(text) <= limit else text[:limit] + "..."
