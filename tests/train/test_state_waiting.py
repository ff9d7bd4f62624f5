"""States while runs are under way: Ctrl-C, time-outs, signal handlers, forks."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

import clcnn
import slow_plan
from clcnn import ops
from helpers import python
from trainers import alarm_after

SIZE = 1 << 21  # floats: a step takes some milliseconds, most of them in the commit
NAMES = ("a", "b", "c")
X = np.ones(1, np.float32)


class Interrupted(Exception):
    pass


def raise_it(*_: object) -> None:
    raise Interrupted


@pytest.fixture(scope="module")
def counted(device: clcnn.Device) -> Iterator[tuple[clcnn.State, clcnn.Plan]]:
    """Three states that every step adds 1 to."""
    g = clcnn.Graph()
    x = g.input("x", (1,))
    for name in NAMES:
        state = g.state(name, (SIZE,))
        g.assign(state, state + x)
    g.output(ops.relu(x), "y")
    with (
        clcnn.State({name: np.zeros(SIZE, np.float32) for name in NAMES}, device) as state,
        clcnn.compile(g, device=device, state=state) as plan,
    ):
        yield state, plan


def whole(state: clcnn.State) -> float:
    """What all elements of all arrays are; once the device is done with a run that timed out."""
    end = time.monotonic() + 60
    while True:
        try:
            arrays = [state[name] for name in NAMES]
            break
        except clcnn.StateError as error:
            assert "busy with a run that timed out" in str(error) and time.monotonic() < end
            time.sleep(0.001)
    first = arrays[0][0]
    assert all(np.array_equal(array, np.full(SIZE, first)) for array in arrays)
    return float(first)


@pytest.mark.parametrize("after", [round(0.0005 * 1.3**i, 5) for i in range(14)])
def test_an_interrupted_step_is_whole(counted, after):
    state, plan = counted
    before = whole(state)
    try:
        with alarm_after(after, raise_it):
            plan.step(X)
            time.sleep(2 * after)
    except Interrupted:
        pass
    assert whole(state) in (before, before + 1)
    plan.step(X)
    assert whole(state) in (before + 1, before + 2)


@pytest.mark.parametrize("timeout", [round(0.0005 * 1.3**i, 5) for i in range(14)])
def test_a_step_that_timed_out_is_whole(counted, timeout):
    state, plan = counted
    before, after = whole(state), 1
    try:
        plan.step(X, timeout=timeout)
    except clcnn.RunTimeoutError:
        after = 0
    assert whole(state) in (before + after, before + 1)
    plan.step(X)


@pytest.mark.leaks_on_purpose
def test_a_state_is_busy_until_a_run_that_timed_out_is_over(device):
    slow = slow_plan.make(device)
    slow.plan.close()
    g = slow_plan.slow_graph(sum(row.op == "conv" for row in slow.plan.rows))
    s = g.state("s", (1,))
    y = g.layer("c0")
    last = list(g.outputs.values())[0]
    assert y.shape == last.shape
    g.assign(s, s + ops.reshape(ops.reduce_max(ops.abs(last)), shape=(1,)))
    names = {row.name: "ref" for row in g.rows() if row.op == "conv"}
    h = clcnn.Graph()
    h.output(ops.neg(h.state("s", (1,))), "y")
    with clcnn.State({"s": np.zeros(1, np.float32)}, device) as state:
        plan = clcnn.compile(g, device=device, state=state, algorithms=names)
        other = clcnn.compile(h, device=device, state=state)
        with pytest.raises(clcnn.RunTimeoutError):
            plan.step(slow.x, timeout=0.05)
        for use in (other, lambda: state["s"], lambda: state.write("s", X)):
            with pytest.raises(clcnn.StateError, match="state is still busy with a run that timed out"):
                use()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                assert state["s"] == 0  # it had not come to its commit
                break
            except clcnn.StateError:
                time.sleep(0.02)
        assert other() == 0

        seen: list[BaseException] = []

        def handler(*_: object) -> None:
            for call in (lambda: state["s"], other, state.close, lambda: plan.step(slow.x)):
                try:
                    call()
                except clcnn.StateError as error:
                    seen.append(error)

        with alarm_after(0.1, handler):
            plan.step(slow.x)
        assert len(seen) == 4 and all("in this thread (was it called from a signal" in str(e) for e in seen)
        assert state["s"] != 0  # what many layers of a fast device make of x may be infinite
        plan.close()
        other.close()


def test_a_forked_child_gets_a_clear_error() -> None:
    python("""
        import os, numpy as np, clcnn
        x = np.ones(1, np.float32)
        device = clcnn.Device(); state = clcnn.State({"s": x}, device)
        pid = os.fork()
        if pid == 0:
            new = lambda: clcnn.State({"s": x}, device)
            for use in (lambda: state["s"], lambda: state.write("s", x), new):
                try:
                    use()
                    os._exit(1)
                except clcnn.StateError as error:
                    if "forked child" not in str(error):
                        os._exit(2)
            state.close()
            os._exit(0 if state.closed else 3)
        assert os.waitpid(pid, 0)[1] == 0
        assert state["s"] == 1
    """)
