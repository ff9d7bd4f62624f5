"""Algorithms that the user asks for: of one layer, also one that was merged, and of every layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import clcnn
from clcnn import ops
from clcnn.graph import Graph
from runner import layers_of_graph


def whole(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def network(pool: int = 2, stride: int = 2, groups: int = 20) -> Graph:
    """conv, relu, pool, depthwise, pointwise + shortcut, sum, linear: whole numbers for weights."""
    g = Graph()
    x = g.input("x", (2, 3, 12, 14))
    y = ops.conv(
        x, g.constant(whole(20, 3, 3, 3, seed=1)), g.constant(whole(20, seed=2)), padding=1, name="stem"
    )
    y = ops.max_pool(ops.relu(y), kernel_size=pool, stride=stride, name="pool")
    d = ops.conv(y, g.constant(whole(20, 20 // groups, 3, 3, seed=3)), padding=1, groups=groups, name="dw")
    p = ops.conv(ops.relu(d), g.constant(whole(20, 20, 1, 1, seed=4)), name="pw")
    z = ops.relu(p + y)
    z = ops.flatten(ops.reduce_sum(z, axes=[2, 3]))
    g.output(ops.linear(z, g.constant(whole(7, 20, seed=5)), name="head"), "y")
    return g


def need_clblast(device: clcnn.Device, algorithm: str) -> None:
    """Skips where the library is missing, which one layer by itself tells."""
    try:
        clcnn.compile(network(), device=device, algorithms={"dw": algorithm}).close()
    except clcnn.UnsupportedError as error:
        if "CLBlast is not installed" not in str(error):
            raise
        pytest.skip("CLBlast is not installed")


def algorithms_of(plan: clcnn.Plan) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in layers_of_graph(plan.layers):
        found.setdefault(row["layer"], row["algo"])
    return found


def compiled(
    device: clcnn.Device, graph: Graph, algorithms: str | Mapping[str, str] | None
) -> tuple[np.ndarray, dict[str, str], str]:
    with clcnn.compile(graph, device=device, algorithms=algorithms, precision="strict", guard=True) as plan:
        return plan(whole(2, 3, 12, 14, seed=6)), algorithms_of(plan), "\n".join(plan.rewrites)


def test_a_part_of_a_merged_layer_is_taken_out_where_the_merged_one_cannot(device: clcnn.Device) -> None:
    graph = network(pool=3)  # windows that overlap: conv_pool has "direct", but not for them
    usual, layers, _ = compiled(device, graph, None)
    result, apart, notes = compiled(device, graph, {"stem": "direct"})
    assert apart["stem"] == "direct" and "pool" in apart
    if "stem+pool" in layers:  # merged only on devices with channel blocks
        assert "take stem+pool apart: a part of it has another algorithm" in notes
    np.testing.assert_array_equal(result, usual)


def test_a_merged_layer_stays_where_it_can_use_the_algorithm(device: clcnn.Device) -> None:
    usual, layers, _ = compiled(device, network(), None)
    result, forced, notes = compiled(device, network(), {"stem": "direct"})
    assert "stem+pool" in layers and forced["stem+pool"] == "direct" and "apart" not in notes
    np.testing.assert_array_equal(result, usual)


def test_the_merged_layer_itself_is_refused_what_it_cannot_use(device: clcnn.Device) -> None:
    with clcnn.compile(network(pool=3), device=device) as plan:
        if "stem+pool" not in algorithms_of(plan):
            pytest.skip("merged only on devices with channel blocks")
    with pytest.raises(clcnn.UnsupportedError, match=r"stem\+pool.*'direct' cannot be used here"):
        clcnn.compile(network(pool=3), device=device, algorithms={"stem+pool": "direct"})


@pytest.mark.parametrize("algorithm", ["direct", "implicit", "im2col", "ref"])
def test_one_algorithm_everywhere(device: clcnn.Device, algorithm: str) -> None:
    need_clblast(device, algorithm)
    usual, layers, _ = compiled(device, network(), None)
    for asked in (algorithm, {"*": algorithm}):
        result, forced, _ = compiled(device, network(), asked)
        convolutions = {
            name: algo for name, algo in forced.items() if name.split("+")[0] in ("stem", "dw", "pw")
        }
        assert convolutions and set(convolutions.values()) == {algorithm}
        if algorithm != "ref":
            assert forced["head"] == layers["head"]
        np.testing.assert_array_equal(result, usual)


def test_a_layer_that_is_named_overrules_all(device: clcnn.Device) -> None:
    _, forced, _ = compiled(device, network(), {"*": "direct", "dw": "ref", "head": "ref"})
    assert (forced["stem+pool"], forced["dw"], forced["pw"], forced["head"]) == (
        "direct",
        "ref",
        "direct",
        "ref",
    )


def test_im2col_of_many_groups_is_the_loop_over_them_that_is_asked_for(device: clcnn.Device) -> None:
    need_clblast(device, "im2col")
    g, groups = Graph(), 70
    x = g.input("x", (1, groups, 5, 5))
    g.output(
        ops.conv(x, g.constant(whole(groups, 1, 3, 3, seed=1)), padding=1, groups=groups, name="dw"), "y"
    )
    image = whole(1, groups, 5, 5, seed=2)
    with clcnn.compile(g, device=device, algorithms="im2col", precision="strict") as plan:
        assert plan.stats["step_count"] == groups + 2
        result = plan(image)
    with clcnn.compile(g, device=device, precision="strict") as plan:
        assert algorithms_of(plan)["dw"] != "im2col"
        np.testing.assert_array_equal(result, plan(image))


def test_what_is_no_algorithm_is_refused_with_those_there_are(device: clcnn.Device) -> None:
    with pytest.raises(clcnn.ArgumentError, match="no algorithm 'nonsense'; there are .*direct.*winograd"):
        clcnn.compile(network(), device=device, algorithms="nonsense")
    with pytest.raises(clcnn.ArgumentError, match="no algorithm 3"):
        clcnn.compile(network(), device=device, algorithms={"*": 3})
    with pytest.raises(clcnn.DtypeError, match="algorithms: expected"):
        clcnn.compile(network(), device=device, algorithms=3)
    with pytest.raises(clcnn.UnsupportedError, match="'flash' cannot be used for any layer here"):
        clcnn.compile(network(), device=device, algorithms="flash")
