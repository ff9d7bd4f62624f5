"""Convolutions of one input that are added become one, and so does what is added to them channel by
channel; each against the same graph compiled with fuse=False."""

from __future__ import annotations

import numpy as np
import pytest

from clcnn import _core
from rewritten import Both, Net

C = 6


def conv(net: Net, name: str, x: int, kernel: tuple[int, ...], bias: bool = True, **attrs: object) -> int:
    """A convolution to C channels that keeps sizes at stride 1, whatever its kernel."""
    dilation = attrs.get("dilation", (1,) * len(kernel))
    assert isinstance(dilation, tuple)
    attrs.setdefault("padding", tuple(k // 2 * d for k, d in zip(kernel, dilation, strict=True)))
    groups = attrs.get("groups", 1)
    assert isinstance(groups, int)
    weights = [net.weight(C, net.graph.shape(x)[1] // groups, *kernel)]
    if bias:
        weights.append(net.weight(C))
    return net.layer("conv", name, x, *weights, **attrs)


def summed(net: Net, *values: int) -> int:
    """Their sum, added one after the other."""
    total = values[0]
    for i, value in enumerate(values[1:]):
        total = net.layer("add", f"sum{i}", total, value)
    return total


@pytest.mark.parametrize("first", ["large", "small"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_smaller_filter_becomes_part_of_a_larger_one(device, stride, bias, first):
    net = Net()
    x = net.input("x", 2, 5, 8, 9)
    large = conv(net, "large", x, (3, 3), bias, stride=(stride, stride))
    small = conv(net, "small", x, (1, 1), not bias, stride=(stride, stride))
    net.output(summed(net, *((large, small) if first == "large" else (small, large))))
    both = Both(device, net)
    assert both.names == ["large"]
    assert both.notes == ["add conv small to the weights of conv large"]


@pytest.mark.parametrize(
    "kernels", [((3,), (1,)), ((5, 3), (3, 1)), ((3, 3), (1, 3)), ((3, 3, 3), (1, 3, 1))]
)
@pytest.mark.parametrize("groups", [1, 2, C])
def test_filters_of_any_shape_and_groups(device, kernels, groups):
    net = Net()
    x = net.input("x", 1, C, *[7] * len(kernels[0]))
    net.output(summed(net, *(conv(net, f"k{i}", x, k, groups=groups) for i, k in enumerate(kernels))))
    assert Both(device, net).names == ["k0"]


def test_taps_that_lie_apart(device):
    """Dilation 2: a filter of 3 taps begins at the second of 5; one tap has no dilation."""
    net = Net()
    x = net.input("x", 1, C, 11, 11)
    large = conv(net, "large", x, (5, 5), dilation=(2, 2))
    inner = conv(net, "inner", x, (3, 3), dilation=(2, 2))
    net.output(summed(net, large, inner, conv(net, "one", x, (1, 1))))
    assert Both(device, net).names == ["large"]


def test_pads_of_two_sides_that_differ(device):
    """The filter of 2 taps meets the first two of three; its last pad is nothing that the sum sees."""
    net = Net()
    x = net.input("x", 1, C, 8, 8)
    large = conv(net, "large", x, (3, 3))
    small = conv(net, "small", x, (2, 2), padding=(1, 1, 0, 0))
    net.output(summed(net, large, small))
    assert Both(device, net).names == ["large"]


@pytest.mark.parametrize("groups", [1, 3, C])
def test_a_batch_norm_of_the_input_becomes_a_tap(device, groups):
    """RepVGG in training form, and the activation after it."""
    net = Net()
    x = net.layer("relu", "before", net.input("x", 2, C, 8, 8))
    y = summed(net, conv(net, "k3", x, (3, 3), False, groups=groups), net.batch_norm("bn", x),
               conv(net, "k1", x, (1, 1), groups=groups))  # fmt: skip
    net.output(net.layer("relu", "relu", y))
    both = Both(device, net)
    assert both.names == ["before", "k3"]
    assert both.fused("k3") == "relu"


def test_the_input_becomes_a_tap_of_depthwise_filters_and_a_norm_of_the_sum_weights(device):
    """RepViT in training form."""
    net = Net()
    x = net.input("x", 2, C, 8, 8)
    y = summed(net, conv(net, "k3", x, (3, 3), groups=C), conv(net, "k1", x, (1, 1), groups=C), x)
    net.output(net.batch_norm("bn", y))
    both = Both(device, net)
    assert both.names == ["k3"]
    assert "add its input to the weights of conv k3" in both.notes


def test_whole_numbers_stay_exact(device):
    rng = np.random.default_rng(5)
    graph = _core.Graph()
    x = graph.input("x", (1, C, 9, 9))
    terms = []
    for i, k in enumerate((3, 1, 3)):
        w = rng.integers(-8, 9, (C, C, k, k)).astype(np.float32)
        terms.append(graph.node("conv", f"c{i}", [x, graph.constant(f"w{i}", w)], {"padding": (k // 2,)})[0])
    total = graph.node("add", "s0", terms[:2], {})[0]
    graph.output(graph.node("add", "s1", [total, terms[2]], {})[0], "y")
    data = rng.integers(-8, 9, (1, C, 9, 9)).astype(np.float32)
    with _core.Plan(device, graph, fuse=False) as plain, _core.Plan(device, graph) as plan:
        assert len(plan.rewrites()) == 2
        np.testing.assert_array_equal(plan.run([data])[0], plain.run([data])[0])


# ---- near misses -------------------------------------------------------------------------------------------


def layers(device: _core.Device, net: Net, **overrides: str) -> set[str]:
    return set(Both(device, net, overrides or None).names)


def test_other_inputs_stay(device):
    net = Net()
    x = net.input("x", 1, C, 8, 8)
    other = net.layer("relu", "relu", x)
    net.output(summed(net, conv(net, "a", x, (3, 3)), conv(net, "b", other, (1, 1))))
    assert {"a", "b"} <= layers(device, net)


@pytest.mark.parametrize(
    "a, b",
    [
        pytest.param({"kernel": (1, 3)}, {"kernel": (3, 1)}, id="neither within the other"),
        pytest.param({"kernel": (3, 3)}, {"kernel": (1, 1), "groups": C}, id="groups"),
        pytest.param({"kernel": (3, 3)}, {"kernel": (3, 3), "dilation": (2, 2)}, id="dilation"),
        pytest.param(
            {"kernel": (3, 3), "dilation": (2, 2)},
            {"kernel": (2, 2), "padding": (1, 1, 0, 0)},
            id="odd offset",
        ),
        pytest.param(
            {"kernel": (4, 5), "padding": (0, 0)},
            {"kernel": (1, 1), "padding": (0, 0), "stride": (2, 2)},
            id="stride",
        ),
    ],
)
def test_filters_that_do_not_fit_stay(device, a, b):
    net = Net()
    x = net.input("x", 1, C, 7, 8)
    net.output(summed(net, conv(net, "a", x, **a), conv(net, "b", x, **b)))
    assert {"a", "b"} <= layers(device, net)


def test_results_that_are_wanted_stay(device):
    net = Net()
    x = net.input("x", 1, C, 8, 8)
    a, b = conv(net, "a", x, (3, 3)), conv(net, "b", x, (1, 1))
    net.output(summed(net, a, b), b)
    assert {"a", "b"} <= layers(device, net)


def test_the_input_of_other_filters_is_added_as_before(device):
    """Of dense filters, it is added in the epilogue."""
    net = Net()
    x = net.input("x", 1, C, 8, 8)
    net.output(summed(net, conv(net, "dense", x, (3, 3)), x))
    assert Both(device, net).notes == ["fuse add sum0 into conv dense"]


def test_weights_that_others_read_are_left_alone(device):
    net = Net()
    x = net.input("x", 1, C, 8, 8)
    w = net.weight(C, C, 3, 3)
    once = net.layer("conv", "once", x, w, padding=(1,))
    again = net.layer("conv", "again", net.layer("relu", "relu", x), w, padding=(1,))
    net.output(summed(net, once, conv(net, "b", x, (1, 1))), again)
    assert layers(device, net) == {"once", "relu", "again"}


@pytest.mark.parametrize("named", ["a", "b"])
def test_a_layer_whose_algorithm_is_named_stays(device, named):
    net = Net()
    x = net.input("x", 1, C, 8, 8)
    net.output(summed(net, conv(net, "a", x, (3, 3)), conv(net, "b", x, (1, 1))))
    assert {"a", "b"} <= layers(device, net, **{named: "ref"})
