"""Constants that multiply whole matrices of a product, a factor a head, multiply its rows instead, so that
what follows becomes attention (Swin v2); each against the same graph compiled with fuse=False."""

from __future__ import annotations

import numpy as np
import pytest
from test_rewrite_attention import OP, H, Heads, N, _merged

from clcnn import _core
from rewritten import Both, Net

RULE = "multiply the rows of matmul"


def moved(both: Both) -> bool:
    return any(note.startswith(RULE) for note in both.notes)


@pytest.mark.parametrize("shape", [(H, 1, 1), (1, H, 1, 1), (N, H, 1, 1), (N, 1, 1, 1)])
@pytest.mark.parametrize("swapped", [False, True])
def test_factors_of_heads_leave_attention(device, shape, swapped):
    net = Heads(N, H)
    operands = [net.scores(), net.weight(*shape)]
    net.output(net.weighted(net.layer("mul", "scale", *(operands[::-1] if swapped else operands))))
    assert _merged(device, net).count("matmul") == 0


def test_masks_and_a_number_beside_them(device):
    """As Swin v2 has them: a factor a head, a bias, and a mask of the window."""
    net = Heads(N, H)
    scores = net.layer("mul", "scale", net.scores(), net.weight(H, 1, 1))
    bias = net.layer("add", "bias", scores, net.weight(1, H, *net.graph.shape(scores)[-2:]))
    net.output(net.weighted(bias))
    assert OP in _merged(device, net)


def product(net: Net, *sizes: int) -> int:
    rows, inner, columns = sizes
    q, k = net.input("q", 2, 3, rows, inner), net.input("k", 2, 3, inner, columns)
    return net.layer("matmul", "product", q, k)


def test_products_alone(device):
    net = Net()
    net.output(net.layer("mul", "scale", product(net, 7, 5, 9), net.weight(3, 1, 1)))
    both = Both(device, net)
    assert moved(both) and both.names == ["scale", "product"]


@pytest.mark.parametrize(
    ("sizes", "factor"),
    [
        ((7, 5, 9), (1, 1, 1)),
        ((7, 5, 9), (7, 1)),
        ((7, 5, 9), (3, 7, 1)),
        ((7, 5, 9), (3, 1, 9)),
        ((7, 50, 9), (3, 1, 1)),
    ],
)
def test_near_misses(device, sizes, factor):
    net = Net()
    net.output(net.layer("mul", "scale", product(net, *sizes), net.weight(*factor)))
    assert not moved(Both(device, net))


def test_a_product_that_others_read_stays(device):
    net = Net()
    y = product(net, 7, 5, 9)
    net.output(net.layer("mul", "scale", y, net.weight(3, 1, 1)), y)
    assert not moved(Both(device, net))


def test_a_factor_that_is_computed_stays(device):
    net = Net()
    net.output(net.layer("mul", "scale", product(net, 7, 5, 9), net.input("c", 3, 1, 1)))
    assert not moved(Both(device, net))


@pytest.mark.parametrize("layer", ["product", "scale"])
def test_layers_whose_algorithm_is_chosen_stay(device, layer):
    net = Net()
    net.output(net.layer("mul", "scale", product(net, 7, 5, 9), net.weight(3, 1, 1)))
    assert not moved(Both(device, net, {layer: "ref"}))


def test_not_finite_numbers(device):
    """An infinite score is an infinite score: factors of 0 and below keep their signs and NaN."""
    net = Net()
    c = net.graph.constant("c", np.array([2.0, -1.0, 0.0], np.float32).reshape(3, 1, 1))
    net.output(net.layer("mul", "scale", product(net, 4, 3, 5), c))
    rng = np.random.default_rng(7)
    q, k = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4, 3), (2, 3, 3, 5)))
    q[0, :, 1, 0], q[1, :, 2, 1] = np.inf, np.nan
    with _core.Plan(device, net.graph) as plan, _core.Plan(device, net.graph, fuse=False) as plain:
        got, want = plan.run([q, k])[0], plain.run([q, k])[0]
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
