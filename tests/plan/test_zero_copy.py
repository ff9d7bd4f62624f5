"""Inputs read and outputs written where the caller has them: any array does, none is referred to later."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

import clcnn
from clcnn import ops
from clcnn.graph import Graph

SHAPE = (2, 3, 40, 40)
Array = NDArray[np.float32]


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def network() -> Graph:
    g = Graph()
    y = g.input("x", SHAPE)
    for i in range(8):
        y = ops.relu(ops.conv(y, noise(16, y.shape[1], 3, 3, seed=i) / 8, padding=1))
    g.output(ops.sigmoid(y), "y")
    return g


def placed(like: Array, offset: int) -> Array:
    """An empty array of this shape whose address is `offset` bytes after a multiple of 64."""
    memory = np.zeros(like.size + 64, np.float32)
    start = (-memory.ctypes.data % 64 + offset) // 4
    return memory[start : start + like.size].reshape(like.shape)


@pytest.fixture(scope="module", params=[True, False], ids=["chain", "launches"])
def plan(device: clcnn.Device, request: pytest.FixtureRequest) -> clcnn.Plan:
    return clcnn.compile(network(), device=device, chain=request.param)


@pytest.fixture(scope="module")
def want(plan: clcnn.Plan) -> Callable[[Array], bytes]:
    """What a run with a timeout gives, which copies."""
    return lambda x: plan(x, timeout=100.0).tobytes()


def test_both_ends_are_shared_on_devices_in_host_memory(device: clcnn.Device, plan: clcnn.Plan) -> None:
    shared = device.type == "cpu" and device.host_unified
    assert plan.stats["shared_ends"] == (2 if shared else 0)


@pytest.mark.parametrize("offset", [0, 4, 16, 32, 60])
def test_alignment_does_not_matter(plan: clcnn.Plan, want: Callable[[Array], bytes], offset: int) -> None:
    x = noise(*SHAPE, seed=offset)
    here, y = placed(x, offset), placed(np.empty(plan.outputs["y"], np.float32), 60 - offset)
    here[...] = x
    plan(here, out=y)
    assert y.tobytes() == want(x)
    assert np.array_equal(here, x)


def test_slices_and_read_only_arrays(plan: clcnn.Plan, want: Callable[[Array], bytes]) -> None:
    many = noise(4, *SHAPE)
    many.flags.writeable = False
    results = np.zeros((4, *plan.outputs["y"]), np.float32)
    for i in (1, 2):
        plan(many[i], out=results[i])
        assert results[i].tobytes() == want(many[i])
    assert not results[0].any() and not results[3].any()


def test_an_array_may_change_after_the_call(plan: clcnn.Plan, want: Callable[[Array], bytes]) -> None:
    x = noise(*SHAPE)
    first = want(x)
    y = plan(x)
    x *= -1.0
    assert y.tobytes() == first
    assert plan(x).tobytes() == want(x) != first
    assert y.tobytes() == first


def test_memory_may_be_unmapped_after_the_call(plan: clcnn.Plan, want: Callable[[Array], bytes]) -> None:
    """Any use of it by the next run would end the process."""
    size = 4 * int(np.prod(SHAPE))
    for seed in range(4):
        memory = mmap.mmap(-1, size)
        x = np.frombuffer(memory, np.float32).reshape(SHAPE)
        x[...] = noise(*SHAPE, seed=seed)
        expected = want(x)
        y = plan(x)
        del x
        gc.collect()
        memory.close()
        assert y.tobytes() == expected
        plan.profile(noise(*SHAPE))
        assert want(noise(*SHAPE, seed=seed)) == expected


def test_tensors_and_arrays_in_turn(
    device: clcnn.Device, plan: clcnn.Plan, want: Callable[[Array], bytes]
) -> None:
    x = noise(*SHAPE)
    for _ in range(3):
        with clcnn.Tensor(device, SHAPE) as source, clcnn.Tensor(device, plan.outputs["y"]) as result:
            source.write(x)
            plan(source, out=result)
            assert result.numpy().tobytes() == want(x)
            assert plan(source).tobytes() == want(x)
            plan(x, out=result)
            assert result.numpy().tobytes() == want(x)
            assert source.numpy().tobytes() == x.tobytes()
        assert plan(x).tobytes() == want(x)


def test_a_closed_tensor_is_refused(device: clcnn.Device, plan: clcnn.Plan) -> None:
    source = clcnn.Tensor(device, SHAPE)
    source.close()
    with pytest.raises(clcnn.StateError):
        plan(source)
    assert np.isfinite(plan(noise(*SHAPE))).all()


def test_threads_with_clones(plan: clcnn.Plan, want: Callable[[Array], bytes]) -> None:
    inputs = [noise(*SHAPE, seed=i) for i in range(4)]
    expected = [want(x) for x in inputs]

    def work(i: int) -> bool:
        with plan.clone() as own:
            return all(own(inputs[i].copy()).tobytes() == expected[i] for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_a_run_leaves_nothing_behind(device: clcnn.Device, plan: clcnn.Plan) -> None:
    x = noise(*SHAPE)
    y = plan(x)
    before = device.stats()["live_objects"]
    for _ in range(50):
        plan(x, out=y)
        plan(x)
    assert device.stats()["live_objects"] == before


def test_ends_that_share_memory_with_others(device: clcnn.Device) -> None:
    """Views, a value that goes out twice, an input that goes out as it is, constants, parts of a concat."""
    g = Graph()
    x, unused = g.input("x", (2, 8, 5, 5)), g.input("unused", (3, 3))
    y = ops.relu(x)
    z = ops.neg(x)
    g.output(x, "same")
    g.output(y, "y")
    g.output(y, "again")
    g.output(ops.concat([y, z], dim=1), "both")
    g.output(z, "part")
    g.output(ops.reshape(z, shape=(2, 200)), "view")
    g.output(ops.abs(unused), "other")
    a, b = noise(2, 8, 5, 5), noise(3, 3)
    with clcnn.compile(g, device=device) as plan:
        for _ in range(2):
            got = plan.run([a, b])
            relu = np.maximum(a, 0.0)
            assert np.array_equal(got["same"], a)
            assert np.array_equal(got["y"], relu) and np.array_equal(got["again"], relu)
            assert np.array_equal(got["both"], np.concatenate([relu, -a], axis=1))
            assert np.array_equal(got["part"], -a) and np.array_equal(got["view"], -a.reshape(2, 200))
            assert np.array_equal(got["other"], np.abs(b))
            a *= 2.0


def test_more_ends_than_can_be_shared(device: clcnn.Device) -> None:
    g = Graph()
    inputs = [g.input(f"x{i}", (1, 16, 4, 4)) for i in range(20)]
    for i, x in enumerate(inputs):
        g.output(ops.relu(ops.neg(x)), f"y{i}")
    arrays = [noise(1, 16, 4, 4, seed=i) for i in range(20)]
    with clcnn.compile(g, device=device) as plan:
        for got, x in zip(plan(*arrays), arrays, strict=True):
            assert np.array_equal(got, np.maximum(-x, 0.0))
