"""Shuffles of channels become orders of weights where every reader allows it, and stay where one does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rewritten import Both, Net
from runner import has_blocks


@pytest.fixture(autouse=True)
def _needs_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    if not has_blocks(request.getfixturevalue("device")):
        pytest.skip("the device has no channel blocks")
    yield


def shuffle(net: Net, name: str, x: int, groups: int) -> int:
    n, c, *spatial = net.graph.shape(x)
    y = net.layer("reshape", f"{name}_apart", x, shape=(n, groups, c // groups, *spatial))
    y = net.layer("transpose", f"{name}_turn", y, perm=(0, 2, 1, *range(3, 3 + len(spatial))))
    return net.layer("reshape", name, y, shape=(n, c, *spatial))


def unit(net: Net, name: str, x: int, groups: int = 2) -> int:
    """Of ShuffleNet v2, at stride 1."""
    c = net.graph.shape(x)[1] // 2
    left, right = net.graph.node("split", f"{name}_split", [x], {"sizes": (c, c), "dim": 1})
    y = net.layer("relu", f"{name}_act", net.conv(f"{name}_in", right, c, 1))
    y = net.conv(f"{name}_dw", y, c, 3, groups=c)
    y = net.layer("relu", f"{name}_last", net.conv(f"{name}_out", y, c, 1))
    return shuffle(net, name, net.layer("concat", f"{name}_cat", left, y, dim=1), groups)


def moves(both: Both) -> list[str]:
    known = ("transpose", "concat", "split", "slice", "reshape")
    return [row["op"] for row in both.steps if row["op"] in known]


@pytest.mark.parametrize(("items", "c", "groups"), [(1, 58, 2), (2, 24, 2), (2, 15, 3)])
def test_units_of_shufflenet_copy_what_the_next_one_reads(device, items, c, groups):
    net = Net()
    y = net.conv("stem", net.input("x", items, 3, 6, 7), 2 * c, 3)
    for i in range(4):
        y = unit(net, f"unit{i}", y, groups)
    net.output(net.conv("head", y, 20, 1))
    both = Both(device, net)
    assert sum("order the weights" in note for note in both.notes) == 4
    assert set(moves(both)) <= {"concat", "slice", "split"} and len(moves(both)) <= 5


def test_an_order_goes_on_through_depthwise_layers_and_pools(device):
    net = Net()
    y = net.conv("stem", net.input("x", 2, 3, 9, 8), 36, 3)
    y = shuffle(net, "shuffle", y, 4)
    down = net.conv("dw", y, 36, 3, groups=36, stride=(2,))
    pooled = net.layer("max_pool", "pool", y, kernel_size=(3,), stride=(2,), padding=(1,))
    last = net.conv("three", y, 8, 1, bias=False)
    net.output(net.conv("one", down, 20, 1), net.conv("two", pooled, 10, 3), last)
    both = Both(device, net)
    assert any("order the weights" in note for note in both.notes)
    assert moves(both) == []


STAYS = ["output", "grouped", "add", "softmax", "dw_output", "dw_split", "forced"]


@pytest.mark.parametrize("reader", STAYS)
def test_a_shuffle_stays_where_its_order_is_seen(device, reader):
    net = Net()
    x = net.conv("stem", net.input("x", 2, 3, 5, 6), 24, 3)
    y = shuffle(net, "shuffle", x, 3)
    dw = net.conv("dw", y, 24, 3, groups=24)
    net.output(net.conv("head", dw, 16, 1), net.conv("direct", y, 8, 1))
    if reader == "output":
        net.graph.output(y, "seen")
    elif reader == "grouped":
        net.graph.output(net.conv("seen", y, 24, 1, groups=2), "seen")
    elif reader == "add":
        net.graph.output(net.layer("add", "seen", x, y), "seen")
    elif reader == "softmax":
        net.graph.output(net.layer("softmax", "seen", y, dim=1), "seen")
    elif reader == "dw_output":
        net.graph.output(dw, "seen")
    elif reader == "dw_split":
        one, other = net.graph.node("split", "halves", [dw], {"sizes": (12, 12), "dim": 1})
        net.graph.output(net.conv("seen", one, 8, 1), "seen")
        net.graph.output(net.conv("seen2", other, 8, 1), "seen2")
    both = Both(device, net, {"shuffle_turn": "ref"} if reader == "forced" else None)
    assert "transpose" in moves(both)
    assert not any("order the weights" in note for note in both.notes)


@pytest.mark.parametrize("perm", [(0, 1, 2, 4, 3), (0, 2, 1, 4, 3), (2, 1, 0, 3, 4)])
def test_moves_of_pixels_or_items_are_no_shuffles(device, perm):
    net = Net()
    x = net.conv("stem", net.input("x", 4, 3, 5, 5), 16, 3)
    y = net.layer("reshape", "apart", x, shape=(4, 4, 4, 5, 5))
    y = net.layer("reshape", "back", net.layer("transpose", "turn", y, perm=perm), shape=(4, 16, 5, 5))
    net.output(net.conv("head", y, 8, 1))
    assert moves(Both(device, net)) == ["transpose"]
