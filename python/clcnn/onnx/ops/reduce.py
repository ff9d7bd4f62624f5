"""Reductions along axes; the largest and where it is; cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clcnn.onnx.call import Call, Operand, Refusal, wrap, wrap_all
from clcnn.onnx.export_step import Emit, Step, plain
from clcnn.onnx.table import add_row, row

Reduce = Callable[[Call, Operand, dict[str, Any]], Operand]


def _plain(op: str) -> Reduce:
    return lambda call, x, how: call.emit(op, x, **how)


def _pooled(op: str) -> Reduce:
    """Over the pixels of a map dimensions stay as ones first: then it is a pooling, which keeps layouts."""

    def build(call: Call, x: Operand, how: dict[str, Any]) -> Operand:
        if how["keepdims"] or len(x.shape) < 3 or how["axes"] != list(range(2, len(x.shape))):
            return call.emit(op, x, **how)
        return call.reshape(call.emit(op, x, **{**how, "keepdims": True}), x.shape[:2])

    return build


def _square(call: Call, x: Operand) -> Operand:
    return call.emit("mul", x, x)


def _log_sum_exp(call: Call, x: Operand, how: dict[str, Any]) -> Operand:
    """The largest is taken out first, so that nothing overflows; an infinite one is left in."""
    top = call.emit("reduce_max", x, axes=how["axes"], keepdims=True)
    finite = call.emit("less", call.emit("abs", top), call.full(top, math.inf))
    top = call.emit("where", finite, top, call.full(top, 0.0))
    total = call.emit(
        "reduce_sum", call.emit("exp", call.emit("sub", x, top)), axes=how["axes"], keepdims=True
    )
    result = call.emit("add", call.emit("log", total), top)
    if how["keepdims"]:
        return result
    return call.reshape(result, [n for i, n in enumerate(result.shape) if i not in how["axes"]])


def _same(call: Call, x: Operand) -> Operand:
    return x


def _absolute(call: Call, x: Operand) -> Operand:
    return call.emit("abs", x)


def _log(call: Call, x: Operand) -> Operand:
    return call.emit("log", x)


# ONNX operator -> what it is over some axes, what is left of it over none (noop_with_empty_axes), and the
# opset in which axes became an input.
_REDUCE: dict[str, tuple[Reduce, Callable[[Call, Operand], Operand], int]] = {
    "ReduceSum": (_plain("reduce_sum"), _same, 13),
    "ReduceMean": (_pooled("reduce_mean"), _same, 18),
    "ReduceMax": (_pooled("reduce_max"), _same, 18),
    "ReduceMin": (_plain("reduce_min"), _same, 18),
    "ReduceProd": (_plain("reduce_prod"), _same, 18),
    "ReduceL1": (lambda call, x, how: call.emit("reduce_sum", _absolute(call, x), **how), _absolute, 18),
    "ReduceL2": (
        lambda call, x, how: call.emit("sqrt", call.emit("reduce_sum", _square(call, x), **how)),
        _absolute,
        18,
    ),
    "ReduceSumSquare": (lambda call, x, how: call.emit("reduce_sum", _square(call, x), **how), _square, 18),
    "ReduceLogSum": (lambda call, x, how: _log(call, call.emit("reduce_sum", x, **how)), _log, 18),
    "ReduceLogSumExp": (_log_sum_exp, _same, 18),
}


def _reduction(
    reduce: Reduce, each: Callable[[Call, Operand], Operand], axes_of: Callable[[Call], list[int] | None]
) -> Callable[[Call], Operand]:
    def build(call: Call) -> Operand:
        x, given = call.input(), axes_of(call)
        if not given and call.attr("noop_with_empty_axes", 0):
            return each(call, x)
        axes = wrap_all(given, x.rank) if given else list(range(x.rank))
        return reduce(call, x, {"axes": sorted(axes), "keepdims": bool(call.attr("keepdims", 1))})

    return build


for _name, (_reduce, _each, _since) in _REDUCE.items():
    add_row(_name, _reduction(_reduce, _each, lambda call: call.attr("axes")), 1, _since - 1)
    add_row(_name, _reduction(_reduce, _each, lambda call: call.ints(1)), _since, values=(1,))


def _arg(op: str) -> Callable[[Call], Operand]:
    def build(call: Call) -> Operand:
        x = call.input()
        return call.emit(
            op,
            x,
            dim=call.axis(x.rank, 0),
            keepdims=bool(call.attr("keepdims", 1)),
            select_last_index=bool(call.attr("select_last_index", 0)),
        )

    return build


add_row("ArgMax", _arg("argmax"))
add_row("ArgMin", _arg("argmin"))


@row("CumSum", 11, values=(1,))
def _cumsum(call: Call) -> Operand:
    x = call.input()
    return call.emit(
        "cumsum",
        x,
        dim=wrap(int(call.number(1)), x.rank),
        exclusive=bool(call.attr("exclusive", 0)),
        reverse=bool(call.attr("reverse", 0)),
    )


@row("TopK", 1, 9)
def _topk_1(call: Call) -> list[Operand]:
    return _topk_of(call, int(call.attr("k")))


@row("TopK", 10, values=(1,))
def _topk(call: Call) -> list[Operand]:
    return _topk_of(call, int(call.number(1)))


def _topk_of(call: Call, k: int) -> list[Operand]:
    x = call.input()
    axis = call.axis(x.rank, -1)
    if k > x.shape[axis] or k < 0:
        raise Refusal(f"k is {k}, but axis {axis} has {x.shape[axis]} elements")
    if k == 0:
        shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
        return [Operand(np.zeros(shape, x.dtype)), Operand(np.zeros(shape, np.int64))]
    return call.emit_many(
        "topk",
        x,
        k=k,
        dim=axis,
        largest=bool(call.attr("largest", 1)),
        sorted=bool(call.attr("sorted", 1)),
    )


# ---- written to ONNX ---------------------------------------------------------------------------------------


EXTREME = {"axis": "dim", "keepdims": "keepdims", "select_last_index": "select_last_index"}


def _write_reduce(op_type: str) -> Emit:
    def emit(step: Step) -> None:
        axes = [step.integers(step.axes())] if step.attrs["axes"] else []
        step.add(op_type, step.x, *axes, keepdims=int(step.attrs["keepdims"]))

    return emit


def _write_cumsum(step: Step) -> None:
    axis = step.writer.constant(np.array(step.attrs["dim"], np.int64), step.name)
    step.add(
        "CumSum", step.x, axis, exclusive=int(step.attrs["exclusive"]), reverse=int(step.attrs["reverse"])
    )


def _write_topk(step: Step) -> None:
    step.add(
        "TopK",
        step.x,
        step.integers([step.attrs["k"]]),
        axis=step.attrs["dim"],
        largest=int(step.attrs["largest"]),
        sorted=int(step.attrs["sorted"]),
    )


def _write_reduce_prod(step: Step) -> None:
    axes = [step.integers(step.axes())] if step.attrs["axes"] else []
    step.add("ReduceProd", step.x, *axes, keepdims=int(step.attrs["keepdims"]))


WRITE: dict[str, Emit] = {
    "reduce_sum": _write_reduce("ReduceSum"),
    "reduce_mean": _write_reduce("ReduceMean"),
    "reduce_max": _write_reduce("ReduceMax"),
    "reduce_min": _write_reduce("ReduceMin"),
    "argmax": plain("ArgMax", **EXTREME),
    "argmin": plain("ArgMin", **EXTREME),
    "cumsum": _write_cumsum,
    "topk": _write_topk,
    "reduce_prod": _write_reduce_prod,
}
