"""Steps of an LSTM and of a GRU that were written out become one operator each, and near misses do not; each
against the same graph compiled with fuse=False."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

import device_face
from rewritten import Both, Net
from runner import has_blocks

ROWS, UNITS = 2, 5


@pytest.fixture(autouse=True)
def cells_are_not_for_narrow_processors(device):
    if device.type == "cpu" and not has_blocks(device):
        pytest.skip("cells are for CPU devices with channel blocks, and for GPUs")


def columns(net: Net, name: str, x: int, first: int, past: int, step: int = 1) -> int:
    sizes = {"starts": (first * UNITS,), "ends": (past * UNITS,), "axes": (1,), "steps": (step,)}
    return net.layer("slice", name, x, **sizes)


Two = Callable[[str, str, int, int], int]


def of_two(net: Net, swapped: bool) -> Two:
    return lambda op, name, a, b: net.layer(op, name, *((b, a) if swapped and op != "sub" else (a, b)))


def lstm(
    net: Net, x: int, h: int, c: int, tag: str = "", *, swapped: bool = False, bias: bool = False,
    gates: tuple[int, int, int] = (0, 1, 2), cell: str = "tanh", show: str = "",
) -> tuple[int, int]:  # fmt: skip
    """h and c of the next step. gates: which columns are i, o and f. show: an inner value that is shown."""
    two = of_two(net, swapped)
    weights = [net.weight(4 * UNITS, UNITS)] + [net.weight(4 * UNITS)] * bias
    all_gates = two("add", tag + "gates", net.layer("linear", tag + "linear", h, *weights), x)
    new = net.layer("tanh", tag + "new", columns(net, tag + "new_part", all_gates, 3, 4))
    three = net.layer("sigmoid", tag + "three", columns(net, tag + "three_part", all_gates, 0, 3))
    i, o, f = (columns(net, tag + name, three, k, k + 1) for name, k in zip("iof", gates))
    kept = two("mul", tag + "kept", f, c)
    d = two("add", tag + "d", kept, two("mul", tag + "more", i, new))
    y = two("mul", tag + "y", o, net.layer(cell, tag + "shown", d))
    if show:
        net.graph.output({"three": three, "kept": kept, "gates": all_gates}[show], "inner")
    return y, d


def gru(
    net: Net, x: int, h: int, *, swapped: bool = False, bias: bool = True, gates: tuple[int, int] = (0, 1),
    change: str = "h - new", show: str = "",
) -> int:  # fmt: skip
    two = of_two(net, swapped)
    weights = [net.weight(3 * UNITS, UNITS)] + [net.weight(3 * UNITS)] * bias
    product = net.layer("linear", "linear", h, *weights)
    both = two("add", "both", columns(net, "both_h", product, 0, 2), columns(net, "both_x", x, 0, 2))
    both = net.layer("sigmoid", "sigmoid", both)
    z, r = (columns(net, name, both, k, k + 1) for name, k in zip("zr", gates))
    seen = two("mul", "seen", r, columns(net, "seen_h", product, 2, 3))
    new = net.layer("tanh", "new", two("add", "new_sum", seen, columns(net, "new_x", x, 2, 3)))
    change = net.layer("sub", "change", *((h, new) if change == "h - new" else (new, h)))
    if show:
        net.graph.output({"sigmoid": both, "seen": seen, "linear": product}[show], "inner")
    return two("add", "y", new, two("mul", "part", z, change))


def start(net: Net, gates: int) -> tuple[int, int, int]:
    return net.input("x", ROWS, gates * UNITS), net.input("h", ROWS, UNITS), net.input("c", ROWS, UNITS)


def found(device, net: Net, op: str) -> int:
    return sum(row["op"] == op for row in Both(device, net).layers)


@pytest.mark.parametrize("swapped", [False, True])
def test_an_lstm_is_one_step(device, swapped):
    net = Net()
    net.output(*lstm(net, *start(net, 4), swapped=swapped))
    assert found(device, net, "lstm_cell") == 1


def test_steps_follow_each_other(device):
    net = Net()
    x, h, c = start(net, 4)
    for t in range(4):
        h, c = lstm(net, x, h, c, f"step{t}.")
    net.output(h, c)
    both = Both(device, net)
    assert [row["op"] for row in both.layers] == ["lstm_cell"] * 4


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gru_is_one_step(device, swapped):
    net = Net()
    x, h, _ = start(net, 3)
    net.output(gru(net, x, h, swapped=swapped))
    assert found(device, net, "gru_cell") == 1


MISSES = {
    "a bias": {"bias": True},
    "other gates": {"gates": (1, 0, 2)},
    "the new cell shown as it is": {"cell": "sigmoid"},
    "gates that are wanted": {"show": "gates"},
    "functions that are wanted": {"show": "three"},
    "a product that is wanted": {"show": "kept"},
}


@pytest.mark.parametrize("miss", MISSES)
def test_near_misses_of_an_lstm(device, miss):
    net = Net()
    net.output(*lstm(net, *start(net, 4), **MISSES[miss]))
    assert found(device, net, "lstm_cell") == 0


GRU_MISSES = {
    "no bias": {"bias": False},
    "other gates": {"gates": (1, 0)},
    "the change the other way round": {"change": "new - h"},
    "functions that are wanted": {"show": "sigmoid"},
    "a product that is wanted": {"show": "seen"},
    "the gates' product is wanted": {"show": "linear"},
}


@pytest.mark.parametrize("miss", GRU_MISSES)
def test_near_misses_of_a_gru(device, miss):
    net = Net()
    x, h, _ = start(net, 3)
    net.output(gru(net, x, h, **GRU_MISSES[miss]))
    assert found(device, net, "gru_cell") == 0


def test_many_rows_keep_their_products(device, monkeypatch):
    """Register tiles, or tensor cores, use each weight for more rows at a time; GPUs, of many units."""
    net = Net()
    if device.type != "cpu":
        monkeypatch.setattr(sys.modules[__name__], "UNITS", 120)
    rows = 17 if device.type == "cpu" else (1 << 25) // (4 * UNITS**2) + 1
    x, h, c = (net.input(n, rows, k * UNITS) for n, k in (("x", 4), ("h", 1), ("c", 1)))
    net.output(*lstm(net, x, h, c))
    assert found(device, net, "lstm_cell") == 0


MANY_ROWS = """
import json
import test_cells as t
from clcnn import _core
from rewritten import Net
counts = []
with _core.Device("gpu") as device:
    for units, rows in ((5, (1 << 25) // 100 + 1), (120, (1 << 25) // (4 * 120**2) + 1)):
        t.UNITS, net = units, Net()
        x, h, c = (net.input(n, rows, k * units) for n, k in (("x", 4), ("h", 1), ("c", 1)))
        net.output(*t.lstm(net, x, h, c))
        with _core.Plan(device, net.graph) as plan:
            counts.append(sum(row["op"] == "lstm_cell" for row in plan.layers()))
print(json.dumps(counts))
"""


def test_gpus_have_cells_of_few_units_for_any_rows(tmp_path):
    assert json.loads(device_face.run(tmp_path, MANY_ROWS).splitlines()[-1]) == [1, 0]


def test_what_reads_the_cell_before_the_state_is_there(device):
    """Whoever reads d before the last node would read it before it is computed."""
    net = Net()
    x, h, c = start(net, 4)
    net.layer("neg", "unused", x)
    weights = net.weight(4 * UNITS, UNITS)
    gates = net.layer("add", "gates", net.layer("linear", "linear", h, weights), x)
    new = net.layer("tanh", "new", columns(net, "new_part", gates, 3, 4))
    three = net.layer("sigmoid", "three", columns(net, "three_part", gates, 0, 3))
    i, o, f = (columns(net, name, three, k, k + 1) for k, name in enumerate("iof"))
    d = net.layer("add", "d", net.layer("mul", "kept", f, c), net.layer("mul", "more", i, new))
    early = net.layer("neg", "early", d)
    y = net.layer("mul", "y", o, net.layer("tanh", "shown", d))
    net.output(y, d, early)
    assert found(device, net, "lstm_cell") == 0
