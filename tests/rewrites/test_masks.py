"""The gradient of a ReLU behind that of a pooling becomes a part of it: both know the map that the ReLU gave.
Each against the same graph with fuse=False."""

from __future__ import annotations

import pytest

from rewritten import Both, Net


def maxima(net: Net) -> tuple[int, int]:
    """What a ReLU gives, and the gradient of its maxima."""
    x = net.layer("relu", "relu", net.input("x", 2, 5, 7, 9))
    dy = net.input("dy", 2, 5, 3, 4)
    return x, net.layer("max_pool_grad", "maxima", x, dy, kernel_size=(3,), stride=(2,))


def masks(both: Both) -> int:
    """Layers that hold one: functions of elements are joined on GPUs."""
    return sum("mask" in row["layer"].split("+") for row in both.layers)


def test_the_gradient_of_maxima_takes_the_mask(device):
    net = Net()
    x, dx = maxima(net)
    net.output(net.layer("relu_grad", "mask", dx, x))
    both = Both(device, net)
    assert masks(both) == 0
    assert any(note == "fuse relu_grad mask into max_pool_grad maxima" for note in both.notes)


def other(net: Net) -> int:
    return net.input("z", 2, 5, 7, 9)


NEAR = {
    "the mask of another map": lambda net, x, dx: [net.layer("relu_grad", "mask", dx, other(net))],
    "masked the other way": lambda net, x, dx: [net.layer("relu_grad", "mask", x, dx)],
    "the gradient without a mask is wanted": lambda net, x, dx: [net.layer("relu_grad", "mask", dx, x), dx],
    "of a sum": lambda net, x, dx: [net.layer("relu_grad", "mask", net.layer("add", "sum", dx, x), x)],
}  # fmt: skip


@pytest.mark.parametrize("form", NEAR)
def test_other_masks_stay(device, form):
    net = Net()
    net.output(*NEAR[form](net, *maxima(net)))
    assert masks(Both(device, net)) == 1


def test_a_mask_stays_where_its_algorithm_is_chosen(device):
    net = Net()
    x, dx = maxima(net)
    net.output(net.layer("relu_grad", "mask", dx, x))
    assert masks(Both(device, net, overrides={"mask": "ref"})) == 1
