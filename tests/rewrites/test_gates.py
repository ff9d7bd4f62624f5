"""What response normalisation (ConvNeXtV2) is made of: the norm of each channel in one step, a map beside
its own gated copy multiplied once, and what is added before a convolution in its bias; each against the
same graph compiled with fuse=False."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caselib import parse_case
from clcnn import _core
from rewritten import Both, Net
from runner import functions_of_graph, has_blocks, try_case

SHAPE = (2, 6, 5, 4)


def gated(net: Net, x: int, g: int, *, factor: bool, shift: bool, swapped: bool = False) -> int:
    """x + (shift + factor x g), what torch.addcmul() is exported as."""
    channels = (1, net.graph.shape(x)[1], 1, 1)

    def two(op: str, name: str, a: int, b: int) -> int:
        return net.layer(op, name, *((b, a) if swapped else (a, b)))

    y = two("mul", "gating", x, g)
    if factor:
        y = two("mul", "scaling", y, net.weight(*channels))
    if shift:
        y = two("add", "shifting", y, net.weight(*channels))
    return two("add", "last", x, y)


def gate(net: Net, x: int, name: str = "gate") -> int:
    return net.layer("reduce_max", name, x, axes=(2, 3))


def joined(both: Both) -> bool:
    return any("one more than the gate" in note for note in both.notes)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("factor", [False, True])
def test_a_map_is_multiplied_once(device, factor, shift, swapped):
    net = Net()
    x = net.layer("sin", "sin", net.input("x", *SHAPE))
    net.output(gated(net, x, gate(net, x), factor=factor, shift=shift, swapped=swapped))
    both = Both(device, net)
    assert joined(both)
    ops = sorted(row["op"] for row in functions_of_graph(both.all_steps) if row["op"] in ("mul", "add"))
    if has_blocks(device):  # elsewhere small maps may have other steps
        assert ops == ["add"] * (1 + shift) + ["mul"] * (1 + factor)


def test_gates_of_pixels(device):
    net = Net()
    x = net.input("x", *SHAPE)
    net.output(gated(net, x, net.layer("reduce_max", "gate", x, axes=(1,)), factor=False, shift=False))
    assert joined(Both(device, net))


def test_response_normalisation_ends_in_the_convolution(device):
    """ConvNeXtV2: the shift behind the gate is part of the next layer's bias."""
    net = Net()
    x = net.layer("gelu", "gelu", net.conv("first", net.input("x", *SHAPE), 8, 1))
    y = gated(net, x, gate(net, x), factor=True, shift=True)
    net.output(net.conv("conv", y, 6, 1))
    both = Both(device, net)
    assert joined(both)
    assert "take add last into the bias of conv conv" in both.notes
    assert "last" not in both.names


def test_an_infinite_map_stays_infinite(device):
    """x + x g is NaN for x of infinity and g below 0; x (1 + g) is not, down to g = -1."""
    graph = _core.Graph()
    x, g = graph.input("x", (1, 2, 2, 2)), graph.input("g", (1, 2, 1, 1))
    y = graph.node("mul", "gating", (x, g), {})[0]
    graph.output(graph.node("add", "last", (x, y), {})[0], "y")
    values = np.array([[[[np.inf, 1.0], [-np.inf, np.nan]]] * 2], np.float32)
    with _core.Plan(device, graph) as plan:
        (got,) = plan.run([values, np.array([0.5, -0.5], np.float32).reshape(1, 2, 1, 1)])
    wanted = [[[np.inf, 1.5], [-np.inf, np.nan]], [[np.inf, 0.5], [-np.inf, np.nan]]]
    np.testing.assert_array_equal(got[0], wanted)


# ---- near misses ----------------------------------------------------------------------------------------


def test_gates_as_large_as_the_map_stay(device):
    net = Net()
    x = net.input("x", *SHAPE)
    net.output(gated(net, x, net.layer("neg", "gate", x), factor=False, shift=False))
    assert not joined(Both(device, net))


def test_a_square_stays(device):
    net = Net()
    x = net.input("x", *SHAPE)
    net.output(net.layer("add", "last", x, net.layer("mul", "gating", x, x)))
    assert not joined(Both(device, net))


def test_another_map_stays(device):
    net = Net()
    x, y = net.input("x", *SHAPE), net.input("y", *SHAPE)
    net.output(net.layer("add", "last", y, net.layer("mul", "gating", x, gate(net, x))))
    assert not joined(Both(device, net))


def test_constants_of_pixels_stay(device):
    """The factor would be as large as the map."""
    net = Net()
    x = net.input("x", *SHAPE)
    y = net.layer("mul", "gating", x, gate(net, x))
    net.output(net.layer("add", "last", x, net.layer("mul", "scaling", y, net.weight(*SHAPE[1:]))))
    assert not joined(Both(device, net))


@pytest.mark.parametrize("wanted", ["gating", "scaling", "shifting"])
def test_inner_values_that_are_wanted_stay(device, wanted):
    net = Net()
    x = net.input("x", *SHAPE)
    c = net.weight(1, 6, 1, 1)
    made = {"gating": net.layer("mul", "gating", x, gate(net, x))}
    made["scaling"] = net.layer("mul", "scaling", made["gating"], c)
    made["shifting"] = net.layer("add", "shifting", made["scaling"], c)
    net.output(net.layer("add", "last", x, made["shifting"]), made[wanted])
    assert not joined(Both(device, net))


@pytest.mark.parametrize("layer", ["gating", "scaling", "shifting", "last"])
def test_layers_whose_algorithm_is_chosen_stay(device, layer):
    net = Net()
    x = net.input("x", *SHAPE)
    net.output(gated(net, x, gate(net, x), factor=True, shift=True))
    assert not joined(Both(device, net, {layer: "ref"}))


# ---- additions before convolutions ----------------------------------------------------------------------


def shifted(net: Net, *shape: int, size: int = 1, **attrs: Any) -> int:
    """The convolution of an addition that nothing before it takes."""
    x = net.input("x", *SHAPE)
    y = net.layer("add", "add", net.layer("mul", "mul", x, gate(net, x)), net.weight(*shape))
    return net.conv("conv", y, 6, size, **attrs)


def taken(both: Both) -> bool:
    return "take add add into the bias of conv conv" in both.notes


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (1,), ()])
def test_a_shift_becomes_a_bias(device, shape, bias):
    net = Net()
    net.output(shifted(net, *shape, bias=bias))
    both = Both(device, net)
    assert taken(both)
    assert "add" not in both.names


def test_a_layer_before_the_addition_has_the_first_choice(device):
    net = Net()
    y = net.conv("first", net.input("x", *SHAPE), 6, 3)
    net.output(net.conv("conv", net.layer("add", "add", y, net.weight(6, 1, 1)), 4, 1))
    assert Both(device, net).notes[0] == "take add add into the weights of conv first"


@pytest.mark.parametrize("how", [{"stride": (2, 2)}, {"groups": 2}, {"size": 2, "padding": (0,)}])
def test_any_convolution_that_pads_nothing_takes_the_shift(device, how):
    net = Net()
    net.output(shifted(net, 6, 1, 1, **how))
    assert taken(Both(device, net))


def test_a_convolution_that_pads_leaves_the_shift(device):
    net = Net()
    net.output(shifted(net, 6, 1, 1, size=3))
    assert not taken(Both(device, net))


@pytest.mark.parametrize("shape", [(5, 4), (6, 5, 4), (1, 1, 1, 4), (2, 1, 1, 1)])
def test_shifts_that_are_not_of_channels_stay(device, shape):
    net = Net()
    net.output(shifted(net, *shape))
    assert not taken(Both(device, net))


def test_a_shift_that_spreads_its_map_stays(device):
    net = Net()
    y = net.layer("add", "add", net.input("x", 1, 1, 5, 4), net.weight(6, 1, 1))
    net.output(net.conv("conv", y, 4, 1))
    assert not taken(Both(device, net))


def test_a_sum_that_is_wanted_stays(device):
    net = Net()
    y = net.layer("add", "add", net.input("x", *SHAPE), net.weight(6, 1, 1))
    net.output(net.conv("conv", y, 4, 1), y)
    assert not taken(Both(device, net))


@pytest.mark.parametrize("layer", ["add", "conv"])
def test_a_shift_stays_where_an_algorithm_is_chosen(device, layer):
    net = Net()
    net.output(shifted(net, 6, 1, 1))
    assert not taken(Both(device, net, {layer: "ref"}))


# ---- additions and factors before linear layers ---------------------------------------------------------


def affine(net: Net, *operators: str, shape: tuple[int, ...] = (12,)) -> None:
    """ResMLP: what is done to tokens that nothing before it takes, and a linear layer of them."""
    x = net.input("x", 2, 7, 12)
    y = net.layer("add", "first", x, net.layer("neg", "neg", x))
    for name in operators:
        y = net.layer(name, name, y, net.weight(*shape, low=0.5))
    net.output(net.layer("linear", "fc", y, net.weight(9, 12), net.weight(9)))


@pytest.mark.parametrize("operators", [("mul",), ("sub",), ("div", "add"), ("mul", "add"), ("add", "mul")])
@pytest.mark.parametrize("shape", [(12,), (1, 1, 12), (1,)])
def test_a_linear_layer_takes_what_is_done_to_its_columns(device, operators, shape):
    net = Net()
    affine(net, *operators, shape=shape)
    both = Both(device, net)
    assert set(both.names).isdisjoint(operators)
    for name in operators:
        assert (
            f"take {name} {name} into the {'weights' if name in ('mul', 'div') else 'bias'} of linear fc"
            in both.notes
        )


@pytest.mark.parametrize("shape", [(7, 12), (7, 1), (2, 1, 1)])
def test_factors_of_rows_stay(device, shape):
    net = Net()
    affine(net, "mul", shape=shape)
    assert not any("linear fc" in note for note in Both(device, net).notes)


def test_a_convolution_that_pads_takes_a_factor(device):
    net = Net()
    x = net.input("x", *SHAPE)
    y = net.layer("mul", "scale", net.layer("mul", "mul", x, gate(net, x)), net.weight(6, 1, 1))
    net.output(net.conv("conv", y, 6, 3))
    assert "take mul scale into the weights of conv conv" in Both(device, net).notes


# ---- norms of channels ----------------------------------------------------------------------------------


def norm(net: Net, *shape: int, power: bool = False, **attrs: object) -> list[int]:
    """The root of a sum of squares, each value on the way."""
    x = net.input("x", *shape)
    two = net.graph.constant("two", np.array(2.0, np.float32))
    square = net.layer("pow", "square", x, two) if power else net.layer("mul", "square", x, x)
    total = net.layer("reduce_sum", "sum", square, **attrs)
    return [square, total, net.layer("sqrt", "norm", total)]


def ops_of(both: Both) -> list[str]:
    return [row["op"] for row in both.layers]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        *(((2, 19, 5, 7), (2, 3)), ((1, 8, 1, 1), (2, 3)), ((2, 16, 33), (2,))),
        *(((2, 3, 5, 7), (2, 3)), ((1, 19, 3, 4, 5), (2, 3, 4))),
    ],
)
def test_the_norm_of_pixels_becomes_a_pooling(device, shape, axes, power):
    net = Net()
    net.output(norm(net, *shape, power=power, axes=axes)[-1])
    assert ops_of(Both(device, net)) == ["lp_pool"]


def test_nan_goes_through_a_norm(device):
    """No case of tests/cases/: onnx's own definition of LpPool loses it."""
    for algo in ("blocked", "global"):
        outcome = try_case(device, parse_case("lp_pool [2,8,6,6] kernel_size=6 values=nan"), algo)
        assert outcome.rejected or outcome.failures == []


@pytest.mark.parametrize(
    "attrs", [{"axes": (2,)}, {"axes": (1, 2)}, {"axes": (1, 2, 3)}, {"axes": (2, 3), "keepdims": 0}]
)
def test_norms_of_others_than_pixels_stay(device, attrs):
    net = Net()
    net.output(norm(net, 2, 19, 5, 7, **attrs)[-1])
    assert ops_of(Both(device, net)) == ["mul", "reduce_sum", "sqrt"]


@pytest.mark.parametrize("wanted", [0, 1])
def test_squares_and_sums_that_are_wanted_stay(device, wanted):
    net = Net()
    values = norm(net, 2, 19, 5, 7, axes=(2, 3))
    net.output(values[-1], values[wanted])
    assert "lp_pool" not in ops_of(Both(device, net))


def test_a_product_of_two_maps_is_no_square(device):
    net = Net()
    x, y = net.input("x", 2, 19, 5, 7), net.input("y", 2, 19, 5, 7)
    absolute = net.layer("abs", "abs", net.layer("mul", "product", x, y))
    other = net.layer("mul", "other", absolute, net.layer("abs", "positive", y))
    net.output(net.layer("sqrt", "norm", net.layer("reduce_sum", "sum", other, axes=(2, 3))))
    assert "lp_pool" not in ops_of(Both(device, net))


def test_another_power_stays(device):
    net = Net()
    four = net.layer(
        "pow", "power", net.input("x", 2, 19, 5, 7), net.graph.constant("p", np.array(4.0, np.float32))
    )
    net.output(net.layer("sqrt", "norm", net.layer("reduce_sum", "sum", four, axes=(2, 3))))
    assert "lp_pool" not in ops_of(Both(device, net))


@pytest.mark.parametrize(("layer", "algo"), [("square", "ref"), ("sum", "ref"), ("norm", "vector")])
def test_a_norm_stays_where_an_algorithm_is_chosen(device, layer, algo):
    if algo == "vector" and not has_blocks(device):
        pytest.skip("the algorithm is one of channel blocks")
    net = Net()
    net.output(norm(net, 2, 19, 5, 7, axes=(2, 3))[-1])
    assert ops_of(Both(device, net, {layer: algo})) == ["mul", "reduce_sum", "sqrt"]
