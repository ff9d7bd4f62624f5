"""A 1x1 convolution, a depthwise and a 1x1 one become one layer, and are apart where that gains nothing."""

from __future__ import annotations

import pytest

from helpers import need_blocks
from rewritten import Both, Net


def _inverted(net: Net) -> tuple[int, int, int]:
    x = net.input("x", 2, 8, 9, 15)
    wide = net.layer("relu6", "act0", net.conv("expand", x, 24, 1))
    middle = net.layer("relu6", "act1", net.conv("dw", wide, 24, 3, groups=24))
    return wide, middle, net.conv("pw", middle, 12, 1)


def test_pointwise_and_separable_become_one_step(device):
    need_blocks(device, "inverted_residual", "blocked")
    net = Net()
    net.output(_inverted(net)[2])
    both = Both(device, net, {"expand+dw+pw": "blocked"})
    (step,) = both.steps
    assert (step["layer"], step["op"], step["algo"]) == ("expand+dw+pw", "inverted_residual", "blocked")
    assert "merge 1x1 conv expand and dw+pw" in both.notes


@pytest.mark.parametrize("wanted", [0, 1])
def test_wanted_middle_keeps_inverted_residuals_apart(device, wanted):
    net = Net()
    values = _inverted(net)
    net.output(values[wanted], values[2])
    assert Both(device, net).names == [["expand", "dw+pw"], ["expand", "dw", "pw"]][wanted]


@pytest.mark.parametrize("layer", ["expand", "dw", "pw"])
def test_override_takes_inverted_residuals_apart(device, layer):
    """Whichever part it names; what it does not name stays merged."""
    net = Net()
    net.output(_inverted(net)[2])
    both = Both(device, net, {layer: "direct"})
    assert both.names == (["expand", "dw+pw"] if layer == "expand" else ["expand", "dw", "pw"])
    assert {row["layer"]: row["algo"] for row in both.steps}[layer] == "direct"


@pytest.mark.parametrize("algo", ["fused", "split"])
def test_override_for_the_separable_part_keeps_that_merged(device, algo):
    net = Net()
    net.output(_inverted(net)[2])
    both = Both(device, net, {"expand": "direct", "dw": algo})
    assert both.names == ["expand", "dw+pw"]
    assert [row["algo"] for row in both.layers if row["op"] == "separable"] == [algo]


def test_small_inverted_residuals_gain_nothing(device):
    """Where each part would be computed as it is by itself, they are as if they had not been merged."""
    need_blocks(device, "inverted_residual", "blocked")
    net = Net()
    wide = net.conv("expand", net.input("x", 2, 8, 5, 5), 24, 1)
    net.output(net.conv("pw", net.conv("dw", wide, 24, 3, groups=24), 12, 1))
    both = Both(device, net)
    assert "take expand+dw+pw apart: it would be computed in parts" in both.notes
    assert both.names == ["expand", "dw+pw"]
