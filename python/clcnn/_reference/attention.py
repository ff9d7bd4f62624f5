"""Attention."""

from __future__ import annotations

import numpy as np

from clcnn._reference.spec import FP32, Spec, Use


def scaled_dot_product_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    attn_mask: np.ndarray | None = None,
    *,
    scale: float = 0.0,
    is_causal: int = 0,
) -> np.ndarray:
    """softmax(scale * q k^T + attn_mask) v over the last two dimensions; scale 0 is 1 / sqrt(D)."""
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1.0 / np.sqrt(q.shape[-1]))
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        seen = np.tril(np.ones(scores.shape[-2:], dtype=bool))
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


def rotary_embedding(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *, interleaved: int = 0) -> np.ndarray:
    """x * cos + turned(x) * sin: (a, b) becomes (-b, a) in turned(x), for each pair of columns."""
    if interleaved:
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        turned = np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape)
    else:
        first, second = np.split(x, 2, -1)
        turned = np.concatenate([-second, first], -1)
    return x * cos + turned * sin


SPECS: dict[str, Spec] = {
    "scaled_dot_product_attention": Spec(
        scaled_dot_product_attention,
        FP32,
        (
            Use(((2, 3, 37, 20), (2, 3, 37, 20), (2, 3, 37, 20)), fed=3),
            Use(((2, 3, 9, 32), (2, 3, 70, 32), (2, 3, 70, 16), (3, 9, 70)), {"scale": 0.3}, fed=3),
        ),
        whole=False,
    ),
    "rotary_embedding": Spec(
        rotary_embedding,
        FP32,
        (
            Use(((2, 3, 9, 32), (9, 32), (9, 32)), fed=3),
            Use(((2, 3, 7, 48), (3, 7, 48), (3, 7, 48)), {"interleaved": True}, fed=3),
            Use(((4, 6), (4, 6), (4, 6)), fed=3),
        ),
        whole=True,
    ),
}
