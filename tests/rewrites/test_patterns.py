"""Operators that exporters write out as several: each form is recognised, near misses are not, and results
stay those of the definitions in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from runner import layers_of_graph
from written import Build, Written, found, run

# ---- activations -------------------------------------------------------------------------------------------

HALF_ROOT = math.sqrt(0.5)
TANH_SCALE = math.sqrt(2 / math.pi)


def erf_of(net: Written, x: int, scale: float = HALF_ROOT) -> int:
    return net.do("erf", net.do("mul", x, scale))


def cubic(net: Written, x: int, factor: float = 0.044715, power: float | None = 3.0) -> int:
    cube = net.do("pow", x, power) if power else net.do("mul", x, net.do("mul", x, x))
    return net.do("add", x, net.do("mul", cube, factor))


def gelu_tanh(net: Written, x: int, scale: float = TANH_SCALE, **inner: float | None) -> int:
    tanh = net.do("tanh", net.do("mul", cubic(net, x, **inner), scale))  # type: ignore[arg-type]
    return net.do("mul", net.do("mul", x, 0.5), net.do("add", tanh, 1.0))


def six(net: Written, x: int, offset: float = 3.0, high: float = 6.0) -> int:
    return net.do("clip", net.do("add", x, offset), min=0.0, max=high)


def squared(net: Written, x: int) -> int:
    return net.do("pow", net.do("relu", x), 2.0)


ACTIVATIONS: dict[str, tuple[str, Build]] = {
    "swish, quick GELU": (
        "swish",
        lambda n, x: n.do("mul", x, n.do("sigmoid", n.do("mul", x, 1.702))),
    ),
    "swish, tanh": (
        "swish",
        lambda n, x: n.do("mul", x, n.do("mul", n.do("add", n.do("tanh", n.do("mul", x, 0.8)), 1.0), 0.5)),
    ),
    "star_relu, a power": ("star_relu", squared),
    "star_relu, a product": ("star_relu", lambda n, x: n.do("mul", *[n.do("relu", x)] * 2)),
    "star_relu, MetaFormer": (
        "star_relu",
        lambda n, x: n.do("add", n.do("mul", 0.9, squared(n, x)), -0.4),
    ),
    "star_relu, taken off": (
        "star_relu",
        lambda n, x: n.do("sub", 0.5, n.do("div", squared(n, x), 0.25)),
    ),
    "gelu, PyTorch": (
        "gelu",
        lambda n, x: n.do(
            "mul", n.do("mul", x, n.do("add", n.do("erf", n.do("div", x, math.sqrt(2))), 1.0)), 0.5
        ),
    ),
    "gelu, half first": (
        "gelu",
        lambda n, x: n.do("mul", n.do("mul", 0.5, x), n.do("add", 1.0, erf_of(n, x))),
    ),
    "gelu, half of the sum": (
        "gelu",
        lambda n, x: n.do("mul", n.do("mul", n.do("add", erf_of(n, x), 1.0), 0.5), x),
    ),
    "gelu, sum of halves": (
        "gelu",
        lambda n, x: n.do("mul", x, n.do("add", n.do("mul", erf_of(n, x), 0.5), 0.5)),
    ),
    "gelu, half by division": (
        "gelu",
        lambda n, x: n.do("div", n.do("mul", n.do("add", erf_of(n, x), 1.0), x), 2.0),
    ),
    "gelu_tanh, powers": ("gelu", gelu_tanh),
    "gelu_tanh, products": ("gelu", lambda n, x: gelu_tanh(n, x, power=None)),
    "gelu_tanh, factored": (
        "gelu",
        lambda n, x: n.do(
            "mul",
            n.do("mul", x, 0.5),
            n.do(
                "add",
                1.0,
                n.do(
                    "tanh",
                    n.do(
                        "mul",
                        n.do("mul", x, TANH_SCALE),
                        n.do("add", 1.0, n.do("mul", n.do("mul", x, 0.044715), x)),
                    ),
                ),
            ),
        ),
    ),
    "silu": ("silu", lambda n, x: n.do("mul", x, n.do("sigmoid", x))),
    "silu, other order": ("silu", lambda n, x: n.do("mul", n.do("sigmoid", x), x)),
    "silu by tanh": (
        "silu",
        lambda n, x: n.do("mul", n.do("mul", x, 0.5), n.do("add", n.do("tanh", n.do("mul", x, 0.5)), 1.0)),
    ),
    "mish": ("mish", lambda n, x: n.do("mul", x, n.do("tanh", n.do("softplus", x)))),
    "hard_sigmoid": ("hard_sigmoid", lambda n, x: n.do("div", six(n, x), 6.0)),
    "hard_sigmoid, relu6": (
        "hard_sigmoid",
        lambda n, x: n.do("mul", n.do("relu6", n.do("add", 3.0, x)), 1 / 6),
    ),
    "hard_sigmoid, clipped last": (
        "hard_sigmoid",
        lambda n, x: n.do("clip", n.do("add", n.do("mul", x, 0.2), 0.5), min=0.0, max=1.0),
    ),
    "hard_swish": ("hard_swish", lambda n, x: n.do("div", n.do("mul", x, six(n, x)), 6.0)),
    "hard_swish, gate first": ("hard_swish", lambda n, x: n.do("mul", n.do("div", six(n, x), 6.0), x)),
    "hard_swish, hard_sigmoid": (
        "hard_swish",
        lambda n, x: n.do("mul", x, n.do("hard_sigmoid", x, alpha=1 / 6, beta=0.5)),
    ),
    "hard_swish, sixth first": (
        "hard_swish",
        lambda n, x: n.do("mul", n.do("mul", x, 1 / 6), n.do("relu6", n.do("add", x, 3.0))),
    ),
}


@pytest.mark.parametrize("form", ACTIVATIONS)
def test_activations_are_recognised(device, form):
    op, build = ACTIVATIONS[form]
    ops, notes = run(device, build, spread=3.0)
    assert ops == [op]
    assert any(note.endswith(f"into {op}") for note in notes)


@pytest.mark.parametrize("form", ACTIVATIONS)
def test_activations_join_the_convolution_before_them(device, form):
    build = ACTIVATIONS[form][1]
    assert found(device, lambda n, x: build(n, n.conv(x, 5, 3))) == ["conv"]


NEAR_ACTIVATIONS: dict[str, Build] = {
    "gelu of twice x": lambda n, x: n.do(
        "mul", n.do("mul", x, 0.5), n.do("add", erf_of(n, n.do("mul", x, 2.0)), 1.0)
    ),
    "gelu with another root": lambda n, x: n.do(
        "mul", n.do("mul", x, 0.5), n.do("add", erf_of(n, x, 0.7), 1.0)
    ),
    "gelu without the half": lambda n, x: n.do("mul", x, n.do("add", erf_of(n, x), 1.0)),
    "gelu with another sum": lambda n, x: n.do("mul", n.do("mul", x, 0.5), n.do("add", erf_of(n, x), 1.001)),
    "gelu_tanh with 0.05": lambda n, x: gelu_tanh(n, x, factor=0.05),
    "gelu_tanh with 0.0447": lambda n, x: gelu_tanh(n, x, factor=0.0447),
    "gelu_tanh with a square": lambda n, x: gelu_tanh(n, x, power=2.0),
    "gelu_tanh with another scale": lambda n, x: gelu_tanh(n, x, scale=0.8),
    "swish, shifted": lambda n, x: n.do("mul", x, n.do("sigmoid", n.do("add", x, 1.0))),
    "gate of another value": lambda n, x: n.do("mul", x, n.do("sigmoid", n.do("abs", x))),
    "mish of twice x": lambda n, x: n.do("mul", x, n.do("tanh", n.do("softplus", n.do("mul", x, 2.0)))),
    "cube of relu": lambda n, x: n.do("pow", n.do("relu", x), 3.0),
    "relu squared, other factor": lambda n, x: n.do("mul", n.do("relu", x), n.do("abs", x)),
    "square of a limit": lambda n, x: n.do("pow", n.do("relu6", x), 2.0),
    "tanh gate": lambda n, x: n.do("mul", x, n.do("tanh", x)),
    "hard_swish with 4": lambda n, x: n.do("div", n.do("mul", x, six(n, x, offset=4.0)), 6.0),
    "hard_swish over 5": lambda n, x: n.do("div", n.do("mul", x, six(n, x)), 5.0),
    "hard_swish up to 5": lambda n, x: n.do("div", n.do("mul", x, six(n, x, high=5.0)), 6.0),
    "silu for each channel": lambda n, x: n.do(
        "mul", x, n.do("sigmoid", n.do("reduce_mean", x, axes=(2, 3)))
    ),
    "silu of a broadcast": lambda n, x: n.do("mul", n.do("reduce_mean", x, axes=(1,)), n.do("sigmoid", x)),
}


@pytest.mark.parametrize("form", NEAR_ACTIVATIONS)
def test_what_is_no_activation_stays(device, form):
    build = NEAR_ACTIVATIONS[form]
    ops = found(device, build, spread=3.0)
    assert not {"silu", "gelu", "mish", "hard_swish", "swish", "star_relu"} & set(ops)


@pytest.mark.parametrize("form", ["clip from 1", "up to 5", "limits and an addition", "a clip alone"])
def test_what_is_no_hard_sigmoid_stays(device, form):
    builds: dict[str, Build] = {
        "clip from 1": lambda n, x: n.do("div", n.do("clip", n.do("add", x, 3.0), min=1.0, max=6.0), 6.0),
        "up to 5": lambda n, x: n.do("div", six(n, x, high=5.0), 6.0),
        "limits and an addition": lambda n, x: n.do("add", n.do("div", six(n, x), 6.0), 0.5),
        "a clip alone": lambda n, x: n.do("clip", x, min=0.0, max=1.0),
    }
    ops = found(device, builds[form])
    assert "clip" in ops or form == "limits and an addition"
    assert ("hard_sigmoid" in ops) == (form == "limits and an addition")


@pytest.mark.parametrize("inner", ["erf", "scaled", "half"])
def test_a_wanted_inner_value_keeps_a_gelu_apart(device, inner):
    def build(net: Written, x: int) -> int:
        values = {"scaled": net.do("mul", x, HALF_ROOT), "half": net.do("mul", x, 0.5)}
        values["erf"] = net.do("erf", values["scaled"])
        y = net.do("mul", values["half"], net.do("add", values["erf"], 1.0))
        return net.do("concat", y, values[inner], dim=1)

    assert "gelu" not in found(device, build)


def test_a_number_that_makes_another_shape_stays(device):
    """The written product has a dimension more than x."""
    net = Written()
    x = net.input("x", 3, 4)
    y = net.do(
        "mul", net.do("mul", x, net.array(np.full((1, 1, 1), 0.5))), net.do("add", erf_of(net, x), 1.0)
    )
    net.graph.output(y, "y")
    with _core.Plan(device, net.graph) as plan:
        assert plan.run(net.data)[0].shape == (1, 3, 4)
        assert "gelu" not in [row["op"] for row in plan.steps()]


def test_a_forced_algorithm_keeps_a_pattern_apart(device):
    net = Written()
    x = net.input("x", 2, 3, 4, 4)
    net.graph.output(net.layer("mul", "product", x, net.layer("sigmoid", "gate", x)), "y")
    with _core.Plan(device, net.graph, overrides={"gate": "ref"}) as plan:
        assert [row["op"] for row in layers_of_graph(plan.steps())] == ["sigmoid", "mul"]


# ---- layers that do nothing --------------------------------------------------------------------------------

NOTHING: dict[str, tuple[str, dict[str, Any]]] = {
    "reshape to the same": ("reshape", {"shape": (2, 6, 4, 5)}),
    "flatten of one dimension": ("flatten", {"start_dim": 1, "end_dim": 1}),
    "squeeze of nothing": ("squeeze", {}),
    "expand to the same": ("expand", {"shape": (4, 5)}),
    "slice of all": ("slice", {"starts": (0, 0), "ends": (99, 4), "axes": (3, 2), "steps": (1, 1)}),
    "pad by nothing": ("pad", {"pads": (0,) * 8}),
    "transpose in order": ("transpose", {"perm": (0, 1, 2, 3)}),
    "concat of one": ("concat", {"dim": 1}),
    "cast to its own type": ("cast", {"to": "float32"}),
    "dropout": ("dropout", {"p": 0.2}),
}


@pytest.mark.parametrize("form", NOTHING)
def test_layers_that_do_nothing_disappear(device, form):
    op, attrs = NOTHING[form]
    ops, notes = run(device, lambda n, x: n.do("abs", n.do(op, n.do("neg", x), **attrs)))
    assert ops == ["neg", "abs"]
    assert [note for note in notes if "join" not in note] == [f"drop {op} {op}2"]


SOMETHING: dict[str, tuple[str, dict[str, Any]]] = {
    "slice backwards": ("slice", {"starts": (5,), "ends": (-9,), "axes": (1,), "steps": (-1,)}),
    "pad that shifts": ("pad", {"pads": (0, 0, 0, 1, 0, 0, 0, -1)}),
    "transpose of equal sizes": ("transpose", {"perm": (0, 2, 1, 3)}),
}


@pytest.mark.parametrize("form", SOMETHING)
def test_layers_that_keep_the_shape_alone_stay(device, form):
    op, attrs = SOMETHING[form]
    ops = found(device, lambda n, x: n.do("abs", n.do(op, n.do("neg", x), **attrs)), shape=(2, 4, 4, 5))
    assert ops == ["neg", op, "abs"]
