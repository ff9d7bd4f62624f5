"""The table of operators: one row an operator and range of opsets, with the function that builds its part of
the graph. The files of ops/ fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clcnn.onnx.call import Call, Operand, Refusal

NEWEST = 1 << 30
Builder = Callable[[Call], Operand | Sequence[Operand | None]]


class Row(NamedTuple):
    """first, last: versions of the operator set that it holds for. values: indices of inputs whose values
    must be known when the graph is built. steps: whether it takes operands with steps (quantised.py) as they
    are."""

    op: str
    first: int
    last: int
    build: Builder
    values: tuple[int, ...] = ()
    steps: bool = False


ROWS: dict[str, list[Row]] = {}


def row(
    op: str, first: int = 1, last: int = NEWEST, values: tuple[int, ...] = (), steps: bool = False
) -> Callable[[Builder], Builder]:
    """Adds the decorated builder to the table. Operators of a domain are called "domain:op"."""

    def add(build: Builder) -> Builder:
        add_row(op, build, first, last, values, steps)
        return build

    return add


def add_row(
    op: str,
    build: Builder,
    first: int = 1,
    last: int = NEWEST,
    values: tuple[int, ...] = (),
    steps: bool = False,
) -> None:
    """Adds a row; ranges of one operator must not overlap."""
    rows = ROWS.setdefault(op, [])
    if any(first <= r.last and r.first <= last for r in rows):
        raise ValueError(f"two rows for {op} overlap")
    rows.append(Row(op, first, last, build, values, steps))


def host_only(call: Call) -> Operand:
    """Builds an operator the shape of whose result depends on its inputs' values: it is folded, or not
    supported."""
    for i in range(len(call.inputs)):
        call.known(i)
    raise Refusal("it could not be evaluated from its constant inputs")


def find(domain: str, op: str, version: int) -> Row | None:
    """The row for an operator of ONNX's own domain, "", or of another."""
    rows = ROWS.get(f"{domain}:{op}" if domain else op, ())
    return next((r for r in rows if r.first <= version <= r.last), None)
