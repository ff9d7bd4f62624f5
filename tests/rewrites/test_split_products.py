"""A linear layer whose columns are split becomes one layer for each part, and functions of elements go into
what computes their operand before it is moved; each against the same graph compiled with fuse=False."""

from __future__ import annotations

from pathlib import Path

import pytest

import device_face
from clcnn import _core
from rewritten import Both, Net


@pytest.fixture
def blocks(device: _core.Device) -> _core.Device:
    if device.type != "cpu":
        pytest.skip("for CPU devices")
    return device


def split(net: Net, y: int, *sizes: int, dim: int = -1) -> list[int]:
    return list(net.graph.node("split", "split", [y], {"sizes": sizes, "dim": dim}))


def fc(net: Net, x: int, columns: int, bias: bool = True) -> int:
    weights = [net.weight(columns, net.graph.shape(x)[-1])] + ([net.weight(columns)] if bias else [])
    return net.layer("linear", "fc", x, *weights)


# ---- parts of linear layers ----------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(16, 16), (64, 48, 16), (32, 16, 16, 64)])
def test_each_part_is_a_layer_that_takes_what_follows(blocks, sizes, bias):
    """MambaOut: gelu of the first part, the last one as it is."""
    net = Net()
    parts = split(net, fc(net, net.input("x", 2, 5, 12), sum(sizes), bias), *sizes)
    net.output(net.layer("gelu", "act", parts[0]), *parts[1:])
    both = Both(blocks, net)
    names = [f"fc:{i}" for i in range(len(sizes))]
    assert sorted(both.names) == names
    assert [both.fused(name) for name in names] == ["gelu"] + [""] * (len(sizes) - 1)


def test_all_parts_take_an_activation_before_the_split(blocks):
    """gMLP."""
    net = Net()
    a, b = split(net, net.layer("gelu", "act", fc(net, net.input("x", 1, 7, 8), 64)), 32, 32)
    net.output(net.layer("mul", "mul", a, net.layer("neg", "neg", b)))
    both = Both(blocks, net)
    assert {"act", "split", "fc"}.isdisjoint(both.names)
    assert [both.fused("fc:0"), both.fused("fc:1")] == ["gelu+mul", "gelu"]


def test_layers_after_one_another_each_come_apart(blocks):
    net = Net()
    x = net.input("x", 3, 16)
    for i in range(3):
        y = net.layer("linear", f"fc{i}", x, net.weight(32, 16))
        a, b = net.graph.node("split", f"split{i}", [y], {"sizes": (16, 16), "dim": 1})
        x = net.layer("mul", f"mul{i}", a, b)
    net.output(x)
    both = Both(blocks, net)
    assert sum("apart" in note for note in both.notes) == 3
    assert not any(name.startswith("split") for name in both.names)


# ---- GPUs -----------------------------------------------------------------------------------------------

PARTS = """
from clcnn import _core
from rewritten import Both, Net
from test_split_products import fc, split
with _core.Device("gpu") as device:
    for rows, sizes in ((64, (64, 64)), (64, (64, 64, 64)), (16384, (64, 64, 64)), (16384, (32, 32, 32, 32))):
        net = Net()
        net.output(*split(net, fc(net, net.input("x", rows, 4), sum(sizes)), *sizes))
        print("fc:0" in Both(device, net).names)
"""


def test_gpus_take_three_parts_apart_where_the_copy_takes_longer_than_a_launch(tmp_path: Path) -> None:
    """And two always; not parts of half a tile, which would be padding."""
    assert device_face.run(tmp_path, PARTS).split() == ["True", "False", "True", "False"]


# ---- near misses ----------------------------------------------------------------------------------------


def stays(device: _core.Device, net: Net) -> bool:
    both = Both(device, net)
    return "fc" in both.names and not any("apart" in note for note in both.notes)


def test_parts_that_would_mostly_be_padding_stay_together(blocks):
    net = Net()
    net.output(*split(net, fc(net, net.input("x", 4, 8), 24), 8, 7, 9))
    assert stays(blocks, net)


def test_a_split_of_rows_stays(blocks):
    net = Net()
    net.output(*split(net, fc(net, net.input("x", 4, 8, 8), 32), 4, 4, dim=1))
    assert stays(blocks, net)


def test_a_layer_that_is_wanted_whole_stays(blocks):
    net = Net()
    y = fc(net, net.input("x", 4, 8), 32)
    net.output(y, *split(net, y, 16, 16))
    assert stays(blocks, net)


def test_a_layer_with_a_residual_stays(blocks):
    net = Net()
    x = net.input("x", 4, 32)
    net.output(*split(net, net.layer("add", "add", fc(net, x, 32), x), 16, 16))
    assert stays(blocks, net)


def test_computed_weights_stay_together(blocks):
    net = Net()
    y = net.layer("linear", "fc", net.input("x", 4, 8), net.layer("neg", "neg", net.input("w", 32, 8)))
    net.output(*split(net, y, 16, 16))
    assert stays(blocks, net)


def test_weights_of_two_layers_stay_together(blocks):
    """Their memory is given back as soon as the last of the two is packed."""
    net = Net()
    x, w = net.input("x", 4, 8), net.weight(32, 8)
    parts = split(net, net.layer("linear", "fc", x, w), 16, 16)
    net.output(*parts, net.layer("linear", "other", net.layer("neg", "neg", x), w))
    assert stays(blocks, net)


def test_one_row_stays_whole(blocks):
    net = Net()
    net.output(*split(net, fc(net, net.input("x", 1, 8), 32), 16, 16))
    assert stays(blocks, net)


@pytest.mark.parametrize("forced", [{"fc": "panels"}, {"split": "ref"}])
def test_what_is_chosen_by_the_user_stays(blocks, forced):
    net = Net()
    net.output(*split(net, fc(net, net.input("x", 1, 4, 8), 32), 16, 16))
    assert "fc" in Both(blocks, net, forced).names


# ---- activations behind moves ---------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["gelu", "relu", "hard_swish"])
def test_an_activation_passes_moves(device, act):
    """PVT and SegFormer: a depthwise convolution of tokens, then an activation of tokens."""
    net = Net()
    y = net.conv("conv", net.input("x", 2, 6, 4, 5), 6, 3, groups=6)
    tokens = net.layer("reshape", "reshape", y, shape=(2, 6, 20))
    net.output(net.layer(act, "act", net.layer("transpose", "turn", tokens, perm=(0, 2, 1))))
    both = Both(device, net)
    assert "act" not in both.names
    assert both.fused("conv") == act


def test_moves_that_are_wanted_keep_the_activation_behind_them(device):
    net = Net()
    y = net.conv("conv", net.input("x", 2, 6, 4, 5), 6, 3)
    turned = net.layer("transpose", "turn", y, perm=(0, 2, 3, 1))
    net.output(net.layer("gelu", "act", turned), turned)
    both = Both(device, net)
    assert "act" in both.names
    assert both.fused("conv") == ""


def test_a_second_activation_stays_behind_the_moves(device):
    net = Net()
    y = net.layer("relu", "first", net.conv("conv", net.input("x", 2, 6, 4, 5), 6, 3))
    net.output(net.layer("gelu", "act", net.layer("transpose", "turn", y, perm=(0, 2, 3, 1))))
    both = Both(device, net)
    assert "act" in both.names
    assert both.fused("conv") == "relu"
