"""What optimisers do to their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clcnn._reference.spec import Array, Bound, Shape, Spec, Use


def sgd_update(
    p: Array,
    g: Array,
    m: Array,
    hyper: Array,
    *,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: int = 0,
) -> list[Array]:
    momentum = _fed(hyper, momentum)
    d = g + weight_decay * p
    m = momentum * m + d
    return [p - hyper[0] * (d + momentum * m if nesterov else m), m]


def adamw_update(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    hyper: Array,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
    decoupled: int = 1,
) -> list[Array]:
    lr, step = hyper[:2]
    beta1 = _fed(hyper, beta1)
    if decoupled:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * g * g
    mean, square = m / (1.0 - beta1**step), v / (1.0 - beta2**step)
    return [p - lr * mean / (np.sqrt(square) + epsilon), m, v]


def _fed(hyper: Array, attribute: float) -> float:
    """A momentum: the third number, or else the attribute."""
    return float(hyper[2]) if len(hyper) > 2 else attribute


def _hyper(rng: np.random.Generator, shape: Shape, first: Shape, attrs: Mapping[str, Any]) -> Array:
    """(lr, step) or (lr, step, momentum)"""
    numbers = (rng.uniform(0.01, 0.1), rng.integers(1, 1000), rng.uniform(0.5, 0.9))
    return np.array(numbers, np.float32)[: shape[0]]


def _squares(rng: np.random.Generator, shape: Shape, first: Shape, attrs: Mapping[str, Any]) -> Array:
    return rng.uniform(0.1, 1.0, shape).astype(np.float32)


FLAT = (37,)
SPECS: dict[str, Spec] = {
    "sgd_update": Spec(
        sgd_update,
        Bound(4.0, 1e-6),
        (
            Use((FLAT, FLAT, FLAT, (2,)), {"momentum": 0.9, "weight_decay": 0.1}, fed=4),
            Use((FLAT, FLAT, FLAT, (3,)), {"nesterov": True, "momentum": 0.5}, fed=4),
        ),
        inputs={3: _hyper},
    ),
    "adamw_update": Spec(
        adamw_update,
        Bound(8.0, 1e-6),
        (Use((FLAT, FLAT, FLAT, FLAT, (2,)), {"weight_decay": 0.1}, fed=5),),
        inputs={3: _squares, 4: _hyper},
    ),
}
