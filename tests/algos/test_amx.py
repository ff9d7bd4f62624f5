"""Tiles of bfloat16: floats as three parts, positions of many shapes, many channels, what is not finite."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from conftest import ROOT

import contract
from caselib import parse_case
from clcnn import _core
from helpers import computed, need_blocks
from runner import compile_case, run_case, try_case
from tolerance import compare

Array = np.ndarray
CHANNELS, FILTERS = 320, 72
X, W = (2, CHANNELS, 5, 9), (FILTERS, CHANNELS, 1, 1)

# Sizes whose last blocks are in part empty, gaps wider than windows, and padding beyond them.
SHAPES = (
    "n3 c33 h5 w7 k35 r1 s1",
    "n2 c40 h9 w10 k33 r1 s1 u2",
    "n2 c33 h7 w7 k65 r3 s3 p1",
    "n3 c17 h5 w6 k20 r2 s4",
    "n2 c20 h6 w5 k20 r3 s3 p5",
    "n2 c20 h9 w11 k20 r3 s2 p2 l3",
    "n1 c20 h1 w70 k20 r1 s5 p0x2",
    "n2 c20 w37 k33 s3 p1",
    "n1 c70 h40 w40 k33 r3 s3 p1 e:add+relu",
    "n2 c33 h9 w12 k20 r3 s3 u2 p1",
    "n1 c20 h11 w10 k33 r5 s4 u3x2 p2x0 l1x2",
    "n2 c20 h12 w13 k20 r2 s2 u3",
    "n1 c20 h6 w7 k20 r3 s3 u4 p5",
    "n1 c40 h57 w57 k33 r3 s3 u2 p1",
)
ROWS = (
    "linear [33,33] w[35,33] w[35]",
    "linear [3,40,70] w[300,70] w[300] e:relu",
    "linear [600,70] w[33,70] e:add",
    "linear [5,2100] w[70,2100] w[70]",
)

# More channels than stay near.
DEEP = ("linear [40,5000] w[1700,5000]", "conv n1 c3000 h9 w9 k70 r1 s1")


@pytest.fixture
def blocks(device: _core.Device) -> _core.Device:
    need_blocks(device, "conv", "amx")
    if try_case(device, parse_case("conv n1 c32 h4 w4 k32 r1 s1"), "amx").rejected:
        pytest.skip("vectors have fewer than 16 floats")
    return device


@pytest.fixture
def convolve(blocks: _core.Device) -> Callable[[Array, Array], Array]:
    """A 1x1 convolution by tiles; both arrays are inputs."""

    return lambda x, w: computed(blocks, "conv", "amx", x, w)


def _exact(x: Array, w: Array) -> Array:
    x, w = x.astype(np.float32).astype(np.float64), w.astype(np.float32).astype(np.float64)
    return np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])


@pytest.mark.parametrize("text", [f"conv {shape}" for shape in SHAPES] + list(ROWS))
def test_positions_of_all_shapes(blocks, text):
    outcome = try_case(blocks, parse_case(text), "amx")
    assert not outcome.rejected and outcome.failures == []


@pytest.mark.parametrize("text", DEEP)
def test_more_channels_than_stay_near(blocks, text):
    """Sums wait while the next channels are split, or come from a step before."""
    outcome = try_case(blocks, parse_case(text), "amx")
    assert not outcome.rejected and outcome.failures == []


@pytest.mark.parametrize("text", [f"conv {shape}" for shape in SHAPES] + list(ROWS) + list(DEEP))
def test_filters_that_are_split_in_every_run_give_the_same_bits(blocks, text):
    """As floats they take two thirds of the memory."""
    case = parse_case(text)
    data = case.data()
    weights, results = [], []
    for fresh in (False, True):
        with compile_case(blocks, case, data, "amx", fresh_filters=fresh, guard=True) as plan:
            results.append(run_case(plan, case, data))
            plan.check_guards()
            weights.append(plan.stats()["weights_bytes"])
    assert weights[1] < 0.75 * weights[0]
    np.testing.assert_array_equal(*results)


def test_groups_split_their_positions_where_there_are_many(blocks):
    case = parse_case("linear [20,64] w[320,64]")
    with compile_case(blocks, case, case.data(), "amx") as plan:
        assert len(plan.steps()) == 2
    case = parse_case(f"linear [{4 * 32 * blocks.compute_units},64] w[320,64]")
    with compile_case(blocks, case, case.data(), "amx") as plan:
        assert len(plan.steps()) == 1


@pytest.mark.parametrize("text", ["conv n2 c70 h7 w9 k40 r3 s3 p1", "linear [300,200] w[70,200] w[70]"])
def test_whole_numbers_come_out_exactly(blocks, text):
    case = parse_case(text)
    data = case.data("integer")
    with compile_case(blocks, case, data, "amx") as plan:
        case.check(run_case(plan, case, data), data, "exact")


@pytest.mark.parametrize("spread", [0.0, 1.5, 6.0])
def test_sums_are_as_exact_as_those_of_floats(convolve, spread):
    """Six products of parts leave out what float32 rounds off anyway."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape) * np.exp(spread * rng.standard_normal(shape)) for shape in (X, W))
    y, wanted = convolve(x, w), _exact(x, w)
    products = contract.Products(x, w, {})
    contract.check(y, wanted, contract.allowed(products, CHANNELS, "strict", "componentwise"), "conv")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_pixel_alone(convolve, value):
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    x[1, 9, 3, 4] = value
    y, wanted = convolve(x, w), _exact(np.where(np.isfinite(x), x, 0.0), w)
    spoilt = np.zeros(y.shape, bool)
    spoilt[1, :, 3, 4] = True
    assert not np.isfinite(y[spoilt]).any()
    compare(y[~spoilt], wanted[~spoilt], "conv")


def test_a_weight_that_is_not_finite_spoils_its_filter_alone(convolve):
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal(X), rng.standard_normal(W)
    w[3, 100] = np.nan
    y, others = convolve(x, w), np.arange(FILTERS) != 3
    assert not np.isfinite(y[:, 3]).any()
    compare(y[:, others], _exact(x, w[others]), "conv")


WITHOUT = """
import numpy as np
from clcnn import _core
from caselib import parse_case
from clcnn.wisdom.measure import _others
from runner import compile_case, main_layer, try_case
with _core.Device("cpu") as device:
    case = parse_case("linear [256,640] w[640,640]")
    assert try_case(device, case, "amx").failures == []
    with compile_case(device, case, case.data()) as plan:
        assert main_layer(plan)["algo"] != "amx"
        assert "panels" in _others(main_layer(plan), False) + [main_layer(plan)["algo"]]
        assert "amx" not in _others(main_layer(plan), False)
    with compile_case(device, case, case.data(), "amx") as plan:
        print(plan.steps()[0]["defines"])
"""


def test_processors_without_tiles_compute_the_same(blocks):
    """The same kernel in OpenCL C, which no rule chooses, and which is not measured."""
    paths = [str(ROOT / "python"), str(ROOT / "tests" / "lib")]
    code = f"import os, sys; os.environ['CLCNN_AMX_TILES'] = '0'; sys.path[:0] = {paths}\n{WITHOUT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "AMX=0" in done.stdout
