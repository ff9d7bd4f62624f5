"""Rotary embeddings as exporters write them out become one layer; each against the same graph compiled with
fuse=False."""

from __future__ import annotations

import pytest

from rewritten import Both, Net

SHAPE = (2, 3, 9, 16)  # items, heads, rows, columns


def columns(net: Net, name: str, x: int, start: int, end: int, step: int = 1) -> int:
    return net.layer("slice", name, x, starts=(start,), ends=(end,), axes=(-1,), steps=(step,))


def turned(net: Net, x: int, interleaved: bool, split: bool = False, sign: int = 0) -> int:
    """sign: the half that is negated, 0 as it should be."""
    shape = net.graph.shape(x)
    d = shape[-1]
    if interleaved:
        halves = [columns(net, "odd", x, 1, d, 2), columns(net, "even", x, 0, d, 2)]
    elif split:
        halves = list(net.graph.node("split", "halves", (x,), {"sizes": (d // 2, d // 2), "dim": -1})[::-1])
    else:
        halves = [columns(net, "second", x, d // 2, d), columns(net, "first", x, 0, d // 2)]
    halves[sign] = net.layer("neg", "neg", halves[sign])
    if not interleaved:
        return net.layer("concat", "turned", *halves, dim=-1)
    halves = [net.layer("unsqueeze", f"wide{i}", half, axes=(-1,)) for i, half in enumerate(halves)]
    return net.layer("reshape", "flat", net.layer("concat", "turned", *halves, dim=-1), shape=shape)


def rotary(net: Net, x: int, other: int, tables: tuple[int, ...], swapped: bool = False) -> int:
    pairs = [(x, net.weight(*tables)), (other, net.weight(*tables))]
    products = [net.layer("mul", f"mul{i}", *(p[::-1] if swapped else p)) for i, p in enumerate(pairs)]
    return net.layer("add", "last", *(products[::-1] if swapped else products))


def start(shape: tuple[int, ...] = SHAPE) -> tuple[Net, int]:
    net = Net()
    return net, net.layer("sin", "sin", net.input("x", *shape))


def ops(both: Both) -> list[str]:
    return [row["op"] for row in both.layers]


@pytest.mark.parametrize("form", ["halves", "split", "interleaved"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("tables", [(9, 16), (1, 1, 9, 16), (3, 9, 16)], ids=str)
def test_forms_of_exporters(device, form, swapped, tables):
    net, x = start()
    net.output(rotary(net, x, turned(net, x, form == "interleaved", form == "split"), tables, swapped))
    assert ops(Both(device, net)) == ["sin", "rotary_embedding"]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("tables", [(9, 16), (3, 9, 16)], ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_rows_before_that_are_not_turned(device, interleaved, tables, rows):
    net, x = start((2, 3, 9 + rows, 16))
    first = net.layer("slice", "class", x, starts=(0,), ends=(rows,), axes=(2,))
    rest = net.layer("slice", "patches", x, starts=(rows,), ends=(9 + rows,), axes=(2,))
    last = rotary(net, rest, turned(net, rest, interleaved), tables)
    net.output(net.layer("concat", "all", first, last, dim=2))
    assert ops(Both(device, net)) == ["sin", "rotary_embedding"]


def test_one_table_for_two(device):
    """As queries and keys share it."""
    net, x = start()
    cos, sin = net.weight(9, 16), net.weight(9, 16)
    for name, value in (("q", x), ("k", net.layer("exp", "exp", x))):
        d = net.layer("neg", f"{name}neg", columns(net, f"{name}2", value, 8, 16))
        other = net.layer("concat", f"{name}t", d, columns(net, f"{name}1", value, 0, 8), dim=-1)
        products = net.layer("mul", f"{name}c", value, cos), net.layer("mul", f"{name}s", other, sin)
        last = net.layer("add", f"{name}a", *products)
        x = last if name == "q" else net.layer("mul", "both", x, last)
    net.output(x)
    assert ops(Both(device, net)).count("rotary_embedding") == 2


@pytest.mark.parametrize("interleaved", [False, True])
def test_near_misses(device, interleaved):
    net, x = start()  # the other half is negated
    net.output(rotary(net, x, turned(net, x, interleaved, sign=1), (9, 16)))
    assert "rotary_embedding" not in ops(Both(device, net))
    net, x = start()  # another value is turned
    net.output(rotary(net, x, turned(net, net.layer("exp", "exp", x), interleaved), (9, 16)))
    assert "rotary_embedding" not in ops(Both(device, net))
    net, x = start()  # a number for each row
    net.output(rotary(net, x, turned(net, x, interleaved), (9, 1)))
    assert "rotary_embedding" not in ops(Both(device, net))
    net, x = start()  # what is turned is wanted
    other = turned(net, x, interleaved)
    net.output(rotary(net, x, other, (9, 16)), other)
    assert "rotary_embedding" not in ops(Both(device, net))
    net, x = start()  # someone has chosen how a part is computed
    net.output(rotary(net, x, turned(net, x, interleaved), (9, 16)))
    assert "rotary_embedding" not in ops(Both(device, net, {"neg": "ref"}))


def test_rows_before_of_something_else(device):
    net, x = start((2, 3, 10, 16))
    first = net.layer("slice", "class", net.layer("exp", "exp", x), starts=(0,), ends=(1,), axes=(2,))
    rest = net.layer("slice", "patches", x, starts=(1,), ends=(10,), axes=(2,))
    net.output(net.layer("concat", "all", first, rotary(net, rest, turned(net, rest, False), (9, 16)), dim=2))
    names = ops(Both(device, net))
    assert "rotary_embedding" in names and "concat" in names
