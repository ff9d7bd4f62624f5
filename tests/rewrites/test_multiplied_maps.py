"""Products of two maps go into the epilogue of what computes one of them, after its activation; gates whose
halves are slices of one linear layer become two layers. Each against the same graph with fuse=False."""

from __future__ import annotations

import pytest

from clcnn import _core
from rewritten import Both, Net


def gated(net: Net, x: int, act: str | None = None) -> int:
    """One convolution, perhaps with an activation, times another."""
    a = net.conv("a", x, 20, 3)
    if act:
        a = net.layer(act, "act", a)
    return net.layer("mul", "mul", a, net.conv("b", x, 20, 1))


def columns(net: Net, value: int, name: str, first: int, end: int, step: int = 1) -> int:
    return net.layer("slice", name, value, starts=(first,), ends=(end,), axes=(-1,), steps=(step,))


def fc(net: Net, name: str, x: int, features: int) -> int:
    return net.layer("linear", name, x, net.weight(features, net.graph.shape(x)[-1]), net.weight(features))


# ---- products of maps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [None, "relu", "silu", "gelu"])
def test_one_convolution_multiplies_by_the_other(device, act):
    """StarNet, FocalNet."""
    net = Net()
    net.output(gated(net, net.input("x", 2, 12, 7, 9), act))
    both = Both(device, net)
    assert both.names == ["a", "b"]
    assert [both.fused("a"), both.fused("b")] == [act or "", "mul"]


def test_the_activation_of_what_multiplies_comes_first(device):
    net = Net()
    x = net.input("x", 2, 12, 7, 9)
    net.output(net.layer("mul", "mul", x, net.layer("sigmoid", "act", net.conv("a", x, 12, 3))))
    assert Both(device, net).fused("a") == "sigmoid+mul"


def test_nothing_follows_a_product(device):
    """Neither an activation nor a sum goes into what a product has gone into: it would come before it."""
    net = Net()
    x = net.input("x", 2, 12, 7, 9)
    y = net.layer("relu", "after", gated(net, x))
    net.output(net.layer("add", "sum", y, net.input("z", 2, 20, 7, 9)))
    both = Both(device, net)
    assert both.fused("b") == "mul"
    assert set(both.names) == {"a", "b", "after", "sum"}


def test_a_residual_forbids_a_product(device):
    net = Net()
    x = net.input("x", 2, 12, 7, 9)
    y = net.layer("add", "sum", net.conv("a", x, 12, 3), x)
    net.output(net.layer("mul", "mul", y, net.layer("neg", "neg", x)))
    both = Both(device, net)
    assert both.fused("a") == "add"
    assert "mul" in both.names


def test_a_product_that_broadcasts_stays(device):
    net = Net()
    x = net.input("x", 2, 12, 7, 9)
    net.output(net.layer("mul", "mul", net.conv("a", x, 12, 3), net.input("gate", 2, 1, 7, 9)))
    assert "mul" in Both(device, net).names


def test_a_map_with_another_reader_stays(device):
    net = Net()
    y = net.conv("a", net.input("x", 2, 12, 7, 9), 12, 3)
    net.output(net.layer("mul", "mul", y, net.input("z", 2, 12, 7, 9)), y)
    both = Both(device, net)
    assert both.fused("a") == ""
    assert "mul" in both.names


def test_a_square_stays(device):
    net = Net()
    y = net.conv("a", net.input("x", 2, 12, 7, 9), 12, 3)
    net.output(net.layer("mul", "square", y, y))
    assert "square" in Both(device, net).names


# ---- halves of a linear layer ----------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["silu", "gelu", "sigmoid"])
@pytest.mark.parametrize("first", [True, False])
def test_slices_of_a_gate_become_two_layers(device, act, first):
    """GLU as exporters write it (gMixer: x1 * act(x2)), and with the halves exchanged."""
    net = Net()
    y = fc(net, "fc", net.input("x", 2, 5, 24), 256)
    a, b = columns(net, y, "a", 0, 128), columns(net, y, "b", 128, 256)
    if first:
        a = net.layer(act, "act", a)
    else:
        b = net.layer(act, "act", b)
    net.output(net.layer("mul", "mul", a, b))
    both = Both(device, net)
    assert both.names == (["fc:1", "fc:0"] if first else ["fc:0", "fc:1"])
    assert [both.fused(name) for name in both.names] == ["", f"{act}+mul"]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(0, 128, 1), (127, 256, 1)], id="overlap"),
        pytest.param([(0, 128, 1), (129, 256, 1)], id="gap"),
        pytest.param([(0, 256, 2), (1, 256, 2)], id="steps"),
    ],
)
def test_other_slices_stay(device, parts):
    net = Net()
    y = fc(net, "fc", net.input("x", 2, 5, 24), 256)
    net.output(*(columns(net, y, f"s{i}", *part) for i, part in enumerate(parts)))
    both = Both(device, net)
    assert "fc" in both.names
    assert not any("as a split" in note for note in both.notes)


def test_slices_of_what_is_wanted_whole_stay(device):
    net = Net()
    y = fc(net, "fc", net.input("x", 2, 5, 24), 256)
    net.output(columns(net, y, "a", 0, 128), columns(net, y, "b", 128, 256), y)
    assert "fc" in Both(device, net).names


# ---- between transposes ------------------------------------------------------------------------------------


def between(net: Net, x: int, *perm: int) -> int:
    """A gate of the last dimension, between two transposes that undo each other."""
    y = fc(net, "fc", net.layer("transpose", "there", x, perm=perm), 128)
    a, b = columns(net, y, "a", 0, 64), columns(net, y, "b", 64, 128)
    y = fc(net, "last", net.layer("mul", "mul", a, net.layer("silu", "act", b)), 40)
    return net.layer("transpose", "back", y, perm=tuple(perm.index(d) for d in range(len(perm))))


def test_a_gate_of_channels_needs_no_transposes(device):
    net = Net()
    x = net.input("x", 2, 40, 5, 7)
    net.output(net.layer("add", "sum", between(net, x, 0, 2, 3, 1), x))
    both = Both(device, net)
    assert both.names == ["fc:0", "fc:1", "last"]
    assert [both.fused(name) for name in both.names] == ["", "silu+mul", "add"]
    assert {row["op"] for row in both.layers if row["layer"] in both.names} == {"conv"}


def test_a_gate_of_tokens_needs_no_transposes_on_gpus(device: _core.Device):
    """gMixer's mixing of tokens."""
    if device.type != "gpu":
        pytest.skip("for GPUs")
    net = Net()
    x = net.input("x", 2, 40, 70)
    net.output(net.layer("add", "sum", between(net, x, 0, 2, 1), x))
    both = Both(device, net)
    assert both.names == ["fc:0", "fc:1", "last"]
    assert both.fused("last") == "add"


def test_a_transpose_that_something_else_reads_stays_for_it(device):
    net = Net()
    x = net.input("x", 2, 40, 5, 7)
    there = net.layer("transpose", "there", x, perm=(0, 2, 3, 1))
    a, b = fc(net, "a", there, 64), fc(net, "b", there, 64)
    y = fc(net, "last", net.layer("mul", "mul", a, b), 40)
    net.output(net.layer("transpose", "back", y, perm=(0, 3, 1, 2)), net.layer("neg", "neg", there))
    both = Both(device, net)
    assert "there" in both.names
    assert "back" not in both.names
