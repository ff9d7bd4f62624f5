"""RNN, GRU and LSTM: the steps of a sequence written out.

What inputs add to the gates is one product for all steps. A step is then a product of the state with the
recurrent weights, and functions of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.export_step import Emit
from clcnn.onnx.export_step import Step as Written
from clcnn.onnx.table import row

MAX_STEPS = 4096  # of a sequence: each becomes several layers
_FUNCTIONS = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tanh": "tanh",
}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
State = tuple[Operand, ...]  # h, and c of an LSTM, [N, H]


class Weights(NamedTuple):
    """Of one direction: recurrent weights [gates * H, H], their bias if it is not part of the inputs',
    peepholes [3 * H] if there are, and the names of functions."""

    recurrent: Operand
    bias: Operand | None
    peepholes: Operand | None
    functions: list[str]


Step = Callable[[Call, Operand, State, Weights], State]


@row("RNN", values=(4,))
def _rnn(call: Call) -> list[Operand]:
    return _sequence(call, 1, ["Tanh"], _rnn_step)


@row("GRU", values=(4,))
def _gru(call: Call) -> list[Operand]:
    return _sequence(call, 3, ["Sigmoid", "Tanh"], _gru_step)


@row("LSTM", values=(4,))
def _lstm(call: Call) -> list[Operand]:
    if call.attr("input_forget", 0):
        raise Refusal("attribute input_forget")
    return _sequence(call, 4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step)


# ---- one step ----------------------------------------------------------------------------------------------


def _rnn_step(call: Call, x: Operand, state: State, w: Weights) -> State:
    gate = call.emit("add", call.emit("linear", state[0], w.recurrent), x)
    return (call.emit(w.functions[0], gate),)


def _gru_step(call: Call, x: Operand, state: State, w: Weights) -> State:
    """z (how much stays), r (how much the new state sees of the old one), and the new state."""
    (h,) = state
    size = h.shape[1]
    split, end = 2 * size, 3 * size
    if w.bias is not None:  # linear_before_reset
        all_gates = call.emit("linear", h, w.recurrent, w.bias)
        gates, seen = _part(call, all_gates, 1, 0, split), _part(call, all_gates, 1, split, end)
    else:
        gates, seen = call.emit("linear", h, _part(call, w.recurrent, 0, 0, split)), None
    both = call.emit(w.functions[0], call.emit("add", gates, _part(call, x, 1, 0, split)))
    z, r = _part(call, both, 1, 0, size), _part(call, both, 1, size, split)
    if seen is None:
        seen = call.emit("linear", call.emit("mul", r, h), _part(call, w.recurrent, 0, split, end))
    else:
        seen = call.emit("mul", r, seen)
    new = call.emit(w.functions[1], call.emit("add", seen, _part(call, x, 1, split, end)))
    return (call.emit("add", new, call.emit("mul", z, call.emit("sub", h, new))),)


def _lstm_step(call: Call, x: Operand, state: State, w: Weights) -> State:
    """Gates i, o, f and the new cell, side by side. Peepholes add what the cell says to the first three."""
    h, c = state
    size = h.shape[1]
    f, g, out = w.functions
    gates = call.emit("add", call.emit("linear", h, w.recurrent), x)
    cell = call.emit(g, _part(call, gates, 1, 3 * size, 4 * size))
    if w.peepholes is None:
        three = call.emit(f, _part(call, gates, 1, 0, 3 * size))
        i, o, forget = (_part(call, three, 1, k * size, (k + 1) * size) for k in range(3))
    else:
        parts = [_part(call, gates, 1, k * size, (k + 1) * size) for k in range(3)]
        i, forget = (call.emit(f, _peep(call, parts[k], c, w.peepholes, k)) for k in (0, 2))
    c = call.emit("add", call.emit("mul", forget, c), call.emit("mul", i, cell))
    if w.peepholes is not None:
        o = call.emit(f, _peep(call, parts[1], c, w.peepholes, 1))
    return call.emit("mul", o, call.emit(out, c)), c


def _peep(call: Call, gate: Operand, c: Operand, peepholes: Operand, k: int) -> Operand:
    size = c.shape[1]
    weight = _part(call, peepholes, 0, k * size, (k + 1) * size)
    return call.emit("add", gate, call.emit("mul", c, weight))


# ---- the sequence ------------------------------------------------------------------------------------------


def _part(call: Call, x: Operand, axis: int, start: int, end: int) -> Operand:
    """x from start to end along an axis."""
    if (start, end) == (0, x.shape[axis]):
        return x
    if x.array is not None:
        return Operand(x.array[(slice(None),) * axis + (slice(start, end),)])
    return call.emit("slice", x, starts=[start], ends=[end], axes=[axis], steps=[1])


def _of_direction(call: Call, x: Operand | None, d: int) -> Operand | None:
    """x[d]."""
    return None if x is None else call.reshape(_part(call, x, 0, d, d + 1), x.shape[1:])


def _sequence(call: Call, gates: int, functions: list[str], step: Step) -> list[Operand]:
    """All steps in each direction: Y, then the last states. The layout of Y is [T, directions, N, H]."""
    by_batch = bool(call.attr("layout", 0))
    x, w, r, b = call.input(0), call.input(1), call.input(2), call.optional(3)
    x = call.transpose(x, (1, 0, 2)) if by_batch and x.rank == 3 else x
    word = str(call.attr("direction", "forward"))
    directions = _DIRECTIONS.get(word)
    if directions is None:
        raise ModelError(f"attribute direction: {word!r}")
    count, size = len(directions), r.shape[-1]
    _check(call, x, w, r, b, (count, gates * size, size))
    steps, n, _ = x.shape
    names = _functions(call, functions, count)
    shown = _lengths(call, steps, n)
    zeros = Operand(np.zeros((n, size), np.float32))
    states = [call.optional(5), call.optional(6)][: len(functions) - 1 if gates == 4 else 1]
    if by_batch:
        states = [s if s is None else call.transpose(s, (1, 0, 2)) for s in states]
    for s in states:
        if s is not None and s.shape != (count, n, size):
            raise ModelError(f"an initial state has shape {s.shape}, where {(count, n, size)} belongs")
    rows: list[list[Operand]] = []
    ends: list[State] = []
    for d, backwards in enumerate(directions):
        state: State = tuple(_of_direction(call, s, d) or zeros for s in states)
        weights, given = _weights(call, x, d, gates, names[d])
        made: dict[int, Operand] = {}
        for t in reversed(range(steps)) if backwards else range(steps):
            new = step(call, _part(call, given, 0, t * n, (t + 1) * n), state, weights)
            made[t] = new[0]
            if shown is not None and not shown[t].all():
                there = call.constant(shown[t][:, None])
                made[t] = call.emit("where", there, new[0], call.constant(np.zeros((1, 1), np.float32)))
                new = tuple(call.emit("where", there, a, old) for a, old in zip(new, state, strict=True))
            state = new
        rows.append([made[t] for t in range(steps)])
        ends.append(state)
    return _results(call, rows, ends, by_batch)


def _results(call: Call, rows: list[list[Operand]], ends: list[State], by_batch: bool) -> list[Operand]:
    """Y and the last states as the node gives them."""
    n, size = rows[0][0].shape
    steps, count = len(rows[0]), len(rows)
    each = [one[0] if steps == 1 else call.emit("concat", *one, dim=0) for one in rows]
    if count == 1:
        results = [call.reshape(each[0], (steps, 1, n, size))]
    else:  # exporters turn Y back at once: states of both directions side by side
        y = call.reshape(call.emit("concat", *each, dim=1), (steps, n, count, size))
        results = [call.transpose(y, (0, 2, 1, 3))]
    for one in zip(*ends, strict=True):
        last = one[0] if count == 1 else call.emit("concat", *one, dim=0)
        results.append(call.reshape(last, (count, n, size)))
    if by_batch:
        return [
            call.transpose(results[0], (2, 0, 1, 3)),
            *(call.transpose(s, (1, 0, 2)) for s in results[1:]),
        ]
    return results


def _weights(call: Call, x: Operand, d: int, gates: int, functions: list[str]) -> tuple[Weights, Operand]:
    """What the steps of a direction need, and what all inputs add to the gates, [T * N, gates * H]."""
    w, r, b, p = (_of_direction(call, call.optional(i), d) for i in (1, 2, 3, 7))
    assert w is not None and r is not None
    rows, size = r.shape
    apart = None
    if b is not None:
        first, second = _part(call, b, 0, 0, rows), _part(call, b, 0, rows, 2 * rows)
        if gates == 3 and call.attr("linear_before_reset", 0):
            b, apart = first, second
        else:
            b = _sum(call, first, second)
    elif gates == 3 and call.attr("linear_before_reset", 0):
        apart = Operand(np.zeros(rows, np.float32))
    given = call.emit("linear", call.reshape(x, (x.shape[0] * x.shape[1], x.shape[2])), w, b)
    return Weights(r, apart, p if gates == 4 else None, functions), given


def _sum(call: Call, a: Operand, b: Operand) -> Operand:
    if a.array is not None and b.array is not None:
        return Operand(a.array + b.array)
    return call.emit("add", a, b)


def _check(
    call: Call, x: Operand, w: Operand, r: Operand, b: Operand | None, shape: tuple[int, int, int]
) -> None:
    """Raises ModelError where shapes do not fit each other, and Refusal for what is not supported."""
    count, rows, size = shape
    if x.rank != 3 or w.shape != (count, rows, x.shape[-1]) or r.shape != shape:
        raise ModelError(
            f"W of shape {w.shape} and R of shape {r.shape} do not fit an input of shape {x.shape} and "
            f"{count} direction(s)"
        )
    if b is not None and b.shape != (count, 2 * rows):
        raise ModelError(f"B has shape {b.shape}, where {(count, 2 * rows)} belongs")
    if int(call.attr("hidden_size", size)) != size:
        raise ModelError(f"attribute hidden_size is {call.attr('hidden_size')}, but R has {size}")
    p = call.optional(7)
    if p is not None and p.shape != (count, 3 * size):
        raise ModelError(f"P has shape {p.shape}, where {(count, 3 * size)} belongs")
    if x.shape[0] > MAX_STEPS:
        raise Refusal(f"its sequence has {x.shape[0]} steps, more than {MAX_STEPS}")
    for name in ("clip", "activation_alpha", "activation_beta"):
        if call.attr(name) is not None:
            raise Refusal(f"attribute {name}")


def _functions(call: Call, default: list[str], count: int) -> list[list[str]]:
    """The core's names of each direction's functions."""
    given = [
        name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        for name in call.attr("activations") or default * count
    ]
    if len(given) != len(default) * count:
        raise ModelError(
            f"attribute activations must have {len(default) * count} names, but has {len(given)}"
        )
    for name in given:
        if name not in _FUNCTIONS:
            raise Refusal(f"attribute activations: {name!r}; offered are {', '.join(_FUNCTIONS)}")
    each = [_FUNCTIONS[name] for name in given]
    return [each[d * len(default) : (d + 1) * len(default)] for d in range(count)]


def _lengths(call: Call, steps: int, n: int) -> np.ndarray | None:
    """Which items of the batch still run at each step, [T, N]; None where all run to the end."""
    lengths = call.ints(4)
    if lengths is None:
        return None
    if len(lengths) != n or not all(0 <= length <= steps for length in lengths):
        raise ModelError(f"sequence_lens {lengths} do not fit {n} sequences of {steps} steps")
    return np.arange(steps)[:, None] < np.array(lengths)


# ---- written -----------------------------------------------------------------------------------------------


def _columns(step: Written, x: str, first: int, past: int) -> str:
    return step.middle("Slice", x, *(step.integers([n]) for n in (first, past, 1)))


def _product(step: Written, weights: int, *more: str) -> str:
    turned = step.middle("Transpose", step.inputs[weights], perm=[1, 0])
    product = step.middle("MatMul", step.inputs[1], turned)
    for one in more:
        product = step.middle("Add", product, one)
    return product


def _write_lstm_cell(step: Written) -> None:
    size = step.shapes[1][1]
    gates = _product(step, 3, step.x)
    i, o, f, new = (_columns(step, gates, k * size, (k + 1) * size) for k in range(4))
    i, o, f = (step.middle("Sigmoid", gate) for gate in (i, o, f))
    kept, more = step.middle("Mul", f, step.inputs[2]), step.middle("Mul", i, step.middle("Tanh", new))
    step.add("Add", kept, more, outputs=step.outputs[1:])
    step.add("Mul", o, step.middle("Tanh", step.outputs[1]), outputs=step.outputs[:1])


def _write_gru_cell(step: Written) -> None:
    size, h = step.shapes[1][1], step.inputs[1]
    gates = _product(step, 2, step.inputs[3])
    az, ar, an = (_columns(step, gates, k * size, (k + 1) * size) for k in range(3))
    xz, xr, xn = (_columns(step, step.x, k * size, (k + 1) * size) for k in range(3))
    z, r = (step.middle("Sigmoid", step.middle("Add", a, b)) for a, b in ((az, xz), (ar, xr)))
    new = step.middle("Tanh", step.middle("Add", xn, step.middle("Mul", r, an)))
    step.add("Add", new, step.middle("Mul", z, step.middle("Sub", h, new)))


def _write_sequence(step: Written, op: str, states: int, weights: int, bias: int | None) -> None:
    """ONNX's operator, with the identity in place of the inputs' weights."""
    columns, size = step.shapes[weights]
    steps = step.shape[0] // step.shapes[1][0]

    def shaped(value: str, *shape: int) -> str:
        return step.middle("Reshape", value, step.integers(shape))

    eye = step.writer.constant(np.eye(columns, dtype=np.float32)[None], step.name)
    given = [shaped(step.x, steps, -1, columns), eye, shaped(step.inputs[weights], 1, columns, size)]
    if bias is not None:
        both = step.middle("Concat", step.full((columns,), 0.0), step.inputs[bias], axis=0)
        given.append(shaped(both, 1, 2 * columns))
    given += [""] * (5 - len(given)) + [shaped(step.inputs[1 + k], 1, -1, size) for k in range(states)]
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    direction = "reverse" if step.attrs["reverse"] else "forward"
    made = [step.writer.fresh(name) for name in step.outputs]
    outputs = [made[0], *([""] if len(made) > 1 else []), *made[1:]]
    step.add(op, *given, outputs=outputs, hidden_size=size, direction=direction, **more)
    for inner, name in zip(made, step.outputs, strict=True):
        step.add("Reshape", inner, step.integers([-1, size]), outputs=[name])


def _write_lstm(step: Written) -> None:
    _write_sequence(step, "LSTM", 2, 3, None)


def _write_gru(step: Written) -> None:
    _write_sequence(step, "GRU", 1, 2, 3)


WRITE: dict[str, Emit] = {
    "lstm_cell": _write_lstm_cell,
    "gru_cell": _write_gru_cell,
    "lstm": _write_lstm,
    "gru": _write_gru,
}
