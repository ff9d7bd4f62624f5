"""Outputs that other devices' tensors get too, while the run goes on."""

from __future__ import annotations

import gc
import os
import random

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    Error,
    RunTimeoutError,
    ShapeError,
    StateError,
)
from pair import needs_pair, run_on_a_pair
from trainers import interrupt_after

SIZE = 3 << 20  # elements of the large output: more than one piece of a relay
CALLS = [
    "clCreateCommandQueue",
    "clCreateBuffer",
    "clEnqueueMapBuffer",
    "clEnqueueMarkerWithWaitList",
    "clEnqueueReadBuffer",
    "clEnqueueWriteBuffer",
    "clWaitForEvents",
    "clFlush",
    "clFinish",
]


def test_on_a_pair():
    run_on_a_pair(__file__)


def graph(depth=3):
    """A large result that is there first, one that takes longer, and a small one in the end."""
    g = clcnn.Graph()
    x = g.input("x", (SIZE,))
    g.output(x * 2.0 + 1.0, "large")
    y = x
    for _ in range(depth):
        y = ops.tanh(y) + 0.5
    g.output(y, "late")
    g.output(ops.reduce_sum(y, axes=(0,), keepdims=True), "sum")
    return g


class Relay:
    """A plan on one device, its tensors there, and those of the other one."""

    def __init__(self, of=graph, **options):
        self.devices = [clcnn.Device(0), clcnn.Device(1)]
        self.plan = clcnn.compile(of(), device=self.devices[0], **options)
        self.own, self.others = (
            [clcnn.Tensor(device, shape) for shape in self.plan.outputs.values()] for device in self.devices
        )
        for other in self.others:
            other.write(np.full(other.shape, 7.0, np.float32))

    def run(self, x, timeout=None, commit=False):
        return self.plan._core.run([x], self.own, timeout, commit, [[t] for t in self.others])

    def check(self, x):
        """What has arrived is what the plan computes for nobody else, to the bit."""
        wanted = self.plan.run([x])
        for (name, array), own, other in zip(wanted.items(), self.own, self.others):
            np.testing.assert_array_equal(own.numpy(), array, err_msg=name)
            np.testing.assert_array_equal(other.numpy(), array, err_msg=name)

    def close(self):
        self.plan.close()
        for tensor in (*self.own, *self.others):
            tensor.close()
        for device in self.devices:
            device.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()


def values(seed=0, size=SIZE):
    return np.random.default_rng(seed).standard_normal(size, np.float32)


@needs_pair
@pytest.mark.parametrize("chain", [None, False])
@pytest.mark.parametrize("timeout", [None, 600.0], ids=["early", "last"])
def test_others_get_the_same_bits(chain, timeout):
    with Relay(chain=chain) as relay:
        for seed in range(3):
            relay.run(values(seed), timeout)
            relay.check(values(seed))
        ready = relay.plan._core.ready
        assert ready[0] < ready[1] < ready[2] == len(relay.plan.steps)


@needs_pair
def test_small_nets_whose_code_is_called():
    def small():
        g = clcnn.Graph()
        g.output(ops.relu(g.input("x", (5,))) * 2.0, "y")
        return g

    with Relay(small) as relay:
        for seed in range(3):
            relay.run(values(seed, 5))
            relay.check(values(seed, 5))


@needs_pair
def test_outputs_that_lie_apart_or_are_inputs():
    def apart():
        g = clcnn.Graph()
        x = g.input("x", (4, 6))
        both = ops.concat(ops.relu(x), x * 3.0, dim=1)
        g.output(ops.slice(both, starts=[2], ends=[9], axes=[1]), "part")
        g.output(both, "both")
        g.output(x, "x again")
        return g

    with Relay(apart) as relay:
        x = values(1, 24).reshape(4, 6)
        relay.run(x)
        relay.check(x)


@needs_pair
def test_an_interrupted_run_writes_nothing_later():
    rng = random.Random(0)
    with Relay(lambda: graph(40)) as relay:
        relay.run(values(1))
        for i in range(12):
            try:
                with interrupt_after(rng.uniform(1e-4, 0.3)):
                    relay.run(values(i))
            except KeyboardInterrupt:
                pass
            for other in relay.others:
                other.write(np.full(other.shape, 7.0, np.float32))
            relay.devices[0].finish()
            assert all((other.numpy() == 7.0).all() for other in relay.others)
        relay.run(values(99))
        relay.check(values(99))


@needs_pair
def test_after_a_time_out_nothing_has_arrived():
    with Relay(lambda: graph(40)) as relay:
        with pytest.raises(RunTimeoutError):
            relay.run(values(), 1e-4)
        assert all((other.numpy() == 7.0).all() for other in relay.others)
        while True:
            try:
                relay.run(values())
                break
            except StateError as error:
                assert "timed out" in str(error)
        relay.check(values())


@needs_pair
def test_what_does_not_fit_is_refused_before_the_run():
    with Relay() as relay:
        x, core, own = values(), relay.plan._core, relay.own
        none = [(), (), ()]

        def run(tensors, outputs=own):
            return core.run([x], outputs, None, False, tensors)

        with pytest.raises(ArgumentError, match="this plan has 3 outputs, got 1"):
            run([[]])
        with pytest.raises(ArgumentError, match="relay large: the tensor is on the plan's own device"):
            run([[own[0]], *none[1:]])
        with pytest.raises(DtypeError, match="relay large: expected a tensor of float32"):
            run([[x], *none[1:]])
        with pytest.raises(ShapeError, match="relay large: expected shape"):
            run([[relay.others[2]], *none[1:]])
        with pytest.raises(ArgumentError, match="output 'large': only a tensor is relayed"):
            run([[relay.others[0]], *none[1:]], None)
        with pytest.raises(TypeError):
            run([3, *none[1:]])
        relay.run(x)
        relay.check(x)
        relay.others[1].close()
        with pytest.raises(StateError, match="the buffer is closed"):
            relay.run(x)
        relay.devices[1].close()
        with pytest.raises(StateError, match="the device is closed"):
            relay.run(x)
        relay.plan(x)


@needs_pair
def test_everything_is_given_back():
    relay = Relay()
    for _ in range(2):
        relay.run(values())
    relay.close()
    del relay.plan
    gc.collect()
    assert [device.stats()["bytes_now"] for device in relay.devices] == [0, 0]
    assert [device.stats()["live_objects"] for device in relay.devices] == [0, 0]


@needs_pair
def test_a_forked_child_leaves_it_to_the_parent():
    with Relay() as relay:
        relay.run(values())
        child = os.fork()
        if child == 0:
            try:
                relay.run(values())
            except StateError:
                relay.plan.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        relay.run(values(5))
        relay.check(values(5))


def small():
    g = clcnn.Graph()
    x = g.input("x", (1000,))
    g.output(x * 2.0 + 1.0, "first")
    g.output(ops.tanh(x), "second")
    return g


@needs_pair
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_leaves_nothing_behind(call, monkeypatch):
    """Whichever it is: an exception, or none where it was not needed; the next run is right."""
    failed = 0
    for nth in range(1, 9):
        relay = Relay(small, chain=False)
        with monkeypatch.context() as patch:
            patch.setenv("CLCNN_FAULT", f"{call}:{nth}:-5")
            clcnn.devices()  # sees the variable
            try:
                relay.run(values(1, 1000))
            except Error:
                failed += 1
        clcnn.devices()
        for _ in range(2):
            relay.run(values(2, 1000))
            relay.check(values(2, 1000))
        relay.close()
        del relay.plan
        gc.collect()
        assert [device.stats()["live_objects"] for device in relay.devices] == [0, 0]
    assert failed


@needs_pair
def test_the_device_that_cannot_be_written_to_is_named(monkeypatch):
    with Relay(small, chain=False) as relay:
        x = clcnn.Tensor.from_numpy(values(1, 1000), relay.devices[0])
        with monkeypatch.context() as patch:
            patch.setenv("CLCNN_FAULT", "clEnqueueWriteBuffer:1:-5")
            clcnn.devices()
            with pytest.raises(
                DeviceError, match=r"^a result for device 1: clEnqueueWriteBuffer: CL_OUT_OF_"
            ):
                relay.run(x)
        clcnn.devices()
        x.close()
