"""Threads, signals, timeouts and forks: the warrant for dropping the GIL and for declaring that it is not
needed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import clcnn
import slow_plan
from clcnn import ops
from clcnn.graph import Graph
from helpers import python
from slow_plan import Slow, random

THREADS, ROUNDS = 4, 12


def network(channels: int = 4) -> Graph:
    g = Graph()
    y = ops.relu(ops.conv(g.input("x", (1, 3, 16, 16)), random(channels, 3, 3, 3), padding=1))
    g.output(ops.reduce_mean(y, axes=[2, 3], keepdims=False), "y")
    return g


@pytest.fixture(scope="module")
def slow(device: clcnn.Device) -> Iterator[Slow]:
    made = slow_plan.make(device)
    with made.plan:
        yield made


def in_threads(work: Callable[[int], object]) -> None:
    """Runs work(0..THREADS-1) at the same time; the first exception is raised here."""
    barrier = threading.Barrier(THREADS)

    def together(i: int) -> None:
        barrier.wait(30)
        work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(together, i) for i in range(THREADS)]:
            future.result(60)


def test_many_threads_use_one_plan(device: clcnn.Device) -> None:
    with clcnn.compile(network(), device=device) as plan:
        xs = [random(1, 3, 16, 16, seed=i) for i in range(THREADS)]
        expected = [plan(x) for x in xs]

        def work(i: int) -> None:
            for _ in range(ROUNDS):
                assert plan(xs[i]).tobytes() == expected[i].tobytes()

        in_threads(work)


def test_each_thread_uses_its_own_clone(device: clcnn.Device) -> None:
    with clcnn.compile(network(), device=device) as plan:
        xs = [random(1, 3, 16, 16, seed=i) for i in range(THREADS)]
        expected = [plan(x) for x in xs]

        def work(i: int) -> None:
            with plan.clone() as own:
                for _ in range(ROUNDS):
                    assert own(xs[i]).tobytes() == expected[i].tobytes()

        in_threads(work)


def test_threads_create_and_destroy_everything(device: clcnn.Device) -> None:
    x = random(1, 3, 16, 16)

    def work(i: int) -> None:
        for _ in range(3):
            with (
                clcnn.compile(network(4 + i), device=device) as plan,
                clcnn.Tensor.from_numpy(x, device) as t,
            ):
                assert plan(t).shape == (1, 4 + i)
                plan.clone()(x)

    in_threads(work)
    before = device.stats()
    in_threads(work)
    after = device.stats()
    assert (before["bytes_now"], before["live_objects"]) == (after["bytes_now"], after["live_objects"])


def test_threads_share_one_graph(device: clcnn.Device) -> None:
    g = network()
    x = random(1, 3, 16, 16)
    expected = clcnn.compile(g, device=device)(x)

    def work(i: int) -> None:
        for _ in range(3):
            with clcnn.compile(g, device=device) as plan:
                assert plan(x).tobytes() == expected.tobytes()
            g.summary()

    in_threads(work)


def test_closing_while_others_run(device: clcnn.Device) -> None:
    plan = clcnn.compile(network(), device=device)
    x = random(1, 3, 16, 16)

    def work(i: int) -> None:
        if i == 0:
            time.sleep(0.01)
            plan.close()
        end = time.monotonic() + 20
        with pytest.raises(clcnn.StateError, match="closed"):
            while time.monotonic() < end:
                plan(x)

    in_threads(work)


def test_other_threads_run_while_one_waits_for_the_device(slow: Slow) -> None:
    turns = 0
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(slow.plan, slow.x)
        while not future.done():
            turns += 1
            time.sleep(0.005)
    assert turns > 10, "the GIL was held during the run"


def interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_stops_a_run_and_the_plan_can_be_used_again(slow: Slow) -> None:
    timer = interrupt_after(0.1)
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        slow.plan(slow.x)
    stopped = time.perf_counter() - start
    timer.join()
    assert stopped < 0.1 + 0.8 * slow.seconds, f"stopped after {stopped:.2f} s of {slow.seconds:.2f} s"
    assert slow.plan(slow.x).tobytes() == slow.y.tobytes()


def test_a_signal_handler_may_not_enter_the_plan_it_interrupts(slow: Slow) -> None:
    seen: list[BaseException] = []

    def handler(*_: object) -> None:
        for call in (lambda: slow.plan(slow.x), slow.plan.close, slow.plan.clone):
            try:
                call()
            except clcnn.StateError as error:
                seen.append(error)

    old = signal.signal(signal.SIGINT, handler)
    try:
        timer = interrupt_after(0.1)
        y = slow.plan(slow.x)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, old)
    assert y.tobytes() == slow.y.tobytes(), "a handler that raises nothing must not stop the run"
    assert len(seen) == 3 and all("in the middle of a run in this thread" in str(error) for error in seen)


def test_timeout(slow: Slow) -> None:
    with pytest.raises(clcnn.RunTimeoutError) as caught:
        slow.plan(slow.x, timeout=0.05)
    assert isinstance(caught.value, TimeoutError) and "50" in str(caught.value)
    end = time.monotonic() + 60
    while True:  # busy until what was enqueued has finished, then usable
        try:
            y = slow.plan(slow.x, timeout=60)
            break
        except clcnn.StateError as error:
            assert "busy" in str(error) and time.monotonic() < end
            time.sleep(0.02)
    assert y.tobytes() == slow.y.tobytes()


@pytest.mark.leaks_on_purpose
def test_a_plan_that_timed_out_can_be_closed(device: clcnn.Device, slow: Slow) -> None:
    plan = slow.plan.clone()
    with pytest.raises(clcnn.RunTimeoutError):
        plan(slow.x, timeout=0.01)
    start = time.perf_counter()
    plan.close()
    assert time.perf_counter() - start < 0.5, "close() waited for the device"
    with clcnn.compile(network(), device=device) as other:
        assert other(random(1, 3, 16, 16)).shape == (1, 4)


# ---- processes ----


def test_a_forked_child_gets_a_clear_error() -> None:
    out = python("""
        import os, warnings
        import numpy as np, clcnn
        from clcnn import ops
        g = clcnn.Graph(); g.output(ops.relu(g.input("x", (4,))), "y")
        device = clcnn.Device(); plan = clcnn.compile(g, device=device); x = np.ones(4, np.float32)
        plan(x); tensor = clcnn.Tensor.from_numpy(x, device)
        pid = os.fork()
        if pid == 0:
            for use in (lambda: plan(x), tensor.numpy, lambda: clcnn.Tensor(device, (2,)), plan.clone,
                        lambda: clcnn.compile(g, device=device), device.finish, lambda: clcnn.Device(),
                        clcnn.devices):
                try:
                    use()
                    print("no error from", use, flush=True)
                except clcnn.StateError as error:
                    assert "fork" in str(error), error
            plan.close(); tensor.close(); device.close()
            del plan, tensor, device
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert plan(x).shape == (4,)
        print("parent fine")
    """)
    assert out.split() == ["parent", "fine"]


def test_the_interpreter_ends_with_live_objects() -> None:
    python("""
        import numpy as np, clcnn
        from clcnn import ops
        g = clcnn.Graph(); g.output(ops.relu(g.input("x", (4,))), "y")
        plan = clcnn.compile(g); tensor = clcnn.Tensor(plan.device, (3,))
        plan(np.ones(4, np.float32)); stream = plan.map([np.ones(4, np.float32)] * 3); next(stream)
    """)
