"""Matrix products."""

from __future__ import annotations

import numpy as np


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """x[..., in] times w[out, in] transposed, plus b[out]."""
    out = x @ w.T
    return out if b is None else out + b


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NumPy's matmul: 1-D operands are a row or a column, leading dimensions broadcast."""
    return np.matmul(a, b)


def gemm(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None = None,
    *,
    alpha: float,
    beta: float,
    trans_a: int,
    trans_b: int,
) -> np.ndarray:
    """alpha * op(a) op(b) + beta * c with c broadcast to [M,N]."""
    product = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b))
    return product if c is None else product + beta * np.broadcast_to(c, product.shape)
