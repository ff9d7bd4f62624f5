"""Attributes of every operator: name, kind and default, in one table.

The kinds are ``int``, ``ints``, ``float``, ``floats`` and ``str``. An ``ints`` attribute that speaks of
spatial dimensions (stride, padding, kernel size, ...) may give one value for all of them. ``REQUIRED`` has no
default.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Attribute(NamedTuple):
    """Kind of an attribute ("int", "ints", "float", "floats" or "str") and its default."""

    kind: str
    default: Any = REQUIRED


_CONV = {
    "stride": Attribute("ints", (1,)),
    "padding": Attribute("ints", (0,)),
    "dilation": Attribute("ints", (1,)),
}
_GROUPS = {"groups": Attribute("int", 1)}
_POOL = {
    "kernel_size": Attribute("ints"),
    "stride": Attribute("ints", ()),
    "padding": Attribute("ints", (0,)),
    "dilation": Attribute("ints", (1,)),
    "ceil_mode": Attribute("int", 0),
}
_REDUCE = {"axes": Attribute("ints", ()), "keepdims": Attribute("int", 1)}
_ARG = {
    "dim": Attribute("int", 0),
    "keepdims": Attribute("int", 1),
    "select_last_index": Attribute("int", 0),
}

ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "conv": _CONV | _GROUPS,
    "conv_transpose": _CONV | _GROUPS | {"output_padding": Attribute("ints", (0,))},
    "separable": _CONV | {"activation": Attribute("str", "identity")},
    "deform_conv": _CONV | _GROUPS | {"offset_groups": Attribute("int", 1)},
    "grid_sample": {
        "mode": Attribute("str", "linear"),
        "padding_mode": Attribute("str", "zeros"),
        "align_corners": Attribute("int", 0),
    },
    "roi_align": {
        "output_size": Attribute("ints"),
        "mode": Attribute("str", "avg"),
        "sampling_ratio": Attribute("int", 0),
        "spatial_scale": Attribute("float", 1.0),
        "coordinates": Attribute("str", "half_pixel"),
    },
    "max_roi_pool": {"output_size": Attribute("ints"), "spatial_scale": Attribute("float", 1.0)},
    "nms": {
        "max_output": Attribute("int"),
        "iou_threshold": Attribute("float", 0.0),
        "score_threshold": Attribute("float", float("-inf")),
        "center_point_box": Attribute("int", 0),
    },
    "linear": {},
    "matmul": {},
    "gemm": {
        "alpha": Attribute("float", 1.0),
        "beta": Attribute("float", 1.0),
        "trans_a": Attribute("int", 0),
        "trans_b": Attribute("int", 0),
    },
    "max_pool": _POOL,
    "avg_pool": _POOL | {"count_include_pad": Attribute("int", 1)},
    "lp_pool": _POOL | {"p": Attribute("int", 2)},
    "max_pool_indices": _POOL | {"storage_order": Attribute("int", 0)},
    "max_unpool": {"output_size": Attribute("ints")},
    "instance_norm": {"eps": Attribute("float", 1e-5)},
    "group_norm": {"groups": Attribute("int"), "eps": Attribute("float", 1e-5)},
    "layer_norm": {"dim": Attribute("int", -1), "eps": Attribute("float", 1e-5)},
    "adaptive_avg_pool": {"output_size": Attribute("ints")},
    "adaptive_max_pool": {"output_size": Attribute("ints")},
    "batch_norm": {"eps": Attribute("float", 1e-5)},
    "local_response_norm": {
        "size": Attribute("int"),
        "alpha": Attribute("float", 1e-4),
        "beta": Attribute("float", 0.75),
        "k": Attribute("float", 1.0),
    },
    **{
        name: {}
        for name in (
            "relu",
            "relu6",
            "sigmoid",
            "tanh",
            "hard_swish",
            "silu",
            "exp",
            "log",
            "sqrt",
            "abs",
            "neg",
            "prelu",
            "identity",
            "softplus",
            "softsign",
            "mish",
            "erf",
            "reciprocal",
            "sign",
            "floor",
            "ceil",
            "round",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "asinh",
            "acosh",
            "atanh",
            "is_nan",
            "logical_not",
            "where",
        )
    },
    "leaky_relu": {"negative_slope": Attribute("float", 0.01)},
    "elu": {"alpha": Attribute("float", 1.0)},
    "hard_sigmoid": {"alpha": Attribute("float", 1.0 / 6.0), "beta": Attribute("float", 0.5)},
    "gelu": {"approximate": Attribute("str", "none")},
    "clip": {"min": Attribute("float", float("-inf")), "max": Attribute("float", float("inf"))},
    "selu": {
        "alpha": Attribute("float", 1.6732632423543772),
        "gamma": Attribute("float", 1.0507009873554805),
    },
    "celu": {"alpha": Attribute("float", 1.0)},
    "thresholded_relu": {"alpha": Attribute("float", 1.0)},
    "shrink": {"lambd": Attribute("float", 0.5), "bias": Attribute("float", 0.0)},
    "cast": {"to": Attribute("str", "float32")},
    "is_inf": {"sign": Attribute("str", "both")},
    "mod": {"sign": Attribute("str", "divisor")},
    **{
        name: {}
        for name in (
            "add",
            "sub",
            "mul",
            "div",
            "minimum",
            "maximum",
            "pow",
            "equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
        )
    },
    "softmax": {"dim": Attribute("int", -1)},
    "log_softmax": {"dim": Attribute("int", -1)},
    "reduce_sum": _REDUCE,
    "reduce_mean": _REDUCE,
    "reduce_max": _REDUCE,
    "reduce_prod": _REDUCE,
    "argmax": _ARG,
    "argmin": _ARG,
    "cumsum": {
        "dim": Attribute("int", 0),
        "exclusive": Attribute("int", 0),
        "reverse": Attribute("int", 0),
    },
    "topk": {
        "k": Attribute("int"),
        "dim": Attribute("int", -1),
        "largest": Attribute("int", 1),
        "sorted": Attribute("int", 1),
    },
    "reduce_min": _REDUCE,
    "concat": {"dim": Attribute("int", 1)},
    "split": {"sizes": Attribute("ints"), "dim": Attribute("int", 1)},
    "slice": {
        "starts": Attribute("ints"),
        "ends": Attribute("ints"),
        "axes": Attribute("ints", ()),
        "steps": Attribute("ints", (1,)),
    },
    "pad": {
        "pads": Attribute("ints"),
        "value": Attribute("float", 0.0),
        "mode": Attribute("str", "constant"),
    },
    "gather": {"dim": Attribute("int", 0)},
    "gather_elements": {"dim": Attribute("int", 0)},
    "gather_nd": {"batch_dims": Attribute("int", 0)},
    "reshape": {"shape": Attribute("ints")},
    "flatten": {"start_dim": Attribute("int", 1), "end_dim": Attribute("int", -1)},
    "transpose": {"perm": Attribute("ints")},
    "squeeze": {"axes": Attribute("ints", ())},
    "unsqueeze": {"axes": Attribute("ints")},
    "expand": {"shape": Attribute("ints")},
    "resize": {
        "size": Attribute("ints", ()),
        "scales": Attribute("floats", ()),
        "mode": Attribute("str", "nearest"),
        "coordinates": Attribute("str", "half_pixel"),
        "nearest_rounding": Attribute("str", "floor"),
        "cubic_coeff_a": Attribute("float", -0.75),
        "exclude_outside": Attribute("int", 0),
        "antialias": Attribute("int", 0),
        "extrapolation_value": Attribute("float", 0.0),
        "roi": Attribute("floats", ()),
    },
    "dropout": {"p": Attribute("float", 0.5)},
    "reorder": {},
}


def fill(op: str, given: dict[str, Any]) -> dict[str, Any]:
    """All attributes of `op`: those given and the defaults of the others; a single value of an ``ints`` or
    ``floats`` attribute becomes a tuple.

    Raises TypeError for an unknown attribute or a missing required one.
    """
    table = ATTRIBUTES[op]
    unknown = sorted(set(given) - set(table))
    if unknown:
        raise TypeError(f"{op}: unknown attribute {unknown[0]!r}; known are {sorted(table)}")
    filled = {}
    for name, (kind, default) in table.items():
        value = given.get(name, default)
        if value is REQUIRED:
            raise TypeError(f"{op}: attribute {name!r} is required")
        if kind in ("ints", "floats"):
            value = tuple(value) if hasattr(value, "__iter__") else (value,)
        filled[name] = value
    return filled
