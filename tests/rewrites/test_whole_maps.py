"""Convolutions whose filters cover the whole map become linear layers, with any weights; against the float64
definition, or the same graph compiled with fuse=False."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import _core, nn, optim, train
from clcnn.zeros import LayerZeros
from rewritten import Both, Net
from written import Written, run

RULE = "turn conv {} of whole maps into a linear layer"


def convolution(
    net: Net, x: int, filters: int, kernel: tuple[int, ...], bias: bool = True, groups: int = 1, **attrs: Any
) -> int:
    weights = [net.weight(filters, net.graph.shape(x)[1] // groups, *kernel)]
    if bias:
        weights.append(net.weight(filters))
    return net.layer("conv", "conv", x, *weights, **{"groups": groups, **attrs})


def whole(net: Net, x: int, filters: int, **options: Any) -> int:
    return convolution(net, x, filters, net.graph.shape(x)[2:], **options)


def rewritten(both: Both, layer: str = "conv") -> bool:
    return RULE.format(layer) in both.notes


def operators(both: Both) -> list[str]:
    return [row["op"] for row in both.layers]


# ---- found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("shape", "filters", "attrs"),
    [
        ((2, 16, 5, 7), 19, {}),
        ((1, 3, 1, 2), 1, {}),
        ((5, 1, 4, 4), 1, {"stride": (3, 2)}),
        ((33, 24, 4, 1), 40, {}),
        ((2, 5, 9), 6, {"stride": (4,)}),
        ((3, 2, 2, 3, 4), 7, {}),
        ((2, 4, 1, 5), 6, {"dilation": (2, 1)}),  # of one row
    ],
)
def test_the_definition(device, shape, filters, attrs, bias):
    def build(net: Written, x: int) -> int:
        weights = [net.weight(filters, *shape[1:])] + ([net.weight(filters)] if bias else [])
        return net.layer("conv", "conv", x, *weights, **attrs)

    assert run(device, build, shape=shape) == (["linear"], [RULE.format("conv")])


def test_norm_activation_and_what_follows(device):
    """All becomes one layer; flattening its result is a view."""
    net = Net()
    y = net.batch_norm("norm", whole(net, net.input("x", 3, 8, 4, 4), 12))
    y = net.layer("flatten", "flat", net.layer("relu", "act", y), start_dim=1)
    net.output(net.layer("linear", "fc", y, net.weight(5, 12)))
    both = Both(device, net)
    assert rewritten(both) and operators(both) == ["linear", "linear"]
    assert both.fused("conv") == "relu" and both.names == ["conv", "fc"]


def test_an_activation_behind_the_flattening(device):
    net = Net()
    y = net.layer("flatten", "flat", whole(net, net.input("x", 3, 8, 4, 4), 1), start_dim=1)
    net.output(net.layer("sigmoid", "act", y))
    both = Both(device, net)
    assert rewritten(both) and both.names == ["conv"]


@pytest.mark.parametrize("op", ["add", "mul"])
def test_a_map_that_is_added(device, op):
    net = Net()
    x, other = net.input("x", 2, 6, 4, 3), net.input("other", 2, 10, 1, 1)
    net.output(net.layer("relu", "act", net.layer(op, "both", whole(net, x, 10), other)))
    both = Both(device, net)
    assert rewritten(both)
    assert both.names == (["conv"] if op == "add" else ["conv", "act"])


def test_pointwise_layers_behind_it(device):
    """VGG as convolutions: rows and maps of one pixel lie the same way."""
    net = Net()
    y = net.layer("relu", "act1", whole(net, net.input("x", 2, 16, 3, 3), 32))
    net.output(net.conv("next", y, 16, 1))
    both = Both(device, net)
    assert rewritten(both) and operators(both) == ["linear", "conv"]
    assert [row["layer"] for row in both.all_steps][:2] == ["conv", "next"]


def test_behind_a_convolution(device):
    net = Net()
    y = net.layer("relu", "act", net.conv("first", net.input("x", 2, 3, 8, 8), 20, 3, stride=(2,)))
    net.output(whole(net, y, 3))
    both = Both(device, net)
    assert rewritten(both) and operators(both) == ["conv", "linear"]


# ---- weights -----------------------------------------------------------------------------------------------


def test_layers_of_the_same_weights(device):
    """Two of them are rewritten, the third reads them as a convolution."""
    net = Net()
    x, larger, w = net.input("x", 2, 3, 4, 4), net.input("larger", 1, 3, 6, 6), net.weight(5, 3, 4, 4)
    y = [net.layer("conv", name, x, w) for name in ("a", "b")]
    net.output(*y, net.layer("conv", "c", larger, w))
    both = Both(device, net)
    assert rewritten(both, "a") and rewritten(both, "b") and not rewritten(both, "c")


def test_computed_weights(device):
    net = Net()
    x, w, b = net.input("x", 2, 6, 5, 5), net.input("w", 9, 6, 5, 5), net.input("b", 9)
    net.output(net.layer("conv", "conv", x, net.layer("tanh", "w_tanh", w), b))
    both = Both(device, net)
    assert rewritten(both) and "linear" in operators(both)


def trained(device: clcnn.Device, layers: list[nn.Module]) -> dict[str, np.ndarray]:
    """Parameters after three steps from the same ones, by their order."""
    rng = np.random.default_rng(7)
    net = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.LeakyReLU(0.2), *layers)
    parameters = list(net.parameters())
    for p in parameters:
        p.data = rng.uniform(-0.3, 0.3, p.shape).astype(np.float32)
    with train.Trainer(net, nn.MSELoss(), optim.SGD(parameters, lr=0.1), device=device) as trainer:
        for _ in range(3):
            x, y = rng.standard_normal((4, 2, 4, 4), np.float32), rng.standard_normal((4, 5), np.float32)
            trainer.step(x, y)
    return {str(i): p.data.reshape(-1) for i, p in enumerate(parameters)}


def test_steps_of_training(device, monkeypatch):
    """The weights are states then; a linear layer of the same weights learns the same."""
    notes, compiled = [], clcnn.compile

    def noting(*args: Any, **options: Any) -> clcnn.Plan:
        plan = compiled(*args, **options)
        notes.extend(plan.rewrites)
        return plan

    monkeypatch.setattr(clcnn, "compile", noting)
    got = trained(device, [nn.Conv2d(6, 5, 4), nn.Flatten()])
    assert any("of whole maps into a linear layer" in note for note in notes)
    wanted = trained(device, [nn.Flatten(), nn.Linear(96, 5)])
    for name in wanted:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)


# ---- kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs"),
    [
        ((1, 4, 5, 5), (5, 5), {"padding": (1,)}),
        ((1, 4, 5, 5), (5, 5), {"padding": (0, 0, 0, 1), "stride": (9,)}),
        ((1, 4, 5, 5), (5, 5), {"groups": 2}),
        ((1, 4, 5, 6), (5, 5), {"stride": (9,)}),
        ((1, 4, 5, 5), (3, 3), {"dilation": (2,)}),
        ((2, 4, 1, 1), (1, 1), {}),
        ((2, 4, 1), (1,), {}),
    ],
)
def test_near_misses(device, shape, kernel, attrs):
    net = Net()
    net.output(convolution(net, net.input("x", *shape), 6, kernel, **attrs))
    both = Both(device, net)
    assert not rewritten(both) and operators(both) == ["conv"]


@pytest.mark.parametrize(
    ("overrides", "op"),
    [
        ({"conv": "direct"}, "conv"),
        ({"*": "direct"}, "conv"),
        ({"conv": "ref"}, "linear"),
        ({"*": "ref"}, "linear"),
        ({"other": "direct"}, "linear"),
    ],
)
def test_algorithms_that_are_asked_for(device, overrides, op):
    """A linear layer has no direct."""
    net = Net()
    x = net.input("x", 2, 4, 5, 5)
    net.output(whole(net, x, 6), net.conv("other", x, 3, 3))
    both = Both(device, net, overrides)
    assert rewritten(both) == (op == "linear")
    assert operators(both) == [op, "conv"]


def test_a_pooling_that_is_merged(device):
    net = Net()
    net.output(net.layer("max_pool", "pool", whole(net, net.input("x", 2, 4, 5, 5), 6), kernel_size=1))
    both = Both(device, net)
    assert not rewritten(both) and "conv_pool" in operators(both)


# ---- what is known of a layer ------------------------------------------------------------------------------


def test_its_zeros(device):
    net = Net()
    net.output(whole(net, net.input("x", 2, 4, 5, 5), 6))
    with _core.Plan(device, net.graph, zeros={"conv": (0.75, 0.0, 0.0, 0.0, 0.0)}) as plan:
        (row,) = plan.layers()
        assert (row["layer"], row["op"], row["zeros"][0]) == ("conv", "linear", 0.75)


def test_calibration(device):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 4))
    zeros = clcnn.calibrate(model, np.zeros((2, 3, 6, 6), np.float32), device=device)
    with clcnn.compile(model, (1, 3, 6, 6), device, zeros=zeros) as plan:
        (row,) = (row for row in plan.layers if row["layer"] == "2")
    assert row["op"] == "linear" and LayerZeros(*row["zeros"]) == pytest.approx(zeros["2"])
