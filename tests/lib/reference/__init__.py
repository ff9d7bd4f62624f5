"""Definition of every operator in float64 NumPy, independent of clcnn.

``REFERENCE[op](*inputs, **attributes)`` returns the output array (a list of them where there are several, as
for ``split``). Inputs may be of any dtype, and floats are computed in float64; an optional input may be None
or left out; attributes that are not given take the defaults of ``ATTRIBUTES``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import conv, elementwise, gemm, line, pool, reduce, resize, shape, vision
from .attributes import ATTRIBUTES, REQUIRED, Attribute, fill

__all__ = ["ATTRIBUTES", "Attribute", "REFERENCE", "REQUIRED", "fill"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "conv": conv.conv,
    "conv_transpose": conv.conv_transpose,
    "separable": conv.separable,
    "deform_conv": vision.deform_conv,
    "grid_sample": vision.grid_sample,
    "roi_align": vision.roi_align,
    "max_roi_pool": vision.max_roi_pool,
    "nms": vision.nms,
    "linear": gemm.linear,
    "matmul": gemm.matmul,
    "gemm": gemm.gemm,
    "max_pool": pool.max_pool,
    "avg_pool": pool.avg_pool,
    "adaptive_avg_pool": pool.adaptive_avg_pool,
    "adaptive_max_pool": pool.adaptive_max_pool,
    "lp_pool": pool.lp_pool,
    "max_pool_indices": pool.max_pool_indices,
    "max_unpool": pool.max_unpool,
    "instance_norm": reduce.instance_norm,
    "group_norm": reduce.group_norm,
    "layer_norm": reduce.layer_norm,
    "batch_norm": reduce.batch_norm,
    "local_response_norm": reduce.local_response_norm,
    "softmax": reduce.softmax,
    "log_softmax": reduce.log_softmax,
    **reduce.REDUCTIONS,
    **elementwise.UNARY,
    **elementwise.BINARY,
    "argmax": line.argmax,
    "argmin": line.argmin,
    "cumsum": line.cumsum,
    "topk": line.topk,
    "dropout": elementwise.dropout,
    "reorder": np.copy,
    "concat": shape.concat,
    "split": shape.split,
    "slice": shape.slice_,
    "pad": shape.pad,
    "reshape": shape.reshape,
    "flatten": shape.flatten,
    "transpose": shape.transpose,
    "squeeze": shape.squeeze,
    "unsqueeze": shape.unsqueeze,
    "expand": shape.expand,
    "where": shape.where,
    "gather": shape.gather,
    "gather_elements": shape.gather_elements,
    "gather_nd": shape.gather_nd,
    "resize": resize.resize,
}


def _widened(x: np.ndarray) -> np.ndarray:
    """Floats as float64, integers and truth values as they are."""
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _call(op: str, *inputs: np.ndarray | None, **attributes: Any) -> np.ndarray | list[np.ndarray]:
    arrays = [None if x is None else _widened(x) for x in inputs]
    # Overflow, 0/0 and log of a negative number are results to compare, not accidents.
    with np.errstate(all="ignore"):
        result = _FUNCTIONS[op](*arrays, **fill(op, attributes))
    return [_widened(y) for y in result] if isinstance(result, list) else _widened(result)


REFERENCE: dict[str, Callable[..., Any]] = {op: partial(_call, op) for op in _FUNCTIONS}
