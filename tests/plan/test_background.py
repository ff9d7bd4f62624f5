"""compile(background=True): a plan begins with small kernels, and takes the best ones between two runs."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import _core, nn, ops
from helpers import python
from runner import has_blocks

SHAPE = (2, 3, 40, 36)
BUILD_FAILURE = -11


class Net(nn.Module):
    """Layers whose best kernels are others than the small ones: a stem that is pooled, 3x3, 1x1, groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.MaxPool2d(2)
        self.block = nn.Conv2d(32, 32, 3, padding=1)
        self.depthwise, self.point = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 24, 1)
        self.last, self.flatten, self.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)

    def forward(self, x: Any) -> Any:
        x = self.pool(ops.relu(self.stem(x)))
        x = self.point(self.depthwise(ops.relu(ops.add(self.block(x), x))))
        return self.fc(self.flatten(self.last(x)))


@pytest.fixture(scope="module")
def net() -> Net:
    nn.init.manual_seed(5)
    return Net().eval()


@pytest.fixture
def device() -> Iterator[_core.Device]:
    with clcnn.Device(DEVICE, cache_dir=False) as opened:  # where nothing is there yet
        if not has_blocks(opened):
            pytest.skip("the device has no channel blocks")
        yield opened


X = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)


def kernels(plan: clcnn.Plan) -> set[tuple[str, str]]:
    return {(step["kernel"], step["defines"]) for step in plan.steps}


def test_it_ends_with_the_kernels_and_the_bits_of_the_best_plan(net: Net, device: _core.Device) -> None:
    with clcnn.compile(net, SHAPE, device, background=True) as plan:
        assert plan._better is not None
        first = plan(X)
        assert plan.wait(60) and plan.ready
        best = clcnn.compile(net, SHAPE, device)
        want = best(X)
        assert kernels(plan) == kernels(best)
        assert np.array_equal(plan(X), want)
        np.testing.assert_allclose(first, want, rtol=0, atol=2e-5 * np.abs(want).max())


def test_it_has_the_best_kernels_at_once_where_they_are_there(
    net: Net, device: _core.Device, tmp_path: Path
) -> None:
    """In memory, or in the disk cache; where that has some of them it begins with the small ones."""
    with clcnn.compile(net, SHAPE, device) as best:
        with clcnn.compile(net, SHAPE, device, background=True) as plan:
            assert plan._better is None and kernels(plan) == kernels(best)
            assert np.array_equal(plan(X), best(X))
        with clcnn.Device(DEVICE, cache_dir=tmp_path) as own:
            clcnn.compile(net, SHAPE, own).close()
        with clcnn.Device(DEVICE, cache_dir=tmp_path) as own:
            with clcnn.compile(net, SHAPE, own, background=True) as plan:
                assert plan._better is None and np.array_equal(plan(X), best(X))
            assert own.stats()["programs_built"] == 0
    max(tmp_path.rglob("*.bin"), key=lambda path: path.stat().st_size).unlink()
    with (
        clcnn.Device(DEVICE, cache_dir=tmp_path) as own,
        clcnn.compile(net, SHAPE, own, background=True) as plan,
    ):
        assert plan._better is not None and kernels(plan) != kernels(best)


def test_it_begins_with_few_small_kernels(net: Net, device: _core.Device) -> None:
    graph = clcnn.graph.trace(net, SHAPE)
    quick, best = (_core.Plan(device, graph._core, quick=quick) for quick in (True, False))
    convolutions = {layer["layer"]: layer for layer in quick.layers() if layer["op"] == "conv"}
    soon = [name for name, layer in convolutions.items() if layer["algo"] == "blocked"]
    assert soon == ["stem", "block", "point"]  # of groups the small kernel would be slow
    text = clcnn.report.explain_text(quick.layers(), quick.rewrites())
    assert "chosen since its kernel is soon built" in text
    assert "take stem+pool apart" in text or not any("stem+pool" in layer["layer"] for layer in best.layers())
    tiles = {(s["defines"]) for s in quick.steps() if s["kernel"] == "conv_blocked"}
    assert len(tiles) == 2  # one for each stride


def test_linear_layers_begin_with_panels(device: _core.Device) -> None:
    """Seven products of halves, packed weights of a row and dot products are two or three programs more."""
    chosen = {}
    for quick in (True, False):
        graph = clcnn.Graph()
        x = graph.input("x", (1024, 512))
        weights = (
            graph.constant(np.ones((1024, 512), np.float32)),
            graph.constant(np.ones((640, 1024), np.float32)),
        )
        rows = ops.relu(ops.linear(x, weights[0], name="rows"))
        graph.output(ops.linear(ops.reduce_mean(rows, axes=[0], keepdims=True), weights[1], name="row"), "y")
        with _core.Plan(device, graph._core, quick=quick) as plan:
            chosen[quick] = {layer["layer"]: layer["algo"] for layer in plan.layers()}
    assert chosen[True]["rows"] == "panels" and chosen[False]["rows"] in ("amx", "strassen", "panels")
    assert chosen[True]["row"] == chosen[True]["rows"] and chosen[False]["row"] == "fixed"


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_the_first_plan_has_fewer_kernels(device: _core.Device) -> None:
    """Functions that would make kernels of their own are layers, and patches are rows where others are."""
    if not has_blocks(device):
        pytest.skip("GPUs have no first plan")
    graph = clcnn.Graph()
    x = graph.apply(
        "conv", graph.input("x", (1, 3, 32, 48)), numbers((32, 3, 4, 4)), name="patches", stride=4
    )
    x = graph.apply("transpose", graph.apply("reshape", x, shape=(1, 32, 96)), perm=(0, 2, 1))
    x = graph.apply("gelu", graph.apply("linear", x, numbers((64, 32)), name="wide"), name="gelu")
    graph.output(graph.apply("relu", graph.apply("linear", x, numbers((24, 64)), name="rows")))
    data, results, chosen = numbers((1, 3, 32, 48)), [], {}
    for quick in (True, False):
        with _core.Plan(device, graph._core, quick=quick) as plan:
            results.append(plan.run([data])[0])
            chosen[quick] = [layer["op"] for layer in plan.layers() if layer["op"] != "transpose"]
    assert chosen[True] == ["linear", "linear", "gelu", "linear"]
    assert "conv" in chosen[False] and "gelu" not in chosen[False]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def product(kind: str) -> tuple[clcnn.Graph, list[np.ndarray[Any, Any]]]:
    """A product by `panels` whose rows and columns fill no whole tiles."""
    graph = clcnn.Graph()
    if kind == "linear":
        y = graph.apply("linear", graph.input("x", (3, 19, 70)), numbers((45, 70)), numbers((45,)), name="y")
        graph.output(graph.apply("relu", y))
        return graph, [numbers((3, 19, 70))]
    a, b = graph.input("a", (2, 300, 31)), graph.input("b", (2, 300, 50))
    if kind == "turned":
        a = graph.apply("transpose", a, perm=(0, 2, 1))
    else:
        b = graph.apply(
            "slice", graph.apply("reshape", b, shape=(2, 50, 300)), starts=(0,), ends=(31,), axes=(1,)
        )
    graph.output(graph.apply("matmul", a, b, name="y"))
    return graph, [numbers((2, 300, 31)), numbers((2, 300, 50))]


@pytest.mark.parametrize("kind", ["linear", "turned", "in place"])
def test_small_code_of_products_has_the_same_bits(device: _core.Device, kind: str) -> None:
    graph, data = product(kind)
    results = []
    for quick in (True, False):
        with _core.Plan(device, graph._core, quick=quick, overrides={"y": "panels"}) as plan:
            results.append(plan.run(data)[0])
            assert quick == any("SMALL_CODE=1" in step["defines"] for step in plan.steps())
    np.testing.assert_array_equal(results[0], results[1])


def test_attention_begins_with_its_mask_as_it_is(device: _core.Device) -> None:
    """Turning it once is another program."""
    graph = clcnn.Graph()
    rows = [graph.input(name, (2, 3, 21, 8)) for name in "qkv"]
    mask = graph.constant(numbers((1, 3, 21, 21)))
    graph.output(graph.apply("scaled_dot_product_attention", *rows, mask))
    data, results, defines = [numbers((2, 3, 21, 8)) + i for i in range(3)], [], {}
    for quick in (True, False):
        with _core.Plan(device, graph._core, quick=quick) as plan:
            results.append(plan.run(data)[0])
            defines[quick] = plan.steps()[0]["defines"]
    assert "MASK=1" in defines[True] and "MASK=2" in defines[False]
    np.testing.assert_array_equal(results[0], results[1])


def test_threads_run_while_it_changes(net: Net, device: _core.Device) -> None:
    with clcnn.compile(net, SHAPE, device, background=True) as plan:
        near, failures, stop = plan(X), [], threading.Event()

        def work() -> None:
            while not stop.is_set():
                got = plan(X)
                if np.abs(got - near).max() > 2e-5 * np.abs(near).max():
                    failures.append(got)

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        assert plan.wait(60)
        stop.set()
        for worker in workers:
            worker.join()
        assert failures == []


FAILING = f"""
import os, sys, warnings
import numpy as np
import clcnn
from clcnn import _core
sys.path.append({str(Path(__file__).parent)!r})
sys.path.append({str(Path(__file__).parents[1])!r})
from test_background import Net, SHAPE, X
net = Net().eval()
graph = clcnn.graph.trace(net, SHAPE)
device = clcnn.Device({DEVICE!r}, cache_dir=False)
_core.Plan(device, graph._core, quick=True)
stats = device.stats()
builds = stats["programs_built"] + stats["programs_loaded"]
os.environ["CLCNN_FAULT"] = f"clBuildProgram:-{{builds + 1}}:{BUILD_FAILURE}"
with clcnn.Device({DEVICE!r}, cache_dir=False) as device:
    plan = clcnn.compile(net, SHAPE, device, background=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        first = plan(X)
        assert plan.wait(60)
        second = plan(X)
    assert np.array_equal(first, second)
    (warning,) = told
    assert warning.category is RuntimeWarning
    print(warning.message)
    plan.close()
"""


def test_a_build_that_fails_is_told_and_the_runs_go_on(device: _core.Device) -> None:
    said = python(FAILING, 120)
    assert re.search(r"keeps the kernels that it began with.*: kernel \w+ did not build", said)


def test_a_plan_that_is_closed_or_left_builds_nothing_more(net: Net, device: _core.Device) -> None:
    plan = clcnn.compile(net, SHAPE, device, background=True)
    job = plan._better
    plan.close()
    assert plan.ready and job is not None and job.watch.stopped
    with pytest.raises(clcnn.errors.StateError, match="closed"):
        plan(X)
    left = clcnn.compile(net, SHAPE, device, background=True)
    job = left._better
    del left
    assert job is not None and job.watch.stopped


def test_the_graph_may_change_meanwhile(device: _core.Device) -> None:
    graph = clcnn.Graph()
    x = graph.input("x", SHAPE)
    w = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype(np.float32)
    y = ops.conv(x, w, padding=1, name="c")
    graph.output(y, "y")
    with clcnn.compile(graph, device=device, background=True) as plan:
        graph.output(ops.relu(y), "z")
        assert plan.wait(60)
        assert list(plan.outputs) == ["y"]


def test_states_are_refused(device: _core.Device) -> None:
    graph = clcnn.Graph()
    state = graph.state("s", (4,))
    x = graph.input("x", (4,))
    total = ops.add(x, state)
    graph.output(total, "y")
    graph.assign(state, total)
    with pytest.raises(clcnn.errors.ArgumentError, match="background: a plan with states"):
        clcnn.compile(graph, device=device, background=True)


def test_others_are_ready_at_once(net: Net, device: _core.Device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with clcnn.compile(net, SHAPE, device) as plan:
            assert plan.ready and plan.wait(0.0)


def test_a_program_that_ends_early_waits_for_one_program_at_most() -> None:
    code = (
        "import time, clcnn\n"
        f"plan = clcnn.compile(clcnn.zoo.get('resnet18'), (1, 3, 64, 64), {DEVICE!r}, background=True)\n"
        "job = plan._better\n"
        "import atexit\n"
        "atexit.register(lambda: print('ended', job is None or job.watch.stopped or job.done))\n"
    )
    assert "ended True" in python(code, 120)
