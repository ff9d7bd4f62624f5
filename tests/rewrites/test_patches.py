"""Convolutions of deep patches that lie side by side become linear layers, and moves around them undo each
other; each against the same graph compiled with fuse=False."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clcnn import _core
from rewritten import Both, Net

RULE = "of patches side by side into a linear layer"


def patches(
    net: Net, x: int, filters: int, kernel: tuple[int, ...], bias: bool = True, groups: int = 1, **attrs: Any
) -> int:
    weights = [net.weight(filters, net.graph.shape(x)[1] // groups, *kernel)]
    if bias:
        weights.append(net.weight(filters))
    return net.layer("conv", "conv", x, *weights, **{"stride": kernel, "groups": groups, **attrs})


def tokens(net: Net, y: int) -> int:
    n, filters, *sides = net.graph.shape(y)
    rows = net.layer("reshape", "flat", y, shape=(n, filters, -1))
    return net.layer("transpose", "tokens", rows, perm=(0, 2, 1))


def rewritten(both: Both) -> bool:
    return any(RULE in note for note in both.notes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((1, 3, 64, 96), (32, 32)),
        ((2, 8, 36, 24), (12, 12)),
        ((3, 1, 35, 66), (35, 33)),
        ((2, 4, 1200), (300,)),
        ((2, 2, 16, 9, 8), (16, 9, 4)),
    ],
)
def test_patches_become_rows(device, shape, kernel, bias):
    net = Net()
    net.output(tokens(net, patches(net, net.input("x", *shape), 11, kernel, bias)))
    both = Both(device, net)
    assert rewritten(both)
    assert {"conv:turn", "conv:whole", "tokens", "flat"}.isdisjoint(both.names)
    assert [row["op"] for row in both.layers if row["layer"] == "conv"] == ["linear"]


def test_maps_of_patches_stay_maps(device):
    """Nobody turns them back; what follows is still taken into the layer or follows it."""
    net = Net()
    y = net.layer("relu", "relu", patches(net, net.input("x", 2, 3, 64, 64), 16, (32, 32)))
    net.output(net.conv("next", y, 5, 1))
    assert rewritten(Both(device, net))


def test_a_norm_becomes_weights_first(device):
    net = Net()
    y = net.batch_norm("norm", patches(net, net.input("x", 1, 3, 64, 64), 16, (32, 32)))
    net.output(tokens(net, y))
    both = Both(device, net)
    assert rewritten(both) and "norm" not in both.names


def test_weights_of_two_layers(device):
    """Both read the same constant, one as a convolution."""
    net = Net()
    x, w = net.input("x", 1, 3, 64, 64), net.weight(4, 3, 32, 32)
    a = net.layer("conv", "conv", x, w, stride=(32,))
    b = net.layer("conv", "other", x, w, stride=(16,))
    net.output(a, b)
    assert rewritten(Both(device, net))


def test_layers_of_two_weights_each(device):
    """More is looked up of the second pair's weights than there was before the first pair was rewritten."""
    net = Net()
    x, weights = net.input("x", 1, 3, 64, 64), [net.weight(4, 3, 32, 32) for _ in range(2)]
    y = [net.layer("conv", f"conv{i}", x, weights[i // 2], stride=(32,)) for i in range(4)]
    net.output(*y)
    assert sum(RULE in note for note in Both(device, net).notes) == 4


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs"),
    [
        ((1, 3, 64, 64), (32, 32), {"stride": (16, 32)}),
        ((1, 3, 32, 32), (32, 32), {"padding": (16,)}),
        ((1, 3, 65, 64), (32, 32), {}),
        ((1, 3, 63, 63), (32, 32), {"dilation": (2,)}),
        ((1, 4, 64, 64), (32, 32), {"groups": 2}),
        ((1, 9, 32, 32), (16, 16), {}),
        ((1, 3, 16, 16), (8, 8), {}),
        ((1, 3, 32, 32), (32, 32), {}),
    ],
)
def test_near_misses(device, shape, kernel, attrs):
    net = Net()
    net.output(patches(net, net.input("x", *shape), 4, kernel, **attrs))
    assert not rewritten(Both(device, net))


def test_weights_that_are_inputs_stay(device):
    net = Net()
    x, w = net.input("x", 1, 3, 64, 64), net.input("w", 4, 3, 32, 32)
    net.output(net.layer("conv", "conv", x, w, stride=(32,)))
    assert not rewritten(Both(device, net))


def test_a_layer_whose_algorithm_is_chosen_stays(device):
    net = Net()
    net.output(patches(net, net.input("x", 1, 3, 64, 64), 4, (32, 32)))
    both = Both(device, net, {"conv": "direct"})
    assert not rewritten(both)
    assert [row["op"] for row in both.layers] == ["conv"]


def test_integers_are_exact(device):
    net, rng = Net(), np.random.default_rng(5)
    x = net.input("x", 2, 3, 64, 96)
    w = net.graph.constant("w", rng.integers(-3, 4, (24, 3, 32, 32)).astype(np.float32))
    net.output(net.layer("conv", "conv", x, w, stride=(32,)))
    data = [rng.integers(-3, 4, (2, 3, 64, 96)).astype(np.float32)]
    with _core.Plan(device, net.graph, fuse=False) as plain, _core.Plan(device, net.graph) as plan:
        assert any(RULE in note for note in plan.rewrites())
        np.testing.assert_array_equal(plan.run(data)[0], plain.run(data)[0])
