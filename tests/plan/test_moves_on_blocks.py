"""Moves of channels and pixels on channel blocks: no reorder stands around them, and few of them copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from test_layout import Net, reorders

from clcnn import _core
from runner import has_blocks


@pytest.fixture(autouse=True)
def _needs_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    if not has_blocks(request.getfixturevalue("device")):
        pytest.skip("the device has no channel blocks")
    yield


@pytest.mark.parametrize("widths", [(20, 16), (16, 17, 5), (33, 32), (3, 5, 1, 7, 2, 40)])
def test_parts_of_any_width_are_joined_on_blocks(device, widths):
    net = Net()
    x = net.input("x", 2, 20, 7, 9)
    parts = [net.conv(f"part{i}", x, width) for i, width in enumerate(widths)]
    y = net.conv("last", net.layer("concat", "join", *parts, dim=1), 18)
    names = [f"part{i}" for i in range(len(widths))]
    assert net.run(device, y) == ["x:blocked", *names, "join", "last", "last:plain"]


def test_a_part_that_is_read_later_keeps_its_block_to_itself(device):
    """Where a part ends inside of a block, the next one's numbers, infinite perhaps, come beside its own."""
    graph = _core.Graph()
    x = graph.input("x", (1, 16, 5, 5))
    ones = graph.constant("w", np.ones((20, 16, 1, 1), np.float32))
    one = graph.node("conv", "one", [x, ones], {})[0]
    other = graph.node("conv", "other", [x, ones], {})[0]
    joined = graph.node("concat", "join", [one, graph.node("log", "log", [other], {})[0]], {"dim": 1})[0]
    late = graph.constant("late", np.ones((16, 20, 1, 1), np.float32))
    graph.output(graph.node("relu", "act", [joined], {})[0], "joined")
    graph.output(graph.node("conv", "after", [one, late], {})[0], "y")
    with _core.Plan(device, graph, fuse=False, overrides={"one": "blocked", "after": "blocked"}) as plan:
        joined_out, y = plan.run([np.zeros((1, 16, 5, 5), np.float32)])
    assert np.isneginf(joined_out).sum() == 0 and not np.any(y)  # relu(-inf) is 0


@pytest.mark.parametrize("sizes", [(16, 32), (20, 28), (1, 16, 31)])
def test_a_split_follows_on_blocks(device, sizes):
    net = Net()
    y = net.conv("a", net.input("x", 2, 20, 7, 9), 48)
    one, *others = net.graph.node("split", "one", [y], {"sizes": sizes, "dim": 1})
    ends = [net.layer("neg", f"neg{i}", other) for i, other in enumerate(others)]
    names = net.run(device, net.conv("b", one, 18), *ends)
    assert [name for name in reorders(names) if name.startswith(("a:", "one:"))] == []
    assert ("one" in names) == (sizes != (16, 32))


def test_parts_that_are_only_joined_again_are_not_copied(device):
    """The concat reads ranges of channels where they lie, also those of a slice of a part."""
    net = Net()
    y = net.conv("a", net.input("x", 2, 20, 7, 9), 48)
    z = net.conv("b", y, 21)
    one, other = net.graph.node("split", "parts", [y], {"sizes": (19, 29), "dim": 1})
    some = net.layer("slice", "some", other, starts=(3,), ends=(28,), axes=(1,))
    few = net.layer("slice", "few", z, starts=(20,), ends=(21,), axes=(1,))
    y = net.layer("concat", "join", some, z, one, few, dim=1)
    assert net.run(device, net.conv("last", y, 18)) == ["x:blocked", "a", "b", "join", "last", "last:plain"]


def test_moves_of_pixels_stay_on_blocks(device):
    net = Net()
    y = net.conv("a", net.input("x", 2, 20, 7, 9), 21)
    y = net.layer("pad", "pad", y, pads=(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect")
    y = net.layer("slice", "crop", y, starts=(1, 0), ends=(9, 11), axes=(2, 3), steps=(1, 2))
    y = net.layer("resize", "up", y, size=(16, 12))
    names = net.run(device, net.conv("last", y, 18))
    assert names == ["x:blocked", "a", "pad", "crop", "up", "last", "last:plain"]
