"""Plans on several devices: one plan's results, whole batches in order, and devices that fail."""

from __future__ import annotations

import pickle
import signal
import threading
import time

import numpy as np
import pytest

import clcnn
from clcnn import nn
from clcnn.errors import ArgumentError, ShapeError, StateError, UnsupportedError
from clcnn.plan_group import shares
from pair import needs_pair, run_on_a_pair

SHAPE = (5, 2, 8, 8)
BOTH = [0, 1]


def net():
    nn.init.manual_seed(3)
    return nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 3))


def batch(seed=0, shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture
def group():
    with clcnn.compile(net(), SHAPE, device=BOTH) as made:
        yield made


@pytest.fixture
def one():
    with clcnn.compile(net(), SHAPE, device=0) as made:
        yield made


def test_on_a_pair():
    run_on_a_pair(__file__)


# ---- calls ----


@needs_pair
def test_a_call_divides_its_batch(group, one):
    x = batch()
    assert isinstance(group, clcnn.Plan) and group.parts == {}
    for _ in range(2):
        np.testing.assert_allclose(group(x), one(x), rtol=1e-5, atol=1e-6)
    assert sum(group.parts.values()) == 5
    out = np.empty((5, 3), np.float32)
    assert group(x, out=out) is out
    np.testing.assert_array_equal(out, group(x))
    np.testing.assert_array_equal(group(x.tolist()), out)
    np.testing.assert_array_equal(group.run({"input": x})["output"], out)


@needs_pair
def test_parts_follow_what_was_measured(group, one, monkeypatch):
    x = batch()
    wanted = one(x)
    together = group._together
    monkeypatch.setattr(
        clcnn.PlanGroup,
        "_together",
        lambda self, jobs, rounds=1: [1.0, 4.0] if rounds > 1 else together(jobs, rounds),
    )
    np.testing.assert_allclose(group(x), wanted, rtol=1e-5, atol=1e-6)
    assert list(group.parts.values()) == [1, 4]


@needs_pair
def test_several_inputs_and_outputs_are_divided():
    class Both(nn.Module):
        def forward(self, a, b):
            return a + b, (a * b).mean((1,))

    with clcnn.compile(Both(), [(4, 3), (4, 3)], device=BOTH) as group:
        a, b = batch(1, (4, 3)), batch(2, (4, 3))
        total, mean = group(a, b)
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_allclose(mean.ravel(), (a * b).mean(1), rtol=1e-5)
        assert sum(group.parts.values()) == 4


@needs_pair
def test_what_cannot_be_divided_stays_whole():
    class Rows(nn.Module):
        def forward(self, x):
            return x.reshape((-1,)) * 2.0

    x = batch(0, (4, 3))
    graph = clcnn.graph.trace(net(), SHAPE)
    with clcnn.compile(Rows(), (4, 3), device=BOTH) as rows, clcnn.compile(graph, device=BOTH) as whole:
        for _ in range(2):
            np.testing.assert_array_equal(rows(x), 2 * x.ravel())
            assert whole(batch()).shape == (5, 3)
        assert rows.parts == whole.parts == {}
    with clcnn.compile(net(), (1, *SHAPE[1:]), device=BOTH) as single:
        assert single(batch()[:1]).shape == (1, 3) and single.parts == {}


@needs_pair
def test_wrong_arrays_are_refused_as_by_one_plan(group, one):
    group(batch())
    for x in (batch()[:4], batch().astype(np.float64), "text"):
        with pytest.raises(clcnn.Error) as mine:
            group(x)
        with pytest.raises(clcnn.Error) as other:
            one(x)
        assert type(mine.value) is type(other.value) and str(mine.value) == str(other.value)
    with pytest.raises(ArgumentError, match="nothing"):
        group.run({"input": batch()}, outputs={"nothing": None})
    with pytest.raises(UnsupportedError, match="change no states"):
        group.step(batch())
    with pytest.raises(UnsupportedError, match="no clones"):
        group.clone()


@needs_pair
def test_tensors_run_where_they_lie(group, one):
    x = batch()
    for plan in group.plans:
        with clcnn.Tensor.from_numpy(x, plan.device) as tensor:
            np.testing.assert_allclose(group(tensor), one(x), rtol=1e-5, atol=1e-6)


# ---- streams ----


@needs_pair
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_map_keeps_the_order_and_the_bits(group, one, count):
    batches = [batch(i) for i in range(count)]
    results = list(group.map(iter(batches)))
    assert len(results) == count
    for x, y in zip(batches, results):
        np.testing.assert_array_equal(y, one(x))


@needs_pair
def test_map_goes_on_while_a_device_is_slow(group, monkeypatch):
    """The fast device takes what the slow one leaves, and order is kept."""
    slow, used = group.plans[0].device, []
    run = clcnn.Plan.__call__

    def counted(self, *inputs, **options):
        used.append(self.device)
        if self.device == slow:
            time.sleep(0.05)
        return run(self, *inputs, **options)

    monkeypatch.setattr(clcnn.Plan, "__call__", counted)
    results = list(group.map([np.full(SHAPE, i, np.float32) for i in range(24)]))
    monkeypatch.undo()
    assert 0 < used.count(slow) < 12
    for i, y in enumerate(results):
        np.testing.assert_array_equal(y, group.plans[1](np.full(SHAPE, i, np.float32)))


@needs_pair
def test_map_raises_in_the_place_of_the_bad_batch(group):
    before = [device.stats()["bytes_now"] for device in group.devices]
    stream = group.map([batch(), batch()[:1], batch()])
    next(stream)
    with pytest.raises(ShapeError, match="input input: expected shape"):
        next(stream)
    assert [device.stats()["bytes_now"] for device in group.devices] == before
    assert len(list(group.map([batch()] * 3))) == 3


# ---- what happens to devices ----


@needs_pair
def test_a_device_that_fails_is_named_and_the_others_serve():
    first, second = clcnn.Device(0), clcnn.Device(1)
    x = batch()
    with clcnn.compile(net(), SHAPE, device=[first, second]) as group:
        wanted = group.plans[0](x)
        group(x)
        second.close()
        with pytest.raises(StateError, match=r"^device 1 \(.*\): "):
            group(x)
        assert list(group.failed) == [second]
        np.testing.assert_array_equal(group(x), wanted)
        assert len(list(group.map([x] * 4))) == 4
        first.close()
        with pytest.raises(StateError, match=r"^device 0 \(.*\): "):
            group(x)
        with pytest.raises(StateError, match="all devices have failed: device 1 .*; device 0"):
            group(x)


@needs_pair
def test_a_device_lost_during_map():
    first, second = clcnn.Device(0), clcnn.Device(1)
    x = batch()
    with clcnn.compile(net(), SHAPE, device=[first, second]) as group:
        stream = group.map([x] * 40)
        next(stream)
        second.close()
        with pytest.raises(StateError, match=r"^device 1 \(.*\): "):
            list(stream)
        assert len(list(group.map([x] * 4))) == 4
    first.close()


def interrupted(work, after=0.3):
    """Seconds from Ctrl-C until `work` has ended by it."""
    sent = []

    def handler(*_):
        sent.append(time.monotonic())
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        return time.monotonic() - sent[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@needs_pair
def test_ctrl_c_ends_calls_and_streams():
    nn.init.manual_seed(1)
    layers = [nn.Conv2d(8, 8, 3, padding=1) for _ in range(4)]
    shape = (8, 8, 96, 96)
    x = batch(0, shape)
    with clcnn.compile(nn.Sequential(*layers), shape, device=BOTH, algorithms="ref") as group:
        wanted = group(x)

        def calls():
            while True:
                group(x)

        def stream():
            for _ in group.map(x for _ in iter(int, 1)):
                pass

        for work in (calls, stream):
            assert interrupted(work) < 5
            np.testing.assert_array_equal(group(x), wanted)


@needs_pair
def test_threads_take_turns(group, one):
    x = batch()
    wanted, wrong = group(x), []

    def work():
        for _ in range(10):
            if not np.array_equal(group(x), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what it tells ----


@needs_pair
def test_what_a_group_tells(group):
    names = [f"device {i} ({device.name})" for i, device in enumerate(group.devices)]
    assert list(group.stats) == names and all(s["step_count"] > 0 for s in group.stats.values())
    assert group.peak_bytes == sum(s["peak_bytes"] for s in group.stats.values())
    text = group.explain()
    assert all(f"{name}:\n" in text for name in names) and text.count("rewrites:") == 2
    assert all(name in repr(group) for name in names)
    assert group.profile(batch()).rows and group.inputs == {"input": SHAPE}
    before = group.peak_bytes
    group(batch())
    assert group.peak_bytes > before
    group.close()
    assert group.closed and "closed" in repr(group)
    with pytest.raises(StateError):
        group(batch())


def test_lists_that_are_no_devices(device):
    with pytest.raises(ArgumentError, match="device: the list is empty"):
        clcnn.compile(net(), SHAPE, device=[])
    with pytest.raises(ArgumentError, match=r"device: .* and .* are one device, \d+ \("):
        clcnn.compile(net(), SHAPE, device=[device, device.index])
    with (
        clcnn.State({"a": np.zeros(1, np.float32)}, device=device) as state,
        pytest.raises(ArgumentError, match="state: it lies on one device"),
    ):
        clcnn.compile(net(), SHAPE, device=[device], state=state)


@needs_pair
def test_devices_of_one_platform_have_numbers():
    with clcnn.compile(net(), SHAPE, device=["portable:0", "portable:1"]) as group:
        assert [device.index for device in group.devices] == BOTH


def test_a_list_of_one_device(device):
    x = batch()
    with clcnn.compile(net(), SHAPE, device=[device]) as group, clcnn.compile(net(), SHAPE, device) as one:
        np.testing.assert_array_equal(group(x), one(x))
        np.testing.assert_array_equal(list(group.map([x]))[0], one(x))
        assert group.parts == {}


def test_shares_of_a_batch():
    assert shares(10, [1.0, 1.0]) == [5, 5]
    assert shares(10, [4.0, 1.0]) == [8, 2]
    assert shares(3, [100.0, 1.0]) == [3, 0]
    assert shares(7, [1.0, 2.0, 4.0]) == [1, 2, 4]
    for count in range(1, 20):
        assert sum(shares(count, [0.3, 1.7, 0.9])) == count


# ---- sessions ----


@needs_pair
def test_sessions_on_two_devices(tmp_path):
    path = tmp_path / "net.onnx"
    clcnn.onnx.save(net(), path, SHAPE)
    x = batch()
    with clcnn.InferenceSession(path, device=0) as one, clcnn.InferenceSession(path, device=BOTH) as both:
        (wanted,) = one.run(None, {"input": x})
        results, used = [], set()
        threads = [
            threading.Thread(target=lambda: results.append(both.run(None, {"input": x})[0])) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 6
        for y in results:
            np.testing.assert_array_equal(y, wanted)
        used = set(both.plan().stats)
        assert len(used) == 2
        again = pickle.loads(pickle.dumps(both))
        np.testing.assert_array_equal(again.run(None, {"input": x})[0], wanted)
        again.close()
    with pytest.raises(ArgumentError, match="are one device"):
        clcnn.InferenceSession(path, device=[0, 0])
