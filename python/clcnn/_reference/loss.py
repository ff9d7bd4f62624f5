"""Losses of classifiers, as PyTorch defines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clcnn._reference.reduce import log_softmax
from clcnn._reference.spec import FP32, Shape, Spec, Use


def _wanted(x: np.ndarray, labels: np.ndarray, label_smoothing: float) -> np.ndarray:
    """What softmax should be: 1 at the label, a share of it at all classes alike. NaN where there is no such
    class."""
    known = (labels >= 0) & (labels < x.shape[1])
    at_label = labels[:, None] == np.arange(x.shape[1])
    wanted = (1.0 - label_smoothing) * at_label + label_smoothing / x.shape[1]
    return np.where(known[:, None], wanted, np.nan)


def cross_entropy(
    x: np.ndarray, labels: np.ndarray, *, reduction: str = "mean", label_smoothing: float = 0.0
) -> np.ndarray:
    losses = -(_wanted(x, labels, label_smoothing) * log_softmax(x, dim=1)).sum(axis=1)
    return np.asarray(losses.mean() if reduction == "mean" else losses)


def cross_entropy_grad(
    x: np.ndarray,
    labels: np.ndarray,
    dy: np.ndarray,
    *,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> np.ndarray:
    slope = np.exp(log_softmax(x, dim=1)) - _wanted(x, labels, label_smoothing)
    return slope * (dy / len(x) if reduction == "mean" else dy.reshape(-1, 1))


def _labels(rng: np.random.Generator, shape: Shape, x: Shape, attrs: Mapping[str, Any]) -> np.ndarray:
    return rng.integers(0, x[1], shape)


_TYPES = ("float32", "int64", "float32")
_SMOOTH = {"reduction": "none", "label_smoothing": 0.1}

SPECS: dict[str, Spec] = {
    "cross_entropy": Spec(
        cross_entropy,
        FP32,
        (
            Use(((9, 7), (9,)), fed=2, dtypes=_TYPES[:2]),
            Use(((9, 7), (9,)), _SMOOTH, fed=2, dtypes=_TYPES[:2]),
        ),
        inputs={1: _labels},
    ),
    "cross_entropy_grad": Spec(
        cross_entropy_grad,
        FP32,
        (
            Use(((9, 7), (9,), ()), fed=3, dtypes=_TYPES),
            Use(((9, 7), (9,), (9,)), _SMOOTH, fed=3, dtypes=_TYPES),
        ),
        inputs={1: _labels},
    ),
}
