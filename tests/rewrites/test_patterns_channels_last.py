"""Layers between two transposes that undo each other: they work on the first order of dimensions, and the
transposes are gone; what cannot stays between them."""

from __future__ import annotations

import pytest

from clcnn import _core
from runner import layers_of_graph
from written import Build, Written, found, run

LIMIT = 5e-6
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # channels come last, and first again


def between(build: Build, to: tuple[int, ...] = LAST, back: tuple[int, ...] = FIRST) -> Build:
    return lambda n, x: n.do("transpose", build(n, n.do("transpose", x, perm=to)), perm=back)


def linear(net: Written, x: int, outputs: int) -> int:
    return net.do("linear", x, net.weight(outputs, net.graph.shape(x)[-1]), net.weight(outputs))


def mlp(net: Written, x: int) -> int:
    y = net.do("layer_norm", x, net.weight(6), net.weight(6), eps=1e-6)
    return linear(net, net.do("gelu", linear(net, y, 24)), 6)


PASSES: dict[str, tuple[Build, list[str]]] = {
    "function": (lambda n, x: n.do("exp", x), ["exp"]),
    "functions": (lambda n, x: n.do("tanh", n.do("neg", x)), ["neg", "tanh"]),
    "numbers": (lambda n, x: n.do("pow", n.do("abs", n.do("add", x, 2.0)), 3.0), ["add", "abs", "pow"]),
    "a constant for each channel": (lambda n, x: n.do("mul", x, n.weight(6)), ["mul"]),
    "a constant for each row": (lambda n, x: n.do("sub", n.weight(4, 1, 1), x), ["sub"]),
    "softmax": (lambda n, x: n.do("softmax", x), ["softmax"]),
    "softmax of rows": (lambda n, x: n.do("log_softmax", x, dim=1), ["log_softmax"]),
    "layer_norm": (lambda n, x: n.do("layer_norm", x, n.weight(6), n.weight(6)), ["layer_norm"]),
    "rms_norm": (lambda n, x: n.do("rms_norm", x, n.weight(6)), ["rms_norm"]),
    "l2_norm": (lambda n, x: n.do("l2_norm", x, dim=1), ["l2_norm"]),
    "linear": (lambda n, x: linear(n, x, 7), ["conv"]),
    "linear without bias": (lambda n, x: n.do("linear", x, n.weight(7, 6)), ["conv"]),
    "ConvNeXt": (mlp, ["layer_norm", "conv", "conv"]),
}


@pytest.mark.parametrize("form", PASSES)
def test_transposes_around_layers_disappear(device, form):
    build, wanted = PASSES[form]
    ops, notes = run(device, between(build), limit=LIMIT)
    assert ops == wanted
    assert any("work without transposes" in note for note in notes)


def test_other_orders_disappear_too(device):
    def build(net: Written, x: int) -> int:
        return net.do("layer_norm", net.do("mul", x, net.weight(2, 1, 1)), net.weight(4))

    assert found(device, between(build, (3, 0, 1, 2), (1, 2, 3, 0)), limit=LIMIT) == ["mul", "layer_norm"]


def test_a_block_of_convnext_becomes_convolutions(device):
    """Its scale, too, and the addition."""

    def block(net: Written, x: int) -> int:
        y = between(mlp)(net, net.conv(x, 6, 3, groups=6))
        return net.do("add", net.do("mul", net.weight(6, 1, 1), y), x)

    assert found(device, block, limit=LIMIT) == ["conv", "layer_norm", "conv", "conv"]


STAYS: dict[str, Build] = {
    "another order back": between(lambda n, x: n.do("exp", x), back=(0, 3, 2, 1)),
    "norm of two dimensions": between(lambda n, x: n.do("layer_norm", x, dim=2)),
    "a constant of two dimensions": between(lambda n, x: n.do("mul", x, n.weight(5, 6))),
    "a map": between(lambda n, x: n.do("mul", x, n.do("reduce_max", x, axes=(3,)))),
    "a move": between(lambda n, x: n.do("pad", x, pads=(0, 0, 0, 1, 0, 0, 0, 0))),
    "rows of other dimensions": between(lambda n, x: linear(n, x, 7), to=(0, 3, 1, 2), back=(0, 2, 3, 1)),
}


@pytest.mark.parametrize("form", STAYS)
def test_other_layers_stay_between(device, form):
    ops, notes = run(device, STAYS[form], limit=LIMIT)
    assert ops.count("transpose") == 2
    assert not any("work without" in note for note in notes)


def test_a_wanted_middle_stays_between(device):
    def build(net: Written, x: int) -> int:
        y = net.do("exp", net.do("transpose", x, perm=LAST))
        z = net.do("sin", net.do("transpose", y, perm=FIRST))
        return net.do("concat", net.do("flatten", y), net.do("flatten", z), dim=1)

    assert found(device, build, limit=LIMIT).count("transpose") == 2


def test_a_transpose_that_others_read_remains_for_them(device):
    def build(net: Written, x: int) -> int:
        y = net.do("transpose", x, perm=LAST)
        z = net.do("transpose", net.do("exp", y), perm=FIRST)
        return net.do("concat", net.do("flatten", y), net.do("flatten", z), dim=1)

    assert found(device, build, limit=LIMIT).count("transpose") == 1


def test_weights_that_others_use_keep_their_shape(device):
    def build(net: Written, x: int) -> int:
        w = net.weight(6, 6)
        last = net.do("transpose", x, perm=LAST)
        y = net.do("transpose", net.do("linear", last, w), perm=FIRST)
        return net.do("matmul", net.do("exp", w), net.do("reshape", y, shape=(2, 6, 20)))

    assert "conv" in found(device, build, limit=LIMIT)


def test_a_forced_layer_stays_between(device):
    net = Written()
    x = net.input("x", 2, 6, 4, 5)
    y = net.layer("linear", "fc", net.do("transpose", x, perm=LAST), net.weight(7, 6))
    net.graph.output(net.do("transpose", y, perm=FIRST), "y")
    with _core.Plan(device, net.graph, overrides={"fc": "ref"}) as plan:
        assert [row["op"] for row in layers_of_graph(plan.steps())] == ["transpose", "linear", "transpose"]
