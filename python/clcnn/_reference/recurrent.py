"""A step of a recurrent layer."""

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


# What products of some hundred units are off by, of which functions of slope 1 at most leave as much.
BOUND = Bound(32, 4e-6)
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
}
