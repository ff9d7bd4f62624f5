"""Consecutive steps inside one kernel: the same bits as launches of their own, whatever came before."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import clcnn
import device_face
from clcnn import nn, zoo

NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet_v1": (zoo.mobilenet_v1, (1, 3, 64, 64)),
    "resnet18": (zoo.resnet18, (2, 3, 32, 32)),
    "googlenet": (zoo.googlenet, (1, 3, 64, 64)),
}


@pytest.fixture(scope="module", autouse=True)
def chains(device: clcnn.Device) -> None:
    with clcnn.compile(towers(4), (1, 16, 8, 8), device) as plan:
        if device.compute_capability or plan.stats["chained_steps"] == 0:
            pytest.skip("these chains are for CPU devices with channel blocks (GPUs: test_chain_groups.py)")


def towers(depth: int, width: int = 16) -> nn.Sequential:
    """Steps that depend on each other, of a few variants: convolutions of two sizes, and poolings."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 1, 1)]
        layers += [nn.Conv2d(width, width, 1), nn.Sigmoid(), nn.AvgPool2d(3, 1, 1)]
    return nn.Sequential(*layers)


def noise(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(3).standard_normal(shape, np.float32)


@pytest.mark.parametrize("name", NETS)
def test_nets_give_the_same_bits_as_launches(device: clcnn.Device, name: str) -> None:
    make, shape = NETS[name]
    net, x = make(), noise(shape)
    with (
        clcnn.compile(net, shape, device) as chained,
        clcnn.compile(net, shape, device, chain=False) as single,
    ):
        assert chained.stats["chained_steps"] >= 8 and single.stats["chained_steps"] == 0
        assert chained.stats["launch_count"] < single.stats["launch_count"] == single.stats["step_count"]
        want = single(x).tobytes()
        for _ in range(20):
            assert chained(x).tobytes() == want


def test_a_thousand_runs_agree(device: clcnn.Device) -> None:
    net, shape = towers(4), (1, 16, 8, 8)
    with clcnn.compile(net, shape, device) as plan, clcnn.compile(net, shape, device, chain=False) as single:
        x = noise(shape)
        want = single(x).tobytes()
        assert all(plan(x).tobytes() == want for _ in range(1000))


def test_more_weights_than_a_kernel_has_parameters(device: clcnn.Device) -> None:
    """Their addresses are in the table of one chain; parameters are the two arrays."""
    net, shape = towers(40), (1, 16, 4, 4)
    with clcnn.compile(net, shape, device) as plan, clcnn.compile(net, shape, device, chain=False) as single:
        assert plan.stats["chained_steps"] == plan.stats["step_count"] > 112
        assert plan.stats["launch_count"] == 1
        x = noise(shape)
        assert plan(x).tobytes() == single(x).tobytes() == plan(x).tobytes()


PAUSE = "import os, signal, sys, time; pid = int(sys.argv[1])\nfor _ in range(4):\n    time.sleep(0.4)\n"
PAUSE += "    os.kill(pid, signal.SIGSTOP); time.sleep(0.2); os.kill(pid, signal.SIGCONT)\n"


def test_long_steps_are_cut(device: clcnn.Device) -> None:
    """Into slices, once a pause has made the device look slow; runs before it took the whole steps."""
    long = [nn.Conv2d(16, 64, 3, padding=1), nn.Conv2d(64, 64, 7, padding=3), nn.Conv2d(64, 16, 3, padding=1)]
    net, shape = nn.Sequential(towers(2), *long, towers(2)), (1, 16, 176, 176)
    with clcnn.compile(net, shape, device) as plan, clcnn.compile(net, shape, device, chain=False) as single:
        assert plan.stats["chained_steps"] > 10
        inputs = [noise(shape), -noise(shape)]
        wanted = [single(x).tobytes() for x in inputs]
        with subprocess.Popen([sys.executable, "-c", PAUSE, str(os.getpid())]) as other:
            for i in itertools.takewhile(lambda _: other.poll() is None, itertools.count()):
                assert plan(inputs[i % 2]).tobytes() == wanted[i % 2], i


def test_short_plans_are_chains_but_for_those_with_guard_bands(device: clcnn.Device) -> None:
    for guard in (False, True):
        with clcnn.compile(towers(1), (1, 16, 8, 8), device, guard=guard) as plan:
            assert 0 < plan.stats["step_count"] < 8
            assert plan.stats["chained_steps"] == (0 if guard else plan.stats["step_count"])


# ---- runs that call the chain's code ----


def without_calls(
    net: nn.Module, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> NDArray[np.float32]:
    """The result of a plan that launches its chain."""
    monkeypatch.setenv("CLCNN_FAULT", "chain_call:-1:-1")
    with clcnn.Device("cpu") as own, clcnn.compile(net, shape, own) as plan:
        assert not plan.stats["called"]
        y = plan(noise(shape))
    monkeypatch.delenv("CLCNN_FAULT")
    return y


@pytest.mark.parametrize("depth", [1, 4])
def test_calls_give_the_same_bits_as_launches(
    device: clcnn.Device, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    net, shape = towers(depth), (1, 16, 8, 8)
    want = without_calls(net, shape, monkeypatch)
    with clcnn.compile(net, shape, device) as plan, plan.clone() as other:
        if not plan.stats["called"]:
            pytest.skip("the host cannot call this driver's code")
        assert other.stats["called"]
        for _ in range(300):
            assert plan(noise(shape)).tobytes() == want.tobytes()
        assert other(noise(shape)).tobytes() == want.tobytes()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux")
def test_helpers_of_calls_keep_off_the_caller_s_core(device: clcnn.Device) -> None:
    """Else Linux may wake them there, and leave the other cores idle for longer than a short run takes."""
    cores = os.sched_getaffinity(0)
    net, shape = towers(4), (2, 16, 64, 64)
    with clcnn.compile(net, shape, device) as plan:
        if not plan.stats["called"] or len(cores) == 1:
            pytest.skip("nothing is called, or there is one core")
        time.sleep(0.05)  # helpers sleep, so that the run wakes them
        plan(noise(shape))
        crew = [int(t.name) for t in Path("/proc/self/task").iterdir() if crew_thread(t)]
    assert any(len(cores - os.sched_getaffinity(thread)) == 1 for thread in crew)


def crew_thread(task: Path) -> bool:
    try:
        return (task / "comm").read_text() == "clcnn crew\n"
    except OSError:  # it is gone
        return False


def test_calls_and_launches_of_one_plan_in_turn(device: clcnn.Device) -> None:
    """A run with a deadline is launched, and must not see the counters of a call."""
    net, shape = towers(4), (2, 16, 8, 8)
    x = noise(shape)
    with clcnn.compile(net, shape, device) as plan:
        want = plan(x).tobytes()
        for i in range(60):
            assert plan(x, timeout=60.0 if i % 3 else None).tobytes() == want


def test_calls_take_arrays_and_tensors_wherever_they_lie(device: clcnn.Device) -> None:
    net, shape = towers(2), (1, 16, 8, 8)
    x = noise(shape)
    with clcnn.compile(net, shape, device) as plan, clcnn.Tensor.from_numpy(x, device) as on_device:
        want = plan(x)
        odd = np.empty(x.size + 1, np.float32)[1:].reshape(shape)  # not at a multiple of 16 bytes
        odd[...] = x
        y = np.empty_like(want)
        for given in (x, odd, on_device, x.copy(), on_device):
            assert plan(given, out=y).tobytes() == want.tobytes()
        with clcnn.Tensor(device, want.shape) as result:
            for given in (x, on_device, odd):
                plan(given, out=result)
                assert result.numpy().tobytes() == want.tobytes()


def test_threads_call_at_once(device: clcnn.Device) -> None:
    """The helpers go with one run at a time; the others go on by themselves."""
    net, shape = towers(3), (2, 16, 12, 12)
    inputs = [noise(shape) * (1 + i) for i in range(4)]
    with clcnn.compile(net, shape, device) as plan:
        wanted = [plan(x).tobytes() for x in inputs]
        clones = [plan.clone() for _ in inputs]

        def many(i: int) -> bool:
            return all(clones[i](inputs[i]).tobytes() == wanted[i] for _ in range(200))

        with ThreadPoolExecutor(len(inputs)) as pool:
            assert all(pool.map(many, range(len(inputs))))
        for clone in clones:
            clone.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_ends_though_its_helpers_are_not_there(device: clcnn.Device) -> None:
    with clcnn.compile(towers(2), (1, 16, 8, 8), device) as plan:
        plan(noise((1, 16, 8, 8)))
        child = os.fork()
        if child == 0:
            plan.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        plan(noise((1, 16, 8, 8)))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core to give up")
def test_a_process_with_a_share_of_the_cores_waits_for_nobody() -> None:
    """Waiting for a core that is not there would take the others' turns."""
    script = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "import clcnn, test_chain\n"
        "with clcnn.compile(test_chain.towers(4), (1, 16, 8, 8), 'cpu') as plan:\n"
        "    print(plan.stats['chained_steps'])"
    )
    path = device_face.path()
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_clones_and_threads(device: clcnn.Device) -> None:
    net, shape = towers(4), (1, 16, 12, 12)
    with clcnn.compile(net, shape, device) as plan:
        x = noise(shape)
        want = plan(x).tobytes()

        def work(_: int) -> bool:
            with plan.clone() as mine:
                return all(mine(x).tobytes() == want for _ in range(50))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))


def test_profile_and_runs_may_alternate(device: clcnn.Device) -> None:
    net, shape = towers(4), (1, 16, 8, 8)
    with clcnn.compile(net, shape, device) as plan:
        x = noise(shape)
        want = plan(x).tobytes()
        for _ in range(5):
            assert len(plan.profile(x).rows) == plan.stats["step_count"]
            assert plan(x).tobytes() == want


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_plan_may_leave_its_chains(monkeypatch: pytest.MonkeyPatch, timeout: float | None) -> None:
    """The third check of waits (compile does the first) says that one was in vain: that run is repeated with
    launches, from its inputs, which other steps have overwritten, and so are all later ones."""
    net, shape = towers(4), (1, 16, 12, 12)
    inputs = [i * noise(shape) for i in range(1, 6)]
    monkeypatch.setenv("CLCNN_FAULT", "chain_wait:3:-1")
    with clcnn.Device("cpu") as device, clcnn.compile(net, shape, device) as plan:
        monkeypatch.delenv("CLCNN_FAULT")
        with clcnn.compile(net, shape, device, chain=False) as single:
            wanted = [single(x).tobytes() for x in inputs]
        assert plan(inputs[0], timeout=timeout).tobytes() == wanted[0]
        assert plan.stats["chained_steps"] > 0
        with pytest.warns(RuntimeWarning, match="waited for each other in vain"):
            assert plan(inputs[1], timeout=timeout).tobytes() == wanted[1]
        for x, want in zip(inputs[2:], wanted[2:], strict=True):
            assert plan(x, timeout=timeout).tobytes() == want
        stats = plan.stats
        assert stats["chained_steps"] == 0 and stats["launch_count"] == stats["step_count"]
        with clcnn.Tensor.from_numpy(inputs[3], device) as x, plan.clone() as clone:
            assert plan(x).tobytes() == clone(x).tobytes() == wanted[3]
            assert clone.stats["chained_steps"] > 0


ON_NVIDIA = """
import numpy as np, clcnn
from clcnn import nn, ops

def depthwise(depth):
    layers = [nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.MaxPool2d(3, 1, 1), nn.Sigmoid()]
    return nn.Sequential(*layers[:depth])

class Fork(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.ModuleList([depthwise(3), depthwise(2), depthwise(1)])
        self.join = nn.Conv2d(24, 8, 1)

    def forward(self, x):
        return self.join(ops.concat([branch(x) for branch in self.branch], dim=1))

net, shape = nn.Sequential(*(Fork() for _ in range(4))), (1, 8, 12, 12)
x = np.random.default_rng(0).standard_normal(shape, np.float32)
with clcnn.compile(net, shape, "gpu", chain=True) as a, clcnn.compile(net, shape, "gpu", chain=False) as b:
    same = a(x).tobytes() == b(x).tobytes() == a(x).tobytes()
    order = [[s["layer"] for s in plan.steps] for plan in (a, b)]
    print(a.stats["chained_steps"], same, order[0] != order[1], sorted(order[0]) == sorted(order[1]))
"""


def test_a_kernel_that_does_not_build_is_left_out(tmp_path: Path) -> None:
    """A device that passes for NVIDIA's, whose compiler does not know PTX: steps are launched, though in the
    order for branches beside each other."""
    printed = device_face.run(tmp_path, ON_NVIDIA, FACE_CAPABILITY="90")
    assert printed.splitlines()[-1] == "0 True True True"


@pytest.mark.usefixtures("interrupts")
def test_a_run_that_was_stopped_leaves_no_trace(device: clcnn.Device) -> None:
    """The counters of steps that were not reached are set again before the next run."""
    net, shape = towers(12, 64), (4, 64, 96, 96)
    with clcnn.compile(net, shape, device) as plan:
        x = noise(shape)
        want = plan(x).tobytes()
        for _ in range(3):
            timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                for _ in range(1000):
                    plan(x)
            timer.join()
            assert plan(x).tobytes() == want


def test_other_types_of_elements_are_launched_in_between(device: clcnn.Device) -> None:
    graph = clcnn.Graph()
    x = graph.input("x", (1, 16, 8, 8))
    net = towers(2)
    y = net.build(graph, net.build(graph, x))
    top = graph.apply("neg", graph.apply("argmax", y, dim=1))  # arithmetic of integers
    graph.output(y, "y")
    graph.output(top, "top")
    data = noise((1, 16, 8, 8))
    with clcnn.compile(graph, device=device) as plan:
        assert 0 < plan.stats["chained_steps"] < plan.stats["step_count"]
        assert not plan.stats["called"]
        values, index = plan(data)
    assert np.array_equal(-index.reshape(1, 8, 8), values.argmax(1))
