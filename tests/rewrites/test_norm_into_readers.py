"""A batch norm that no layer before it takes becomes weights of the convolutions and linear layers that read
it; each against the same graph compiled with fuse=False, in which it is a layer of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import _core
from clcnn.graph import Graph
from rewritten import Both, Net


def normed(net: Net, *shape: int, plain: bool = False) -> int:
    """The norm of an input; plain: without a shift in any channel."""
    x, c = net.input("x", *shape), shape[1]
    if not plain:
        return net.batch_norm("bn", x)
    zeros = net.graph.constant("zeros", np.zeros(c, np.float32))
    return net.layer("batch_norm", "bn", x, net.weight(c), zeros, zeros, net.weight(c, low=0.5))


def unpadded(net: Net, name: str, x: int, filters: int, size: int, **attrs: Any) -> int:
    return net.conv(name, x, filters, size, **({"padding": (0,)} | attrs))


def folded(both: Both) -> list[str]:
    """The layers that took the norm."""
    end = ", which reads it"
    notes = [note.removesuffix(end) for note in both.notes if note.endswith(end)]
    assert all(note.startswith("fold batch_norm bn into ") for note in notes)
    assert (not notes) == any("bn" in name.split("+") for name in both.names)
    return [note.split()[-1] for note in notes]


# ---- what takes it -----------------------------------------------------------------------------------------

CONVOLUTIONS: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "1x1": ((2, 6, 7, 5), 1, {}),
    "3x3": ((2, 6, 7, 5), 3, {}),
    "2x2 of stride 2": ((2, 6, 8, 6), 2, {"stride": (2, 2)}),
    "dilation": ((1, 6, 9, 9), 3, {"dilation": (2, 3)}),
    "groups": ((2, 6, 7, 5), 3, {"groups": 2}),
    "depthwise": ((2, 6, 7, 5), 3, {"groups": 6}),
    "one dimension": ((2, 6, 11), 3, {"stride": (2,), "groups": 3}),
    "three dimensions": ((1, 6, 4, 5, 6), 2, {"groups": 2}),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_convolution_that_pads_nothing_takes_the_norm(device, kind, bias):
    shape, size, attrs = CONVOLUTIONS[kind]
    net = Net()
    net.output(unpadded(net, "conv", normed(net, *shape), 12, size, bias=bias, **attrs))
    both = Both(device, net)
    assert folded(both) == ["conv"]
    assert both.names == ["conv"]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_norm_without_shifts_becomes_weights_of_a_convolution_that_pads(device, groups):
    net = Net()
    net.output(net.conv("conv", normed(net, 2, 6, 7, 5, plain=True), 4, 3, groups=groups))
    assert folded(Both(device, net)) == ["conv"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("shape", "view"),
    [
        ((3, 10), None),
        ((3, 10, 1, 1), {"op": "flatten"}),
        ((2, 5, 4, 3), {"op": "flatten"}),
        ((2, 5, 4, 3), {"op": "reshape", "shape": (2, 60)}),
        ((2, 5, 1, 1), {"op": "squeeze", "axes": (2, 3)}),
        ((1, 5, 6), {"op": "flatten"}),
    ],
)
def test_a_linear_layer_takes_the_norm(device, shape, view, bias):
    net = Net()
    y = normed(net, *shape)
    if view:
        y = net.layer(view["op"], "view", y, **{k: v for k, v in view.items() if k != "op"})
    weights = [net.weight(7, int(np.prod(shape[1:]))), *([net.weight(7)] if bias else [])]
    net.output(net.layer("linear", "fc", y, *weights))
    both = Both(device, net)
    assert folded(both) == ["fc"]


def test_products_with_constants_take_the_norm(device):
    net = Net()
    y = net.layer("flatten", "flat", normed(net, 2, 5, 4, 3))
    net.output(net.layer("gemm", "fc", y, net.weight(60, 7), net.weight(7)))
    assert folded(Both(device, net)) == ["fc"]


def test_a_convolution_behind_a_reshape_of_pixels_takes_the_norm(device):
    net = Net()
    y = net.layer("reshape", "line", normed(net, 2, 6, 4, 3), shape=(2, 6, 12))
    net.output(unpadded(net, "conv", y, 4, 3))
    assert folded(Both(device, net)) == ["conv"]


def test_all_of_several_readers_take_the_norm(device):
    net = Net()
    y = normed(net, 2, 6, 4, 4)
    flat = net.layer("flatten", "flat", y)
    maps = [unpadded(net, "a", y, 4, 1), unpadded(net, "b", y, 6, 2, stride=(2, 2), groups=2)]
    rows = [net.layer("linear", name, flat, net.weight(3, 96)) for name in ("c", "d")]
    net.output(*maps, *rows)
    assert sorted(folded(Both(device, net))) == ["a", "b", "c", "d"]


def test_readers_of_the_same_weights_each_get_their_own(device):
    net = Net()
    x, w = net.input("x", 1, 6, 5, 5), net.weight(6, 6, 1, 1)
    y = net.layer("conv", "a", net.batch_norm("bn", x), w)
    net.output(y, net.layer("conv", "b", net.layer("sin", "sin", x), w))
    assert folded(Both(device, net)) == ["a"]


def test_inception_next(device):
    """Depthwise filters of some channels beside the others, a norm, 1x1 layers, one more norm."""
    net = Net()
    x = net.layer("gelu", "gelu", net.conv("stem", net.input("x", 1, 3, 8, 8), 16, 3))
    same, square, band = net.graph.node("split", "split", [x], {"sizes": (8, 4, 4), "dim": 1})
    parts = [same, net.conv("square", square, 4, 3, groups=4), net.conv("band", band, 4, 5, groups=4)]
    y = net.batch_norm("bn", net.layer("concat", "concat", *parts, dim=1))
    y = net.conv("down", net.layer("gelu", "act", net.conv("up", y, 32, 1)), 16, 1)
    y = net.batch_norm("bn2", net.layer("add", "add", x, y))
    net.output(unpadded(net, "next", y, 24, 2, stride=(2, 2)))
    both = Both(device, net)
    assert [note for note in both.notes if "batch_norm" in note] == [
        "fold batch_norm bn into conv up, which reads it",
        "fold batch_norm bn2 into conv next, which reads it",
    ]
    assert not {"bn", "bn2"} & set(both.names)


def test_the_layer_before_has_the_first_choice(device):
    net = Net()
    y = net.batch_norm("bn", net.conv("first", net.input("x", 1, 4, 5, 5), 6, 3))
    net.output(net.conv("second", y, 4, 1))
    assert Both(device, net).notes == ["fold batch_norm bn into conv first"]


def test_a_layer_whose_algorithm_is_named_takes_the_norm(device):
    net = Net()
    net.output(net.conv("conv", normed(net, 1, 6, 5, 5), 4, 1))
    assert folded(Both(device, net, {"conv": "ref"})) == ["conv"]


def test_zeros_of_what_the_norm_made_are_forgotten(device):
    net = Net()
    net.output(net.conv("conv", normed(net, 1, 6, 5, 5), 4, 1))
    with _core.Plan(device, net.graph, zeros={"conv": (0.5, 0.0, 0.0, 0.5, 0.0)}) as plan:
        assert {row["zeros"] for row in plan.layers()} == {None}


def test_the_sum_is_rounded_once(device):
    """A large mean that weights take away again: float32 sums of the shift would not be as close."""
    graph = _core.Graph()
    c = 512
    x = graph.input("x", (1, c, 2, 2))
    rng = np.random.default_rng(0)
    gamma, mean = rng.uniform(0.5, 1.5, c), rng.uniform(900, 1100, c)
    w = rng.choice([-1.0, 1.0], (4, c))
    named = {"gamma": gamma, "beta": np.zeros(c), "mean": mean, "var": np.ones(c), "w": w[:, :, None, None]}
    values = {name: graph.constant(name, np.asarray(v, np.float32)) for name, v in named.items()}
    y = graph.node("batch_norm", "bn", (x, *list(values.values())[:4]), {"eps": 0.0})[0]
    graph.output(graph.node("conv", "conv", (y, values["w"]), {})[0], "y")
    with _core.Plan(device, graph) as plan:
        (got,) = plan.run([np.zeros((1, c, 2, 2), np.float32)])
    exact = -(w @ (np.float32(gamma).astype(np.float64) * np.float32(mean)))
    np.testing.assert_array_equal(got[0, :, 0, 0], exact.astype(np.float32))


# ---- near misses -------------------------------------------------------------------------------------------


def _wanted(net: Net) -> None:
    y = normed(net, 1, 6, 5, 5)
    net.output(net.conv("conv", y, 4, 1), y)


def _wanted_view(net: Net) -> None:
    y = net.layer("flatten", "flat", normed(net, 2, 6, 2, 2))
    net.output(net.layer("linear", "fc", y, net.weight(3, 24)), y)


def _read_by_another(net: Net) -> None:
    y = normed(net, 1, 6, 5, 5)
    net.output(net.conv("conv", y, 4, 1), net.layer("max_pool", "pool", y, kernel_size=(2,)))


def _read_by_one_that_pads(net: Net) -> None:
    y = normed(net, 1, 6, 5, 5)
    net.output(net.conv("a", y, 4, 1), net.conv("b", y, 4, 3))


def _read_by_five(net: Net) -> None:
    y = normed(net, 1, 6, 5, 5)
    net.output(*(net.conv(f"conv{i}", y, 4, 1) for i in range(5)))


def _added(net: Net) -> None:
    """The sum becomes the epilogue of a convolution, which also reads it."""
    y = normed(net, 1, 6, 5, 5)
    net.output(net.layer("add", "add", net.conv("conv", y, 6, 1), y))


def _padded(net: Net) -> None:
    net.output(net.conv("conv", normed(net, 1, 6, 5, 5), 4, 3))


def _padded_at_an_end(net: Net) -> None:
    y = normed(net, 1, 6, 5, 5)
    net.output(net.layer("conv", "conv", y, net.weight(4, 6, 2, 2), padding=(0, 0, 0, 1)))


def _transposed(net: Net) -> None:
    net.output(net.layer("conv_transpose", "up", normed(net, 1, 6, 5, 5), net.weight(6, 4, 2, 2)))


def _activated(net: Net) -> None:
    net.output(net.conv("conv", net.layer("relu", "relu", normed(net, 1, 6, 5, 5)), 4, 1))


def _given_weights(net: Net) -> None:
    y = normed(net, 1, 6, 5, 5)
    net.output(net.layer("conv", "conv", y, net.input("w", 4, 6, 1, 1)))


def _is_weights(net: Net) -> None:
    y = normed(net, 4, 6, 1, 1)
    net.output(net.layer("conv", "conv", net.input("other", 1, 6, 5, 5), y))


def _given_statistics(net: Net) -> None:
    x, mean = net.input("x", 1, 6, 5, 5), net.input("mean", 6)
    y = net.layer("batch_norm", "bn", x, net.weight(6), net.weight(6), mean, net.weight(6, low=0.5))
    net.output(net.conv("conv", y, 4, 1))


def _rows(net: Net) -> None:
    """The last dimension is not the channel."""
    net.output(net.layer("linear", "fc", normed(net, 2, 6, 5), net.weight(3, 5)))


def _rows_of_pixels(net: Net) -> None:
    y = net.layer("reshape", "view", normed(net, 2, 6, 4, 4), shape=(12, 16))
    net.output(net.layer("linear", "fc", y, net.weight(3, 16)))


def _other_channels(net: Net) -> None:
    y = net.layer("reshape", "view", normed(net, 1, 6, 4, 4), shape=(1, 12, 2, 4))
    net.output(net.conv("conv", y, 4, 1))


NEAR_MISSES: list[Callable[[Net], None]] = [
    _wanted, _wanted_view, _read_by_another, _read_by_one_that_pads, _read_by_five, _added, _padded,
    _padded_at_an_end, _transposed, _activated, _given_weights, _is_weights, _given_statistics, _rows,
    _rows_of_pixels, _other_channels,
]  # fmt: skip


@pytest.mark.parametrize("build", NEAR_MISSES, ids=lambda build: build.__name__)
def test_what_cannot_take_the_norm_leaves_it(device, build):
    net = Net()
    build(net)
    assert folded(Both(device, net)) == []


def test_a_norm_and_its_activation_before_a_pointwise_convolution_become_one_layer_with_it(device):
    net = Net()
    net.output(net.conv("conv", net.layer("relu", "relu", normed(net, 1, 6, 5, 5)), 4, 1))
    assert Both(device, net).notes == [
        "fuse relu relu into batch_norm bn",
        "turn batch_norm bn before 1x1 conv conv into a depthwise conv",
        "merge depthwise conv bn and 1x1 conv conv",
    ]


def test_a_norm_whose_algorithm_is_named_stays(device):
    net = Net()
    net.output(net.conv("conv", normed(net, 1, 6, 5, 5), 4, 1))
    assert folded(Both(device, net, {"bn": "ref"})) == []


@pytest.mark.parametrize("trained", ["w", "gamma"])
def test_parameters_that_are_states_stay(device, trained):
    """As in training, where the next step changes them."""
    values = {"w": np.ones((4, 6, 1, 1), np.float32), "gamma": np.full(6, 2.0, np.float32)}
    graph = Graph()
    x = graph.input("x", (1, 6, 5, 5))
    given = {k: graph.state(k, v.shape) if k == trained else v for k, v in values.items()}
    zeros, ones = np.zeros(6, np.float32), np.ones(6, np.float32)
    y = graph.apply("batch_norm", x, given["gamma"], ones, zeros, ones, eps=0.0, name="bn")
    graph.output(graph.apply("conv", y, given["w"], name="conv"), "y")
    with (
        clcnn.State({trained: values[trained]}, device) as state,
        clcnn.compile(graph, device=device, state=state) as plan,
    ):
        assert not any("which reads it" in note for note in plan.rewrites)
        np.testing.assert_array_equal(plan(np.ones((1, 6, 5, 5), np.float32)), np.full((1, 4, 5, 5), 18.0))
