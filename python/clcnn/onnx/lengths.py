"""Sizes that depend on data: how many there can be, known now, and a value that says how many there are.

A tensor with such a size has room for all there can be, and the first ones are real. Shapes computed of it
are arrays whose entries are whole numbers, Lengths, or Empty where one is compared with 0; NumPy moves them
about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from clcnn.errors import ModelError
from clcnn.graph import Graph, Value
from clcnn.onnx.call import Call, Operand, Refusal, wrap

Sizes = NDArray[np.object_]
T = TypeVar("T")
DEPENDS = "the size of its input depends on data"


@dataclass(frozen=True, slots=True, eq=False)
class Length:
    """A size that depends on data.

    most: the largest it can be. count: a value of one int64; the size is `times` as much. empty_with: ids of
    the counts of which one being 0 makes this 0.
    """

    most: int
    count: Value
    times: int = 1
    empty_with: frozenset[int] = frozenset()

    @property
    def key(self) -> tuple[int, int]:
        """Equal for lengths that are the same whatever the data are."""
        return self.count.id, self.times

    def scaled(self, up: int, down: int = 1) -> Length:
        """Of a dimension with up / down times as many elements. Raises Refusal where that is no whole
        number."""
        if self.times * up % down or self.most * up % down:
            raise Refusal(f"{DEPENDS}, and it splits {self.most} elements by {down}")
        return replace(self, most=self.most * up // down, times=self.times * up // down)


@dataclass(frozen=True, slots=True, eq=False)
class Empty:
    """Whether a length is 0, computed as a condition."""

    length: Length


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are equal whatever the data are."""
    return a.key == b.key if isinstance(a, Length) and isinstance(b, Length) else a is b or a == b


class Lengths:
    """What is made of lengths in one graph, each once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What make() gave when the key was first seen."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def constant(self, array: NDArray[Any]) -> Value:
        """A constant of the graph, once for equal arrays."""
        key = ("constant", array.dtype.name, array.shape, array.tobytes())
        return self.once(key, lambda: self.graph.constant(array, "sizes"))

    def value(self, size: Length | int) -> Value:
        """The size as one int64."""
        if not isinstance(size, Length):
            return self.constant(np.array([size], np.int64))
        if size.times == 1:
            return size.count
        factor = self.constant(np.array([size.times], np.int64))
        return self.once(
            ("value", size.key), lambda: self.graph.apply("mul", size.count, factor, name="sizes")
        )

    def vector(self, sizes: Sizes) -> Value:
        """Sizes as an int64 value of their shape."""
        flat = list(sizes.reshape(-1))
        if any(isinstance(s, Empty) for s in flat):
            _refuse()
        key = ("vector", sizes.shape, *(s.key if isinstance(s, Length) else s for s in flat))
        parts = [self.value(s) for s in flat]

        def joined() -> Value:
            whole = parts[0] if len(parts) == 1 else self.graph.apply("concat", *parts, dim=0, name="sizes")
            return self.graph.apply("reshape", whole, shape=list(sizes.shape), name="sizes")

        return self.once(key, joined)

    def spread(self, x: Operand) -> Operand | None:
        """What an Expand made an operand of."""
        found = None if x.value is None else self._made.get(("spread", x.value.id))
        assert found is None or isinstance(found, Operand)
        return found

    def real(self, length: Length) -> Value:
        """bool[most]: which elements are real."""
        places = self.constant(np.arange(length.most, dtype=np.int64))
        key = ("real", length.key, length.most)
        return self.once(key, lambda: self.graph.apply("less", places, self.value(length), name="real"))

    def least(self, a: Length, b: Length | int) -> Length:
        """The smaller one."""
        if same(a, b) or (isinstance(b, int) and b >= a.most):
            return a
        other = b.key if isinstance(b, Length) else b
        count = self.once(
            ("least", a.key, other),
            lambda: self.graph.apply("minimum", self.value(a), self.value(b), name="sizes"),
        )
        empty = a.empty_with | (b.empty_with if isinstance(b, Length) else frozenset())
        return Length(min(a.most, b.most if isinstance(b, Length) else b), count, 1, empty)

    def total(self, sizes: Sequence[Length | int]) -> Length:
        """The sum."""
        key = tuple(s.key if isinstance(s, Length) else s for s in sizes)

        def added() -> Value:
            whole = self.value(sizes[0])
            for s in sizes[1:]:
                whole = self.graph.apply("add", whole, self.value(s), name="sizes")
            return whole

        count = self.once(("total", key), added)
        parts = [s.empty_with if isinstance(s, Length) else frozenset[int]() for s in sizes]
        most = sum(s.most if isinstance(s, Length) else s for s in sizes)
        return Length(most, count, 1, frozenset({count.id}).union(frozenset.intersection(*parts)))


# ---- arithmetic on shapes ----------------------------------------------------------------------------------


def shape_of(x: Operand) -> Sizes:
    """An operand's shape with the length in it."""
    sizes = np.array([*x.shape], object)
    if x.length is not None:
        sizes[x.axis] = x.length
    return sizes


def bounds(sizes: Sizes) -> list[int]:
    """The largest that sizes can be."""
    return [int(s.most if isinstance(s, Length) else s) for s in sizes.reshape(-1)]


def operand(sizes: Any) -> Operand:
    """Sizes as an operand: a plain array where all are known."""
    array = np.asarray(sizes, object)
    if any(isinstance(s, (Length, Empty)) for s in array.reshape(-1)):
        return Operand(sizes=array)
    flags = array.size and all(isinstance(s, (bool, np.bool_)) for s in array.reshape(-1))
    return Operand(array.astype(np.bool_ if flags else np.int64))


def _each(function: Callable[[Lengths, Any, Any], Any]) -> Callable[[Call, list[Sizes]], Any]:
    def apply(call: Call, given: list[Sizes]) -> Any:
        return np.frompyfunc(lambda a, b: function(call.lengths, a, b), 2, 1)(*given)

    return apply


def _plain(a: Any) -> bool:
    return not isinstance(a, (Length, Empty))


def _add(lengths: Lengths, a: Any, b: Any) -> Any:
    if _plain(a) and _plain(b):
        return a + b
    known, other = (a, b) if _plain(a) else (b, a)
    if known == 0 or (_plain(known) and known < 0):
        return other if known == 0 else _refuse()
    return lengths.total([a, b])


def _mul(lengths: Lengths, a: Any, b: Any) -> Any:
    if _plain(a) and _plain(b):
        return a * b
    known, other = (a, b) if _plain(a) else (b, a)
    if not _plain(known) or not isinstance(other, Length) or known < 0:
        return _refuse()
    return other.scaled(int(known)) if known else 0


def _div(lengths: Lengths, a: Any, b: Any) -> Any:
    if _plain(a) and _plain(b) and b:
        return int(a / b)
    return a.scaled(1, int(b)) if isinstance(a, Length) and _plain(b) and b > 0 else _refuse()


def _min(lengths: Lengths, a: Any, b: Any) -> Any:
    if _plain(a) and _plain(b):
        return min(a, b)
    known, other = (a, b) if _plain(a) else (b, a)
    if not isinstance(other, Length) or isinstance(known, Empty):
        return _refuse()
    return known if _plain(known) and known <= 0 else lengths.least(other, known)


def _equal(lengths: Lengths, a: Any, b: Any) -> Any:
    if same(a, b):
        return True
    known, other = (a, b) if _plain(a) else (b, a)
    if _plain(other) or (isinstance(other, Length) and _plain(known) and not 0 <= known <= other.most):
        return False
    return Empty(other) if isinstance(other, Length) and _plain(known) and known == 0 else _refuse()


def _refuse() -> Any:
    raise Refusal(f"{DEPENDS}, and it computes with that size")


def _reduced(function: Callable[[Lengths, Any, Any], Any]) -> Callable[[Call, list[Sizes]], Any]:
    def apply(call: Call, given: list[Sizes]) -> Any:
        values = list(given[0].reshape(-1))
        whole = values[0]
        for v in values[1:]:
            whole = function(call.lengths, whole, v)
        keep = bool(call.attr("keepdims", 1))
        return np.array([whole], object) if keep else np.array(whole, object)

    return apply


def _sliced(call: Call, given: list[Sizes]) -> Any:
    if len(given) == 1:
        starts, ends, axes, steps = (call.attr(n) for n in ("starts", "ends", "axes", "steps"))
    else:
        lists = [[int(n) for n in g] for g in given[1:]]
        starts, ends, axes, steps = (*lists, *[list[int]()] * (4 - len(lists)))
    x = given[0]
    parts = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends)):
        parts[wrap(axes[i] if axes else i, x.ndim)] = slice(start, end, steps[i] if steps else None)
    return x[tuple(parts)]


def _axes(call: Call, given: list[Sizes]) -> list[int]:
    return [int(n) for n in (given[1].reshape(-1) if len(given) > 1 else call.attr("axes") or [])]


# Operators on sizes: of the call and its inputs.
_ON_SIZES: dict[str, Callable[[Call, list[Sizes]], Any]] = {
    "Identity": lambda call, given: given[0],
    "Gather": lambda call, given: np.take(given[0], given[1].astype(np.int64), int(call.attr("axis", 0))),
    "Unsqueeze": lambda call, given: np.expand_dims(given[0], tuple(_axes(call, given))),
    "Squeeze": lambda call, given: np.squeeze(given[0], tuple(_axes(call, given)) or None),
    "Reshape": lambda call, given: given[0].reshape([int(n) for n in given[1]]),
    "Concat": lambda call, given: np.concatenate(given, int(call.attr("axis", 0))),
    "Slice": _sliced,
    "Where": lambda call, given: np.where(given[0].astype(np.bool_), given[1], given[2]),
    "Add": _each(_add),
    "Mul": _each(_mul),
    "Div": _each(_div),
    "Min": _each(_min),
    "Equal": _each(_equal),
    "ReduceMin": _reduced(_min),
    "ReduceProd": _reduced(_mul),
    "Shape": lambda call, given: np.array(given[0].shape, object),
}
_INTEGERS = (1 << 6) | (1 << 7)  # of TensorProto's codes: int32 and int64
_BOOL = 9


def compute(call: Call) -> Operand | None:
    """The result of an operator on sizes; None where it is not one, or an input is other data."""
    if any(x is not None and x.value is not None for x in call.inputs):
        return None
    given = [
        x.sizes if x.sizes is not None else np.asarray(x.array, object) for x in call.inputs if x is not None
    ]
    if call.op == "Cast":
        flags = any(isinstance(s, (Empty, bool)) for s in given[0].reshape(-1))
        code = int(call.attr("to", 0))
        return call.input(0) if (code == _BOOL if flags else _INTEGERS >> code & 1) else None
    function = _ON_SIZES.get(call.op)
    if call.op in ("Slice", "Reshape") and call.input(0).sizes is None:  # data, by a size
        return None
    if function is None or any(x is not None and x.length is not None for x in call.inputs):
        return None
    try:
        return operand(function(call, given))
    except (ValueError, IndexError) as error:
        raise ModelError(str(error)) from error


def moved(shape: Sequence[int], axis: int, length: Length, to: Sequence[int]) -> tuple[int, Length]:
    """Where a dimension of a length is after a reshape, and its length there. Raises Refusal where it is no
    dimension any more."""
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    found = [
        (i, math.prod(to[i + 1 :]))
        for i in range(len(to))
        if math.prod(to[:i]) == before and to[i] * math.prod(to[i + 1 :]) == shape[axis] * behind
    ]
    for i, inner in sorted(found, key=lambda f: f[1] != behind):
        if length.times * behind % inner == 0:
            return i, length.scaled(behind, inner)
    raise Refusal(f"{DEPENDS}, and {list(shape)} becomes {list(to)}, where that size is lost")
