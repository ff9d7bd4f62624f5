"""What follows a concatenation of channels goes to its parts: batch norms into their weights, activations
into their epilogues; each against the same graph compiled with fuse=False."""

from __future__ import annotations

import pytest

from rewritten import Both, Net


def parts(net: Net, x: int, *sizes: int, dim: int = 1) -> int:
    """Convolutions of so many filters each, one after the other."""
    made = [net.conv(f"conv{i}", x, n, 1 + 2 * (i % 2), bias=i != 1) for i, n in enumerate(sizes)]
    return net.layer("concat", "concat", *made, dim=dim)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5, 2), (16, 32), (7,)])
def test_a_batch_norm_becomes_weights_of_each_part(device, sizes):
    """MixNet: depthwise convolutions of several sizes, then a norm and an activation of all."""
    net = Net()
    x = net.input("x", 2, 6, 7, 7)
    net.output(net.layer("relu", "relu", net.batch_norm("bn", parts(net, x, *sizes))))
    both = Both(device, net)
    names = [f"conv{i}" for i in range(len(sizes))]
    assert [name for name in both.names if name != "concat"] == names
    assert [both.fused(name) for name in names] == ["relu"] * len(sizes)


def test_groups_and_transposed_convolutions_are_parts(device):
    net = Net()
    x = net.input("x", 1, 4, 6, 6)
    deep = net.conv("deep", x, 4, 3, groups=4)
    up = net.layer("conv_transpose", "up", x, net.weight(4, 3, 3, 3), net.weight(3), padding=(1,))
    net.output(net.batch_norm("bn", net.layer("concat", "concat", deep, up, dim=1)))
    assert {name for name in Both(device, net).names if name != "concat"} == {"deep", "up"}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("act", ["relu", "silu", "gelu"])
def test_an_activation_goes_to_each_part_along_any_dimension(device, act, dim):
    net = Net()
    x = net.input("x", 2, 6, 7, 7)
    net.output(net.layer(act, "act", parts(net, x, 4, 4, dim=dim)))
    both = Both(device, net)
    assert "act" not in both.names
    assert [both.fused("conv0"), both.fused("conv1")] == [act, act]


# ---- near misses -------------------------------------------------------------------------------------------


def test_a_part_that_has_no_weights_keeps_the_norm(device):
    net = Net()
    x = net.input("x", 1, 6, 5, 5)
    whole = net.layer("concat", "concat", net.conv("conv", x, 4, 3), net.layer("neg", "neg", x), dim=1)
    net.output(net.batch_norm("bn", whole))
    both = Both(device, net)
    assert "bn" in both.names
    assert not both.notes


def test_a_part_that_is_wanted_keeps_norm_and_activation(device):
    net = Net()
    x = net.input("x", 1, 6, 5, 5)
    a, b = net.conv("a", x, 4, 3), net.conv("b", x, 4, 1)
    net.output(net.layer("relu", "relu", net.batch_norm("bn", net.layer("concat", "c", a, b, dim=1))), b)
    both = Both(device, net)
    assert "bn" in both.names
    assert (both.fused("a"), both.fused("b")) == ("", "")


def test_a_part_that_comes_twice_keeps_the_activation_apart(device):
    net = Net()
    x = net.input("x", 1, 6, 5, 5)
    a = net.conv("a", x, 4, 3)
    net.output(net.layer("silu", "act", net.layer("concat", "c", a, a, dim=1)))
    assert "act" in Both(device, net).names


def test_a_part_with_an_activation_keeps_the_second_apart(device):
    net = Net()
    x = net.input("x", 1, 6, 5, 5)
    a = net.layer("silu", "first", net.conv("a", x, 4, 3))
    net.output(net.layer("relu", "act", net.layer("concat", "c", a, net.conv("b", x, 4, 1), dim=1)))
    both = Both(device, net)
    assert "act" in both.names
    assert both.fused("b") == ""


@pytest.mark.parametrize("dim", [2, 3])
def test_a_norm_of_parts_along_pixels_stays(device, dim):
    net = Net()
    x = net.input("x", 1, 6, 5, 5)
    net.output(net.batch_norm("bn", parts(net, x, 4, 4, dim=dim)))
    assert "bn" in Both(device, net).names
