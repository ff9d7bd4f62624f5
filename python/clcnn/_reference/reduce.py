"""Softmax, reductions and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clcnn._reference.spec import EXACT, FP32, MAP, ONE, Bound, Spec, Use


def softmax(x: np.ndarray, *, dim: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def log_softmax(x: np.ndarray, *, dim: int = -1) -> np.ndarray:
    shifted = x - x.max(axis=dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))


def _reduction(combine: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Reduction over `axes` (none given: all of them)."""

    def reduction(x: np.ndarray, *, axes: Sequence[int] = (), keepdims: int = 1) -> np.ndarray:
        y = combine(x, axis=tuple(axes) or None, keepdims=bool(keepdims))
        return np.asarray(y, dtype=x.dtype)

    return reduction


def batch_norm_train(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    *,
    eps: float = 1e-5,
    low: float = -np.inf,
    high: float = np.inf,
) -> list[np.ndarray]:
    """Each channel by its own mean and biased variance over all items, which are results too."""
    axes = tuple(i for i in range(x.ndim) if i != 1)
    mean, var = x.mean(axis=axes), x.var(axis=axes)
    return [np.clip(batch_norm(x, weight, bias, mean, var, eps=eps), low, high), mean, var]


def batch_norm_train_grad(
    dy: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    bias: np.ndarray,
    *,
    eps: float = 1e-5,
    low: float = -np.inf,
    high: float = np.inf,
) -> list[np.ndarray]:
    """The gradients of batch_norm_train's x, weight and bias."""
    shape, axes = (-1, *[1] * (x.ndim - 2)), tuple(i for i in range(x.ndim) if i != 1)
    root = np.sqrt(var + eps).reshape(shape)
    normed = (x - mean.reshape(shape)) / root
    y = normed * weight.reshape(shape) + bias.reshape(shape)
    dy = np.where((y > low) & (y < high), dy, 0.0)
    dweight, dbias = (dy * normed).sum(axis=axes), dy.sum(axis=axes)
    count = x.size // x.shape[1]
    inner = dy - dbias.reshape(shape) / count - normed * dweight.reshape(shape) / count
    return [weight.reshape(shape) / root * inner, dweight, dbias]


def batch_norm(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    running_mean: np.ndarray,
    running_var: np.ndarray,
    *,
    eps: float = 1e-5,
) -> np.ndarray:
    """Inference form: running statistics normalise each channel (dimension 1)."""
    shape = (-1, *[1] * (x.ndim - 2))
    scale = weight / np.sqrt(running_var + eps)
    return (x - running_mean.reshape(shape)) * scale.reshape(shape) + bias.reshape(shape)


def local_response_norm(
    x: np.ndarray, *, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> np.ndarray:
    """torch's definition: the mean square over channels c - size//2 ... c + (size-1)//2, absent ones as
    zero."""
    pads = [(0, 0)] * x.ndim
    pads[1] = (size // 2, (size - 1) // 2)
    squares = np.pad(x * x, pads)
    mean = sum(squares[:, i : i + x.shape[1]] for i in range(size)) / size
    return x / (k + alpha * mean) ** beta


def _rows_norm(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    mean = x.mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)


def group_norm(
    x: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    groups: int,
    eps: float = 1e-5,
) -> np.ndarray:
    """Each of `groups` runs of channels by its own mean and variance."""
    parts = x.reshape(x.shape[0], groups, -1)
    y = _rows_norm(parts, (2,), eps).reshape(x.shape)
    shape = (-1, *[1] * (x.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def instance_norm(x: np.ndarray, *parameters: np.ndarray | None, eps: float = 1e-5) -> np.ndarray:
    """group_norm with a group for each channel."""
    return group_norm(x, *parameters, groups=x.shape[1], eps=eps)


def _together(x: np.ndarray, dim: int, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The `dims` dimensions from `dim` on (0: all of them), and a parameter's shape beside them."""
    first = dim % x.ndim
    axes = tuple(range(first, first + dims if dims else x.ndim))
    return axes, (*(x.shape[i] for i in axes), *[1] * (x.ndim - axes[-1] - 1))


def layer_norm(
    x: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    dim: int = -1,
    dims: int = 0,
    eps: float = 1e-5,
) -> np.ndarray:
    """By mean and variance over `dims` dimensions from `dim` on."""
    axes, shape = _together(x, dim, dims)
    y = _rows_norm(x, axes, eps)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def rms_norm(
    x: np.ndarray, weight: np.ndarray | None = None, *, dim: int = -1, dims: int = 0, eps: float = 1e-5
) -> np.ndarray:
    """By the root of the mean square over `dims` dimensions from `dim` on."""
    axes, shape = _together(x, dim, dims)
    y = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + eps)
    return y if weight is None else y * weight.reshape(shape)


def l2_norm(x: np.ndarray, *, dim: int = -1, eps: float = 1e-12) -> np.ndarray:
    """torch.nn.functional.normalize."""
    return x / np.maximum(np.sqrt((x * x).sum(axis=dim, keepdims=True)), eps)


_USES = (Use(((2, 8, 4, 16),), {"axes": (2, 3)}), Use(((3, 300),), {"axes": (0,), "keepdims": False}))
_SOME_INTEGERS = Use(((4, 6),), {"axes": 0}, dtypes=("int64",))
_SCALED = ("x", "positive", "bias")

SPECS: dict[str, Spec] = {
    "reduce_sum": Spec(_reduction(np.sum), FP32, _USES, whole=True, domain=lambda x, first: x + 0.5),
    "reduce_mean": Spec(_reduction(np.mean), FP32, _USES, domain=lambda x, first: x + 0.5),
    "reduce_prod": Spec(
        _reduction(np.prod),
        Bound(40.0),
        (Use(((4, 6),), {"axes": 1}),),
        domain=lambda x, first: 1.0 + 0.3 * np.tanh(x),
    ),
    "reduce_max": Spec(_reduction(np.max), EXACT, (*_USES, _SOME_INTEGERS)),
    "reduce_min": Spec(_reduction(np.min), EXACT, _USES),
    "softmax": Spec(softmax, Bound(24.0), (Use(((7, 130),)),)),
    "log_softmax": Spec(log_softmax, Bound(8.0, 1e-6), (Use((MAP,), {"dim": 1}),)),
    "batch_norm": Spec(
        batch_norm,
        FP32,
        (Use(((2, 5, 4, 4), (5,), (5,), (5,), (5,))),),
        roles=("x", "positive", "bias", "bias", "positive"),
    ),
    "batch_norm_train": Spec(
        batch_norm_train,
        FP32,
        (Use(((2, 5, 4, 4), (5,), (5,))), Use(((7, 5), (5,), (5,)), {"eps": 0.1})),
        roles=("x", "positive", "bias"),
    ),
    "batch_norm_train_grad": Spec(
        batch_norm_train_grad,
        FP32,
        (Use(((2, 5, 4, 4), (2, 5, 4, 4), (5,), (5,), (5,), (5,)), fed=2),),
        roles=("x", "x", "weight", "bias", "positive", "bias"),
    ),
    "instance_norm": Spec(instance_norm, FP32, ONE, roles=_SCALED),
    "group_norm": Spec(group_norm, FP32, (Use(((2, 6, 5),), {"groups": 2}),), roles=_SCALED),
    "layer_norm": Spec(
        layer_norm,
        FP32,
        (
            Use((MAP,), {"dim": 2}),
            Use(((2, 24, 7, 9), (24,), (24,)), {"dim": 1, "dims": 1}),
            Use(((7, 130),)),
        ),
        roles=_SCALED,
    ),
    "rms_norm": Spec(rms_norm, FP32, (Use(((7, 130), (130,))),), roles=_SCALED),
    "l2_norm": Spec(l2_norm, FP32, (Use((MAP,), {"dim": 1}), Use(((7, 130),)))),
    "local_response_norm": Spec(local_response_norm, Bound(20.0), (Use((MAP,), {"size": 5}),)),
}
