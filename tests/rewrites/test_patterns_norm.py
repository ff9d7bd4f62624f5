"""Normalisations that exporters write out, and constant factors behind layers with weights: each form is
recognised, near misses are not, and results stay those of the definitions in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clcnn import _core
from runner import layers_of_graph
from written import Build, Written, found, run

SHAPE = (2, 6, 4, 5)
LIMIT = 5e-6


def centred(net: Written, x: int, *axes: int) -> int:
    return net.do("sub", x, net.do("reduce_mean", x, axes=axes, keepdims=True))


def mean_square(net: Written, x: int, *axes: int, power: float | None = 2.0) -> int:
    square = net.do("pow", x, power) if power else net.do("mul", x, x)
    return net.do("reduce_mean", square, axes=axes, keepdims=True)


def root(net: Written, variance: int, eps: float = 1e-5) -> int:
    return net.do("sqrt", net.do("add", variance, eps))


def affine(net: Written, x: int, *shape: int) -> int:
    return net.do("add", net.do("mul", x, net.weight(*shape)), net.weight(*shape))


def by_division(net: Written, x: int, *axes: int) -> int:
    d = centred(net, x, *axes)
    return net.do("div", d, root(net, mean_square(net, d, *axes)))


def by_reciprocal(net: Written, x: int, *axes: int) -> int:
    d = centred(net, x, *axes)
    return net.do("mul", d, net.do("reciprocal", root(net, mean_square(net, d, *axes, power=None))))


def by_one_over(net: Written, x: int, *axes: int) -> int:
    d = centred(net, x, *axes)
    return net.do("mul", net.do("div", 1.0, root(net, mean_square(net, d, *axes))), d)


def by_power(net: Written, x: int, *axes: int) -> int:
    d = centred(net, x, *axes)
    return net.do("mul", d, net.do("pow", net.do("add", mean_square(net, d, *axes), 1e-5), -0.5))


def centred_twice(net: Written, x: int, *axes: int) -> int:
    square = mean_square(net, centred(net, x, *axes), *axes)
    return net.do("div", centred(net, x, *axes), net.do("pow", net.do("add", square, 1e-5), 0.5))


def weight_beside_the_root(net: Written, x: int, *axes: int) -> int:
    d = centred(net, x, *axes)
    inverse = net.do("reciprocal", root(net, mean_square(net, d, *axes)))
    w = net.weight(*(SHAPE[a] for a in axes), *[1] * (len(SHAPE) - 1 - axes[-1]))
    return net.do("mul", d, net.do("mul", inverse, w))


FORMS = [by_division, by_reciprocal, by_one_over, by_power, centred_twice, weight_beside_the_root]


@pytest.mark.parametrize("axes", [(3,), (2, 3), (1, 2, 3), (1,)])
@pytest.mark.parametrize("form", FORMS)
def test_layer_norms_are_recognised(device, form, axes):
    ops, notes = run(device, lambda n, x: form(n, x, *axes), limit=LIMIT)
    assert ops == ["layer_norm"]
    assert any(note.endswith("into layer_norm") for note in notes)


@pytest.mark.parametrize("axes", [(3,), (1,), (1, 2, 3)])
def test_weight_and_bias_join_a_layer_norm(device, axes):
    shape = (*(SHAPE[a] for a in axes), *[1] * (3 - axes[-1]))
    ops, notes = run(device, lambda n, x: affine(n, by_division(n, x, *axes), *shape), limit=LIMIT)
    assert ops == ["layer_norm"]
    assert sum("into the weights of layer_norm" in note for note in notes) == 2


NEAR: dict[str, Build] = {
    "axes of the mean": lambda n, x: n.do(
        "div", centred(n, x, 3), root(n, mean_square(n, centred(n, x, 2), 3))
    ),
    "axes of the square": lambda n, x: n.do("div", d := centred(n, x, 3), root(n, mean_square(n, d, 2, 3))),
    "axes apart": lambda n, x: by_division(n, x, 1, 3),
    "eps outside the root": lambda n, x: n.do(
        "div", d := centred(n, x, 3), n.do("add", n.do("sqrt", mean_square(n, d, 3)), 1e-5)
    ),
    "cubes": lambda n, x: n.do("div", d := centred(n, x, 3), root(n, mean_square(n, d, 3, power=4.0))),
    "another root": lambda n, x: n.do(
        "mul", d := centred(n, x, 3), n.do("pow", n.do("add", mean_square(n, d, 3), 1e-5), -0.25)
    ),
    "a scaled variance": lambda n, x: n.do(
        "div", d := centred(n, x, 3), root(n, n.do("mul", mean_square(n, d, 3), 1.25))
    ),
    "another value's variance": lambda n, x: n.do(
        "div", centred(n, x, 3), root(n, mean_square(n, centred(n, n.do("abs", x), 3), 3))
    ),
    "a constant above": lambda n, x: n.do("div", 2.0, root(n, mean_square(n, centred(n, x, 3), 3))),
}


@pytest.mark.parametrize("form", NEAR)
def test_what_is_no_layer_norm_stays(device, form):
    assert "layer_norm" not in found(device, NEAR[form], limit=LIMIT)


@pytest.mark.parametrize("inner", ["centred", "variance", "root"])
def test_a_wanted_inner_value_keeps_a_layer_norm_apart(device, inner):
    def build(net: Written, x: int) -> int:
        values = {"centred": centred(net, x, 3)}
        values["variance"] = mean_square(net, values["centred"], 3)
        values["root"] = root(net, values["variance"])
        y = net.do("div", values["centred"], values["root"])
        return net.do("concat", y, values[inner], dim=3)

    assert "layer_norm" not in found(device, build, limit=LIMIT)


# ---- by the mean square, by the norm -----------------------------------------------------------------------

RMS: dict[str, Build] = {
    "division": lambda n, x: n.do("div", x, root(n, mean_square(n, x, 3))),
    "products": lambda n, x: n.do(
        "mul", n.do("mul", x, n.do("reciprocal", root(n, mean_square(n, x, 3, power=None)))), n.weight(5)
    ),
    "channels": lambda n, x: n.do(
        "mul", n.weight(6, 1, 1), n.do("div", x, root(n, mean_square(n, x, 1), 1e-6))
    ),
}


@pytest.mark.parametrize("form", RMS)
def test_rms_norms_are_recognised(device, form):
    assert found(device, RMS[form], limit=LIMIT) == ["rms_norm"]


def test_what_is_no_rms_norm_stays(device):
    assert "rms_norm" not in found(
        device, lambda n, x: n.do("div", x, root(n, mean_square(n, n.do("abs", x), 3))), limit=LIMIT
    )
    assert found(device, lambda n, x: n.do("add", RMS["division"](n, x), n.weight(5)), limit=LIMIT) == [
        "rms_norm",
        "add",
    ]


def norm(net: Written, x: int, *axes: int) -> int:
    return net.do("sqrt", net.do("reduce_sum", net.do("mul", x, x), axes=axes, keepdims=True))


L2: dict[str, Build] = {
    "maximum": lambda n, x: n.do("div", x, n.do("maximum", norm(n, x, 1), 1e-12)),
    "maximum, other order": lambda n, x: n.do("div", x, n.do("maximum", 1e-6, norm(n, x, 3))),
    "clip and expand": lambda n, x: n.do(
        "div", x, n.do("expand", n.do("clip", norm(n, x, 1), min=1e-12), shape=SHAPE)
    ),
}


@pytest.mark.parametrize("form", L2)
def test_l2_norms_are_recognised(device, form):
    assert found(device, L2[form], limit=LIMIT) == ["l2_norm"]


NEAR_L2: dict[str, Build] = {
    "eps added": lambda n, x: n.do("div", x, n.do("add", norm(n, x, 1), 1e-6)),
    "clipped above": lambda n, x: n.do("div", x, n.do("clip", norm(n, x, 1), min=1e-12, max=2.0)),
    "two dimensions": lambda n, x: n.do("div", x, n.do("maximum", norm(n, x, 2, 3), 1e-12)),
    "no limit": lambda n, x: n.do("div", x, norm(n, x, 1)),
    "another value's norm": lambda n, x: n.do("div", x, n.do("maximum", norm(n, n.do("neg", x), 1), 1e-12)),
}


@pytest.mark.parametrize("form", NEAR_L2)
def test_what_is_no_l2_norm_stays(device, form):
    assert "l2_norm" not in found(device, NEAR_L2[form], limit=LIMIT)


# ---- groups of channels ------------------------------------------------------------------------------------


def groups(net: Written, x: int, rows: tuple[int, ...], weight: float = 1.0, bias: float = 0.0) -> int:
    parameters = (net.array(np.full(rows[1], value)) for value in (weight, bias))
    y = net.do("instance_norm", net.do("reshape", x, shape=rows), *parameters)
    return net.do("reshape", y, shape=SHAPE)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_group_norms_are_recognised(device, count):
    build: Build = lambda n, x: affine(n, groups(n, x, (2, count, -1)), 6, 1, 1)  # noqa: E731
    assert found(device, build, limit=LIMIT) == ["group_norm"]


@pytest.mark.parametrize(
    ("rows", "weight", "bias"), [((1, 2, -1), 1.0, 0.0), ((2, 3, -1), 2.0, 0.0), ((2, 3, -1), 1.0, 1.0)]
)
def test_what_is_no_group_norm_stays(device, rows, weight, bias):
    build: Build = lambda n, x: n.do("neg", groups(n, x, rows, weight, bias))  # noqa: E731
    assert "group_norm" not in found(device, build, limit=LIMIT)


# ---- factors and additions behind layers -------------------------------------------------------------------


def _linear(net: Written, x: int) -> int:
    return net.do("linear", x, net.weight(7, 5), net.weight(7))


LAYERS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "conv": (lambda n, x: n.conv(x, 4, 3), (4, 1, 1)),
    "grouped conv": (lambda n, x: n.conv(x, 4, 3, groups=2), (1, 4, 1, 1)),
    "conv without bias": (lambda n, x: n.do("conv", x, n.weight(4, 6, 1, 1)), (4, 1, 1)),
    "linear": (_linear, (7,)),
    "instance_norm": (lambda n, x: n.do("instance_norm", x), (6, 1, 1)),
    "group_norm": (lambda n, x: n.do("group_norm", x, n.weight(6), groups=2), (6, 1, 1)),
    "layer_norm": (lambda n, x: n.do("layer_norm", x, dim=2), (4, 5)),
}


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_take_factors_and_additions(device, layer, one):
    build, shape = LAYERS[layer]
    shape = (1,) * len(shape) if one else shape

    def scaled(net: Written, x: int) -> int:
        y = net.do("div", net.do("mul", net.weight(*shape), build(net, x)), net.array(np.full(shape, 1.25)))
        return net.do("add", net.do("sub", y, net.weight(*shape)), net.weight(*shape))

    ops, notes = run(device, scaled, limit=LIMIT)
    assert len(ops) == 1
    assert sum("into the weights of" in note for note in notes) == 4


@pytest.mark.parametrize("layer", ["conv", "linear"])
def test_a_layer_takes_a_factor_behind_a_transpose(device, layer):
    perm, shape = {"conv": ((0, 2, 3, 1), (4,)), "linear": ((0, 3, 1, 2), (7, 1, 1))}[layer]

    def build(net: Written, x: int) -> int:
        return net.do("mul", net.do("transpose", LAYERS[layer][0](net, x), perm=perm), net.weight(*shape))

    assert found(device, build, limit=LIMIT) == [layer, "transpose"]


@pytest.mark.parametrize("act", ["relu", "leaky_relu"])
@pytest.mark.parametrize("op", ["mul", "div"])
@pytest.mark.parametrize("shape", [(), (4, 1, 1)])
def test_a_layer_takes_a_positive_factor_behind_what_looks_at_signs(device, act, op, shape):
    def build(net: Written, x: int) -> int:
        factor = np.linspace(0.5, 2, math.prod(shape)).reshape(shape)
        return net.do(op, net.do(act, net.conv(x, 4, 3)), net.array(factor))

    assert found(device, build, limit=LIMIT) == ["conv"]


@pytest.mark.parametrize("op, shift", [("add", 0.3), ("add", -0.7), ("sub", 0.4)])
@pytest.mark.parametrize("layer", ["conv", "linear"])
def test_a_shift_behind_relu_is_its_limit(device, layer, op, shift):
    """relu(x) + shift = max(x + shift, shift), as the affine blocks of HGNetV2 have it."""

    def build(net: Written, x: int) -> int:
        y = net.do("relu", LAYERS[layer][0](net, x))
        return net.do(op, net.do("mul", y, net.array(1.5)), net.array(shift))

    assert found(device, build, limit=LIMIT) == [layer]


@pytest.mark.parametrize(
    "act, shift", [("relu", np.reshape([0.1, 0.2, 0.3, 0.4], (4, 1, 1))), ("leaky_relu", np.array(0.5))]
)
def test_other_shifts_behind_what_looks_at_signs_stay(device, act, shift):
    ops = found(device, lambda n, x: n.do("add", n.do(act, n.conv(x, 4, 3)), n.array(shift)), limit=LIMIT)
    assert ops == ["conv", "add"]


NOT_TAKEN: dict[str, Build] = {
    "negative behind relu": lambda n, x: n.do(
        "mul", n.do("relu", n.conv(x, 4, 3)), n.array(np.reshape([1.0, 2.0, -1.0, 1.0], (4, 1, 1)))
    ),
    "zero behind relu": lambda n, x: n.do("mul", n.do("leaky_relu", n.conv(x, 4, 3)), n.array(0.0)),
    "other dimension": lambda n, x: n.do("mul", n.conv(x, 5, 3), n.weight(5)),
    "other dimension behind a transpose": lambda n, x: n.do(
        "mul", n.do("transpose", n.conv(x, 4, 3), perm=(0, 2, 1, 3)), n.weight(4, 1, 1)
    ),
    "pixels": lambda n, x: n.do("mul", n.conv(x, 4, 3), n.weight(4, 4, 5)),
    "a constant above": lambda n, x: n.do("div", n.weight(4, 1, 1), n.conv(x, 4, 3)),
    "a constant less the result": lambda n, x: n.do("sub", n.weight(4, 1, 1), n.conv(x, 4, 3)),
    "no constant": lambda n, x: n.do("mul", n.conv(x, 6, 3), n.do("reduce_max", x, axes=(2, 3))),
    "an activation between": lambda n, x: n.do("mul", n.do("tanh", n.conv(x, 4, 3)), n.weight(4, 1, 1)),
    "used twice": lambda n, x: n.do("sub", y := n.conv(x, 4, 3), n.do("mul", y, n.weight(4, 1, 1))),
}


@pytest.mark.parametrize("form", NOT_TAKEN)
def test_other_factors_stay(device, form):
    ops, notes = run(device, NOT_TAKEN[form], limit=1e-4 if form == "a constant above" else LIMIT)
    assert not any("into the weights of" in note for note in notes)
    assert {"mul", "div", "sub"} & set(ops)


def test_a_forced_factor_stays_and_a_forced_layer_takes_one(device):
    net = Written()
    x = net.input("x", *SHAPE)
    y = net.layer("conv", "conv", x, net.weight(4, 6, 1, 1))
    net.graph.output(net.layer("mul", "scale", y, net.array(2.0)), "y")
    for layer, wanted in (("scale", ["conv", "mul"]), ("conv", ["conv"])):
        with _core.Plan(device, net.graph, overrides={layer: "ref"}) as plan:
            assert [row["op"] for row in layers_of_graph(plan.steps())] == wanted
