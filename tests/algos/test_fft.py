"""Convolutions by Fourier transforms of tiles: slices, limits, filters that are kept, what a NaN reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import clcnn
from caselib import parse_case
from clcnn import _core, nn
from helpers import need_blocks
from runner import MAIN, compile_case, main_layer, run_case

Array = np.ndarray
SPECTRA = "the spectra of its filters exceed four times workspace_limit"


@pytest.fixture(autouse=True)
def blocks(device: _core.Device) -> None:
    need_blocks(device, "conv", "fft")


def _points(size: int) -> int:
    """Complex values of a tile's spectrum."""
    return size * size // 2 + 2


def _layer(device: _core.Device, shapes: Sequence[Sequence[int]], computed: bool, **attrs: Any) -> _core.Plan:
    rng = np.random.default_rng(5)
    graph = _core.Graph()
    x = graph.input("x", tuple(shapes[0]))
    w = (
        graph.input("w", tuple(shapes[1]))
        if computed
        else graph.constant("w", rng.standard_normal(shapes[1], np.float32))
    )
    graph.output(graph.node("conv", MAIN, [x, w], attrs)[0], "y")
    return _core.Plan(device, graph, overrides={MAIN: "fft"})


def test_slices_of_tiles(device):
    """Less scratch than all spectra of the tiles take: several steps, some of which begin inside an image."""
    case = parse_case("conv n3 c16 h30 w31 k16 r7 s7 p3 e:add+relu")
    data = case.data()
    steps = []
    for limit in (1 << 26, 1 << 18):
        with compile_case(device, case, data, "fft", workspace_limit=limit) as plan:
            case.check(run_case(plan, case, data), data)
            steps.append(sum(row["kernel"] == "conv_fft" for row in plan.steps()))
            assert main_layer(plan)["workspace_bytes"] <= limit
    assert steps[0] == 2 < steps[1]


@pytest.mark.parametrize("limit", [0, 10_000])
def test_spectra_beyond_the_limit(device, limit):
    case = parse_case("conv n1 c16 h20 w20 k16 r7 s7 p3")
    with compile_case(device, case, case.data(), workspace_limit=limit) as plan:
        candidates = {row["algo"]: row for row in main_layer(plan)["candidates"]}
        assert main_layer(plan)["algo"] != "fft"
        assert candidates["fft"]["reason"] == SPECTRA
    with pytest.raises(_core.UnsupportedError, match=f"'fft' cannot be used here: {SPECTRA}"):
        compile_case(device, case, case.data(), "fft", workspace_limit=limit)


def test_spectra_of_constants_are_kept(device):
    """They are weights, made once; those of filters that are computed are scratch, made in every run."""
    shapes = (1, 16, 20, 20), (32, 16, 7, 7)
    least = 8 * _points(16) * 16 * 32
    with _layer(device, shapes, computed=False) as kept, _layer(device, shapes, computed=True) as made:
        kernels = [[row["kernel"] for row in plan.steps()].count("conv_fft") for plan in (kept, made)]
        assert kernels == [2, 3]
        rows = [plan.stats() for plan in (kept, made)]
    assert rows[0]["weights_bytes"] >= least > rows[1]["weights_bytes"]
    assert rows[1]["workspace_bytes"] >= least > rows[0]["workspace_bytes"]


def test_a_large_kernel_takes_a_large_tile(device):
    """17x17 does not fit a tile of 16."""
    shapes = (1, 16, 20, 20), (16, 16, 17, 17)
    with _layer(device, shapes, computed=False) as plan:
        assert plan.stats()["weights_bytes"] >= 8 * _points(32) * 16 * 16


def test_numbers_that_are_none_stay_in_their_tiles(device):
    """A NaN reaches the tiles whose pixels see it, in its own image and in all filters."""
    case = parse_case("conv n2 c3 h40 w40 k5 r5 s5 b0")
    x, w = case.data()
    x[0, 1, 3, 4] = np.nan
    with compile_case(device, case, [x, w], "fft") as plan:
        y = run_case(plan, case, [x, w])
    assert np.isnan(y[0, :, :4, :5]).all()
    assert np.isfinite(y[1]).all()
    assert np.isfinite(y[0, :, 35:, 35:]).all()


def test_the_bits_do_not_depend_on_slices(device):
    case = parse_case("conv n4 c16 h22 w22 k16 r7 s7 p3")
    data = case.data()
    results = set()
    for limit in (1 << 26, 1 << 19):
        with compile_case(device, case, data, "fft", workspace_limit=limit) as plan:
            results.add(run_case(plan, case, data).tobytes())
    assert len(results) == 1


def test_chains_and_parts_of_a_batch_give_the_same_bits(device):
    net = nn.Sequential(*[nn.Conv2d(16, 16, 7, padding=3) for _ in range(5)])
    shape = (4, 16, 20, 20)
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    forced = {str(i): "fft" for i in range(5)}
    results, chained = set(), []
    for items, chain in ((4, False), (4, None), (2, False), (1, None)):
        with clcnn.compile(net, shape, device, algorithms=forced, batch_part=items, chain=chain) as plan:
            assert {row["algo"] for row in plan.layers if row["op"] == "conv"} == {"fft"}
            chained.append(plan.stats["chained_steps"])
            results.add(plan(x).tobytes())
    assert chained[0] == 0 < chained[1]
    assert len(results) == 1
