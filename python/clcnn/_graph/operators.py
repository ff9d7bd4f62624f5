"""The core's table of operators, made once: the core makes a new one, in a millisecond, at every call."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from clcnn import _core


@functools.cache
def operators() -> Mapping[str, Any]:
    """A row for each operator by name, as _core.ops() gives it."""
    return _core.ops()
