"""Values that are expanded before an operator that broadcasts them itself; each against the same graph
compiled with fuse=False."""

from __future__ import annotations

import numpy as np
import pytest

import clcnn
from clcnn import nn
from rewritten import Both, Net

MAP, GATE = (2, 6, 5, 4), (2, 6, 1, 1)


def dropped(both: Both) -> bool:
    return any(note.startswith("broadcast ") for note in both.notes)


def operands(net: Net, x: tuple[int, ...], y: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """A map, and a value that was expanded to `shape`."""
    return [net.input("x", *x), net.layer("expand", "wide", net.input("y", *y), shape=shape)]


@pytest.mark.parametrize("op", ["mul", "add", "sub", "div", "maximum", "minimum"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("y", [GATE, (6, 1, 1), (1,), (2, 1, 5, 1)], ids=str)
def test_operands_that_the_operator_broadcasts(device, op, swapped, y):
    net = Net()
    two = [net.layer("exp", f"exp{i}", value) for i, value in enumerate(operands(net, MAP, y, MAP))]
    net.output(net.layer(op, "last", *(two[::-1] if swapped else two)))
    assert not dropped(Both(device, net))  # what follows it is another layer
    net = Net()
    two = operands(net, MAP, y, MAP)
    net.output(net.layer(op, "last", *(two[::-1] if swapped else two)))
    both = Both(device, net)
    assert dropped(both) and both.names == ["last"]


def test_both_operands_of_which_each_needs_the_other(device):
    net = Net()
    x = net.layer("expand", "tall", net.input("x", 1, 6, 1, 4), shape=(2, 6, 1, 4))
    y = net.layer("expand", "wide", net.input("y", 2, 6, 5, 1), shape=MAP)
    net.output(net.layer("mul", "last", x, y))
    both = Both(device, net)
    assert dropped(both) and both.names == ["last"]


def test_what_makes_the_result_larger_stays(device):
    net = Net()
    net.output(net.layer("mul", "last", *operands(net, (1, 6, 1, 4), (1, 6, 1, 1), (1, 6, 5, 1))))
    both = Both(device, net)
    assert not dropped(both) and both.names == ["wide", "last"]


def test_what_others_read_stays_for_them(device):
    net = Net()
    x, wide = operands(net, MAP, GATE, MAP)
    net.output(net.layer("mul", "last", x, wide), wide)
    both = Both(device, net)
    assert dropped(both) and sorted(both.names) == ["last", "wide"]


def test_a_layer_that_is_chosen_by_name_stays(device):
    net = Net()
    net.output(net.layer("mul", "last", *operands(net, MAP, GATE, MAP)))
    both = Both(device, net, {"wide": "ref"})
    assert not dropped(both) and both.names == ["wide", "last"]


class Attention(nn.Module):
    """Efficient channel attention, as PyTorch's models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, x):
        gate = self.conv(x.mean((2, 3)).reshape(-1, 1, x.shape[1])).reshape(-1, x.shape[1], 1, 1)
        return x * clcnn.ops.expand(gate.sigmoid(), shape=x.shape)


def test_channel_attention_expands_nothing(device):
    x = np.random.default_rng(0).standard_normal((2, 32, 6, 6), np.float32)
    net = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), Attention(), nn.Conv2d(32, 16, 1)).eval()
    plans = [clcnn.compile(net, x.shape, device, fuse=fuse) for fuse in (False, True)]
    plain, fused = ({row["op"] for row in plan.layers} for plan in plans)
    assert "expand" in plain - fused
    np.testing.assert_allclose(plans[1](x), plans[0](x), rtol=1e-5, atol=1e-5)
