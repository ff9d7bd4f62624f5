"""Results that are stored in the place of what they are made of: the same bits, and less memory."""

from __future__ import annotations

import numpy as np
import pytest

from caselib import Case, parse_case
from clcnn import _core
from helpers import need_blocks

# Sizes that fill no tile and no block, several items, strides, and filters that share blocks.
CONVS = (
    "n2 c70 h13 w15 k40 r1 s1",
    "n1 c64 h30 w31 k72 r3 s3 p1",
    "n3 c33 h9 w10 k33 r3 s3 p1 u2",
    "n1 c24 h14 w14 k24 r3 s3 p1 g3",
)
ROWS = ("[300,70] w[33,70] w[33]", "[3,40,70] w[300,70]")
SEPARABLES = ("n2 c40 h9 w17 k33 r3 s3 p1 m:relu", "n1 c64 h15 w14 k70 r5 s5 p2")
CASES = (
    *(
        ("conv", algo, shape)
        for algo in ("amx", "winograd", "winograd2", "fip", "blocked")
        for shape in CONVS
    ),
    *(("linear", algo, shape) for algo in ("amx", "fip", "panels") for shape in ROWS),
    *(("separable", algo, shape) for algo in ("amx", "fip", "blocked") for shape in SEPARABLES),
)


def residual(case: Case, data: list[np.ndarray]) -> _core.Graph:
    """The case's graph, whose last input is a value that a step computes."""
    graph = _core.Graph()
    values: dict[str | None, int | None] = {None: None}
    for given, array in zip(case.inputs, data, strict=True):
        values[given.name] = (
            graph.constant(given.name, array) if given.constant else graph.input(given.name, given.shape)
        )
    last = case.inputs[-1].name
    (values[last],) = graph.node("relu", "added", [values[last]], {})
    for node in case.graph:
        outputs = graph.node(node.op, node.output, [values[name] for name in node.inputs], node.attrs)
        values[node.output] = outputs[0]
    (y,) = graph.node("sigmoid", "end", [values[case.graph[-1].output]], {})
    graph.output(y, "y")
    return graph


@pytest.mark.parametrize(("op", "algo", "shape"), CASES)
def test_results_take_the_place_of_what_they_are_added_to(
    device: _core.Device, op: str, algo: str, shape: str
) -> None:
    need_blocks(device, op, algo)
    case = parse_case(f"{op} {shape} e:add+relu")
    data = case.data()
    given = [a for a, i in zip(data, case.inputs, strict=True) if not i.constant]

    def compiled(guard: bool) -> _core.Plan:
        return _core.Plan(device, residual(case, data), overrides={"y0": algo}, guard=guard)

    try:
        apart = compiled(True)
    except _core.UnsupportedError as why:
        pytest.skip(str(why))
    with apart, compiled(False) as plan:
        expected = apart.run(given)[0]
        for _ in range(2):
            np.testing.assert_array_equal(plan.run(given)[0], expected)


@pytest.mark.parametrize("algo", ["amx", "fip", "blocked"])
def test_a_residual_net_has_one_map_at_a_time(device: _core.Device, algo: str) -> None:
    need_blocks(device, "conv", algo)
    graph, channels, few = _core.Graph(), 64, 16
    value = graph.input("x", (1, few, 40, 40))
    overrides = {}

    def conv(name: str, value: int, fewer: int, more: int) -> int:
        weight = graph.constant(f"{name}w", np.ones((more, fewer, 1, 1), np.float32))
        overrides[name] = algo
        return graph.node("conv", name, [value, weight], {})[0]

    value = conv("first", value, few, channels)
    for i in range(4):
        part = conv(f"in{i}", value, channels, few)
        (value,) = graph.node("add", f"sum{i}", [conv(f"out{i}", part, few, channels), value], {})
    graph.output(conv("last", value, channels, few), "y")
    with _core.Plan(device, graph, overrides=overrides) as plan:
        assert plan.stats()["live_bytes"] < 2 * 4 * channels * 40 * 40


def test_what_is_read_again_keeps_its_place(device: _core.Device) -> None:
    """A map that is added twice, one that is added to what is made of it, and one of the caller's."""
    graph = _core.Graph()
    rng = np.random.default_rng(3)
    w = graph.constant("w", rng.standard_normal((32, 32, 3, 3)).astype(np.float32) / 20)
    x = graph.input("x", (2, 32, 14, 14))
    (start,) = graph.node("relu", "start", [x], {})

    def block(name: str, read: int, added: int) -> int:
        (y,) = graph.node("conv", name, [read, w], {"padding": (1,)})
        (y,) = graph.node("add", f"{name}+", [y, added], {})
        return graph.node("relu", f"{name}r", [y], {})[0]

    first = block("first", start, x)
    second = block("second", first, start)
    third = block("third", second, start)
    last = block("last", third, third)
    graph.output(block("end", last, second), "y")
    image = rng.standard_normal((2, 32, 14, 14)).astype(np.float32)
    before = image.copy()
    with _core.Plan(device, graph, guard=True) as apart, _core.Plan(device, graph) as plan:
        expected = apart.run([image])[0]
        for _ in range(2):
            np.testing.assert_array_equal(plan.run([image])[0], expected)
    np.testing.assert_array_equal(image, before)


def test_a_normalised_map_takes_the_place_of_the_map(device: _core.Device) -> None:
    need_blocks(device, "batch_norm", "blocked")
    rng = np.random.default_rng(5)
    x, row = rng.standard_normal((2, 48, 40, 42)).astype(np.float32), np.linspace(0.5, 1.5, 48)
    results, live = [], []
    for kept in (False, True):
        graph = _core.Graph()
        (start,) = graph.node("max_pool", "start", [graph.input("x", x.shape)], {"kernel_size": (2,)})
        rows = [graph.constant(f"r{i}", row.astype(np.float32)) for i in range(4)]
        (value,) = graph.node("batch_norm", "normed", [start, *rows], {})
        (value,) = graph.node("relu", "rectified", [value], {})
        (value,) = graph.node("max_pool", "end", [value], {"kernel_size": (2,)})
        graph.output(value, "y")
        if kept:
            graph.output(start, "start")
        with _core.Plan(device, graph, guard=True) as apart, _core.Plan(device, graph) as plan:
            np.testing.assert_array_equal(plan.run([x])[0], apart.run([x])[0])
            results.append(plan.run([x])[0])
            live.append(plan.stats()["live_bytes"])
    np.testing.assert_array_equal(*results)
    assert live[0] <= live[1]


Chain = list[tuple[str, tuple[str, ...]]]
CHAINS: dict[str, Chain] = {
    "one function": [("erf", ("a",))],
    "two maps": [("sub", ("a", "b"))],
    "the second map": [("sub", ("channels", "b"))],
    "a value a channel": [("mul", ("a", "channels"))],
    "a value a pixel": [("div", ("a", "pixels"))],
    "one map twice": [("mul", ("a", "a"))],
    "several": [("sub", ("a", "b")), ("sin", ("0",)), ("mul", ("1", "channels")), ("sub", ("2", "b"))],
}


@pytest.mark.parametrize("shape", [(2, 21, 9, 11), (3, 37), (1, 16, 8, 8)], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_functions_of_elements_take_the_place_of_an_operand(
    device: _core.Device, name: str, shape: tuple[int, ...]
) -> None:
    """Operands that a step has made, and that nothing else reads."""
    rng = np.random.default_rng(7)
    graph = _core.Graph()
    row = [1, shape[1], *[1] * (len(shape) - 2)]
    pixel = [1, 1, *shape[2:]]
    constants = {"channels": rng.uniform(1, 2, row), "pixels": rng.uniform(1, 2, pixel)}
    values = {k: graph.constant(k, v.astype(np.float32)) for k, v in constants.items()}
    for k in "ab":
        values[k] = graph.node("cumsum", k, [graph.input(f"in_{k}", shape)], {"dim": 1})[0]
    for i, (op, operands) in enumerate(CHAINS[name]):
        (values[str(i)],) = graph.node(op, f"y{i}", [values[k] for k in operands], {})
    last = values[str(len(CHAINS[name]) - 1)]
    graph.output(graph.node("cumsum", "end", [last], {"dim": 1})[0], "y")
    inputs = [rng.standard_normal(shape).astype(np.float32) for _ in "ab"]
    with _core.Plan(device, graph, guard=True) as apart, _core.Plan(device, graph) as plan:
        expected = apart.run(inputs)[0]
        for _ in range(2):
            np.testing.assert_array_equal(plan.run(inputs)[0], expected)
