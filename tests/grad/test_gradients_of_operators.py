"""The gradient of every operator that has one, against central differences of its definition in float64."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import clcnn
from clcnn import _core
from clcnn._reference import REFERENCE
from helpers import none_missing

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "csrc" / "grad" / "gradients.def").read_text()
ROWS = re.findall(r"^(GRAD|NOT_YET|NONE)\((\w+)", TABLE, re.MULTILINE)
STEP = 1e-5  # of the central differences
Shape = tuple[int, ...]
Draw = Callable[[np.ndarray], np.ndarray]


class Try(NamedTuple):
    """Shapes of inputs (None: absent), attributes, and what makes the data of normal numbers: one for
    all, or one an input (None: no gradient is wanted of it)."""

    shapes: Sequence[Shape | None]
    attrs: Mapping[str, Any] = {}
    data: Draw | Sequence[Draw | None] = lambda x: x


def _apart(x: np.ndarray) -> np.ndarray:
    """No two values nearer than the differences reach, none near 0 or a whole number."""
    order = np.argsort(np.argsort(x, axis=None)).reshape(x.shape) - x.size // 2
    return (order + 0.37) * (4.0 / x.size)


def _inside(x: np.ndarray) -> np.ndarray:
    return 0.9 * np.tanh(x)


def _positive(x: np.ndarray) -> np.ndarray:
    return np.abs(x) + 0.5


def _labels(x: np.ndarray) -> np.ndarray:
    return np.arange(x.size).reshape(x.shape) * 7 % 5


def _bools(x: np.ndarray) -> np.ndarray:
    return x > 0.0


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _indices(size: int) -> Draw:
    """Of a dimension, some of them twice, some counted from its end."""
    return lambda x: np.arange(x.size).reshape(x.shape) * 5 % (2 * size) - size


def _places(x: np.ndarray) -> np.ndarray:
    """From outside on the one side to outside on the other, none where a sample has a kink."""
    return np.linspace(-1.31, 1.27, x.size)[np.random.default_rng(3).permutation(x.size)].reshape(x.shape)


def _regions(x: np.ndarray) -> np.ndarray:
    return np.array([[0.63, 1.17, 4.21, 3.52], [-2.19, 0.41, 3.32, 7.73], [1.27, 2.38, 5.91, 4.63]])


def _moves(x: np.ndarray) -> np.ndarray:
    """Offsets that lead between elements."""
    return np.round(x) + 0.3 + 0.4 * _inside(x) ** 2


MAP = (2, 4, 5, 3)
ONE = [Try([(3, 7)], data=_apart)]
TWO = [Try([(2, 3, 4), (2, 3, 4)]), Try([(2, 3, 4), (3, 1)]), Try([(1, 4), (2, 3, 1)])]
POOLS: list[Mapping[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 0, 0, 2), "dilation": (2, 1)},
]
WINDOWS = [Try([(2, 3, 6, 7)], attrs, _apart) for attrs in POOLS]
CONVS: list[tuple[Sequence[Shape], Mapping[str, Any]]] = [
    (((2, 3, 5, 6), (4, 3, 3, 3), (4,)), {"padding": 1}),
    (((2, 3, 6, 7), (4, 3, 3, 2), (4,)), {"stride": 2, "padding": (1, 0, 2, 1)}),
    (((1, 4, 8, 7), (6, 2, 3, 3), (6,)), {"groups": 2, "stride": (3, 2), "dilation": (1, 2)}),
    (((1, 4, 6, 6), (4, 1, 3, 3), (4,)), {"groups": 4, "padding": 1, "stride": 2}),
    (((2, 3, 9), (2, 3, 4), (2,)), {"stride": 3}),
    (((1, 2, 3, 4, 5), (2, 2, 2, 2, 2), (2,)), {"padding": 1, "stride": 2}),
    (((1, 3, 5, 5), (4, 3, 1, 1), (4,)), {}),
]
TRANSPOSED: list[tuple[Sequence[Shape], Mapping[str, Any]]] = [
    (((2, 4, 4, 5), (4, 3, 3, 3), (3,)), {"stride": 2, "padding": 1, "output_padding": 1}),
    (
        ((1, 4, 4, 3), (4, 2, 3, 2), (4,)),
        {"groups": 2, "stride": (1, 2), "dilation": (2, 1), "padding": (1, 0, 0, 1)},
    ),
    (((1, 2, 4), (2, 3, 2), (3,)), {"dilation": 3, "output_padding": 2}),
]
NORMS = [lambda x: 2.0 * x, _positive, lambda x: x]

TRIES: dict[str, list[Try]] = {
    "conv": [Try(shapes, attrs) for shapes, attrs in CONVS] + [Try([(1, 2, 4, 4), (3, 2, 2, 2)])],
    "conv_transpose": [Try(shapes, attrs) for shapes, attrs in TRANSPOSED],
    "rotary_embedding": [
        Try([(2, 3, 6), (3, 6), (3, 6)]),
        Try([(2, 3, 2, 4), (3, 2, 4), (3, 2, 4)], {"interleaved": True}),
    ],
    "depthwise_nhwc": [
        Try([(2, 5, 4, 3), (3, 1, 3, 3), (3,)], {"padding": 1}),
        Try([(1, 6, 5, 4), (4, 1, 2, 3)], {"stride": (2, 1), "padding": (1, 0, 0, 2), "dilation": (1, 2)}),
    ],
    "conv_filter_grad": [
        Try([(2, 3, 5, 6), (2, 4, 5, 6)], {"kernel_size": 3, "padding": 1}),
        Try([(1, 4, 7, 6), (1, 6, 3, 3)], {"kernel_size": (3, 2), "stride": 2, "groups": 2}),
    ],
    "linear": [Try([(3, 5), (4, 5), (4,)]), Try([(2, 3, 5), (4, 5)]), Try([(5,), (4, 5), (4,)])],
    "matmul": [
        Try([(3, 4), (4, 5)]),
        Try([(2, 3, 4), (4, 5)]),
        Try([(3, 4), (2, 4, 5)]),
        Try([(2, 1, 3, 4), (5, 4, 2)]),
        Try([(4,), (2, 4, 3)]),
        Try([(2, 3, 4), (4,)]),
        Try([(4,), (4,)]),
    ],
    "gemm": [
        Try([(3, 4), (4, 5), (5,)], {"alpha": 0.5, "beta": 2.0}),
        Try([(4, 3), (4, 5), (3, 1)], {"trans_a": True}),
        Try([(3, 4), (5, 4)], {"trans_b": True, "alpha": 3.0}),
        Try([(4, 3), (5, 4), (3, 5)], {"trans_a": True, "trans_b": True}),
    ],
    "max_pool": WINDOWS,
    "max_pool_indices": WINDOWS[:2],
    "avg_pool": WINDOWS + [Try([(2, 3, 6, 7)], {**attrs, "count_include_pad": False}) for attrs in POOLS],
    "adaptive_avg_pool": [
        Try([(2, 3, 6, 4)], {"output_size": 1}),
        Try([(2, 3, 6, 4)], {"output_size": (3, 2)}),
        Try([(2, 3, 7, 5)], {"output_size": (3, 4)}),
        Try([(2, 3, 7)], {"output_size": 9}),
    ],
    "adaptive_max_pool": [
        Try([(2, 3, 6, 4)], {"output_size": 1}, _apart),
        Try([(2, 3, 6, 4)], {"output_size": (3, 2)}, _apart),
    ],
    "instance_norm": [Try([MAP, (4,), (4,)], {}, NORMS), Try([(2, 3, 5)], {"eps": 0.1})],
    "group_norm": [Try([MAP, (4,), (4,)], {"groups": 2}, NORMS)],
    "layer_norm": [
        Try([(3, 6), (6,), (6,)], {}, NORMS),
        Try([MAP, (5, 3), (5, 3)], {"dim": 2}, NORMS),
        Try([MAP, (4,), (4,)], {"dim": 1, "dims": 1}, NORMS),
    ],
    "rms_norm": [
        Try([(3, 6), (6,)], {"eps": 0.1}, NORMS[:2]),
        Try([MAP, (4, 5)], {"dim": 1, "dims": 2}, NORMS[:2]),
    ],
    "l2_norm": [Try([(3, 6)]), Try([MAP], {"dim": 1}), Try([(3, 4)], {"eps": 100.0})],
    "batch_norm": [Try([MAP, (4,), (4,), (4,), (4,)], {"eps": 0.01}, [*NORMS, None, None])],
    "batch_norm_train": [Try([MAP, (4,), (4,)], {}, NORMS), Try([(6, 4), (4,), (4,)], {"eps": 0.1}, NORMS)],
    "local_response_norm": [
        Try([(2, 7, 3, 2)], {"size": 5, "alpha": 0.5}),
        Try([(2, 6, 4)], {"size": 4, "alpha": 1.0, "beta": 0.5, "k": 2.0}),
    ],
    "softmax": [Try([(3, 6)]), Try([MAP], {"dim": 1})],
    "log_softmax": [Try([(3, 6)]), Try([MAP], {"dim": 1})],
    "cross_entropy": [
        Try([(6, 5), (6,)], {}, [lambda x: x, _labels]),
        Try([(6, 5), (6,)], {"label_smoothing": 0.2}, [lambda x: x, _labels]),
        Try([(6, 5), (6,)], {"reduction": "none", "label_smoothing": 0.1}, [lambda x: x, _labels]),
    ],
    "reduce_sum": [Try([(2, 3, 4)]), Try([(2, 3, 4)], {"axes": (0, 2), "keepdims": False})],
    "reduce_mean": [Try([(2, 3, 4)]), Try([(2, 3, 4)], {"axes": 1, "keepdims": False})],
    "reduce_max": [
        Try([(2, 3, 4)], {"axes": 1}, _apart),
        Try([(2, 3, 4)], {"axes": (0, 2), "keepdims": False}, _apart),
    ],
    "reduce_min": [Try([(2, 3, 4)], {"axes": 1}, _apart)],
    "cumsum": [
        Try([(3, 5)], {"dim": 1}),
        Try([(3, 5)], {"dim": 0, "exclusive": True}),
        Try([(3, 5)], {"dim": 1, "reverse": True}),
    ],
    "concat": [Try([(2, 3, 4), (2, 1, 4), (2, 2, 4)], {"dim": 1})],
    "split": [Try([(2, 6, 3)], {"sizes": (1, 3, 2), "dim": 1})],
    "slice": [
        Try([(5, 6)], {"starts": (1, 0), "ends": (4, 5)}),
        Try([(7, 6)], {"starts": (1, 5), "ends": (7, 0), "steps": (3, -2)}),
        Try([(5, 7)], {"starts": (-1,), "ends": (-100,), "axes": (1,), "steps": (-1,)}),
        Try([(6, 2)], {"starts": (0,), "ends": (6,), "axes": (0,), "steps": (2,)}),
    ],
    "where": [Try([(2, 3), (2, 3), (1, 3)], {}, [_bools, lambda x: x, lambda x: x])],
    "pad": [Try([(3, 4)], {"pads": (1, 0, 2, 3), "value": 2.0}), Try([(4, 5)], {"pads": (-1, 2, 0, -2)})]
    + [Try([(3, 4)], {"pads": (1, 2, 2, 3), "mode": mode}) for mode in ("reflect", "edge", "wrap")],
    "reshape": [Try([(2, 6)], {"shape": (3, 4)})],
    "flatten": [Try([(2, 3, 4)])],
    "transpose": [Try([(2, 3, 4)], {"perm": (2, 0, 1)})],
    "squeeze": [Try([(2, 1, 4)])],
    "unsqueeze": [Try([(2, 4)], {"axes": (0, 2)})],
    "scaled_dot_product_attention": [
        Try([(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3)]),
        Try([(2, 4, 3), (2, 4, 3), (2, 4, 3)], {"is_causal": True, "scale": 0.7}),
        Try([(2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5)]),
        Try([(3, 4), (5, 4), (5, 2), (1, 5)], {"is_causal": True}),
    ],
    "resize": [
        Try([(2, 2, 3, 4)], {"scales": (2.0,)}),
        Try([(1, 2, 4, 5)], {"size": (7, 3), "mode": "linear"}),
        Try([(1, 2, 4, 5)], {"size": (7, 9), "mode": "linear", "coordinates": "align_corners"}),
        Try([(1, 1, 5, 4)], {"scales": (0.6, 1.7), "mode": "cubic", "coordinates": "asymmetric"}),
        Try([(1, 2, 8)], {"size": 3, "mode": "linear", "antialias": True}),
        Try([(1, 1, 2, 3, 2)], {"scales": (2.0,), "mode": "linear"}),
        Try(
            [(1, 1, 4, 5)],
            {
                "size": (3, 6),
                "mode": "linear",
                "coordinates": "tf_crop_and_resize",
                "roi": (0.2, -0.3, 0.9, 0.8),
                "extrapolation_value": 2.0,
            },
        ),
    ],
    "lp_pool": [Try([(1, 2, 6, 7)], {"kernel_size": 2, "p": p, "stride": 2}, _apart) for p in (1, 2, 3)],
    "max_unpool": [
        Try(
            [(1, 2, 3), (1, 2, 3)],
            {"output_size": 6},
            [lambda x: x, lambda x: np.arange(x.size).reshape(x.shape) * 5 % 12],
        )
    ],
    "reduce_prod": [
        Try([(2, 3, 4)], {"axes": 1}),
        Try([(2, 5)], {"axes": 1, "keepdims": False}, lambda x: x * (np.arange(10).reshape(2, 5) != 3)),
        Try([(2, 5)], {"axes": 1}, lambda x: x * (np.arange(10).reshape(2, 5) % 3 != 1)),
    ],
    "max_pool_grad": [
        Try([(2, 3, 6, 7), (2, 3, 3, 3)], {"kernel_size": 2}, [None, lambda x: x]),
        Try([(1, 2, 6, 7), (1, 2, 3, 4)], {"kernel_size": 3, "stride": 2, "padding": 1}, [None, lambda x: x]),
        Try([(2, 3, 6, 7), (2, 3, 3, 3)], {"kernel_size": 2, "rectified": True}, [None, lambda x: x]),
    ],
    "cross_entropy_grad": [
        Try([(6, 5), (6,), ()], {"label_smoothing": 0.2}, [lambda x: x, _labels, lambda x: x]),
        Try([(6, 5), (6,), (6,)], {"reduction": "none"}, [lambda x: x, _labels, lambda x: x]),
    ],
    "batch_norm_train_grad": [],  # its statistics are no arguments of their own; see test_gradients.py
    "expand": [Try([(3, 1)], {"shape": (2, 3, 4)})],
    "dropout": [Try([(2, 4)])],
    "dropout_train": [Try([(2, 4), (2,)], {"layer": 3}, [lambda x: x, _labels])],
    "identity": [Try([(2, 4)])],
    "cast": [],  # its definition rounds to float32, too coarse for differences; see test_gradients.py
    "prelu": [
        Try([(2, 3, 4), (3,)], {}, _apart),
        Try([(2, 3), (1,)], {}, _apart),
        Try([(2, 3, 4), (3, 1)], {}, _apart),
    ],
    "leaky_relu": [*ONE, Try([(3, 7)], {"negative_slope": -0.5}, _apart)],
    "gelu": [*ONE, Try([(3, 7)], {"approximate": "tanh"})],
    "clip": [*ONE, Try([(3, 7)], {"min": -0.5, "max": 1.0}, _apart), Try([(3, 7)], {"max": 0.3}, _apart)],
    "relu6": [Try([(3, 7)], {}, lambda x: 5.0 * _apart(x))],
    "hard_sigmoid": [Try([(3, 7)], {}, lambda x: 3.0 * _apart(x))],
    "hard_swish": [Try([(3, 7)], {}, lambda x: 3.0 * _apart(x))],
    "swish": [Try([(3, 7)], {"alpha": 1.702})],
    "star_relu": [Try([(3, 7)], {"alpha": 1.5, "beta": 0.25}, _apart)],
    "elu": [*ONE, Try([(3, 7)], {"alpha": 0.3}, _apart)],
    "celu": [*ONE, Try([(3, 7)], {"alpha": 0.3}, _apart)],
    "log": [Try([(3, 7)], {}, _positive)],
    "sqrt": [Try([(3, 7)], {}, _positive)],
    "reciprocal": [Try([(3, 7)], {}, _positive)],
    "tan": [Try([(3, 7)], {}, _inside)],
    "asin": [Try([(3, 7)], {}, _inside)],
    "acos": [Try([(3, 7)], {}, _inside)],
    "atanh": [Try([(3, 7)], {}, _inside)],
    "acosh": [Try([(3, 7)], {}, lambda x: 1.5 + np.abs(x))],
    "shrink": [Try([(3, 7)], {"bias": 0.2}, _apart)],
    **{op: TWO for op in ("add", "sub", "mul")},
    "div": [Try(t.shapes, {}, [lambda x: x, _positive]) for t in TWO],
    "pow": [Try(t.shapes, {}, [_positive, lambda x: x]) for t in TWO],
    **{op: [Try([(3, 4), (3, 4)], {}, [_apart, lambda x: x])] for op in ("minimum", "maximum")},
    "mod": [
        Try([(3, 4), (1, 4)], {"sign": sign}, [lambda x: 5.0 * _apart(x), lambda x: 1.3 + 0.4 * _apart(x)])
        for sign in ("divisor", "dividend")
    ],
    "relu_grad": [Try([(2, 3, 4), (3, 1)], {}, [lambda x: x, None])],
    **{op: [Try([(2, 3, 4), (2, 3, 4)]), Try([(2, 3, 4), (3, 1)])] for op in ("gelu_grad", "silu_grad")},
    "hard_swish_grad": [Try([(2, 3, 4), (3, 1)], {}, [lambda x: x, lambda x: 3.0 * _apart(x)])],
    "gather": [
        Try([(4, 3), (5,)], {}, [lambda x: x, _indices(4)]),
        Try([(2, 5, 3), (2, 3)], {"dim": 1}, [lambda x: x, _indices(5)]),
        Try([(2, 3), ()], {"dim": -1}, [lambda x: x, _indices(3)]),
    ],
    "gather_elements": [
        Try([(4, 3), (6, 3)], {}, [lambda x: x, _indices(4)]),
        Try([(2, 5, 3), (2, 4, 2)], {"dim": 1}, [lambda x: x, _indices(5)]),
        Try([(3, 4), (2, 7)], {"dim": -1}, [lambda x: x, _indices(4)]),
    ],
    "gather_nd": [
        Try([(2, 2, 3), (5, 2)], {}, [lambda x: x, _indices(2)]),
        Try([(4, 3), (2, 3, 1)], {}, [lambda x: x, _indices(3)]),
        Try([(2, 3, 2, 2), (2, 4, 2)], {"batch_dims": 1}, [lambda x: x, _indices(2)]),
    ],
    "scatter": [
        Try([(4, 3), (6,), (6, 3)], {"reduction": "add"}, [lambda x: x, _indices(4), lambda x: x]),
        Try([(2, 4), (3,), (2, 3)], {"reduction": "add", "dim": 1}, [lambda x: x, _indices(4), lambda x: x]),
    ],
    "topk": [
        Try([(3, 7)], {"k": 3}, _apart),
        Try([(5, 2, 3)], {"k": 2, "dim": 0, "largest": False}, _apart),
    ],
    "grid_sample": [
        Try(
            [(2, 3, 5, 4), (2, 3, 2, 2)],
            {"mode": mode, "padding_mode": padding, "align_corners": corners},
            [lambda x: x, _places],
        )
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    ]
    + [Try([(1, 2, 3, 4, 3), (1, 2, 2, 1, 3)], {}, [lambda x: x, _places])],
    "roi_align": [
        Try(
            [(2, 2, 6, 7), (3, 4), (3,)],
            {"output_size": (2, 3), "sampling_ratio": 2, **more},
            [_apart, _regions, lambda x: np.arange(3) % 2],
        )
        for more in (
            {},
            {"spatial_scale": 0.5, "coordinates": "output_half_pixel"},
            {"mode": "max", "sampling_ratio": 1},
        )
    ],
    "deform_conv": [
        Try(
            [(2, 4, 5, 4), (4, 4, 2, 3), (2, 12, 4, 2), (4,), (2, 6, 4, 2)],
            {},
            [_same, _same, _moves, _same, _same],
        ),
        Try(
            [(1, 4, 5, 6), (2, 2, 3, 3), (1, 36, 3, 2)],
            {"groups": 2, "offset_groups": 2, "stride": (2, 1), "padding": (1, 0, 1, 0), "dilation": (1, 2)},
            [_same, _same, _moves],
        ),
    ],
}


def tries() -> list[Any]:
    rows = [op for kind, op in ROWS if kind == "GRAD"]
    return [pytest.param(op, t, id=f"{op}-{i}") for op in rows for i, t in enumerate(TRIES.get(op, ONE))]


def test_every_operator_has_a_row() -> None:
    """A rule, or a place on one of the lists of those without."""
    operators = [op for _, op in ROWS]
    assert len(operators) == len(set(operators))
    run = "python -m pytest -q -n0 tests/grad"
    none_missing(set(_core.ops()) ^ set(operators), "csrc/grad/gradients.def (a row for it)", run)


def test_every_try_is_of_an_operator_with_a_rule() -> None:
    none_missing(
        set(TRIES) - {op for kind, op in ROWS if kind == "GRAD"}, "TRIES", "python -m pytest tests/grad"
    )


def _data(t: Try) -> list[np.ndarray | None]:
    rng = np.random.default_rng(7)
    draws = t.data if isinstance(t.data, (list, tuple)) else [t.data] * len(t.shapes)
    return [
        None if shape is None else (draw or _positive)(rng.standard_normal(shape))
        for shape, draw in zip(t.shapes, draws)
    ]


def _wanted(t: Try, arrays: Sequence[np.ndarray | None]) -> list[int]:
    draws = t.data if isinstance(t.data, (list, tuple)) else [t.data] * len(t.shapes)
    return [
        i for i, (x, draw) in enumerate(zip(arrays, draws)) if x is not None and draw and x.dtype.kind == "f"
    ]


def differences(value: Callable[[], float], x: np.ndarray) -> np.ndarray:
    """How `value` changes with each element of x, which is changed in place."""
    slopes = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        own = x[at]
        x[at] = own + STEP
        above = value()
        x[at] = own - STEP
        slopes[at] = (above - value()) / (2 * STEP)
        x[at] = own
    return slopes


@pytest.mark.parametrize(("op", "t"), tries())
def test_gradients_are_those_of_the_definition(device: clcnn.Device, op: str, t: Try) -> None:
    arrays, g = _data(t), clcnn.Graph()
    values = [
        None
        if x is None
        else g.input(f"x{i}", np.shape(x), "float32" if x.dtype.kind == "f" else str(x.dtype))
        for i, x in enumerate(arrays)
    ]
    made = [y for y in g.node(op, values, t.attrs) if y.dtype == "float32"]
    made = made[:1] if op == "batch_norm_train" else made
    rng = np.random.default_rng(8)
    weights = [rng.standard_normal(y.shape) for y in made]
    terms = [g.apply("reduce_sum", y * w.astype(np.float32), keepdims=False) for y, w in zip(made, weights)]
    wanted = _wanted(t, arrays)
    for i, dx in zip(wanted, clcnn.grad(sum(terms[1:], terms[0]), [values[i] for i in wanted])):
        assert dx.shape == t.shapes[i]
        g.output(dx, f"d{i}")

    def loss() -> float:
        result = REFERENCE[op](*arrays, **t.attrs)
        outputs = result if isinstance(result, list) else [result]
        return float(sum((y * w).sum() for y, w in zip(outputs, weights)))

    with clcnn.compile(g, device=device, tune="off") as plan:
        given = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in arrays if x is not None]
        results = plan(*given)
    for i, got in zip(wanted, [results] if len(wanted) == 1 else results):
        x = arrays[i]
        assert x is not None
        x[...] = x.astype(np.float32)
        want = differences(loss, x)
        np.testing.assert_allclose(
            got, want, rtol=2e-4, atol=2e-5 * max(1.0, np.abs(want).max()), err_msg=f"d{i}"
        )
