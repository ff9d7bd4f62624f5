"""Matrix products with constant weights become linear layers with a bias; near misses do not."""

from __future__ import annotations

import pytest

from rewritten import Both, Net


def _product(both: Both) -> str:
    (row,) = (row for row in both.layers if row["layer"] == "product")
    return str(row["op"])


@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 5, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("bias", [None, (1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_product_with_constant_weights_becomes_a_linear_layer(device, shape, bias, first):
    net = Net()
    y = net.layer("matmul", "product", net.input("x", *shape), net.weight(7, 6))
    if bias and len(bias) <= len(shape):
        b = net.weight(*bias[:-1], 6)
        y = net.layer("add", "add", *((b, y) if first else (y, b)))
    net.output(net.layer("relu", "relu", y))
    both = Both(device, net)
    assert both.names == ["product"]
    assert (_product(both), both.fused("product")) == ("linear", "relu")


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_gemm_with_constant_weights_becomes_a_linear_layer(device, trans_b, bias):
    net = Net()
    w = net.weight(6, 7) if trans_b else net.weight(7, 6)
    c = net.weight(6) if bias else None
    net.output(net.layer("gemm", "product", net.input("x", 5, 7), w, c, trans_b=trans_b))
    assert _product(Both(device, net)) == "linear"


@pytest.mark.parametrize(
    "attrs", [{"alpha": 0.5}, {"beta": 2.0}, {"trans_a": True}, {"c": (5, 6)}, {"c": (1, 6)}, {"c": (5, 1)}]
)
def test_gemm_that_is_no_linear_layer_stays(device, attrs):
    net = Net()
    x = net.input("x", *((7, 5) if "trans_a" in attrs else (5, 7)))
    c = net.weight(*attrs.pop("c", (6,)))
    net.output(net.layer("gemm", "product", x, net.weight(7, 6), c, **attrs))
    assert _product(Both(device, net)) == "gemm"


@pytest.mark.parametrize("what", ["computed weights", "weights of a batch", "constant at the left"])
def test_product_without_constant_weights_stays(device, what):
    net = Net()
    x = net.input("x", 2, 5, 7)
    w = {
        "computed weights": lambda: net.input("w", 7, 6),
        "weights of a batch": lambda: net.weight(2, 7, 6),
        "constant at the left": lambda: net.weight(2, 4, 5),
    }[what]()
    y = net.layer("matmul", "product", *((w, x) if "left" in what else (x, w)))
    net.output(net.layer("add", "add", y, net.weight(6 if "left" not in what else 7)))
    both = Both(device, net)
    assert (_product(both), both.names) == ("matmul", ["product", "add"])


@pytest.mark.parametrize(
    "shape", [(5, 1), (5, 5), (2, 1, 5), (1, 2, 5, 5)], ids=["rows", "matrix", "items", "larger"]
)
def test_what_is_no_bias_is_added_apart(device, shape):
    """Sizes are such that rows could be taken for columns."""
    net = Net()
    y = net.layer("matmul", "product", net.input("x", 2, 5, 7), net.weight(7, 5))
    net.output(net.layer("add", "add", y, net.weight(*shape)))
    both = Both(device, net)
    assert (_product(both), both.names) == ("linear", ["product", "add"])


@pytest.mark.parametrize("consumer", ["output", "layer"])
def test_product_that_others_want_keeps_its_bias_apart(device, consumer):
    net = Net()
    y = net.layer("matmul", "product", net.input("x", 5, 7), net.weight(7, 6))
    total = net.layer("add", "add", y, net.weight(6))
    net.output(total, y if consumer == "output" else net.layer("relu", "relu", y))
    both = Both(device, net)
    assert _product(both) == "linear"
    assert "add" in both.names


def test_bias_that_is_computed_is_added_apart(device):
    """A second constant goes into the first one."""
    net = Net()
    y = net.layer("matmul", "product", net.input("x", 5, 7), net.weight(7, 6))
    y = net.layer("add", "first", y, net.weight(6))
    y = net.layer("add", "second", y, net.weight(6))
    net.output(net.layer("add", "third", y, net.input("b", 6)))
    assert Both(device, net).names == ["product", "third"]


def test_forced_algorithm_of_matmul_is_kept(device):
    """An algorithm that linear layers have, too, is that of the linear layer."""
    net = Net()
    net.output(net.layer("matmul", "product", net.input("x", 5, 7), net.weight(7, 6)))
    both = Both(device, net, {"product": "ref"})
    assert {row["algo"] for row in both.layers} == {"ref"}
