"""How far a float32 result may be from the float64 definition: by error class, which the operator's row in
`clcnn._reference` names.

The classes, from design to table:

``exact``           data movement, maxima, comparisons: equal to the definition rounded to float32.
``fp32``            sums of products, "highest" precision: max <= 5e-5 and rms <= 4e-6 of the output's rms.
``high``            sums of products of operands rounded to tf32: max <= 1e-2 and rms <= 1e-3 of that rms.
``medium``          the same of halves, which have as many digits.
``strict``          sums of products: at most 4 times the error of a float32 GEMM with as many terms.
``transcendental``  functions of one element (or one row): a few units in the last place of each value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clcnn._reference import SPECS
from clcnn._reference.spec import Bound

UNIT = 2.0**-24  # half a unit in the last place of 1.0f


class Tolerance(NamedTuple):
    """Bounds on the error; a bound of infinity is not checked, all of zero asks for equality.

    `max_error` and `rms_error` are over the rms of the output; `relative` is over each value, plus `absolute`
    (over the output's rms or over 1, whichever is smaller). `least`: of fewer values the rms says little,
    as one of them may be a small sum of large products."""

    max_error: float = math.inf
    rms_error: float = math.inf
    relative: float = math.inf
    absolute: float = 0.0
    least: int = 1


EXACT = Tolerance(0.0, 0.0, 0.0)
FP32 = Tolerance(max_error=5e-5, rms_error=4e-6)
HIGH = Tolerance(max_error=1e-2, rms_error=1e-3, least=16)

_NONZERO_SHARE = 0.3
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def tolerance(op: str, error_class: str | None = None, terms: int = 1) -> Tolerance:
    """Bounds for the output of `op`. `error_class` defaults to the operator's own; `terms` is the number of
    products added up for one output (only "strict" depends on it).

    "strict": rounding errors of a running sum of n terms of random sign have rms UNIT * sqrt(n / 6) of the
    sum's own rms; four times that, the roundings of the epilogue, and 12 rms for the largest."""
    error_class = error_class or SPECS[op].error_class
    if error_class == "exact":
        return EXACT
    if error_class == "fp32":
        return FP32
    if error_class in ("high", "medium"):
        return HIGH
    if error_class == "strict":
        rms = min(4.0 * UNIT * (math.sqrt(terms / 6.0) + 1.0), FP32.rms_error)
        return Tolerance(max_error=12.0 * rms, rms_error=rms)
    if error_class == "transcendental":
        bound = SPECS[op].error
        if isinstance(bound, Bound):
            return Tolerance(relative=bound.ulp * 2 * UNIT, absolute=bound.absolute)
        raise ValueError(f"{op} has no bound of its own: its row in clcnn._reference says {bound!r}")
    raise ValueError(f"unknown error class {error_class!r}")


def nonzero_share(want: np.ndarray | Sequence[np.ndarray]) -> float:
    """Share of elements that float32 does not round to zero."""
    arrays = want if isinstance(want, (list, tuple)) else [want]
    flat = np.concatenate([np.asarray(a, dtype=np.float64).reshape(-1) for a in arrays])
    return float(np.mean(~(np.abs(flat) < _SMALLEST_NORMAL))) if flat.size else 0.0


def errors(got: np.ndarray, want: np.ndarray) -> tuple[float, float]:
    """Largest and rms error over the rms of `want` (over 1 where that is zero)."""
    want = np.asarray(want, dtype=np.float64)
    error = np.asarray(got, dtype=np.float64) - want
    rms = math.sqrt(np.mean(want * want)) or 1.0
    return float(np.abs(error).max()) / rms, math.sqrt(np.mean(error * error)) / rms


def _wrong(got: np.ndarray, want: np.ndarray, bound: Tolerance) -> np.ndarray:
    """Mask of the elements of finite `got` that are too far from finite `want`, element by element."""
    if bound == EXACT:
        return got != want
    rms = math.sqrt(np.mean(want * want)) if want.size else 0.0
    allowed = np.full(want.shape, bound.max_error * rms)
    if math.isfinite(bound.relative):
        # A device may flush results below the smallest normal number to zero.
        near = bound.relative * np.abs(want) + bound.absolute * min(rms, 1.0) + _SMALLEST_NORMAL
        allowed = np.minimum(allowed, near) if math.isfinite(bound.max_error) else near
    return np.abs(got.astype(np.float64) - want) > allowed


def compare(
    got: np.ndarray | Sequence[np.ndarray],
    want: np.ndarray | Sequence[np.ndarray],
    op: str,
    error_class: str | None = None,
    *,
    terms: int = 1,
    trust: bool = True,
) -> None:
    """Check a float32 result (or list of results) against the float64 definition.

    Shape must be equal; NaN and infinities (after rounding `want` to float32) must be where they are
    expected; the rest obeys `tolerance(op, error_class, terms)`. With `trust` an expected output of mostly
    zeros is refused (an untouched buffer would pass), except for operators that can give nothing else.

    Raises AssertionError naming the errors over rms and the first wrong index.
    """
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{op}: {len(got)} outputs, expected {len(want)}"
        pairs = list(zip(got, want))
    else:
        pairs = [(got, want)]
    if trust and not (op in SPECS and SPECS[op].zeros):
        share = nonzero_share([w for _, w in pairs])
        assert share >= _NONZERO_SHARE, (
            f"{op}: only {share:.0%} of the expected output is non-zero; change the case"
        )
    for number, (g, w) in enumerate(pairs):
        where = f"{op} output {number}" if len(pairs) > 1 else op
        if np.asarray(w).dtype.kind == "f":
            _compare_one(
                np.asarray(g), np.asarray(w, dtype=np.float64), where, tolerance(op, error_class, terms)
            )
        else:
            _compare_whole(np.asarray(g), np.asarray(w), where)


def _compare_whole(got: np.ndarray, want: np.ndarray, where: str) -> None:
    assert got.shape == want.shape, f"{where}: shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"{where}: dtype {got.dtype}, expected {want.dtype}"
    wrong = np.argwhere(got != want)
    assert not len(wrong), (
        f"{where}: {len(wrong)} of {want.size} values wrong; first at {tuple(map(int, wrong[0]))}: "
        f"{got[tuple(wrong[0])]!r}, expected {want[tuple(wrong[0])]!r}"
    )


def _compare_one(got: np.ndarray, want: np.ndarray, where: str, bound: Tolerance) -> None:
    assert got.shape == want.shape, f"{where}: shape {got.shape}, expected {want.shape}"
    assert got.dtype == np.float32, f"{where}: dtype {got.dtype}, expected float32"
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32)
    if bound == EXACT:
        want = rounded.astype(np.float64)
    finite = np.isfinite(rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    wrong = np.where(finite, ~np.isfinite(got), ~same)
    both = finite & np.isfinite(got)
    wrong[both] |= _wrong(got[both], want[both], bound)
    largest, rms = errors(got[both], want[both]) if both.any() else (0.0, 0.0)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{where}: {int(wrong.sum())} of {want.size} values wrong, max error {largest:.3g} and rms error "
            f"{rms:.3g} over rms, allowed {bound}; first at {first}: {got[first]!r}, expected {want[first]!r}"
        )
    assert rms <= bound.rms_error or both.sum() < bound.least, (
        f"{where}: rms error {rms:.3g} over rms, allowed {bound} (max error {largest:.3g})"
    )
