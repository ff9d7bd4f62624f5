"""Linear layers on rows of any rank stay in bytes, with what comes between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantised_nets import Quantised, Tried, device_on_bytes

C, K = 40, 36
SHAPES = [(7, C), (1, 7, C), (2, 19, C), (2, 3, 5, C), (1, 33, 64), (1, 1, C)]


device = pytest.fixture(scope="module")(device_on_bytes)


def two_layers(shape: tuple[int, ...], between: Callable[[Quantised, int], int]) -> Quantised:
    net = Quantised(4)
    x = net.sum("first", net.steps("q", net.input("x", *shape), 90, 0.5), K, zero=30, rows=True)
    net.output(net.sum("last", between(net, x), 24, zero=8, rows=True))
    return net


def reshaped(net: Quantised, name: str, x: int, *shape: int) -> int:
    return net.layer("reshape", name, x, shape=shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layers_of_every_rank(device, shape):
    tried = Tried(device, two_layers(shape, lambda net, x: x)).exact()
    assert tried.ops.count("byte_conv") == 2 and "linear" not in tried.ops
    assert tried.ops.count("to_bytes") == 1 and tried.ops.count("from_bytes") == 1


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_a_reshape_that_keeps_channels(device, rank):
    other = {2: (30, K), 3: (3, 10, K), 4: (5, 2, 3, K)}[rank]

    def between(net: Quantised, x: int) -> int:
        return net.steps("same", reshaped(net, "r", x, *other), 30)

    tried = Tried(device, two_layers((2, 15, C), between)).exact()
    assert tried.ops.count("byte_conv") == 2 and tried.ops.count("to_bytes") == 1


@pytest.mark.parametrize("place", ["", "before", "after"])
def test_functions_between_are_looked_up(device, place):
    """A reshape may stand before the function, or between it and the rounding."""

    def between(net: Quantised, x: int) -> int:
        if place == "before":
            x = reshaped(net, "r", x, 19, K)
        y = net.layer("gelu", "gelu", net.scaled("s", x, 0.05))
        if place == "after":
            y = reshaped(net, "r", y, 19, K)
        return net.steps("again", y, 20, 0.03)

    tried = Tried(device, two_layers((1, 19, C), between)).exact()
    assert tried.ops.count("byte_lookup") == 1 and tried.ops.count("byte_conv") == 2


@pytest.mark.parametrize("known", [False, True], ids=["floats", "bytes"])
def test_sums_of_rows(device, known):
    """The other summand is made of bytes, or of floats that are rounded."""

    def between(net: Quantised, x: int) -> int:
        if known:
            other = net.sum("other", net.steps("p", net.input("z", 2, 19, 24), 70, 0.5), K, zero=50)
        else:
            other = net.steps("other", net.input("z", 2, 19, K), 70, 0.5)
        y = net.layer("add", "add", net.scaled("a", x, 0.25), net.scaled("b", other, 0.5))
        return net.steps("sum", y, 60, 0.75)

    tried = Tried(device, two_layers((2, 19, C), between))
    assert "add" not in tried.ops and tried.ops.count("byte_conv") == 2 + known
    for one, other in zip(tried.got, tried.wanted, strict=True):  # floats round twice at a tie
        assert np.mean(one != other) < 0.01 and np.abs(one - other).max() <= 8


def test_moved_rows_are_rounded_where_they_lie(device):
    """What attention gives is rounded, and then its heads change places."""
    net = Quantised(5)
    x = net.steps("q", net.input("x", 2, 4, 9, 10), 100, 0.5)
    y = net.layer("transpose", "t", x, perm=(0, 2, 1, 3))
    net.output(net.sum("proj", reshaped(net, "r", y, 2, 9, C), K))
    tried = Tried(device, net).exact()
    assert tried.ops.count("byte_conv") == 1 and tried.ops.count("to_bytes") == 1


def test_products_with_constants_are_layers(device):
    net = Quantised(6)
    x = net.steps("q", net.input("x", 2, 9, C), 100, 0.5)
    y = net.layer("matmul", "m", x, net.constant(net.whole(C, K)))
    y = net.layer("round", "round", net.layer("add", "bias", y, net.constant(net.whole(K, most=3000))))
    net.output(net.steps("steps", net.scaled("s", y, 0.002), 40))
    assert Tried(device, net).exact().ops.count("byte_conv") == 1


@pytest.mark.parametrize("first", ["conv", "linear"])
def test_one_value_as_a_map_and_as_rows(device, first):
    """Channels of the convolution are its second dimension, those of the layer its last."""
    net = Quantised(7)
    x = net.steps("q", net.input("x", 1, 16, 8, 16), 90, 0.5)
    conv = first == "conv"
    layers = [net.sum(f"rows {rows}", x, 20, 1, 9, rows=rows) for rows in (not conv, conv)]
    net.output(*layers)
    assert "byte_conv" in Tried(device, net).exact().ops


def test_a_reshape_that_takes_channels_apart_ends_bytes(device):
    def between(net: Quantised, x: int) -> int:
        return reshaped(net, "r", x, 1, 38, K // 2)

    tried = Tried(device, two_layers((1, 19, C), between)).exact()
    assert tried.ops.count("byte_conv") == 1 and "linear" in tried.ops
