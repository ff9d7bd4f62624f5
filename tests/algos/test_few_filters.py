"""Transposed convolutions of few filters on CPU devices: numbers that are none, choices, layouts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from caselib import parse_case
from clcnn import _core
from helpers import need_blocks
from runner import MAIN, compile_case, main_layer

Array = np.ndarray
FEW = "few_blocked"


@pytest.fixture(autouse=True)
def blocks(device: _core.Device) -> None:
    need_blocks(device, "conv_transpose", FEW)


def _defined(x: Array, w: Array, stride: int, pad: int, extra: int) -> Array:
    """Tap (r, s) of pixel (h, w) adds to output (h * stride + r - pad, w * stride + s - pad)."""
    taps, (high, wide) = w.shape[2], x.shape[2:]
    full = [(size - 1) * stride + taps + extra for size in (high, wide)]
    y = np.zeros((x.shape[0], w.shape[1], *full))
    for r, s in product(range(taps), repeat=2):
        part = y[:, :, r : r + (high - 1) * stride + 1 : stride, s : s + (wide - 1) * stride + 1 : stride]
        part += np.einsum("nchw,ck->nkhw", x.astype(float), w[:, :, r, s].astype(float))
    return y[:, :, pad : full[0] - pad, pad : full[1] - pad]


# Taps, stride, padding, output padding: the stride divides the window, is larger, or leaves some phases a
# tap less.
WINDOWS = [
    (4, 2, 1, 0),
    (9, 2, 4, 1),
    (9, 4, 4, 3),
    (9, 3, 4, 2),
    (3, 2, 1, 1),
    (2, 3, 0, 2),
    (3, 1, 0, 0),
    (3, 2, 4, 0),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("filters", [1, 2, 3, 5])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reaches_its_taps_alone(
    device: _core.Device, window: Sequence[int], filters: int, value: float
) -> None:
    """Neither a tap that a phase has not, nor a pixel outside of the image, is multiplied by anything: at
    edges and in the middle of tiles, of pixels and of weights."""
    taps, stride, pad, extra = window
    rng = np.random.default_rng(3)
    x = rng.integers(1, 5, (1, 18, 5, 37)).astype(np.float32)
    w = rng.integers(1, 5, (18, filters, taps, taps)).astype(np.float32)
    graph = _core.Graph()
    attrs = {"stride": (stride,), "padding": (pad,), "output_padding": (extra,)}
    inputs = [graph.input("x", x.shape), graph.input("w", w.shape)]
    graph.output(graph.node("conv_transpose", MAIN, inputs, attrs)[0], "y")
    with _core.Plan(device, graph, overrides={MAIN: FEW}) as plan, np.errstate(invalid="ignore"):
        for at in ((0, 0, 0, 0), (0, 17, 2, 20), (0, 5, 4, 36)):
            holed = x.copy()
            holed[at] = value
            np.testing.assert_array_equal(plan.run([holed, w])[0], _defined(holed, w, stride, pad, extra))
        for at in ((0, 0, 0, 0), (17, filters - 1, taps - 1, taps - 1), (3, 0, 0, taps - 1)):
            holed = w.copy()
            holed[at] = value
            np.testing.assert_array_equal(plan.run([x, holed])[0], _defined(x, holed, stride, pad, extra))


# Layers, and whether lanes of channels take less time there.
CHOICES = [
    ("n1 c56 h96 w96 k1 r9 s9 u2 p4 o1", True),
    ("n1 c56 h32 w32 k1 r9 s9 u3 p4 o2", True),
    ("n1 c64 h64 w64 k3 r4 s4 u2 p1 e:tanh", True),
    ("n1 c32 h64 w64 k1 r2 s2 u2", True),
    ("n1 c16 h64 w64 k3 r6 s6 u2 p2", True),
    ("n1 c32 w4000 k1 s16 u8 p4", True),
    ("n1 c32 d4 h9 w16 k1 t2 r2 s2 u2", True),
    ("n1 c4 h64 w64 k1 r2 s2 u2", True),
    ("n1 c64 h64 w64 k8 r4 s4 u2 p1", True),
    ("n1 c64 h64 w64 k16 r4 s4 u2 p1", False),  # filters fill the lanes
    ("n1 c16 h1 w1 k7 r3 s3", False),  # most places of a tile have no columns
]


@pytest.mark.parametrize(("text", "few"), CHOICES, ids=[row[0] for row in CHOICES])
def test_who_takes_them(device: _core.Device, text: str, few: bool) -> None:
    case = parse_case(f"conv_transpose {text}")
    with compile_case(device, case, case.data()) as plan:
        assert (main_layer(plan)["algo"] == FEW) == few


def test_from_blocks_to_rows_without_a_reorder(device: _core.Device) -> None:
    """Between a convolution on channel blocks and an output there is nothing to move."""
    rng = np.random.default_rng(4)
    graph = _core.Graph()
    x = graph.input("x", (1, 16, 12, 40))
    first, last = (
        graph.constant(name, rng.standard_normal(shape, np.float32))
        for name, shape in (("w0", (48, 16, 1, 1)), ("w1", (48, 1, 9, 9)))
    )
    (h,) = graph.node("conv", "first", [x, first], {})
    attrs = {"stride": (2,), "padding": (4,), "output_padding": (1,)}
    graph.output(graph.node("conv_transpose", MAIN, [h, last], attrs)[0], "y")
    with _core.Plan(device, graph) as plan:
        assert [row["kernel"] for row in plan.steps()][-2:] == ["conv_blocked", "conv_transpose_few_blocked"]
