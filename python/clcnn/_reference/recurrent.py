"""A step of a recurrent layer, and all of its steps."""

from __future__ import annotations

import numpy as np

from clcnn._reference.spec import Bound, Spec, Use


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def lstm_cell(x: np.ndarray, h: np.ndarray, c: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    """The next h and c. Gates i, o, f and the new cell lie side by side."""
    i, o, f, new = np.split(x + h @ r.T, 4, axis=1)
    cell = _sigmoid(f) * c + _sigmoid(i) * np.tanh(new)
    return [_sigmoid(o) * np.tanh(cell), cell]


def gru_cell(x: np.ndarray, h: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The next h. Gates z, r and the new state lie side by side; r applies to the product with its bias."""
    xz, xr, xn = np.split(x, 3, axis=1)
    az, ar, an = np.split(h @ r.T + b, 3, axis=1)
    z, new = _sigmoid(xz + az), np.tanh(xn + _sigmoid(xr + ar) * an)
    return new + z * (h - new)


def _rows(x: np.ndarray, h: np.ndarray, reverse: int) -> list[slice]:
    """Those of each step, in the order of the steps."""
    n = len(h)
    steps = [slice(at, at + n) for at in range(0, len(x), n)]
    return steps[::-1] if reverse else steps


def lstm(x: np.ndarray, h: np.ndarray, c: np.ndarray, r: np.ndarray, *, reverse: int = 0) -> list[np.ndarray]:
    """h of every step, and the last c."""
    y = np.zeros((len(x), h.shape[1]))
    for rows in _rows(x, h, reverse):
        h, c = lstm_cell(x[rows], h, c, r)
        y[rows] = h
    return [y, c]


def gru(x: np.ndarray, h: np.ndarray, r: np.ndarray, b: np.ndarray, *, reverse: int = 0) -> np.ndarray:
    """h of every step."""
    y = np.zeros((len(x), h.shape[1]))
    for rows in _rows(x, h, reverse):
        y[rows] = h = gru_cell(x[rows], h, r, b)
    return y


# What products of some hundred units are off by, of which functions of slope 1 at most leave as much.
BOUND = Bound(32, 4e-6)
# The same of some steps, each of which hands on what it is off by.
BOUND_OF_STEPS = Bound(32, 1e-5)
SPECS: dict[str, Spec] = {
    "lstm_cell": Spec(
        lstm_cell,
        BOUND,
        (
            Use(((1, 64), (1, 16), (1, 16), (64, 16)), fed=3),
            Use(((3, 44), (3, 11), (3, 11), (44, 11)), fed=3),
        ),
        roles=("x", "x", "x", "weight"),
    ),
    "gru_cell": Spec(
        gru_cell,
        BOUND,
        (
            Use(((1, 48), (1, 16), (48, 16), (48,)), fed=2),
            Use(((3, 33), (3, 11), (33, 11), (33,)), fed=2),
        ),
        roles=("x", "x", "weight", "bias"),
    ),
    "lstm": Spec(
        lstm,
        BOUND_OF_STEPS,
        (
            Use(((3, 64), (1, 16), (1, 16), (64, 16)), fed=3),
            Use(((6, 44), (3, 11), (3, 11), (44, 11)), {"reverse": 1}, fed=3),
        ),
        roles=("x", "x", "x", "weight"),
    ),
    "gru": Spec(
        gru,
        BOUND_OF_STEPS,
        (
            Use(((3, 48), (1, 16), (48, 16), (48,)), fed=2),
            Use(((6, 33), (3, 11), (33, 11), (33,)), {"reverse": 1}, fed=2),
        ),
        roles=("x", "x", "weight", "bias"),
    ),
}
