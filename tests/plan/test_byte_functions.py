"""Functions of the elements of one map of bytes are looked up; gates and means stay in bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from quantised_nets import Quantised, Tried, device_on_bytes

ROOT = Path(__file__).resolve().parents[2]
Function = Callable[[Quantised, int], int]
C, K = 20, 18


device = pytest.fixture(scope="module")(device_on_bytes)


def real(net: Quantised, name: str, x: int, scale: float, zero: float) -> int:
    """Rounded to steps of another scale."""
    return net.layer("fake_quantize", name, x, scale=scale, zero_point=zero)


def then(net: Quantised, op: str, x: int, **attrs: Any) -> int:
    return net.layer(op, op, x, **attrs)


def silu(net: Quantised, x: int) -> int:
    gate = real(net, "gate", net.layer("sigmoid", "s", x), 1 / 255, 0.0)
    return net.layer("mul", "gated", x, gate)


def long_chain(net: Quantised, x: int, count: int = 12) -> int:
    for i in range(count):
        x = net.layer("add", f"add{i}", x, net.number(0.001))
    return x


FUNCTIONS: dict[str, Function] = {
    "sigmoid": lambda net, x: then(net, "sigmoid", x),
    "tanh": lambda net, x: then(net, "tanh", x),
    "hard_swish": lambda net, x: then(net, "hard_swish", x),
    "gelu": lambda net, x: then(net, "gelu", x),
    "leaky_relu": lambda net, x: then(net, "leaky_relu", x, negative_slope=0.1),
    "silu": silu,
    "a square": lambda net, x: net.layer("mul", "square", x, x),
    "numbers": lambda net, x: net.layer(
        "sub", "less", net.number(0.3), net.layer("div", "over", x, net.number(3.0))
    ),
    "other steps": lambda net, x: x,
    "many": long_chain,
}
OTHERS: dict[str, Function] = {
    "too many": lambda net, x: long_chain(net, x, 13),
    "a number a pixel": lambda net, x: net.layer("mul", "m", x, net.weight(1, 1, 9, 7)),
    "another map": lambda net, x: net.layer("mul", "m", x, net.input("z", 3, C, 9, 7)),
    "means": lambda net, x: net.layer("sub", "s", x, then(net, "reduce_mean", x, axes=(1,), keepdims=True)),
}


def around(function: Function, outputs: bool = False) -> Quantised:
    """A convolution, the function of its steps between two roundings, and another convolution."""
    net = Quantised(6)
    x = net.sum("first", net.steps("q", net.input("x", 3, 16, 9, 7), 50), C, 3, 90, padding=(1,))
    y = function(net, net.scaled("scaled", x, 0.05))
    steps = net.steps("again", y, 40, 0.03)
    net.output(net.sum("last", steps, K, 1, 9), *([y] if outputs else []))
    return net


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_of_bytes_are_looked_up(device, function):
    tried = Tried(device, around(function)).exact()
    assert tried.ops.count("byte_lookup") == 1
    assert tried.ops.count("from_bytes") <= 2 and any(note.startswith("look up") for note in tried.notes)


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_what_no_table_gives_is_computed(device, function):
    tried = Tried(device, around(function))
    assert "byte_lookup" not in tried.ops
    for one, other in zip(tried.got, tried.wanted, strict=True):
        assert np.mean(one == other) > 0.99


def test_what_a_function_gives_can_still_be_read(device):
    tried = Tried(device, around(FUNCTIONS["hard_swish"], outputs=True)).exact()
    assert {"byte_lookup", "hard_swish"} <= set(tried.ops)


def test_a_table_of_a_table(device):
    """Steps of the function are read by a layer of their own, and by a second function."""
    net = Quantised(6)
    x = net.sum("first", net.steps("q", net.input("x", 2, 16, 5, 5), 50), C, 1, 90)
    x = net.scaled("scaled", x, 0.05)
    y = net.layer("sigmoid", "s", x)
    one = net.steps("one", y, 0, 1 / 255)
    two = net.steps("two", net.layer("mul", "both", x, net.scaled("back", one, 1 / 255)), 30, 0.04)
    net.output(net.sum("last", one, K, 1, 9), net.sum("other", two, K, 1, 9))
    assert Tried(device, net).exact().ops.count("byte_lookup") == 2


def gated(gate: Function, batch: int = 3) -> Quantised:
    net = Quantised(6)
    x = net.sum("first", net.steps("q", net.input("x", batch, 16, 9, 7), 50), C, 3, 90, padding=(1,))
    x = net.scaled("scaled", x, 0.05)
    net.output(net.sum("last", net.steps("again", net.layer("mul", "m", x, gate(net, x)), 40, 0.03), K, 1, 9))
    return net


def squeezed(net: Quantised, x: int) -> int:
    mean = then(net, "reduce_mean", x, axes=(2, 3), keepdims=True)
    y = net.sum("inner", net.steps("mean", mean, 90, 0.05), C, 1, 100)
    return real(net, "gate", net.layer("sigmoid", "s", net.scaled("y", y, 0.05)), 1 / 255, 0.0)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("constant", [False, True])
def test_gates_stay_in_bytes(device, batch, constant):
    """A factor for both is rounded once: a few results lie on the other side of a tie."""
    gate = (lambda net, x: net.weight(1, C, 1, 1)) if constant else squeezed
    tried = Tried(device, gated(gate, batch))
    assert tried.ops.count("byte_scale") == 1 and "mul" not in tried.ops
    assert ("byte_mean" in tried.ops) != constant
    assert np.mean(tried.got[0] == tried.wanted[0]) > 0.99
    assert np.abs(tried.got[0] - tried.wanted[0]).max() <= 12


@pytest.mark.parametrize(
    ("value", "step"), [(np.nan, 40), (np.inf, 255), (-np.inf, 0), (1e30, 255), (-1e30, 0)]
)
def test_gates_that_are_no_numbers_of_their_kind(device, value, step):
    net = Quantised(6)
    x = net.steps("q", net.input("x", 1, 16, 3, 3), 0)
    y = net.sum("first", x, 16, 1, 0)
    out = net.steps("again", net.layer("mul", "m", y, net.input("g", 1, 16, 1, 1)), 40, 1.0)
    net.output(out, net.sum("last", out, 16))
    data = [np.full((1, 16, 3, 3), 200, np.float32), np.full((1, 16, 1, 1), value, np.float32)]
    with _core.Plan(device, net.graph) as plan:
        assert "byte_scale" in {row["op"] for row in plan.layers()}
        got = plan.run(data)[0]
    with _core.Plan(device, net.graph, fuse=False) as plan:
        wanted = plan.run(data)[0]
    zeros = np.isnan(wanted)
    np.testing.assert_array_equal(got[~zeros], wanted[~zeros])
    assert (got[zeros] == 0).all() and step - 40 in got


CHILD = """
import sys
import numpy as np
import test_byte_functions as t
from quantised_nets import Tried
from clcnn import _core
import os
with _core.Device("cpu", kernel_dir=os.environ.get("CLCNN_KERNEL_DIR")) as device:
    print(Tried(device, t.around(t.silu)).got[0].sum(), Tried(device, t.gated(t.squeezed)).got[0].sum())
"""


def child(**env: str) -> str:
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", CHILD]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths} | env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_same_in_opencl_c(device, tmp_path):
    """For processors without the instructions."""
    folder = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", folder)
    for file, macro in (("byte_lookup.cl", "PERMUTES"), ("bytes.clh", "DOTS")):
        text = (folder / "bytes" / file).read_text()
        assert text.count(f"#if {macro}\n") >= 1
        (folder / "bytes" / file).write_text(text.replace(f"#if {macro}\n", "#if 0\n"))
    assert child(CLCNN_KERNEL_DIR=str(folder)) == child()
