"""Element-wise functions one after the other become one layer: on GPUs, on CPUs with vectors where operands
lie beside channel blocks, and elsewhere where asked for."""

from __future__ import annotations

import numpy as np
import pytest

from clcnn import _core
from rewritten import Both, Net, random_inputs
from runner import has_blocks

SHAPES = ((2, 5, 7, 9), (2, 8, 6, 10), (1, 3, 257), (3, 4))


def _asked(last: str) -> dict[str, str]:
    return {last: "together"}


def _channel(net: Net, shape: tuple[int, ...]) -> int:
    return net.weight(shape[1], *[1] * (len(shape) - 2))


@pytest.mark.parametrize("shape", SHAPES)
def test_four_functions_with_broadcasts(device, shape):
    net = Net()
    x, other = net.input("x", *shape), net.input("other", *shape)
    y = net.layer("mul", "mul", x, net.input("row", *shape[:-1], 1))
    y = net.layer("mul", "scale", y, _channel(net, shape))
    y = net.layer("sub", "shift", _channel(net, shape), y)
    y = net.layer("add", "add", other, y)
    net.output(y)
    both = Both(device, net, _asked("add"))
    assert [row["op"] for row in both.layers] == ["elementwise"]
    assert both.layers[0]["layer"] == "mul+scale+shift+add"
    assert any("join 4 element-wise functions up to add add" in note for note in both.notes)


@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_one_argument_keep_their_numbers(device, shape):
    net = Net()
    x = net.input("x", *shape)
    y = net.layer("clip", "clip", x, min=-0.5, max=0.75)
    y = net.layer("leaky_relu", "leak", y, negative_slope=0.3)
    y = net.layer("gelu", "gelu", y, approximate="tanh")
    y = net.layer("div", "div", y, net.layer("exp", "exp", x))
    net.output(y)
    both = Both(device, net, _asked("div"))
    assert [row["op"] for row in both.layers].count("elementwise") == 1


def test_a_gate_reads_its_map_twice(device):
    net = Net()
    x = net.input("x", 2, 3, 5, 7)
    y = net.layer("mul", "mul", net.layer("tanh", "tanh", x), x)
    net.output(y)
    assert [row["op"] for row in Both(device, net, _asked("mul")).layers] == ["elementwise"]


def test_more_than_four_are_two_layers(device):
    net = Net()
    y = net.input("x", 2, 3, 5, 7)
    for i in range(6):
        y = net.layer("abs" if i % 2 else "tanh", f"l{i}", y)
    net.output(y)
    layers = Both(device, net, {"l5": "together", "l1": "together"}).layers
    assert [row["layer"] for row in layers] == ["l0+l1", "l2+l3+l4+l5"]


def test_a_middle_value_that_is_wanted_stays(device):
    net = Net()
    middle = net.layer("exp", "exp", net.input("x", 2, 3, 5))
    net.output(middle, net.layer("abs", "abs", middle))
    layers = _layers(device, net, {})
    assert [row["op"] for row in layers] == ["exp", "abs"]


def test_a_smaller_middle_is_computed_once(device):
    net = Net()
    small = net.layer("exp", "exp", net.input("small", 2, 3, 1))
    net.output(net.layer("mul", "mul", net.input("x", 2, 3, 500), small))
    assert [row["op"] for row in _layers(device, net, {})] == ["exp", "mul"]


def test_a_forced_algorithm_keeps_its_layer(device):
    net = Net()
    net.output(net.layer("abs", "abs", net.layer("exp", "exp", net.input("x", 2, 3, 5))))
    assert [row["op"] for row in _layers(device, net, {"exp": "ref"})] == ["exp", "abs"]


def test_nan_and_infinity_go_through(device):
    net = Net()
    x = net.input("x", 2, 13)
    net.output(net.layer("relu6", "relu6", net.layer("mul", "mul", x, x)))
    data = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, *range(7)]] * 2, np.float32)
    with _core.Plan(device, net.graph, overrides=_asked("relu6"), guard=True) as plan:
        got = plan.run([data])[0]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, np.clip(data * data, 0, 6))


def _gated(net: Net, n: int, channels: int) -> None:
    """A map times a gate, the shortcut and ReLU, as blocks of squeeze-and-excite end."""
    x = net.conv("first", net.input("x", n, 3, 7, 9), channels, 3)
    y = net.layer("relu", "middle", x)
    gate = net.layer("sigmoid", "gate", net.input("gate", n, channels, 1, 1))
    pixels = net.layer("add", "pixels", net.layer("mul", "mul", y, gate), net.input("map", n, 1, 7, 9))
    y = net.layer("relu", "relu", net.layer("add", "add", y, pixels))
    net.output(net.conv("last", y, 5, 1))


@pytest.mark.parametrize("channels", (16, 17, 24, 40))
@pytest.mark.parametrize("n", (1, 3))
def test_a_gated_shortcut_is_one_layer_on_channel_blocks(device, n, channels):
    if not has_blocks(device):
        pytest.skip("no channel blocks")
    net = Net()
    _gated(net, n, channels)
    both = Both(device, net)
    assert [row["op"] for row in both.layers if row["op"] != "sigmoid"] == ["conv", "elementwise", "conv"]
    joined = next(row for row in both.layers if row["op"] == "elementwise")
    assert (joined["layer"], joined["algo"]) == ("mul+pixels+add+relu", "vector")
    ops = [step["op"] for step in both.all_steps]
    assert "reorder" not in ops[ops.index("conv") : -1 - ops[::-1].index("conv")]


def test_joined_layers_take_parts_of_a_batch(device):
    net = Net()
    _gated(net, 4, 17)
    plans = (_core.Plan(device, net.graph, batch_part=part) for part in (4, 2))
    with _core.Plan(device, net.graph, fuse=False) as plain, next(plans) as whole, next(plans) as parts:
        data = random_inputs(plain)
        np.testing.assert_allclose(parts.run(data)[0], plain.run(data)[0], rtol=1e-5, atol=1e-5)
        counts = [
            sum(step["op"] == "elementwise" for step in plan.steps() if "relu" in step["layer"])
            for plan in (whole, parts)
        ]
    if has_blocks(device):
        assert counts == [1, 2]


def test_on_cpus_powers_and_other_broadcasts_stay_by_themselves(device):
    if not has_blocks(device):
        pytest.skip("not by default")
    net = Net()
    y = net.layer("exp", "exp", net.input("x", 2, 3, 5, 7))
    y = net.layer("abs", "abs", net.layer("pow", "pow", y, net.weight(1)))
    y = net.layer("tanh", "tanh", net.layer("mul", "mul", y, net.input("rows", 2, 3, 5, 1)))
    net.output(y)
    assert [row["op"] for row in _layers(device, net, {})] == ["exp", "pow", "abs", "mul", "tanh"]


def _layers(device: _core.Device, net: Net, overrides: dict[str, str]) -> list[dict]:
    with _core.Plan(device, net.graph, overrides=overrides) as plan:
        return plan.layers()
