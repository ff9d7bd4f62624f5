"""States: what a run leaves in them, when, and who takes turns."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import clcnn
from clcnn import _core, ops

DEVICE = os.environ.get("CLCNN_TEST_DEVICE", "cpu")
SIZE = 37


def numbers(start: float = 1.0, size: int = SIZE) -> np.ndarray:
    return np.arange(start, start + size, dtype=np.float32)


@pytest.fixture(scope="module")
def device() -> Iterator[_core.Device]:
    with clcnn.Device(DEVICE) as opened:
        yield opened


def counter(batch: int = 3, below: float = 1e6) -> clcnn.Graph:
    """Adds the sum of its input to "a" and puts what "a" was into "b", if that sum is below a limit."""
    g = clcnn.Graph()
    x = g.input("x", (batch, 2))
    a, b = g.state("a", (SIZE,)), g.state("b", (SIZE,))
    total = ops.reshape(ops.reduce_sum(x), shape=(1,))
    g.output(total, "total")
    g.output(b, "old")
    g.assign(a, a + total)
    g.assign(b, a)
    g.commit_when(ops.less(total, np.full(1, below, np.float32)))
    return g


def ones(batch: int = 3) -> np.ndarray:
    return np.ones((batch, 2), np.float32)


def fresh(device: _core.Device) -> clcnn.State:
    return clcnn.State({"a": numbers(), "b": numbers(100.0)}, device)


def test_a_step_commits_and_a_call_does_not(device):
    with fresh(device) as state, clcnn.compile(counter(), device=device, state=state) as plan:
        for _ in range(2):
            total, old = plan(ones())
            assert total == 6.0 and np.array_equal(old, numbers(100.0))
            assert np.array_equal(state["a"], numbers()) and np.array_equal(state["b"], numbers(100.0))
        total, old = plan.step(ones())
        assert total == 6.0 and np.array_equal(old, numbers(100.0))
        assert np.array_equal(state["a"], numbers() + 6.0) and np.array_equal(state["b"], numbers())
        _, old = plan.step(ones(), timeout=60.0)
        assert np.array_equal(old, numbers())
        assert np.array_equal(state["a"], numbers() + 12.0) and np.array_equal(state["b"], numbers() + 6.0)


@pytest.mark.parametrize("value", [1e7, np.nan, np.inf])
def test_a_condition_that_is_false_leaves_all_as_it_is(device, value):
    with fresh(device) as state, clcnn.compile(counter(), device=device, state=state) as plan:
        plan.step(ones() * np.float32(value))
        assert np.array_equal(state["a"], numbers()) and np.array_equal(state["b"], numbers(100.0))
        plan.step(ones())
        assert np.array_equal(state["a"], numbers() + 6.0)


def test_nothing_but_a_step_changes_a_bit(device):
    odd = np.array([0x7FC12345, 0xFF812345, 0x80000000, 0x00000001], np.uint32).view(np.float32)
    values = np.concatenate([odd, numbers(size=SIZE - odd.size)])
    with clcnn.State({"a": values, "b": values}, device) as state:
        for chain in (None, True, False):
            with clcnn.compile(counter(), device=device, state=state, chain=chain) as plan:
                plan.profile(ones())
                plan(ones())
                plan.step(ones() * np.float32(np.nan))
                plan.profile(ones())
        for name in state.names():
            assert np.array_equal(state[name].view(np.uint32), values.view(np.uint32))


def test_tuning_commits_nothing(device, monkeypatch, tmp_path):
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    with fresh(device) as state:
        with clcnn.compile(counter(), device=device, state=state, tune="measure") as plan:
            assert np.array_equal(state["a"], numbers()) and np.array_equal(state["b"], numbers(100.0))
            plan.step(ones())
        assert np.array_equal(state["a"], numbers() + 6.0)


def test_profile_after_a_step_commits_nothing(device):
    with fresh(device) as state, clcnn.compile(counter(), device=device, state=state) as plan:
        plan.step(ones())
        profile = plan.profile(ones())
        assert [row.op for row in profile.rows][-2:] == ["commit", "commit"]
        assert np.array_equal(state["a"], numbers() + 6.0)


def test_states_that_swap(device):
    g = clcnn.Graph()
    a, b = g.state("a", (5, 3)), g.state("b", (5, 3))
    g.output(ops.relu(g.input("x", (1,))), "y")
    g.assign(a, b)
    g.assign(b, a)
    one, two = numbers(size=15).reshape(5, 3), -numbers(size=15).reshape(5, 3)
    for guard in (False, True):
        with (
            clcnn.State({"a": one, "b": two}, device) as state,
            clcnn.compile(g, device=device, state=state, guard=guard) as plan,
        ):
            plan.step(np.ones(1, np.float32))
            assert np.array_equal(state["a"], two) and np.array_equal(state["b"], one)
            if guard:
                plan.check_guards()


def test_other_types(device):
    g = clcnn.Graph()
    n, flag = g.state("n", (4,), "int64"), g.state("flag", (1,), "bool")
    g.output(ops.relu(g.input("x", (1,))), "y")
    g.assign(n, n + np.ones(4, np.int64))
    g.assign(flag, ops.logical_not(flag))
    g.commit_when(flag)
    arrays = {"n": np.arange(4) + 2**40, "flag": np.ones(1, bool)}
    with clcnn.State(arrays, device) as state, clcnn.compile(g, device=device, state=state) as plan:
        for _ in range(3):  # the first step turns the flag off, and no other one commits
            plan.step(np.ones(1, np.float32))
        assert np.array_equal(state["n"], arrays["n"] + 1) and not state["flag"][0]


@pytest.mark.parametrize("guard", [False, True])
def test_slices_of_a_state_are_views(device, guard):
    rng = np.random.default_rng(3)
    w, b = rng.normal(size=(4, 3, 3, 3)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    flat = np.concatenate([numbers(size=5), w.ravel(), b]).astype(np.float32)
    g = clcnn.Graph()
    x = g.input("x", (2, 3, 9, 9))
    params = g.state("params", flat.shape)
    weights = ops.reshape(ops.slice(params, starts=[5], ends=[113], axes=[0]), shape=w.shape)
    bias = ops.slice(params, starts=[113], ends=[117], axes=[0])
    y = ops.relu(ops.conv(x, weights, bias, padding=1))
    g.output(y, "y")
    g.assign(params, params * np.float32(2.0))
    data = rng.normal(size=(2, 3, 9, 9)).astype(np.float32)
    h = clcnn.Graph()
    h.output(ops.relu(ops.conv(h.input("x", data.shape), w, b, padding=1)), "y")
    with (
        clcnn.State({"params": flat}, device) as state,
        clcnn.compile(g, device=device, state=state, guard=guard) as plan,
    ):
        assert not {"slice", "reshape"} & {step["op"] for step in plan.steps}
        got = plan.step(data)
        assert np.array_equal(state["params"], 2 * flat)
        again = plan(data)
        if guard:
            plan.check_guards()
    with clcnn.compile(h, device=device) as plan:
        wanted = plan(data)
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert np.allclose(again, 2 * wanted, rtol=1e-5, atol=1e-5)


def test_plans_of_two_batches_share_a_state(device):
    with (
        fresh(device) as state,
        clcnn.compile(counter(3), device=device, state=state) as one,
        clcnn.compile(counter(5), device=device, state=state) as two,
    ):
        one.step(ones(3))
        two.step(ones(5))
        one.step(ones(3))
        assert np.array_equal(state["a"], numbers() + 22.0)
        assert np.array_equal(state["b"], numbers() + 16.0)


def test_threads_take_turns(device):
    with fresh(device) as state:
        plans = [clcnn.compile(counter(n), device=device, state=state) for n in (1, 2, 2)]
        plans.append(plans[0])
        seen: list[str] = []

        def work(plan: clcnn.Plan, batch: int) -> None:
            for _ in range(50):
                plan.step(ones(batch))
                if not np.array_equal(np.diff(state["a"]), np.ones(SIZE - 1)):
                    seen.append("torn")

        threads = [threading.Thread(target=work, args=row) for row in zip(plans, (1, 2, 2, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for plan in plans:
            plan.close()
        assert not seen
        assert np.array_equal(state["a"], numbers() + 50 * 2 * (1 + 2 + 2 + 1))


def test_memory_is_counted_and_given_back():
    size = 1 << 20
    with clcnn.Device(DEVICE) as device:
        before = device.stats()["bytes_now"]
        state = clcnn.State({"a": np.zeros(size, np.float32)}, device)
        assert device.stats()["bytes_now"] == before + 4 * size
        with state:
            pass
        assert state.closed and device.stats()["bytes_now"] == before
        state.close()
        g = clcnn.Graph()
        a = g.state("a", (size,))
        g.output(ops.relu(g.input("x", (1,))), "y")
        g.assign(a, a + np.float32(1))
        state = clcnn.State({"a": np.zeros(size, np.float32)}, device)
        plan = clcnn.compile(g, device=device, state=state)
        del state  # the plan keeps it
        plan.step(np.ones(1, np.float32))
        plan.close()
        del plan
        assert device.stats()["bytes_now"] == before
    with clcnn.Device(DEVICE, memory_limit=2 * size) as device:
        with pytest.raises(clcnn.DeviceMemoryError, match="state a: 4.00 MiB of device memory asked"):
            clcnn.State({"a": np.zeros(size, np.float32)}, device)
        assert device.stats()["bytes_now"] == 0


# ---- what is refused ----


def refused(kind: type[clcnn.Error], words: str, device: _core.Device, state: clcnn.State | None) -> None:
    with pytest.raises(kind, match=words):
        clcnn.compile(counter(), device=device, state=state)


def test_a_state_that_does_not_fit(device):
    refused(clcnn.ArgumentError, "state a: no state was given", device, None)
    with clcnn.State({"a": numbers(), "c": numbers()}, device) as state:
        refused(clcnn.ArgumentError, "state b: the state has no such array; it has: a, c", device, state)
    with clcnn.State({"a": numbers(), "b": numbers(size=3)}, device) as state:
        refused(clcnn.ShapeError, r"state b: .* wants shape \[37\], .* has \[3\]", device, state)
    with clcnn.State({"a": numbers(), "b": np.zeros(SIZE, np.int32)}, device) as state:
        refused(clcnn.DtypeError, "state b: the graph wants float32, .* of int32", device, state)
    with clcnn.Device(DEVICE) as other, fresh(other) as state:
        refused(clcnn.ArgumentError, "state a: it is on another device than the plan", device, state)
    with pytest.raises(clcnn.DtypeError, match="state: expected a clcnn.State or None, got 3"):
        clcnn.compile(counter(), device=device, state=3)  # type: ignore[arg-type]


def test_files_have_no_states(tmp_path):
    with pytest.raises(clcnn.ArgumentError, match="save: state a: a file has no states"):
        clcnn.save(counter(), tmp_path / "a.clcnn")
    onnx = pytest.importorskip("clcnn.onnx")
    with pytest.raises(clcnn.ArgumentError, match="ONNX: state a: a file has no states"):
        onnx.save(counter(), tmp_path / "a.onnx")


def test_a_closed_state(device):
    state = fresh(device)
    with clcnn.compile(counter(), device=device, state=state) as plan:
        state.close()
        for use in (plan, plan.step, plan.profile):
            with pytest.raises(clcnn.StateError, match="the state is closed"):
                use(ones())
        with pytest.raises(clcnn.StateError, match="the state is closed"):
            state["a"]
    refused(clcnn.StateError, "the state is closed", device, state)


def test_clones_are_refused_where_states_change(device):
    with fresh(device) as state, clcnn.compile(counter(), device=device, state=state) as plan:
        with pytest.raises(clcnn.UnsupportedError, match="assigns states has no clones"):
            plan.clone()
        g = clcnn.Graph()
        g.output(ops.relu(g.state("a", (SIZE,))), "y")
        with clcnn.compile(g, device=device, state=state) as reader, reader.clone() as clone:
            assert np.array_equal(clone(), numbers())
            with pytest.raises(clcnn.ArgumentError, match="assigns no state"):
                reader.step()
            plan.step(ones())
            assert np.array_equal(clone(), numbers() + 6.0)


def test_arrays_of_a_state(device):
    with fresh(device) as state:
        assert state.names() == ["a", "b"] and "a" in state and "c" not in state
        assert "a 37, b 37 (296 B)" in repr(state) and state.nbytes == 296
        state["a"] = numbers(5.0)
        assert np.array_equal(state["a"], numbers(5.0))
        with pytest.raises(clcnn.ArgumentError, match=r"state c: there is no such array, of \['a', 'b'\]"):
            state["c"]
        with pytest.raises(clcnn.ShapeError, match="state a"):
            state["a"] = numbers(size=3)
        with pytest.raises(clcnn.DtypeError, match="state a"):
            state["a"] = np.zeros(SIZE)
    with pytest.raises(clcnn.DtypeError, match="state a"):
        clcnn.State({"a": [1.0]}, device)  # type: ignore[dict-item]
    with pytest.raises(clcnn.ShapeError, match="state a"):
        clcnn.State({"a": np.zeros(0, np.float32)}, device)


def test_what_a_graph_refuses():
    g = clcnn.Graph()
    a, x = g.state("a", (3,)), g.input("x", (3,))
    with pytest.raises(clcnn.ArgumentError, match="constant or state of this name exists"):
        g.input("a", (3,))
    with pytest.raises(clcnn.ArgumentError, match="is no state of the graph"):
        g.assign(x, a)
    with pytest.raises(clcnn.ShapeError, match=r"state a has shape \[3\], the new value \[4\]"):
        g.assign(a, g.input("y", (4,)))
    with pytest.raises(clcnn.DtypeError, match="state a is of float32, the new value of int32"):
        g.assign(a, g.input("n", (3,), "int32"))
    g.assign(a, x)
    with pytest.raises(clcnn.ArgumentError, match="state a is assigned already"):
        g.assign(a, x)
    with pytest.raises(clcnn.DtypeError, match="must be one bool, got float32"):
        g.commit_when(x)
    with pytest.raises(clcnn.ShapeError, match=r"must be one bool, got bool of shape \[3\]"):
        g.commit_when(ops.less(x, a))
    g.commit_when(g.input("when", (1,), "bool"))
    with pytest.raises(clcnn.ArgumentError, match="has a condition already"):
        g.commit_when(g.input("then", (1,), "bool"))
    copy = g.copy()
    assert list(copy.states) == ["a"] and [r.kind for r in copy.records] == [r.kind for r in g.records]


# ---- a step is whole or not at all ----

CALLS = ("clEnqueueNDRangeKernel", "clFinish", "clEnqueueMarkerWithWaitList", "clSetKernelArg", "*")


@pytest.mark.parametrize("timeout", [None, 60.0])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_leaves_a_whole_step(device, monkeypatch, call, timeout):
    with fresh(device) as state, clcnn.compile(counter(), device=device, state=state) as plan:
        failed = 0
        for nth in range(1, 100 if call == "*" else 30):
            before = state["a"][0]
            monkeypatch.setenv("CLCNN_FAULT", f"{call}:{nth}:-5")
            error = None
            try:
                _core.devices()  # counts from here on
                plan.step(ones(), timeout=timeout)
            except clcnn.Error as why:
                error = why
            monkeypatch.delenv("CLCNN_FAULT")
            _core.devices()
            a, b = state["a"], state["b"]
            committed = a[0] == before + 6.0
            assert committed or (error is not None and a[0] == before), error
            assert all(np.array_equal(np.diff(array), np.ones(SIZE - 1)) for array in (a, b))
            if committed:
                assert b[0] == before
            failed += error is not None
        plan.step(ones())
        assert failed or call == "clEnqueueMarkerWithWaitList"


def test_a_step_that_could_not_be_ended(device, monkeypatch):
    """Calls fail for good once the first state is written: then no run takes the state for whole."""
    g = counter()
    with fresh(device) as state, clcnn.compile(g, device=device, state=state) as plan:
        last = len(plan.steps)
        monkeypatch.setenv("CLCNN_FAULT", f"clEnqueueNDRangeKernel:-{last}:-5")
        _core.devices()
        with pytest.raises(clcnn.DeviceError):
            plan.step(ones())
        monkeypatch.delenv("CLCNN_FAULT")
        _core.devices()
        for use in (plan, plan.step, plan.profile):
            with pytest.raises(clcnn.StateError, match="state a: a step failed while it was written"):
                use(ones())
        state["a"] = numbers()
        with pytest.raises(clcnn.StateError, match="state b: a step failed while it was written"):
            plan.step(ones())
        state["b"] = numbers(100.0)
        plan.step(ones())
        assert np.array_equal(state["a"], numbers() + 6.0) and np.array_equal(state["b"], numbers())


@pytest.mark.skipif(DEVICE != "cpu", reason="chains of single work-items are CPU devices'")
def test_a_run_that_is_repeated_commits_once(device, monkeypatch):
    g = counter()
    x = g.inputs["x"]
    for i in range(12):  # enough steps for a chain
        x = ops.softmax(ops.relu(x), dim=1, name=f"s{i}")
    g.output(x, "more")
    with fresh(device) as state, clcnn.compile(g, device=device, state=state, chain=True) as plan:
        assert plan.stats["chained_steps"] > 0
        monkeypatch.setenv("CLCNN_FAULT", "chain_wait:1:-1")
        _core.devices()
        with pytest.warns(RuntimeWarning, match="waited for each other in vain"):
            plan.step(ones())
        assert plan.stats["chained_steps"] == 0
        assert np.array_equal(state["a"], numbers() + 6.0) and np.array_equal(state["b"], numbers())
        plan.step(ones())
        assert np.array_equal(state["a"], numbers() + 12.0)
