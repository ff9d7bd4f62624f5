"""memory_limit: the planner meets it by another plan, and refuses only what no plan meets."""

from __future__ import annotations

import re

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn.graph import Graph
from helpers import need_blocks
from runner import layers_of_graph

BATCH = 8
ROUNDED = 64  # bytes that a message may be off by, being rounded to a tenth of a KiB
NOTE = re.compile(r"memory_limit: ([\d.]+) instead of ([\d.]+) KiB, at ([\d.]+) times the expected time")
SMALLEST = re.compile(r"the smallest plan needs ([\d.]+) KiB")


def weights(*shape: int, seed: int) -> np.ndarray:
    scale = (2 / np.prod(shape[1:])) ** 0.5
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def network() -> Graph:
    """Three convolutions, each with a norm, whose maps take several times what the weights do."""
    g = Graph()
    y = g.input("x", (BATCH, 16, 40, 40))
    for i in range(3):
        y = ops.conv(y, g.constant(weights(64, y.shape[1], 3, 3, seed=i)), padding=1, name=f"conv{i}")
        scale, shift = np.full(64, 1 + i / 4, np.float32), np.full(64, 0.1, np.float32)
        y = ops.relu(ops.batch_norm(y, scale, shift, shift, scale, name=f"norm{i}"))
    g.output(ops.max_pool(y, kernel_size=2, name="pool"), "y")
    return g


def image() -> np.ndarray:
    return np.random.default_rng(9).standard_normal((BATCH, 16, 40, 40)).astype(np.float32)


def noted(plan: clcnn.Plan) -> tuple[float, float, float] | None:
    """KiB of this plan and of the one that it stands for, and the expected time over that one's."""
    found = [NOTE.fullmatch(line) for line in plan.rewrites]
    groups = [m.groups() for m in found if m]
    return tuple(map(float, groups[0])) if groups else None  # type: ignore[return-value]


def least(device: clcnn.Device, graph: Graph, **options: int) -> int:
    """Bytes of the smallest plan, which a refusal tells."""
    with pytest.raises(clcnn.DeviceMemoryError, match="more than memory_limit 0.5 KiB") as refusal:
        clcnn.compile(graph, device=device, memory_limit=512, **options)
    found = SMALLEST.search(str(refusal.value))
    assert found and "arena" in str(refusal.value) and "weights" in str(refusal.value)
    return int(float(found[1]) * 1024) + ROUNDED


def test_every_limit_from_the_least_is_met(device: clcnn.Device) -> None:
    graph, x = network(), image()
    with clcnn.compile(graph, device=device) as plan:
        expected, most = plan(x), plan.peak_bytes
        assert noted(plan) is None
    smallest = least(device, graph)
    assert smallest < 0.7 * most
    times = []
    for limit in np.linspace(smallest, most - 1, 6).astype(int):
        with clcnn.compile(graph, device=device, memory_limit=int(limit)) as plan:
            assert plan.peak_bytes <= limit
            note = noted(plan)
            assert note and abs(note[0] * 1024 - plan.peak_bytes) < 64 and abs(note[1] * 1024 - most) < 64
            assert "memory_limit: " in plan.explain()
            times.append(note[2])
            np.testing.assert_allclose(plan(x), expected, rtol=1e-4, atol=1e-4)
    assert times == sorted(times, reverse=True), "less memory is expected to be faster"


def test_a_limit_that_is_met_anyway_changes_nothing(device: clcnn.Device) -> None:
    with clcnn.compile(network(), device=device) as plan:
        usual = plan.explain(), plan.peak_bytes
    with clcnn.compile(network(), device=device, memory_limit=usual[1]) as plan:
        assert (plan.explain(), plan.peak_bytes) == usual


def test_what_no_plan_meets_is_refused_before_anything_is_allocated(device: clcnn.Device) -> None:
    graph = network()
    smallest = least(device, graph)
    before = device.stats()["bytes_now"]
    with pytest.raises(clcnn.DeviceMemoryError, match="the smallest plan needs"):
        clcnn.compile(graph, device=device, memory_limit=smallest - 256)
    assert device.stats()["bytes_now"] == before
    clcnn.compile(graph, device=device, memory_limit=smallest).close()


def test_items_that_the_caller_sets_stay(device: clcnn.Device) -> None:
    graph = network()
    with clcnn.compile(graph, device=device, batch_part=BATCH) as plan:
        most = plan.peak_bytes
    whole = least(device, graph, batch_part=BATCH)
    assert least(device, graph) < whole <= most + 2 * ROUNDED
    with clcnn.compile(graph, device=device, batch_part=BATCH, memory_limit=whole) as plan:
        assert "items at a time" not in plan.explain()


def test_an_algorithm_that_needs_scratch_keeps_it(device: clcnn.Device) -> None:
    graph = network()
    forced = {f"conv{i}": "im2col" for i in range(3)}
    try:
        with clcnn.compile(graph, device=device, algorithms=forced) as plan:
            most = plan.peak_bytes
    except clcnn.UnsupportedError as error:
        pytest.skip(str(error))
    with clcnn.compile(graph, device=device, algorithms=forced, memory_limit=most // 2) as plan:
        assert plan.peak_bytes <= most // 2
        assert {row["algo"] for row in layers_of_graph(plan.layers) if row["op"] == "conv"} == {"im2col"}


def test_weights_that_may_be_overwritten_are_folded_once(device: clcnn.Device) -> None:
    x = image()
    with clcnn.compile(network(), device=device) as plan:
        expected = plan(x)
        most = plan.peak_bytes
    graph = network()
    graph._donate(())
    with clcnn.compile(graph, device=device, memory_limit=int(most * 0.8)) as plan:
        assert noted(plan)
        np.testing.assert_allclose(plan(x), expected, rtol=1e-4, atol=1e-4)


def at_odd_address(x: np.ndarray) -> np.ndarray:
    """The same numbers where vectors of 16 bytes may not lie."""
    memory = np.empty(x.nbytes + 16, np.uint8)
    odd = memory[4 + -memory.ctypes.data % 16 :][: x.nbytes].view(np.float32).reshape(x.shape)
    odd[:] = x
    return odd


@pytest.mark.parametrize("chain", [True, False])
def test_inputs_that_a_run_has_to_copy(device: clcnn.Device, chain: bool) -> None:
    """A plan within a limit reads inputs where they are; a copy of them takes memory for its run alone."""
    graph, x = network(), image()
    with clcnn.compile(graph, device=device, memory_limit=least(device, graph), chain=chain) as plan:
        expected = plan(x)
        other = plan(x[::-1].copy())
        assert np.abs(other - expected).max() > 0.1
        tensor = clcnn.Tensor.from_numpy(x, device=device)
        before = device.stats()["bytes_now"]
        for _ in range(2):
            np.testing.assert_array_equal(plan(x, timeout=60), expected)
            np.testing.assert_array_equal(plan(at_odd_address(x)), expected)
            np.testing.assert_array_equal(plan(tensor), expected)
            np.testing.assert_array_equal(plan._core.profile([x])[0][0], expected)
            np.testing.assert_array_equal(plan(x), expected)
        with plan.clone() as another:
            np.testing.assert_array_equal(another(at_odd_address(x)), expected)
        assert device.stats()["bytes_now"] == before


def classifier() -> Graph:
    """Maps that shrink, while weights grow: those at the end are read once for all items."""
    g = Graph()
    y = g.input("x", (BATCH, 16, 64, 64))
    for i, width in enumerate((32, 64, 128, 256)):
        w = g.constant(weights(width, y.shape[1], 3, 3, seed=i))
        y = ops.relu(ops.conv(y, w, padding=1, stride=1 if i == 0 else 2, name=f"conv{i}"))
    g.output(ops.adaptive_avg_pool(y, output_size=1), "y")
    return g


def test_layers_at_the_end_compute_all_items(device: clcnn.Device) -> None:
    need_blocks(device, "conv", "blocked")
    graph = classifier()
    x = np.random.default_rng(1).standard_normal((BATCH, 16, 64, 64)).astype(np.float32)
    smallest = least(device, graph)
    with clcnn.compile(graph, device=device) as plan:
        expected, most = plan(x), plan.peak_bytes
    ends = set()
    for limit in np.linspace(smallest, most - 1, 9).astype(int):
        with clcnn.compile(graph, device=device, memory_limit=int(limit)) as plan:
            spans = [line for line in plan.rewrites if "items at a time" in line]
            ends |= {line.split(":")[0].split(" to ")[1] for line in spans}
            np.testing.assert_allclose(plan(x), expected, rtol=1e-4, atol=1e-4)
    assert len(ends) > 1, "the span of a few items ends earlier where there is more memory"
