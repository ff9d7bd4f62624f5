"""The steps of building a graph, and the names and arrays of what they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments
from clcnn.errors import ArgumentError

if TYPE_CHECKING:
    from clcnn.graph import Graph


DONATED_BYTES = 1 << 16  # of the least array that _donate() gives away


class Record(NamedTuple):
    """One step of building a graph, enough to repeat it: Graph.from_records() does.

    Attributes
    ----------
    kind : str
        What the step makes: "input", "constant", "state", "node", "output", "assign", "commit_when" or
        "gradients".
    name : str
        Of what is made; of a state that is assigned to.
    values : tuple of int
        The ids that the step made; ids count up from 0 over all steps.
    op, attrs
        A node's operator and attributes.
    inputs : tuple of int
        Ids. Of a node, None where an input is absent; of an output or a condition the one value; of an
        assignment the state and the value; of gradients the loss, and with respect to what.
    shape, dtype
        Of an input, a state or a constant.
    array : array, optional
        A constant's.
    literal : bool
        A constant is part of an expression (x + 2.0), not a parameter.
    """

    kind: Literal["input", "constant", "state", "node", "output", "assign", "commit_when", "gradients"]
    name: str
    values: tuple[int, ...] = ()
    op: str = ""
    inputs: tuple[int | None, ...] = ()
    attrs: Mapping[str, Any] = {}
    shape: tuple[int, ...] = ()
    array: NDArray[Any] | None = None
    literal: bool = False  # a constant that is part of the expression (x + 2.0), not a parameter
    dtype: str = "float32"


def given_name(given: str | None, what: str) -> str:
    """A name that was given, "" for none."""
    return "" if given is None else _arguments.text(given, f"{what}: name")


def memory(array: NDArray[Any]) -> tuple[int, int]:
    """Where an array lies: its first byte and the one after its last."""
    start: int = array.__array_interface__["data"][0]
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides) if n]
    return start + sum(min(n, 0) for n in reach), start + sum(max(n, 0) for n in reach) + array.itemsize


def number(x: Any, dtype: str) -> NDArray[Any]:
    """An array without dimensions."""
    whole = float(x).is_integer()
    fits = {"bool": isinstance(x, (bool, np.bool_)), "int64": whole, "int32": whole}.get(dtype, False)
    return np.full((), x, dtype if fits else np.float32)


def unique_name(wanted: str, taken: Counter[str]) -> str:
    """`wanted`, or with its number counted up while the name is taken: relu -> relu_2, conv_1 -> conv_2."""
    if wanted not in taken:
        return wanted
    stem, _, number = wanted.rpartition("_")
    if not stem or not number.isdecimal():
        stem, number = wanted, "1"
    at = max(int(number), taken[f"{stem}_#"]) + 1  # "#" entries remember where counting had come to
    while f"{stem}_{at}" in taken:
        at += 1
    taken[f"{stem}_#"] = at
    return f"{stem}_{at}"


def donatable(records: Iterable[Record], kept: Iterable[NDArray[Any]]) -> list[int]:
    """The large constants whose arrays share memory with no other one and none of `kept`."""
    rows: list[tuple[tuple[int, int], int | None]] = [
        (memory(r.array), r.values[0]) for r in records if r.array is not None
    ]
    rows += [(memory(array), None) for array in kept]
    rows.sort(key=lambda row: row[0])
    end, found = 0, []
    for i, ((start, stop), value) in enumerate(rows):
        following = rows[i + 1][0][0] if i + 1 < len(rows) else stop
        if value is not None and stop - start >= DONATED_BYTES and end <= start and stop <= following:
            found.append(value)
        end = max(end, stop)
    return found


def repeat(graph: Graph, records: Iterable[Record]) -> None:
    """Does the steps of records again, in an empty graph."""
    for r in records:
        if r.kind == "input":
            graph.input(r.name, r.shape, r.dtype)
        elif r.kind == "state":
            graph.state(r.name, r.shape, r.dtype)
        elif r.kind == "assign":
            to, value = r.inputs
            graph.assign(graph._known(to, r.name), graph._known(value, r.name))
        elif r.kind == "commit_when":
            graph.commit_when(graph._known(r.inputs[0], r.name))
        elif r.kind == "constant":
            if r.array is None:
                raise ArgumentError(f"constant {r.name!r} has no array")
            graph.constant(r.array, r.name)
            graph._records[-1] = graph._records[-1]._replace(literal=r.literal)
        elif r.kind == "node":
            inputs = [None if i is None else graph._known(i, r.name) for i in r.inputs]
            graph.node(r.op, inputs, r.attrs, r.name)
        elif r.kind == "gradients":
            loss, *wrt = (graph._known(i, r.name) for i in r.inputs)
            graph.gradients(loss, wrt)
        else:
            graph.output(graph._known(r.inputs[0], r.name), r.name)
