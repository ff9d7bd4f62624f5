"""Chains of transposes and reshapes become one move, or none, and each element comes to where the chain puts
it."""

from __future__ import annotations

import numpy as np
import pytest

from clcnn import _core
from runner import layers_of_graph
from written import Written, found, run

SHAPE = (2, 6, 4, 8)
Move = tuple[int, ...] | list[int]  # a tuple: the order of dimensions; a list: the sizes of a reshape


def moved(net: Written, x: int, *moves: Move) -> int:
    for move in moves:
        if isinstance(move, tuple):
            x = net.do("transpose", x, perm=move)
        else:
            x = net.do("reshape", x, shape=move)
    return x


def moves_of(device: _core.Device, *moves: Move) -> tuple[list[str], list[str]]:
    """The transposes that run between two other layers, and notes. A reshape of small items copies too, since
    items lie apart."""
    ops, notes = run(
        device, lambda n, x: n.do("neg", moved(n, n.do("neg", x), *moves)), shape=SHAPE, limit=1e-9
    )
    assert ops[0] == ops[-1] == "neg"
    return [op for op in ops[1:-1] if op != "reshape"], notes


UNDONE: dict[str, tuple[Move, ...]] = {
    "pair": ((0, 2, 3, 1), (0, 3, 1, 2)),
    "three": ((1, 2, 3, 0), (1, 2, 3, 0), (2, 3, 0, 1)),
    "pair over merged dimensions": ((0, 2, 3, 1), [2, 32, 6], (0, 2, 1), [2, 6, 4, 8]),
    "pair over split dimensions": ([2, 6, 2, 2, 8], (0, 2, 3, 4, 1), [2, 32, 6], (0, 2, 1), [12, 32]),
    "pair and a reshape": ((0, 2, 3, 1), (0, 3, 1, 2), [12, 32]),
    "shuffled and back": ([2, 2, 3, 32], (0, 2, 1, 3), [2, 3, 2, 32], (0, 2, 1, 3), [2, 6, 4, 8]),
    "a dimension of one": ([2, 1, 48, 4], (1, 0, 2, 3), [2, 6, 32]),
}


@pytest.mark.parametrize("form", UNDONE)
def test_moves_that_undo_each_other_disappear(device, form):
    ops, notes = moves_of(device, *UNDONE[form])
    assert ops == []
    assert any("into a reshape" in note for note in notes)


JOINED: dict[str, tuple[Move, ...]] = {
    "pair": ((0, 2, 3, 1), (0, 2, 1, 3)),
    "pair over a reshape": ((0, 2, 3, 1), [2, 4, 48], (2, 0, 1)),
    "windows of MobileViT": (
        [12 * 2, 2, 4, 2],
        (0, 2, 1, 3),
        [2, 6, 8, 4],
        (0, 3, 2, 1),
        [8, 8, 6],
    ),
    "keys of attention": ([2, 6, 4, 2, 4], (3, 0, 2, 1, 4), [16, 6, 4], (0, 2, 1), [2, 2, 4, 4, 6]),
    "four": ((3, 2, 1, 0), [8, 24, 2], (1, 2, 0), [48, 8], (1, 0), [2, 4, 48], (0, 2, 1)),
}


@pytest.mark.parametrize("form", JOINED)
def test_moves_are_joined(device, form):
    ops, notes = moves_of(device, *JOINED[form])
    assert ops == ["transpose"]
    assert any(note.startswith("join ") for note in notes)


SINGLE: dict[str, tuple[Move, ...]] = {
    "channel shuffle": ([2, 2, 3, 4, 8], (0, 2, 1, 3, 4), [2, 6, 4, 8]),
    "pixel shuffle": ([2, 3, 2, 1, 4, 8], (0, 1, 4, 2, 5, 3), [2, 3, 8, 8]),
    "windows": ([2, 6, 2, 2, 4, 2], (0, 2, 4, 3, 5, 1), [16, 4, 6]),
    "transposed": ((0, 2, 3, 1),),
}


@pytest.mark.parametrize("form", SINGLE)
def test_what_is_one_move_already_stays_one(device, form):
    ops, notes = moves_of(device, *SINGLE[form])
    assert ops == ["transpose"]
    assert notes == []


def test_moves_that_are_not_one_stay(device):
    """Sizes that do not divide each other; the first chain has an end that is one move."""
    ops, _ = moves_of(device, (0, 2, 3, 1), [2, 24, 8], (0, 2, 1), [16, 3, 8], (2, 1, 0))
    assert ops == ["transpose", "transpose"]
    ops, _ = moves_of(device, (1, 0, 2, 3), [4, 3, 32], (2, 1, 0))
    assert ops == ["transpose", "transpose"]


def test_a_wanted_middle_keeps_moves_apart(device):
    net = Written()
    x = net.input("x", *SHAPE)
    y = net.do("transpose", net.do("neg", x), perm=(0, 2, 3, 1))
    net.graph.output(y, "y")
    net.graph.output(net.do("transpose", y, perm=(0, 2, 1, 3)), "z")
    with _core.Plan(device, net.graph, guard=True) as plan:
        assert [row["op"] for row in layers_of_graph(plan.steps())] == ["neg", "transpose", "transpose"]
        for got, value in zip(plan.run(net.data), (y, y + 1), strict=True):
            np.testing.assert_array_equal(got, net.exact[value].astype(np.float32))


def test_a_transpose_undoes_one_that_others_read_too(device):
    def build(net: Written, x: int) -> int:
        y = net.do("transpose", net.do("neg", x), perm=(0, 2, 3, 1))
        back = net.do("transpose", y, perm=(0, 3, 1, 2))
        return net.do("concat", net.do("flatten", y), net.do("flatten", net.do("abs", back)), dim=1)

    assert found(device, build, shape=SHAPE).count("transpose") == 1


def test_a_forced_transpose_stays(device):
    net = Written()
    x = net.input("x", *SHAPE)
    y = net.layer("transpose", "there", x, perm=(0, 2, 3, 1))
    net.graph.output(net.layer("transpose", "back", y, perm=(0, 3, 1, 2)), "y")
    with _core.Plan(device, net.graph, overrides={"there": "ref"}) as plan:
        (got,) = plan.run(net.data)
        assert "there" in [row["layer"] for row in plan.steps()]
    np.testing.assert_array_equal(got, net.data[0])


@pytest.mark.parametrize("seed", range(12))
def test_any_chain_moves_as_it_is_written(device, seed):
    """Reshapes join and split dimensions at random."""
    rng = np.random.default_rng(seed)

    def build(net: Written, x: int) -> int:
        x = net.do("neg", x)
        for _ in range(int(rng.integers(2, 8))):
            shape = list(net.graph.shape(x))
            if rng.random() < 0.5 and len(shape) > 1:
                x = net.do("transpose", x, perm=tuple(map(int, rng.permutation(len(shape)))))
                continue
            flat = [f for size in shape for f in _factors(size)]
            cuts = np.sort(rng.choice(len(flat) + 1, int(rng.integers(0, 5)), replace=True))
            x = net.do("reshape", x, shape=[int(np.prod(part)) for part in np.split(flat, cuts)])
        return net.do("neg", x)

    ops = found(device, build, shape=(3, 4, 6, 4), limit=1e-9)
    assert ops[0] == ops[-1] == "neg"


def _factors(size: int) -> list[int]:
    for prime in (2, 3):
        if size % prime == 0:
            return [prime, *_factors(size // prime)]
    return []
