"""Spec: all that is told of an operator outside the core, in one row.

A row stands below its definition, in the file of its family. The tests, the self-test and `verify()` read it:
what the operator means, how far a float32 result may be off, and which data it can be tried with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]

EXACT: Literal["exact"] = "exact"
FP32: Literal["fp32"] = "fp32"


class Bound(NamedTuple):
    """The error of a function of one element, or one row. ulp: of each value, by what OpenCL 1.2's full
    profile allows for the functions involved (exp, log, sqrt 3, tanh, expm1 5, div 2.5, pow and erfc 16) and
    the roundings around them. absolute: where terms cancel."""

    ulp: float
    absolute: float = 0.0


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Attribute(NamedTuple):
    """Kind of an attribute ("int", "ints", "float", "floats" or "str") and its default, or REQUIRED."""

    kind: str
    default: Any


KINDS = {"Sequence[int]": "ints", "Sequence[float]": "floats", "int": "int", "float": "float", "str": "str"}

# Data of one input: from the generator, the input's shape, the first input's shape, and the attributes given.
Draw = Callable[[np.random.Generator, Shape, Shape, Mapping[str, Any]], Array]


@dataclass(frozen=True)
class Use:
    """One use of an operator in the self-test: the shapes of its inputs, None where an optional one at the
    end is absent, and the attributes. The first `fed` inputs are given at run time, the others are constants.
    dtypes: of the inputs where they are not float32. whole: whether the data are whole numbers and the
    results exact, None where the operator's row says it."""

    shapes: tuple[Shape | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    fed: int = 1
    dtypes: tuple[str, ...] = ()
    whole: bool | None = None


@dataclass(frozen=True)
class Spec:
    """One operator.

    define: the definition in float64. Its keyword-only parameters are the attributes, with their defaults.
    error: EXACT (movement, maxima, comparisons: the definition, rounded to float32), FP32 (sums of products)
    or a Bound. tried: the self-test's uses. whole: whether whole numbers stay whole, so that float32 rounds
    nothing; None: where it is exact. roles: of constants, by position: "x" is ordinary data, others are
    "weight", "bias" and "positive". domain: data of role "x" from normal numbers and whether it is the first
    input, where normal numbers are no good. inputs: data of single inputs, such as indices and coordinates.
    zeros: whether zeros may be most of a result.
    """

    define: Callable[..., Any]
    error: Literal["exact", "fp32"] | Bound
    tried: tuple[Use, ...]
    whole: bool | None = None
    roles: tuple[str, ...] = ()
    domain: Callable[[Array, bool], Array] | None = None
    inputs: Mapping[int, Draw] = field(default_factory=dict)
    zeros: bool = False

    @property
    def error_class(self) -> str:
        """ "exact", "fp32" or "transcendental"."""
        return "transcendental" if isinstance(self.error, Bound) else self.error

    @property
    def keeps_whole(self) -> bool:
        return self.error == EXACT if self.whole is None else self.whole

    @cached_property
    def attributes(self) -> dict[str, Attribute]:
        """Attributes by name, read from the definition's signature; NumPy's own functions have none."""
        if isinstance(self.define, (np.ufunc, np.vectorize)):
            return {}
        parameters = inspect.signature(self.define).parameters.values()
        return {
            p.name: Attribute(KINDS[p.annotation], REQUIRED if p.default is p.empty else p.default)
            for p in parameters
            if p.kind is p.KEYWORD_ONLY
        }


# Shapes of the self-test: one input of no convenient size, and two.
MAP = (2, 5, 7, 9)
ONE = (Use((MAP,)),)
TWO = (Use((MAP, MAP), fed=2),)
BROADCAST = (*TWO, Use((MAP, (5, 1, 1)), fed=2))
