"""How far off a layer of products may be, whatever its numbers are: README, "Precision and determinism".

u is 2^-24, half a unit in the last place of 1, and n the number of products that are added up. Each algorithm
says which of two forms it keeps:

``componentwise``  |error| <= c u sum |w| |x|, c = 4 + 2 sqrt(n): it multiplies and adds as the definition
                   does. Each of n additions rounds by u of the sum of all sizes at most; roundings are
                   independent, so that they grow as sqrt(n). 2 is 3.5 of their standard deviations where each
                   addition rounds by the most that is possible.
``normwise``       |error| <= c u |w| |x|, c = 32 + 2 sqrt(n): it adds operands up before it multiplies them.
                   |w| is the norm of the filter, |x| the largest norm of what the filter meets in the image,
                   after the weights of each channel have been brought to one size.

What an algorithm rounds operands to comes on top, see `rounding`: as a part of sum |w| |x|, or of less where
many terms are of one size, since these roundings are independent in numbers drawn at random. So does what
underflows, 2^-126 a product.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from conftest import DEVICE

from clcnn._reference import REFERENCE

Array = np.ndarray
UNIT = 2.0**-24
# What of a product may be lost near zero: all below the normal numbers on devices that have no others.
SMALLEST = 2.0**-149 if DEVICE == "cpu" else 2.0**-126
HALF_STEP = 2.0**-25  # rounding of halves near zero, where they are as far apart as fixed-point numbers
CHUNK = 512  # weights of a row that `fixed` gives one format
SPLIT_UNITS = 32.0  # of three tf32 products: the parts of operands are cut, and a product is left out
TF32_STEPS = 1.28  # of half a step of tf32: what rounding by a multiplication and a cut is off by (mma.clh)
SIGMAS = 8.0  # independent errors: so many times their standard deviation is not seen


class Products(NamedTuple):
    """A layer of products as a convolution of x[N,C,...] with w[K,C/groups,...]."""

    x: Array
    w: Array
    attrs: dict[str, Any]

    def __call__(self, x: Array, w: Array) -> Array:
        return REFERENCE["conv"](x, w, **self.attrs)

    @property
    def groups(self) -> int:
        return int(self.attrs.get("groups", 1))


def products(op: str, arrays: list[Array], attrs: dict[str, Any]) -> tuple[Products, int]:
    """The sums of products that an operator ends in, and the number of terms of a value. What a separable
    layer has in its middle comes with the sizes of its terms."""
    x, *_, w = (a.astype(np.float64) for a in arrays)
    if op == "conv":
        return Products(x, w, attrs), w[0].size
    if op == "separable":
        first = arrays[1].astype(np.float64)
        middle = REFERENCE["conv"](np.abs(x), np.abs(first), groups=x.shape[1], **attrs)
        return Products(middle, w, {}), w[0].size + first[0].size
    if op == "inverted_residual":
        expand, first = (a.astype(np.float64) for a in arrays[1:3])
        wide = REFERENCE["conv"](np.abs(x), np.abs(expand))
        middle = REFERENCE["conv"](wide, np.abs(first), groups=wide.shape[1], **attrs)
        return Products(middle, w, {}), w[0].size + first[0].size + expand[0].size
    w = w.T if op == "matmul" else w
    return Products(x[:, :, None], w[:, :, None], {}), w[0].size


def _exponent_bits(row: Array) -> int:
    """What `fixed` keeps of the exponents of a filter's weights: as many bits as the range of a chunk needs,
    all eight where six are too few."""
    most = 1
    for first in range(0, row.size, CHUNK):
        exponents = np.frexp(row[first : first + CHUNK])[1][row[first : first + CHUNK] != 0.0]
        bits = math.ceil(math.log2(np.ptp(exponents) + 2)) if exponents.size else 1
        most = max(most, bits if bits <= 6 else 8)
    return most


def rounding(error_class: str, roundings: Collection[str], w: Array) -> Array:
    """How far off the products with each filter may be, as a part of each, as their operands were rounded."""
    if error_class in ("high", "medium"):  # both operands, to 11 digits
        return np.full(len(w), 2 * 2.0**-11 * (TF32_STEPS if error_class == "high" else 1.0))
    if "24_bits" in roundings:  # of a weight, one of them the sign
        return np.array([2.0 ** (_exponent_bits(row.reshape(-1)) - 24) for row in w])
    return np.zeros(len(w))


def _norms(p: Products) -> Array:
    """|w| |x| for each value: see the top. Channels are divided by their largest part of a filter's norm."""
    k, c = p.w.shape[:2]
    w = p.w.reshape(p.groups, k // p.groups, c, -1)
    parts = np.sqrt((w**2).sum(-1))
    filters = np.sqrt((parts**2).sum(-1, keepdims=True))
    gains = (parts / np.where(filters > 0.0, filters, 1.0)).max(1)
    inverse = np.where(gains > 0.0, 1.0 / np.where(gains > 0.0, gains, 1.0), 0.0)
    of_filters = np.sqrt(((parts * inverse[:, None]) ** 2).sum(-1)).reshape(1, k)
    gains = gains.reshape(1, -1, *[1] * (p.x.ndim - 2))
    met = np.sqrt(p((p.x * gains) ** 2, np.ones_like(p.w)))
    largest = met.max(axis=tuple(range(2, met.ndim)))
    return (largest * of_filters).reshape(*largest.shape, *[1] * (met.ndim - 2))


def allowed(
    p: Products, terms: int, error_class: str, bound: str, roundings: Collection[str] = ("none",)
) -> Array:
    """The largest error that each value may have. `roundings`: what the algorithms of a layer do to operands,
    as `error_rounding` of their rows tells."""
    x, w = np.abs(p.x), np.abs(p.w)
    total = p(x, w)
    rounded = rounding(error_class, roundings, p.w).reshape(-1, *[1] * (total.ndim - 2))
    growth = 2.0 * math.sqrt(terms)
    if "tf32_parts" in roundings:
        growth += SPLIT_UNITS
    sums = (32.0 + growth) * _norms(p) if bound == "normwise" else (4.0 + growth) * total
    independent = SIGMAS * np.sqrt(p(x**2, w**2))
    smallest = 2.0**-126 if "bf16_parts" in roundings else SMALLEST  # parts of operands are normal numbers
    floor = smallest * terms * max(1.0, float(x.max()), float(w.max()))
    if error_class == "medium":
        floor = floor + HALF_STEP * (p(x, np.ones_like(w)) + p(np.ones_like(x), w))
    return UNIT * sums + rounded * np.minimum(total, independent) + floor


def check(got: Array, exact: Array, limit: Array, what: str) -> None:
    """Each value is finite and as near as `limit` allows."""
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - exact)
    ratio = np.where(np.isfinite(error), error / limit.reshape(exact.shape), np.inf)
    worst = tuple(map(int, np.unravel_index(int(ratio.argmax()), ratio.shape)))
    assert ratio[worst] <= 1.0, (
        f"{what}: {np.mean(ratio > 1.0):.2%} of the values are too far off; the worst, at {worst}, is "
        f"{got[worst]!r} and should be {exact[worst]!r}: {ratio[worst]:.3g} times what is allowed"
    )
