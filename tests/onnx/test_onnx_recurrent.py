"""Importing RNN, GRU and LSTM beyond what onnx's suite tries: weights that are constants, both directions,
sequences of several lengths, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

import clcnn  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

T, N, TERMS, H = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((T, N, TERMS)).astype(np.float32)


def constants(op: str, count: int) -> dict[str, np.ndarray]:
    rows = GATES[op] * H
    shapes = {"w": (count, rows, TERMS), "r": (count, rows, H), "b": (count, 2 * rows), "h": (count, N, H)}
    if op == "LSTM":
        shapes |= {"c": (count, N, H), "p": (count, 3 * H)}
    return {name: RNG.standard_normal(shape).astype(np.float32) / 2 for name, shape in shapes.items()}


def proto_of(op: str, initial: dict[str, Any], inputs: str = "xwrblhcp", **attrs: Any) -> Any:
    names = [name if name == "x" or name in initial else "" for name in inputs]
    names = names if op == "LSTM" else names[:6]
    outputs = ["y", "yh", "yc"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, name="memory", hidden_size=H, **attrs)
    return model([node], [("x", X.shape)], [(name, None) for name in outputs], initial, opset=14)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def one_sequence(op: str, x: np.ndarray, k: dict[str, np.ndarray], before: bool) -> Any:
    """The definition, in float64, for the steps [T, TERMS] of one sequence: all states, and the last ones."""
    w, r, h = k["w"], k["r"], k["h"]
    (wb, rb), c, rows = np.split(k["b"], 2), k.get("c"), []
    for step in x:
        if op == "GRU":
            z, s, new = np.split(w @ step + wb, 3)
            rz, rs, rn = np.split(r, 3)
            bz, bs, bn = np.split(rb, 3)
            z, s = sigmoid(z + rz @ h + bz), sigmoid(s + rs @ h + bs)
            new = np.tanh(new + (s * (rn @ h + bn) if before else rn @ (s * h) + bn))
            h = (1 - z) * new + z * h
        elif op == "RNN":
            h = np.tanh(w @ step + r @ h + wb + rb)
        else:
            i, o, f, g = np.split(w @ step + r @ h + wb + rb, 4)
            pi, po, pf = np.split(k["p"], 3)
            c = sigmoid(f + pf * c) * c + sigmoid(i + pi * c) * np.tanh(g)
            h = sigmoid(o + po * c) * np.tanh(c)
        rows.append(h)
    return rows, (h, c)


def expected(
    op: str, k: dict[str, np.ndarray], backwards: tuple[bool, ...], lengths: Any, before: bool
) -> Any:
    count = len(backwards)
    y, ends = np.zeros((T, count, N, H)), [np.zeros((count, N, H)) for _ in range(2 if op == "LSTM" else 1)]
    for d, back in enumerate(backwards):
        for n in range(N):
            own = {name: (a[d, n] if name in "hc" else a[d]).astype(np.float64) for name, a in k.items()}
            steps = range(lengths[n])[::-1] if back else range(lengths[n])
            rows, last = one_sequence(op, X[steps, n].astype(np.float64), own, before)
            y[list(steps), d, n] = rows
            for end, value in zip(ends, last):
                end[d, n] = value
    return [y, *ends]


WORDS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@pytest.mark.parametrize("lengths", [None, [5, 2, 3]], ids=["whole", "lengths"])
@pytest.mark.parametrize("direction", list(WORDS))
@pytest.mark.parametrize(("op", "before"), [("RNN", 0), ("GRU", 0), ("GRU", 1), ("LSTM", 0)])
def test_sequences(device, op, before, direction, lengths):
    k = constants(op, len(WORDS[direction]))
    initial = dict(k) | ({} if lengths is None else {"l": np.array(lengths, np.int32)})
    more = {"linear_before_reset": before} if op == "GRU" else {}
    got = run(proto_of(op, initial, direction=direction, **more), {"x": X}, device)
    for ours, want in zip(
        got, expected(op, k, WORDS[direction], lengths or [T] * N, bool(before)), strict=True
    ):
        np.testing.assert_allclose(ours, want, rtol=1e-5, atol=1e-5)


def test_inputs_of_all_steps_are_one_product():
    k = constants("RNN", 1)
    records = load(proto_of("RNN", k)).graph().records
    assert [r.op for r in records if r.kind == "node"].count("linear") == T + 1


@pytest.mark.parametrize(
    ("attrs", "word"),
    [
        ({"clip": 1.0}, "clip"),
        ({"input_forget": 1}, "input_forget"),
        ({"activations": ["Sigmoid", "Tanh", "Affine"]}, "'Affine'"),
        ({"activation_alpha": [0.1]}, "activation_alpha"),
    ],
)
def test_what_is_not_supported(attrs, word):
    proto = proto_of("LSTM", constants("LSTM", 1), **attrs)
    refused(lambda: load(proto).graph(), clcnn.UnsupportedError, NotImplementedError, "'memory' (LSTM", word)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"r": np.zeros((1, 24, 5), np.float32)}, ("R of shape (1, 24, 5)",)),
        ({"b": np.zeros((1, 24), np.float32)}, ("B has shape (1, 24)", "(1, 48)")),
        ({"h": np.zeros((1, 2, 6), np.float32)}, ("initial state", "(1, 2, 6)", "(1, 3, 6)")),
        ({"p": np.zeros((1, 6), np.float32)}, ("P has shape (1, 6)",)),
        ({"l": np.array([5, 6, 1], np.int32)}, ("sequence_lens [5, 6, 1]", "5 steps")),
        ({"direction": "sideways"}, ("direction", "'sideways'")),
        ({"hidden": 7}, ("hidden_size is 7",)),
        ({"activations": ["Tanh"]}, ("3 names", "1")),
    ],
    ids=lambda v: str(next(iter(v))) if isinstance(v, dict) else "",
)
def test_what_contradicts_itself(change, parts):
    arrays = {name: v for name, v in change.items() if isinstance(v, np.ndarray)}
    attrs = {name: v for name, v in change.items() if name in ("direction", "activations")}
    proto = proto_of("LSTM", constants("LSTM", 1) | arrays, **attrs)
    if "hidden" in change:
        next(a for a in proto.graph.node[0].attribute if a.name == "hidden_size").i = change["hidden"]
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'memory' (LSTM)", *parts)
