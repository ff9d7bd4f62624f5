"""What every operator means, in NumPy's float64 and independent of the core, and how it is tried.

``SPECS[op]`` is its row (see spec.py); rows stand below the definitions, in the files of the families.
``REFERENCE[op](*inputs, **attributes)`` computes it: an array, or a list of them where there are several
outputs, as for ``split``. Inputs may be of any dtype, and floats are computed in float64; an optional input
may be None or left out; attributes that are not given take their defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from clcnn._reference import (
    attention,
    conv,
    elementwise,
    gemm,
    line,
    loss,
    pool,
    recurrent,
    reduce,
    resize,
    shape,
    update,
    vision,
)
from clcnn._reference.spec import REQUIRED, Array, Attribute, Spec, Use

__all__ = ["REFERENCE", "REQUIRED", "SPECS", "Attribute", "Spec", "Use", "fill"]

_FAMILIES = (
    attention,
    conv,
    gemm,
    recurrent,
    pool,
    reduce,
    elementwise,
    line,
    loss,
    shape,
    resize,
    vision,
    update,
)
SPECS: dict[str, Spec] = {op: spec for family in _FAMILIES for op, spec in family.SPECS.items()}


def fill(op: str, given: dict[str, Any]) -> dict[str, Any]:
    """All attributes of `op`: those given and the defaults of the others; a single value of an ``ints`` or
    ``floats`` attribute becomes a tuple.

    Raises TypeError for an unknown attribute or a missing required one.
    """
    table = SPECS[op].attributes
    unknown = sorted(set(given) - set(table))
    if unknown:
        raise TypeError(f"{op}: unknown attribute {unknown[0]!r}; known are {sorted(table)}")
    filled = {}
    for name, (kind, default) in table.items():
        value = given.get(name, default)
        if value is REQUIRED:
            raise TypeError(f"{op}: attribute {name!r} is required")
        if kind in ("ints", "floats"):
            value = tuple(value) if hasattr(value, "__iter__") else (value,)
        filled[name] = value
    return filled


def _widened(x: Any) -> Array:
    """Floats as float64, integers and truth values as they are."""
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _call(op: str, *inputs: Array | None, **attributes: Any) -> Array | list[Array]:
    arrays = [None if x is None else _widened(x) for x in inputs]
    # Overflow, 0/0 and log of a negative number are results to compare, not accidents.
    with np.errstate(all="ignore"):
        result = SPECS[op].define(*arrays, **fill(op, attributes))
    return [_widened(y) for y in result] if isinstance(result, list) else _widened(result)


REFERENCE: dict[str, Callable[..., Any]] = {op: partial(_call, op) for op in SPECS}
