"""Matrix products."""

from __future__ import annotations

import numpy as np

from clcnn._reference.spec import FP32, Spec, Use


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
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: int = 0,
    trans_b: int = 0,
) -> np.ndarray:
    """alpha * op(a) op(b) + beta * c with c broadcast to [M,N]."""
    product = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b))
    return product if c is None else product + beta * np.broadcast_to(c, product.shape)


SPECS: dict[str, Spec] = {
    "linear": Spec(
        linear,
        FP32,
        (Use(((1, 70), (33, 70), (33,))), Use(((9, 70), (33, 70), (33,)))),
        whole=True,
        roles=("x", "weight", "bias"),
    ),
    "matmul": Spec(
        matmul,
        FP32,
        (Use(((3, 17, 20), (20, 9)), fed=2), Use(((64, 64), (64, 64)), fed=2)),
        whole=True,
        roles=("x", "weight"),
    ),
    "gemm": Spec(
        gemm,
        FP32,
        (
            Use(((20, 17), (9, 20), (9,)), {"trans_a": True, "trans_b": True}, fed=3),
            Use(((64, 32), (32, 64), None), fed=2),
        ),
        whole=True,
        roles=("x", "weight", "bias"),
    ),
}
