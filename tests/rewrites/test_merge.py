"""Layers that rewriting merges: when it does, what they are called, and that nothing is lost by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import _core, ops
from clcnn.graph import Graph
from helpers import need_blocks, need_tensor_cores
from runner import layers_of_graph

ALGORITHMS = tuple(_core.ops()["conv_pool"]["algos"])
TILES = ("winograd", "winograd_gemm", "winograd_mma")  # whose results are no whole numbers
EVEN = ("mma", "tf32", "wgmma", "wgmma_tf32")  # which take maps of even sides, and more channels


def need_algorithm(device: clcnn.Device, algo: str) -> None:
    """Skips where the device, or the map of these tests, is not for it."""
    need_blocks(device, "conv_pool", algo)
    need_tensor_cores(device, "conv_pool", algo)
    if algo in EVEN:
        pytest.skip(f"{algo} pools maps of even sides")


def whole(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def pooled(
    pool: str = "max_pool", size: tuple[int, int] = (11, 14), channels: int = 3, **attrs: Any
) -> Graph:
    """conv -> act -> pool, with whole numbers for weights."""
    g = Graph()
    x = g.input("x", (2, channels, *size))
    w, bias = g.constant(whole(20, channels, 3, 3, seed=1), "w"), g.constant(whole(20, seed=2), "bias")
    y = ops.relu(ops.conv(x, w, bias, padding=1, name="conv"), name="act")
    g.output(getattr(ops, pool)(y, **({"kernel_size": 2} | attrs), name="pool"), "y")
    return g


def alike(algo: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for the merged layer and for its parts, so that both compute the same: algorithms that leave
    whole numbers whole, or those that do not."""
    merged = {"algorithms": {"conv+pool": algo}, "guard": True}
    if algo in TILES:
        pool = "blocked" if algo == "winograd" else "ref"
        return merged, {"algorithms": {"conv": algo, "pool": pool}, "fuse": False}
    return merged | {"precision": "strict"}, {"precision": "strict", "fuse": False}


def chosen(plan: clcnn.Plan) -> dict[str, str]:
    """Algorithm by layer of the graph. The parts of a split layer have its name and come after it."""
    algorithms: dict[str, str] = {}
    for row in layers_of_graph(plan.layers):
        algorithms.setdefault(row["layer"], row["algo"])
    return algorithms


def test_the_merged_layer_has_both_names_and_explains_itself(device: clcnn.Device) -> None:
    with clcnn.compile(pooled(), device=device) as plan:
        assert list(chosen(plan)) == ["conv+pool"]
        assert "merge conv conv and max_pool pool" in plan.rewrites
        text = plan.explain(verbose=True)
        assert "conv+pool: conv_pool 2x3x11x14 -> 2x20x5x7, fused relu" in text
        assert all(name in text for name in ALGORITHMS)
        algo = chosen(plan)["conv+pool"]
        cells = [line.split() for line in plan.summary().splitlines()[2:5]]
        assert [(row[0], row[5]) for row in cells] == [
            ("conv", algo),
            ("act", "(merged)"),
            ("pool", "(merged)"),
        ]


@pytest.mark.parametrize(
    ("pool", "algo"),
    [(pool, a) for pool in ("max_pool", "avg_pool") for a in ALGORITHMS if (pool, a) != ("avg_pool", "stem")],
)
def test_merging_changes_no_bit_of_whole_numbers(device: clcnn.Device, pool: str, algo: str) -> None:
    need_algorithm(device, algo)
    graph, x = pooled(pool), whole(2, 3, 11, 14)
    together, apart = alike(algo)
    with (
        clcnn.compile(graph, device=device, **together) as merged,
        clcnn.compile(graph, device=device, **apart) as plain,
    ):
        assert list(chosen(plain)) == ["conv", "act", "pool"]
        np.testing.assert_array_equal(merged(x), plain(x))
        merged.check_guards()


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_nan_wins_the_maximum(device: clcnn.Device, algo: str) -> None:
    need_algorithm(device, algo)
    x = whole(2, 3, 11, 14)
    x[1, 2, 4, 5] = np.nan
    together, apart = alike(algo)
    with (
        clcnn.compile(pooled(), device=device, **together) as merged,
        clcnn.compile(pooled(), device=device, **apart) as plain,
    ):
        got = merged(x)
        np.testing.assert_array_equal(got, plain(x))
        assert np.isnan(got[1, :, 1:3, 2:4]).all()
        # The upper of two tiles of 4x4 that see it uses its last row for its last row of pixels alone.
        windows = 3 * 2 if algo in TILES else 2 * 2
        assert np.isnan(got).sum() == 20 * windows


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_size": 3, "stride": 2},
        {"kernel_size": 2, "stride": 3},
        {"kernel_size": 2, "padding": 1},
        {"kernel_size": 2, "dilation": 2},
        {"kernel_size": 2, "ceil_mode": True},
        {"kernel_size": 4},
    ],
    ids=str,
)
def test_windows_that_are_left_alone(device: clcnn.Device, attrs: dict[str, Any]) -> None:
    with clcnn.compile(pooled(channels=5, **attrs), device=device) as plan:
        assert list(chosen(plan)) == ["conv", "pool"]


STEM = {"kernel_size": 3, "stride": 2, "padding": 1}


@pytest.mark.parametrize(("size", "algo"), [((11, 14), "split_stem"), ((400, 200), "stem")])
def test_any_small_window_merges_with_the_convolution_of_an_image(
    device: clcnn.Device, size: tuple[int, int], algo: str
) -> None:
    """The kernel that does both is for maps that do not stay in the caches between the two."""
    need_blocks(device, "conv_pool", "stem")
    graph, x = pooled(size=size, **STEM), whole(2, 3, *size)
    x[0, 0, 5, 5] = np.nan
    with (
        clcnn.compile(graph, device=device) as merged,
        clcnn.compile(graph, device=device, fuse=False, precision="strict") as plain,
    ):
        assert chosen(merged) == {"conv+pool": algo}
        np.testing.assert_array_equal(merged(x), plain(x))


def test_a_mean_of_such_windows_is_left_alone(device: clcnn.Device) -> None:
    with clcnn.compile(pooled("avg_pool", **STEM), device=device) as plan:
        assert list(chosen(plan)) == ["conv", "pool"]


def test_ceil_mode_merges_where_it_changes_nothing(device: clcnn.Device) -> None:
    with clcnn.compile(pooled(size=(12, 14), ceil_mode=True), device=device) as plan:
        assert list(chosen(plan)) == ["conv+pool"]


def test_a_wanted_intermediate_result_stays(device: clcnn.Device) -> None:
    x = whole(2, 3, 11, 14)
    with clcnn.compile(pooled(), device=device, outputs=["act"]) as plan:
        assert list(chosen(plan)) == ["conv", "pool"]
        results = plan.run(x)
        assert results["act"].shape == (2, 20, 11, 14)
        np.testing.assert_array_equal(results["y"][0, 0, 0, 0], results["act"][0, 0, :2, :2].max())


def test_a_result_used_twice_stays(device: clcnn.Device) -> None:
    g = Graph()
    y = ops.conv(g.input("x", (1, 2, 8, 8)), g.constant(whole(4, 2, 3, 3), "w"), padding=1, name="conv")
    g.output(ops.max_pool(y, kernel_size=2, name="pool"), "a")
    g.output(ops.avg_pool(y, kernel_size=2, name="mean"), "b")
    with clcnn.compile(g, device=device) as plan:
        assert list(chosen(plan)) == ["conv", "pool", "mean"]


@pytest.mark.parametrize("forced", [{"conv": "ref"}, {"pool": "ref"}, {"conv": "direct", "pool": "ref"}])
def test_algorithms_of_the_parts_keep_them_apart(device: clcnn.Device, forced: dict[str, str]) -> None:
    with clcnn.compile(pooled(), device=device, algorithms=forced) as plan:
        assert list(chosen(plan)) == ["conv", "pool"]
        assert chosen(plan).items() >= forced.items()


@pytest.mark.parametrize("layer", ["conv", "pool", "conv+pool"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_algorithms_of_the_merged_layer_go_by_any_of_its_names(
    device: clcnn.Device, layer: str, algo: str
) -> None:
    need_algorithm(device, algo)
    with clcnn.compile(pooled(), device=device, algorithms={layer: algo}) as plan:
        assert chosen(plan) == {"conv+pool": algo}


def depthwise_pair() -> Graph:
    g = Graph()
    x = g.input("x", (2, 3, 11, 14))
    y = ops.conv(x, g.constant(whole(3, 1, 3, 3), "a"), padding=1, groups=3, name="conv")
    g.output(ops.conv(y, g.constant(whole(5, 3, 1, 1), "b"), name="pool"), "y")
    return g


@pytest.mark.parametrize("graph", [pooled, depthwise_pair])
def test_what_lies_between_the_parts_is_no_workspace(device: clcnn.Device, graph: Any) -> None:
    """It is an activation as without merging: a limit on scratch memory does not forbid it."""
    x = whole(2, 3, 11, 14)
    with (
        clcnn.compile(graph(), device=device, algorithms={"conv+pool": "split"}, workspace_limit=0) as split,
        clcnn.compile(graph(), device=device, fuse=False) as plain,
    ):
        assert split.stats["workspace_bytes"] == 0
        np.testing.assert_array_equal(split(x), plain(x))
