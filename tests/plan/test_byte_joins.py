"""Maps of bytes side by side, some of their channels, and normalised: what stays in bytes."""

from __future__ import annotations

import numpy as np
import pytest

from quantised_nets import Quantised, Tried, device_on_bytes

device = pytest.fixture(scope="module")(device_on_bytes)


def maps(net: Quantised, batch: int, *channels: int) -> list[int]:
    """Convolutions of one map, whose steps stand for numbers of different scales."""
    x = net.steps("q", net.input("x", batch, 16, 9, 7), 50)
    return [
        net.scaled(f"y{i}", net.sum(f"a{i}", x, c, 3, 90, padding=(1,)), 0.05 + 0.01 * i)
        for i, c in enumerate(channels)
    ]


def joined(batch: int, channels: tuple[int, ...], dim: int = 1) -> Quantised:
    net = Quantised(4)
    y = net.layer("concat", "all", *maps(net, batch, *channels), dim=dim)
    net.output(net.sum("last", net.steps("again", y, 80, 0.06), 24, 1, 9))
    return net


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("channels", [(16, 16), (48, 32, 20), (16, 5), (64, 16, 16, 16, 1)])
def test_maps_side_by_side_stay_in_bytes(device, batch, channels):
    """Those of other steps are looked up."""
    tried = Tried(device, joined(batch, channels)).exact()
    assert tried.ops.count("byte_join") == 1 and "concat" not in tried.ops
    assert tried.ops.count("byte_lookup") == len(channels)


@pytest.mark.parametrize(("channels", "dim"), [((20, 16), 1), ((16, 16), 2), ((5, 16, 16), 1)])
def test_channels_that_fill_no_blocks_are_joined_as_floats(device, channels, dim):
    tried = Tried(device, joined(2, channels, dim)).exact()
    assert "byte_join" not in tried.ops


def test_floats_beside_bytes_are_rounded_by_themselves(device):
    net = Quantised(4)
    (y,) = maps(net, 2, 32)
    z = net.layer("fake_quantize", "z.steps", net.input("z", 2, 20, 9, 7), scale=0.7, zero_point=100.0)
    both = net.layer("concat", "all", y, z, dim=1)
    net.output(net.sum("last", net.steps("again", both, 80, 0.06), 24, 1, 9))
    tried = Tried(device, net).exact()
    assert {"byte_join", "to_bytes"} <= set(tried.ops) and "concat" not in tried.ops


def test_floats_alone_stay_floats(device):
    net = Quantised(4)
    parts = [
        net.layer("fake_quantize", f"z{i}", net.input(f"x{i}", 2, 16, 9, 7), scale=0.7, zero_point=100.0)
        for i in range(2)
    ]
    both = net.layer("concat", "all", *parts, dim=1)
    net.output(net.sum("last", net.steps("again", both, 80, 0.6), 24, 1, 9))
    tried = Tried(device, net).exact()
    assert "byte_join" not in tried.ops


def parted(parts: list[int], sizes: list[int], net: Quantised) -> Tried:
    net.output(
        *(
            net.sum(f"b{i}", net.steps(f"part{i}", part, 90, 0.05), 16, 1, 9)
            for i, (part, _) in enumerate(zip(parts, sizes, strict=True))
        )
    )
    return net


@pytest.mark.parametrize(
    ("sizes", "joins"), [([32, 16, 20], 3), ([16, 52], 2), ([20, 48], 0), ([16, 20, 32], 1), ([68], 1)]
)
def test_parts_of_whole_blocks_stay_in_bytes(device, sizes, joins):
    net = Quantised(4)
    (x,) = maps(net, 2, sum(sizes))
    parts = net.graph.node("split", "parts", [x], {"sizes": tuple(sizes), "dim": 1})
    tried = Tried(device, parted(list(parts), sizes, net)).exact()
    assert tried.ops.count("byte_join") == joins


@pytest.mark.parametrize(
    ("attrs", "joins"),
    [
        ({"starts": (16,), "ends": (48,), "axes": (1,)}, 1),
        ({"starts": (32,), "ends": (68,), "axes": (1,)}, 1),
        ({"starts": (8,), "ends": (40,), "axes": (1,)}, 0),
        ({"starts": (16,), "ends": (40,), "axes": (1,)}, 0),
        ({"starts": (0,), "ends": (64,), "axes": (1,), "steps": (2,)}, 0),
        ({"starts": (16, 1), "ends": (48, 5), "axes": (1, 2)}, 0),
    ],
)
def test_slices_of_whole_blocks_stay_in_bytes(device, attrs, joins):
    net = Quantised(4)
    (x,) = maps(net, 2, 68)
    tried = Tried(device, parted([net.layer("slice", "part", x, **attrs)], [0], net)).exact()
    assert tried.ops.count("byte_join") == joins


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_normalised_maps_stay_in_bytes(device, relu, batch):
    """A factor and a shift for all: a few results lie on the other side of a tie."""
    net = Quantised(4)
    y = net.batch_norm("norm", net.layer("concat", "all", *maps(net, batch, 16, 20), dim=1))
    y = net.layer("relu", "relu", y) if relu else y
    net.output(net.sum("last", net.steps("again", y, 0 if relu else 80, 0.05), 24, 1, 9))
    tried = Tried(device, net)
    assert "batch_norm" in tried.ops  # floats are joined: nothing rounds them before
    net = Quantised(4)
    y = net.layer("concat", "all", *maps(net, batch, 16, 20), dim=1)
    y = net.batch_norm("norm", net.layer("fake_quantize", "steps", y, scale=0.06, zero_point=80.0))
    y = net.layer("relu", "relu", y) if relu else y
    net.output(net.sum("last", net.steps("again", y, 0 if relu else 80, 0.05), 24, 1, 9))
    tried = Tried(device, net)
    assert {"byte_join", "byte_scale"} <= set(tried.ops) and "batch_norm" not in tried.ops
    assert np.mean(tried.got[0] == tried.wanted[0]) > 0.98
    assert np.abs(tried.got[0] - tried.wanted[0]).max() <= 4


def test_a_norm_of_computed_numbers_is_computed(device):
    net = Quantised(4)
    (x,) = maps(net, 1, 32)
    parameters = [net.weight(32), net.weight(32), net.input("mean", 32), net.weight(32, low=0.5)]
    y = net.layer("batch_norm", "norm", x, *parameters)
    net.output(net.sum("last", net.steps("again", y, 80, 0.05), 24, 1, 9))
    assert "byte_scale" not in Tried(device, net).ops
