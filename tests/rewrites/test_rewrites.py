"""Rewrites and the placement of values: what becomes one step, what becomes a view, what must stay as
written; each against the same graph compiled with fuse=False."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from helpers import need_blocks
from rewritten import Both, Net, random_inputs
from runner import has_blocks

# ---- batch normalisation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_batch_norm_becomes_weights(device, bias, groups):
    net = Net()
    x = net.input("x", 2, 4, 7, 7)
    y = net.batch_norm("bn", net.conv("conv", x, 8, 3, bias, groups=groups))
    net.output(net.layer("relu", "relu", y))
    both = Both(device, net)
    assert both.names == ["conv"]
    assert both.fused("conv") == "relu"
    assert both.plain_steps == 3
    assert both.notes == ["fold batch_norm bn into conv conv", "fuse relu relu into conv conv"]


def test_batch_norm_after_linear_becomes_weights(device):
    net = Net()
    x = net.input("x", 3, 10)
    y = net.layer("linear", "fc", x, net.weight(6, 10))
    net.output(net.batch_norm("bn", y))
    assert Both(device, net).names == ["fc"]


def test_batch_norm_of_the_rows_of_a_linear_layer_becomes_weights(device):
    """As exporters write it: the rows are numbered by one dimension for the norm alone."""
    net = Net()
    x = net.input("x", 2, 3, 10)
    y = net.layer("linear", "fc", x, net.weight(6, 10), net.weight(6))
    y = net.batch_norm("bn", net.layer("reshape", "rows", y, shape=[6, 6]))
    y = net.layer("relu", "relu", net.layer("reshape", "back", y, shape=[2, 3, 6]))
    net.output(y)
    both = Both(device, net)
    assert both.names == ["fc"]
    assert both.fused("fc") == "relu"


@pytest.mark.parametrize("shape", [[12, 3], [2, 18], [1, 6, 6]])
def test_batch_norm_of_what_is_no_row_of_a_linear_layer_stays(device, shape):
    net = Net()
    y = net.layer("linear", "fc", net.input("x", 2, 3, 10), net.weight(6, 10))
    net.output(net.batch_norm("bn", net.layer("reshape", "view", y, shape=shape)))
    assert "bn" in Both(device, net).names


def test_reshapes_of_reshapes_are_one(device):
    net = Net()
    y = net.layer("relu", "a", net.input("x", 4, 6))
    y = net.layer("reshape", "one", y, shape=[2, 12])
    y = net.layer("reshape", "two", y, shape=[3, 8])
    net.output(net.layer("neg", "b", y))
    assert "turn 2 moves up to reshape two into a reshape" in Both(device, net).notes


def test_batch_norm_stays_where_its_input_is_wanted(device):
    net = Net()
    x = net.input("x", 1, 4, 6, 6)
    y = net.conv("conv", x, 5, 3)
    net.output(y, net.batch_norm("bn", y))
    assert Both(device, net).names == ["conv", "bn"]


def test_batch_norm_stays_after_anything_else(device):
    net = Net()
    x = net.input("x", 2, 4, 6, 6)
    y = net.batch_norm("bn2", net.layer("relu", "relu", net.batch_norm("bn1", x)))
    net.output(y)
    both = Both(device, net)
    assert both.names == ["bn1", "bn2"]
    assert both.fused("bn1") == "relu"


def test_batch_norm_with_computed_statistics_stays(device):
    net = Net()
    x, mean = net.input("x", 2, 4, 6, 6), net.input("mean", 5)
    y = net.conv("conv", x, 5, 3)
    parts = [net.weight(5), net.weight(5), mean, net.weight(5, low=0.5)]
    net.output(net.layer("batch_norm", "bn", y, *parts))
    assert Both(device, net).names == ["conv", "bn"]


# ---- epilogues ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["conv first", "conv second"])
def test_residual_add_and_activation_join_the_convolution(device, order):
    net = Net()
    x, z = net.input("x", 2, 4, 7, 7), net.input("z", 2, 6, 7, 7)
    y = net.conv("conv", x, 6, 3)
    pair = (y, z) if order == "conv first" else (z, y)
    net.output(net.layer("relu", "relu", net.layer("add", "add", *pair)))
    both = Both(device, net)
    assert both.names == ["conv"]
    assert both.fused("conv") == "add+relu"


@pytest.mark.parametrize("order", [0, 1])
def test_add_of_two_convolutions_joins_the_later(device, order):
    """Its result need not wait in memory for the other's."""
    net = Net()
    x = net.input("x", 2, 4, 7, 7)
    pair = [net.conv("early", x, 6, 1, groups=2), net.conv("late", x, 6, 3)]
    net.output(net.layer("add", "add", *(pair if order == 0 else pair[::-1])))
    both = Both(device, net)
    assert both.names == ["early", "late"]
    assert (both.fused("early"), both.fused("late")) == ("", "add")


def test_add_with_the_input_of_a_block(device):
    net = Net()
    x = net.input("x", 2, 4, 7, 7)
    y = net.conv("conv2", net.layer("relu", "relu1", net.conv("conv1", x, 4, 3)), 4, 3)
    net.output(net.layer("relu", "relu2", net.layer("add", "add", x, y)))
    both = Both(device, net)
    assert both.names == ["conv1", "conv2"]
    assert both.fused("conv2") == "add+relu"


def test_add_of_a_value_to_itself(device):
    net = Net()
    y = net.conv("conv", net.input("x", 1, 3, 5, 5), 4, 3)
    net.output(net.layer("add", "add", y, y))
    assert Both(device, net).names == ["conv", "add"]


def test_add_that_broadcasts_stays(device):
    net = Net()
    x, z = net.input("x", 2, 4, 7, 7), net.input("z", 6, 1, 1)
    net.output(net.layer("add", "add", net.conv("conv", x, 6, 3), z))
    assert Both(device, net).names == ["conv", "add"]


def test_only_one_activation_joins(device):
    net = Net()
    y = net.conv("conv", net.input("x", 1, 3, 5, 5), 4, 3)
    net.output(net.layer("sigmoid", "second", net.layer("tanh", "first", y)))
    both = Both(device, net)
    assert both.fused("conv") == "tanh"
    assert both.names[0] == "conv"
    assert both.names[-1] == "second"


def test_add_after_an_activation_stays_outside(device):
    """act(conv) + z is no epilogue act(conv + z)."""
    net = Net()
    x, z = net.input("x", 1, 3, 5, 5), net.input("z", 1, 4, 5, 5)
    y = net.layer("relu", "relu", net.conv("conv", x, 4, 3))
    net.output(net.layer("add", "add", y, z))
    both = Both(device, net)
    assert both.fused("conv") == "relu"
    assert both.names == ["conv", "add"]


@pytest.mark.parametrize("wanted", ["conv", "add"])
def test_nothing_joins_over_a_requested_output(device, wanted):
    net = Net()
    x, z = net.input("x", 1, 3, 5, 5), net.input("z", 1, 4, 5, 5)
    y = net.conv("conv", x, 4, 3)
    total = net.layer("add", "add", y, z)
    net.output(y if wanted == "conv" else total, net.layer("relu", "relu", total))
    both = Both(device, net)
    assert both.fused("conv") == ("" if wanted == "conv" else "add")
    assert both.names == (["conv", "add", "relu"] if wanted == "conv" else ["conv", "relu"])


@pytest.mark.parametrize("op", ["linear", "matmul", "gemm"])
def test_epilogues_of_matrix_products(device, op):
    net = Net()
    x, z = net.input("x", 5, 8), net.input("z", 5, 6)
    w = net.weight(6, 8) if op == "linear" else net.weight(8, 6)
    y = net.layer(op, "product", x, w, *([net.weight(6)] if op != "matmul" else []))
    net.output(net.layer("gelu", "gelu", net.layer("add", "add", z, y)))
    both = Both(device, net)
    assert both.names == ["product"]
    assert both.fused("product") == "add+gelu"


# ---- identities and views ----------------------------------------------------------------------------------


def test_identities_disappear(device):
    net = Net()
    x = net.input("x", 2, 3, 6, 6)
    y = net.layer("dropout", "drop", net.conv("conv", net.layer("identity", "same", x), 4, 3), p=0.3)
    net.output(net.layer("relu", "relu", y))
    both = Both(device, net)
    assert both.names == ["conv"]
    assert both.fused("conv") == "relu"
    assert both.notes[:2] == ["drop identity same", "drop dropout drop"]


def test_adaptive_pooling_to_the_size_of_its_input_disappears(device):
    net = Net()
    y = net.layer("adaptive_max_pool", "max", net.input("x", 2, 3, 6, 6), output_size=(6, 6))
    y = net.layer("adaptive_avg_pool", "mean", net.conv("conv", y, 4, 3), output_size=(6, 6))
    net.output(net.layer("relu", "relu", y))
    both = Both(device, net)
    assert both.names == ["conv"]
    assert both.notes[:2] == ["drop adaptive_max_pool max", "drop adaptive_avg_pool mean"]


def test_an_identity_alone_gives_its_input(device):
    net = Net()
    net.output(net.layer("identity", "same", net.input("x", 2, 3)))
    with _core.Plan(device, net.graph) as plan:
        data = random_inputs(plan)
        np.testing.assert_array_equal(plan.run(data)[0], data[0])
        assert plan.steps() == []


ONES = {
    "mul": lambda net, x, ones: net.layer("mul", "same", x, ones),
    "mul, ones first": lambda net, x, ones: net.layer("mul", "same", ones, x),
    "div": lambda net, x, ones: net.layer("div", "same", x, ones),
}


@pytest.mark.parametrize("shape", [(), (3, 1, 1), (2, 3, 6, 6)])
@pytest.mark.parametrize("form", ONES)
def test_products_with_ones_disappear(device, form, shape):
    net = Net()
    ones = net.graph.constant("ones", np.ones(shape, np.float32))
    net.output(net.layer("neg", "neg", ONES[form](net, net.input("x", 2, 3, 6, 6), ones)))
    both = Both(device, net)
    assert both.names == ["neg"]
    assert both.notes[0].startswith("drop")


NOT_ONES = {
    "another number": ("mul", [1.0, 1.0, 2.0], False),
    "of a larger shape": ("mul", np.ones((4, 2, 3)), False),
    "divided by x": ("div", 1.0, True),
}


@pytest.mark.parametrize("form", NOT_ONES)
def test_what_is_no_product_with_ones_stays(device, form):
    op, numbers, first = NOT_ONES[form]
    net = Net()
    operands = [net.input("x", 2, 3), net.graph.constant("c", np.array(numbers, np.float32))]
    y = net.layer(op, "same", *(reversed(operands) if first else operands))
    net.output(net.layer("sin", "sin", y))
    assert "same" in "+".join(Both(device, net).names)


def test_reshapes_are_views(device):
    net = Net()
    x = net.input("x", 2, 3, 4, 4)
    y = net.layer("flatten", "flat", net.layer("max_pool", "pool", x, kernel_size=(2,)))
    y = net.layer("unsqueeze", "wide", net.layer("reshape", "shape", y, shape=(4, 6)), axes=(1,))
    net.output(net.layer("neg", "neg", net.layer("squeeze", "narrow", y, axes=(1,))))
    with _core.Plan(device, net.graph) as plan:
        assert [row["layer"] for row in plan.steps()] == ["pool", "neg"]
    Both(device, net)


def test_split_on_channels_is_a_view(device):
    net = Net()
    x = net.input("x", 2, 6, 5, 5)
    a, b = net.graph.node("split", "split", [x], {"sizes": (2, 4), "dim": 1})
    net.output(net.layer("relu", "first", a), net.conv("second", b, 3, 3))
    assert Both(device, net).names == ["first", "second"]


def test_split_inside_of_items_is_copied(device):
    net = Net()
    a, b = net.graph.node("split", "split", [net.input("x", 2, 3, 6)], {"sizes": (2, 4), "dim": 2})
    net.output(net.layer("abs", "first", a), net.layer("abs", "second", b))
    assert "split" in Both(device, net).names


def _dense_block(net: Net, x: int, layers: int, growth: int) -> int:
    features = [x]
    for i in range(layers):
        whole = x if i == 0 else net.layer("concat", f"concat{i}", *features, dim=1)
        y = net.layer("relu", f"relu{i}", net.batch_norm(f"bn{i}", whole))
        features.append(net.conv(f"conv{i}", y, growth, 3))
    return net.layer("concat", "last", *features, dim=1)


@pytest.mark.parametrize(("first", "growth"), [(4, 3), (16, 16)])
def test_dense_block_grows_in_place(device, first, growth):
    """Every concat of the block is a range of the last one; nothing is copied. On channel blocks parts begin
    with a block."""
    if growth % 16 and has_blocks(device):
        pytest.skip("the parts end inside of channel blocks")
    net = Net()
    x = net.conv("stem", net.input("x", 2, 3, 6, 6), first, 3)
    net.output(net.layer("relu", "end", _dense_block(net, x, 4, growth)))
    both = Both(device, net)
    assert not [name for name in both.names if name.startswith(("concat", "last"))]


def test_inception_branches_write_side_by_side(device):
    net = Net()
    x = net.input("x", 2, 4, 6, 6)
    branches = [net.layer("relu", f"act{i}", net.conv(f"branch{i}", x, 3 + i, 1 + 2 * i)) for i in range(3)]
    branches.append(net.layer("max_pool", "pool", x, kernel_size=(3,), stride=(1,), padding=(1,)))
    net.output(net.layer("concat", "join", *branches, dim=1))
    joined = ["join"] if has_blocks(device) else []  # parts end inside of channel blocks
    assert Both(device, net).names == ["branch0", "branch1", "branch2", "pool", *joined]


def test_inputs_and_constants_are_copied_into_a_concat(device):
    net = Net()
    x = net.input("x", 1, 2, 4, 4)
    y = net.layer("concat", "join", x, net.weight(1, 3, 4, 4), net.layer("abs", "abs", x), dim=1)
    net.output(y)
    both = Both(device, net)
    assert both.names == ["abs", "join"]


# ---- separable convolutions --------------------------------------------------------------------------------


def _separable(net: Net, bn: bool = False) -> tuple[int, int]:
    x = net.input("x", 2, 8, 9, 9)
    y = net.conv("dw", x, 8, 3, bias=not bn, groups=8)
    y = net.layer("relu6", "act1", net.batch_norm("bn1", y) if bn else y)
    z = net.conv("pw", y, 12, 1, bias=not bn)
    return y, net.layer("relu", "act2", net.batch_norm("bn2", z) if bn else z)


@pytest.mark.parametrize("bn", [False, True])
@pytest.mark.parametrize(
    "algo",
    [
        name
        for name in _core.ops()["separable"]["algos"]
        if not name.startswith(("split", "affine", "strassen"))
    ],
)
def test_depthwise_and_pointwise_become_one_step(device, bn, algo):
    need_blocks(device, "separable", algo)
    net = Net()
    net.output(_separable(net, bn)[1])
    both = Both(device, net, {"dw": algo})
    (step,) = both.steps
    assert (step["layer"], step["op"], step["algo"]) == ("dw+pw", "separable", algo)
    assert "merge depthwise conv dw and 1x1 conv pw" in both.notes


def test_wanted_middle_keeps_the_two_apart(device):
    net = Net()
    net.output(*_separable(net))
    assert Both(device, net).names == ["dw", "pw"]


@pytest.mark.parametrize("layer", ["dw", "pw"])
def test_override_keeps_the_two_apart(device, layer):
    net = Net()
    net.output(_separable(net)[1])
    both = Both(device, net, {layer: "direct"})
    assert both.names == ["dw", "pw"]
    assert {row["layer"]: row["algo"] for row in both.steps}[layer] == "direct"


@pytest.mark.parametrize("what", ["strided", "padded", "grouped", "plain"])
def test_what_looks_like_separable_but_is_not(device, what):
    net = Net()
    x = net.input("x", 1, 8, 9, 9)
    first = net.conv("first", x, 8, 3, groups=1 if what == "plain" else 8)
    w = net.weight(6, 4 if what == "grouped" else 8, 1, 1)
    attrs: dict[str, Any] = {
        "strided": {"stride": (2,)},
        "padded": {"padding": (1,)},
        "grouped": {"groups": 2},
        "plain": {},
    }[what]
    net.output(net.layer("conv", "second", first, w, **attrs))
    assert Both(device, net).names == ["first", "second"]


# ---- memory ------------------------------------------------------------------------------------------------


def _check_arena(stats: Any) -> None:
    assert stats["live_bytes"] <= stats["arena_bytes"]
    assert stats["arena_bytes"] <= 1.2 * stats["live_bytes"] + stats["workspace_bytes"] + 4096
    assert stats["peak_bytes"] == stats["arena_bytes"] + stats["weights_bytes"]


def _bytes(shapes: Sequence[tuple[int, ...]]) -> int:
    return sum(4 * int(np.prod(shape)) for shape in shapes)


def test_a_chain_needs_two_of_its_values(device):
    net = Net()
    y = net.input("x", 1, 16, 32, 32)
    for i in range(8):
        y = net.layer("neg" if i % 2 else "abs", f"layer{i}", y)
    net.output(y)
    with _core.Plan(device, net.graph, fuse=False) as plan:
        assert plan.stats()["live_bytes"] == plan.stats()["arena_bytes"] == _bytes([(1, 16, 32, 32)] * 2)


def test_joined_values_are_there_once(device):
    """The dense block's arena holds its last concat, not every intermediate one; its channels are whole
    blocks, so that none of the values changes its layout."""
    net = Net()
    x = net.conv("stem", net.input("x", 1, 3, 32, 32), 16, 3)
    net.output(net.layer("neg", "end", _dense_block(net, x, 4, 16)))
    with _core.Plan(device, net.graph) as plan:
        stats = plan.stats()
    _check_arena(stats)
    whole, inner = (1, 80, 32, 32), (1, 80, 32, 32)
    assert stats["live_bytes"] <= _bytes([whole, inner])


NETS = ["lenet5", "alexnet", "googlenet", "resnet18", "mobilenet_v1", "densenet121", "efficientnet_lite0"]


@pytest.mark.parametrize("name", NETS)
def test_memory_of_networks(device, name):
    zoo = pytest.importorskip("clcnn.zoo")
    compiler = pytest.importorskip("clcnn.compiler")
    shape = (1, 1, 28, 28) if name == "lenet5" else (1, 3, 224, 224)
    with compiler.compile(zoo.get(name), shape, device) as plan:
        _check_arena(plan.stats)
        joins = [row["layer"] for row in plan.steps if row["op"] == "concat"]
    assert joins == []


@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 19, 5, 7), (2, 3)), ((2, 5, 9), (2,)), ((1, 3, 4, 5, 6), (-3, 3, 4))]
)
@pytest.mark.parametrize(
    ("op", "pool"), [("reduce_mean", "adaptive_avg_pool"), ("reduce_max", "adaptive_max_pool")]
)
def test_the_mean_or_maximum_of_pixels_becomes_a_pooling(device, shape, axes, op, pool):
    net = Net()
    net.output(net.layer(op, "all", net.input("x", *shape), axes=axes))
    assert [row["op"] for row in Both(device, net).layers] == [pool]


@pytest.mark.parametrize("shape", [(2, 5, 7, 19), (3, 9, 5)])
@pytest.mark.parametrize(
    ("pool", "op"), [("adaptive_avg_pool", "reduce_mean"), ("adaptive_max_pool", "reduce_max")]
)
@pytest.mark.parametrize("order", ["channels first", "another"])
def test_the_pooling_of_a_turned_map_is_a_reduction(device, shape, pool, op, order):
    last = len(shape) - 1
    perm = (0, last, *range(1, last)) if order == "channels first" else (last, 0, *range(1, last))
    net = Net()
    x = net.layer("transpose", "turned", net.input("x", *shape), perm=perm)
    net.output(net.layer("flatten", "flat", net.layer(pool, "all", x, output_size=1)))
    ops = [row["op"] for row in Both(device, net).layers]
    assert (ops == [op]) == (order == "channels first")


@pytest.mark.parametrize(
    "attrs", [{"axes": (2,)}, {"axes": (1, 2)}, {"axes": (1, 2, 3)}, {"axes": (2, 3), "keepdims": 0}, {}]
)
@pytest.mark.parametrize("op", ["reduce_mean", "reduce_max"])
def test_other_reductions_stay(device, attrs, op):
    net = Net()
    net.output(net.layer(op, "some", net.input("x", 2, 19, 5, 7), **attrs))
    assert [row["op"] for row in Both(device, net).layers] == [op]
