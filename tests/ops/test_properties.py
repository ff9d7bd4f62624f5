"""What must hold whatever the numbers: no oracle, only the operators themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from helpers import need_blocks, need_tensor_cores
from runner import LOOSE
from tolerance import compare

Array = np.ndarray
ALGOS = [algo for algo in _core.ops()["conv"]["algos"] if algo != "ref"]
# One shape that every algorithm of convolution can take, besides those that are told apart here.
SHAPES = {
    "depthwise": ((2, 6, 7, 9), (6, 1, 3, 3), {"groups": 6}),
    "depthwise_tile": ((2, 6, 7, 9), (6, 1, 3, 3), {"groups": 6}),
    "depthwise_blocked": ((2, 19, 7, 9), (19, 1, 3, 3), {"groups": 19}),
    "few_blocked": ((2, 18, 7, 9), (3, 18, 3, 3), {}),
    "stem": ((2, 3, 7, 9), (18, 3, 3, 3), {}),
    "blocked": ((2, 32, 7, 9), (32, 16, 3, 3), {"groups": 2}),
    "sparse_mask": ((2, 32, 7, 9), (32, 16, 3, 3), {"groups": 2}),
    "strassen": ((2, 32, 7, 9), (64, 32, 1, 1), {}),
    "fip": ((2, 18, 7, 9), (20, 18, 1, 1), {}),
    "amx": ((2, 18, 7, 9), (20, 18, 3, 3), {}),
    "winograd": ((2, 18, 7, 9), (20, 18, 3, 3), {}),
    "winograd2": ((2, 18, 7, 9), (20, 18, 3, 3), {}),
    "stem_mma": ((2, 3, 7, 9), (32, 3, 3, 3), {}),
    "group_tf32": ((2, 32, 7, 9), (32, 16, 3, 3), {"groups": 2}),
    "winograd_fused": ((2, 18, 7, 9), (40, 9, 3, 3), {"groups": 2}),
    "winograd4": ((2, 18, 7, 9), (20, 18, 4, 4), {}),
    "winograd5": ((2, 18, 7, 9), (20, 18, 5, 5), {}),
    "fft": ((2, 18, 7, 9), (20, 18, 5, 5), {}),
    "winograd_strided": ((2, 18, 14, 18), (20, 18, 3, 3), {"stride": (2,)}),
    "grouped": ((2, 12, 7, 9), (12, 4, 3, 3), {"groups": 3}),
    "wgmma": ((2, 32, 7, 9), (8, 16, 3, 3), {"groups": 2}),
    "wgmma_tf32": ((2, 32, 7, 9), (8, 16, 3, 3), {"groups": 2}),
    "wgmma_half": ((2, 32, 7, 9), (8, 16, 3, 3), {"groups": 2}),
    "wgmma_halves": ((2, 32, 7, 9), (20, 32, 1, 1), {}),
    "wgmma_local": ((2, 18, 7, 9), (20, 18, 1, 1), {}),
    "wgmma_scaled": ((2, 32, 7, 9), (24, 32, 3, 3), {}),
    "wgmma_window": ((2, 32, 7, 9), (24, 32, 3, 3), {}),
    "wgmma_window_tf32": ((2, 32, 7, 9), (24, 32, 3, 3), {}),
}
USUAL = ((2, 6, 7, 9), (8, 3, 3, 3), {"groups": 2})


class Op:
    """One operator as a function of arrays; all of its inputs are inputs of the graph."""

    def __init__(
        self, device: _core.Device, op: str, shapes: Sequence[tuple[int, ...]], **options: Any
    ) -> None:
        graph = _core.Graph()
        values = [graph.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
        algo = options.pop("algo", None)
        for i, value in enumerate(graph.node(op, "y", values, options)):
            graph.output(value, f"out{i}")
        precision = LOOSE.get(algo, "highest")
        if algo:
            need_tensor_cores(device, op, algo)
        overrides = {"y": algo} if algo else {}
        self.plan = _core.Plan(device, graph, overrides=overrides, fuse=False, precision=precision)

    def __call__(self, *arrays: Array) -> Array:
        return self.plan.run([np.ascontiguousarray(a, dtype=np.float32) for a in arrays])[0]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def conv(device) -> Callable[[str], tuple[Op, tuple[int, ...], tuple[int, ...]]]:
    """Convolution by the named algorithm, with the shapes of its input and weights."""

    def make(algo: str) -> tuple[Op, tuple[int, ...], tuple[int, ...]]:
        need_blocks(device, "conv", algo)
        x, w, attrs = SHAPES.get(algo, USUAL)
        padding = (w[-1] // 2,)
        return Op(device, "conv", (x, w), padding=padding, algo=algo, **attrs), x, w

    return make


def _stride(algo: str) -> int:
    return SHAPES.get(algo, USUAL)[2].get("stride", (1,))[0]


def _whole(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-3, 4, shape).astype(np.float32)


def _agree(f: Op, got: Array, wanted: Array) -> None:
    """Whole numbers to the last bit, unless the algorithm's error class allows it to transform them."""
    if any(row["error_class"] == "highest" for row in f.plan.layers()):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("algo", ALGOS)
def test_convolution_is_linear(conv, rng, algo):
    """On whole numbers: f(2 a - 3 b, w) = 2 f(a, w) - 3 f(b, w), and so for the weights."""
    f, x, w = conv(algo)
    a, b, v, u = _whole(rng, x), _whole(rng, x), _whole(rng, w), _whole(rng, w)
    assert np.any(f(a, v))
    _agree(f, f(2 * a - 3 * b, v), 2 * f(a, v) - 3 * f(b, v))
    _agree(f, f(a, 2 * v - 3 * u), 2 * f(a, v) - 3 * f(a, u))


@pytest.mark.parametrize("algo", ALGOS)
def test_impulse_shows_the_weights(conv, rng, algo):
    """A single one in channel c of the input puts the filters' weights for c, turned, around its place; of
    those a stride leaves some out."""
    f, x, w = conv(algo)
    stride = _stride(algo)
    weights, groups = _whole(rng, w), x[1] // w[1]
    each, radius = w[0] // groups, w[2] // 2
    for c in range(x[1]):
        impulse = np.zeros(x, np.float32)
        impulse[1, c, 3, 4] = 1.0
        y = f(impulse, weights)
        group = c // w[1]
        wanted = np.zeros((*y.shape[:2], *(n + 2 * radius - w[2] + 1 for n in x[2:])), np.float32)
        window = np.s_[4 + radius - w[2] : 4 + radius], np.s_[5 + radius - w[3] : 5 + radius]
        filters = slice(group * each, (group + 1) * each)
        wanted[1, filters, *window] = weights[filters, c % w[1], ::-1, ::-1]
        _agree(f, y, wanted[:, :, ::stride, ::stride])


@pytest.mark.parametrize("algo", ALGOS)
def test_shifted_input_shifts_the_output(conv, rng, algo):
    """By one row and two columns of the output."""
    f, x, w = conv(algo)
    step = _stride(algo)
    inner, weights = _whole(rng, (*x[:2], x[2] - 4 * step, x[3] - 4 * step)), _whole(rng, w)
    here = np.pad(inner, ((0, 0), (0, 0), (step, 3 * step), (step, 3 * step)))
    there = np.pad(inner, ((0, 0), (0, 0), (2 * step, 2 * step), (3 * step, step)))
    y, moved = f(here, weights), f(there, weights)
    _agree(f, moved[:, :, 1:, 2:], y[:, :, :-1, :-2])


@pytest.mark.parametrize("algo", ALGOS)
def test_batch_items_do_not_meet(conv, rng, algo):
    f, x, w = conv(algo)
    a, weights = rng.standard_normal(x), rng.standard_normal(w)
    np.testing.assert_array_equal(f(a[::-1], weights), f(a, weights)[::-1])
    other = a.copy()
    other[1] = np.nan
    np.testing.assert_array_equal(f(other, weights)[0], f(a, weights)[0])


@pytest.mark.parametrize("algo", [algo for algo in ALGOS if LOOSE.get(algo) != "medium"])
def test_powers_of_two_pass_through(conv, rng, algo):
    """f(2^j a, 2^k w) = 2^(j + k) f(a, w) to the last bit, each item with its j, beyond what halves hold."""
    f, x, w = conv(algo)
    a, v = rng.standard_normal(x), rng.standard_normal(w)
    y, items = f(a, v), np.array([2.0**60, 2.0**-50]).reshape(2, 1, 1, 1)
    for weights in (2.0**-30, 2.0**30):
        np.testing.assert_array_equal(f(a * items, v * weights), (y * items * weights).astype(np.float32))


@pytest.mark.parametrize("algo", [algo for algo in ALGOS if LOOSE.get(algo) != "medium"])
def test_channels_of_other_sizes_count_as_much(conv, rng, algo):
    """Pixels of later channels 2^12 times as large, their weights as much smaller: the same sums."""
    f, x, w = conv(algo)
    a, v = rng.standard_normal(x), rng.standard_normal(w)
    larger = np.where(np.arange(w[1]) >= w[1] // 2, 2.0**12, 1.0)
    of_pixels, of_weights = np.tile(larger, x[1] // w[1]).reshape(1, -1, 1, 1), larger.reshape(1, -1, 1, 1)
    compare(f(a * of_pixels, v / of_weights), f(a, v).astype(np.float64), "conv", LOOSE.get(algo))


@pytest.mark.parametrize("algo", ALGOS)
def test_runs_and_clones_give_the_same_bits(conv, rng, algo):
    f, x, w = conv(algo)
    data = [rng.standard_normal(shape).astype(np.float32) for shape in (x, w)]
    first = f.plan.run(data)[0]
    with f.plan.clone() as clone:
        for plan in (f.plan, clone, f.plan):
            assert plan.run(data)[0].tobytes() == first.tobytes()


@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((2, 4, 9, 9), (6, 4, 3, 3), {"padding": (1,)}),
        ((1, 4, 9, 9), (6, 2, 3, 3), {"stride": (2,), "padding": (1,), "groups": 2}),
        ((2, 3, 11, 9), (5, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (2, 3)}),
        ((1, 3, 8, 8), (5, 3, 3, 3), {"padding": (0, 1, 2, 1)}),
        ((2, 3, 21), (5, 3, 4), {"stride": (3,), "padding": (2,)}),
    ],
)
def test_transposed_convolution_is_the_adjoint(device, rng, x, w, attrs):
    """<conv(x, w), y> = <x, conv_transpose(y, w)>, to the last bit on whole numbers. output_padding takes
    up what the stride leaves over at the far end."""
    forward = Op(device, "conv", (x, w), **attrs)
    y_shape = forward.plan.outputs[0][1]
    n = len(x) - 2
    begins = (attrs["padding"] * n)[:n]
    ends = (attrs["padding"] * n)[n : 2 * n] if len(attrs["padding"]) == 2 * n else begins
    stride, dilation = attrs.get("stride", (1,)) * n, attrs.get("dilation", (1,)) * n
    left = tuple(
        x[2 + i] + begins[i] + ends[i] - (dilation[i] * (w[2 + i] - 1) + 1) - stride[i] * (y_shape[2 + i] - 1)
        for i in range(n)
    )
    extra = {"output_padding": left} if any(left) else {}
    backward = Op(device, "conv_transpose", (y_shape, w), **attrs, **extra)
    assert backward.plan.outputs[0][1] == x
    a, b, weights = _whole(rng, x), _whole(rng, y_shape), _whole(rng, w)
    one = np.vdot(forward(a, weights).astype(np.float64), b)
    other = np.vdot(a, backward(b, weights).astype(np.float64))
    assert one == other != 0.0


# ---- views ------------------------------------------------------------------------------------------------


def _concat_net(dim: int, copies: bool) -> _core.Graph:
    """relu(a) and abs(b) side by side, then the negative of both. With `copies` an input is a part, too, and
    one part is there twice, so that not every part can be written in place."""
    graph = _core.Graph()
    a, b = (graph.input(name, (2, 3, 4, 5)) for name in "ab")
    (left,), (right,) = graph.node("relu", "left", [a], {}), graph.node("abs", "right", [b], {})
    parts = [left, right, a, left] if copies else [left, right]
    (both,) = graph.node("concat", "both", parts, {"dim": dim})
    (y,) = graph.node("neg", "y", [both], {})
    graph.output(y, "y")
    return graph


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_concat_in_place_equals_concat_by_copying(device, rng, dim, guard):
    a, b = (rng.standard_normal((2, 3, 4, 5)).astype(np.float32) for _ in range(2))
    for copies in (False, True):
        with _core.Plan(device, _concat_net(dim, copies), guard=guard) as plan:
            kernels = [row["layer"] for row in plan.steps()]
            (y,) = plan.run([a, b])
            if guard:
                plan.check_guards()
        assert ("both" in kernels) == (copies or dim > 1)
        left, right = np.maximum(a, 0), np.abs(b)
        parts = [left, right, a, left] if copies else [left, right]
        np.testing.assert_array_equal(y, -np.concatenate(parts, dim))


def _unary_and_others() -> list[tuple[str, dict[str, Any], list[tuple[int, ...]]]]:
    """Operators on a range of channels of a larger value, whose batch items are not dense."""
    x = (2, 4, 6, 6)
    return [
        ("relu", {}, [x]),
        ("add", {}, [x, x]),
        ("mul", {}, [x, (4, 1, 1)]),
        ("conv", {"padding": (1,)}, [x, (5, 4, 3, 3)]),
        ("conv", {}, [x, (5, 4, 1, 1)]),
        ("conv", {"groups": 4, "padding": (1,)}, [x, (4, 1, 3, 3)]),
        ("conv_transpose", {"stride": (2,)}, [x, (4, 5, 3, 3)]),
        ("max_pool", {"kernel_size": (2,)}, [x]),
        ("avg_pool", {"kernel_size": (3,), "padding": (1,)}, [x]),
        ("adaptive_avg_pool", {"output_size": (1,)}, [x]),
        ("adaptive_max_pool", {"output_size": (3,)}, [x]),
        ("batch_norm", {}, [x, (4,), (4,), (4,), (4,)]),
        ("local_response_norm", {"size": 3}, [x]),
        ("softmax", {"dim": 1}, [x]),
        ("softmax", {"dim": 0}, [x]),
        ("log_softmax", {"dim": -1}, [x]),
        ("reduce_sum", {"axes": (0, 2)}, [x]),
        ("reduce_mean", {"axes": (2, 3)}, [x]),
        ("reduce_max", {}, [x]),
        ("concat", {"dim": 2}, [x, x]),
        ("slice", {"starts": (1,), "ends": (-1,), "axes": (3,)}, [x]),
        ("pad", {"pads": (0, 1, 0, 0, 0, 0, 2, 0)}, [x]),
        ("reshape", {"shape": (8, 36)}, [x]),
        ("flatten", {}, [x]),
        ("flatten", {"start_dim": 0}, [x]),
        ("transpose", {"perm": (1, 0, 3, 2)}, [x]),
        ("expand", {"shape": (3, 2, 4, 6, 6)}, [x]),
        ("resize", {"size": (9, 9), "mode": "linear"}, [x]),
        ("linear", {}, [x, (7, 6)]),
        ("matmul", {}, [x, (2, 4, 6, 5)]),
        ("prelu", {}, [x, (4,)]),
    ]


@pytest.mark.parametrize(
    ("op", "attrs", "shapes"),
    _unary_and_others(),
    ids=[f"{op}-{i}" for i, (op, *_) in enumerate(_unary_and_others())],
)
def test_operators_read_and_write_ranges_of_a_batch(device, rng, op, attrs, shapes):
    """The first operand comes out of a split, the result goes into a concat: same bits as on its own."""
    data = [np.abs(rng.standard_normal(shape)).astype(np.float32) + 0.1 for shape in shapes]
    alone = Op(device, op, shapes, **attrs)
    wanted = alone(*data)

    graph = _core.Graph()
    n, c, *spatial = shapes[0]
    whole = graph.input("whole", (n, c + 3, *spatial))
    _, first = graph.node("split", "split", [whole], {"sizes": (3, c)})
    rest = [graph.input(f"x{i}", shape) for i, shape in enumerate(shapes[1:])]
    (y,) = graph.node(op, "y", [first, *rest], attrs)
    (other,) = graph.node("neg", "other", [y], {})
    dim = 1 if wanted.ndim > 1 else 0
    (joined,) = graph.node("concat", "joined", [other, y], {"dim": dim})
    graph.output(joined, "joined")
    with _core.Plan(device, graph, fuse=False) as plan:
        larger = np.concatenate([np.full((n, 3, *spatial), np.nan, np.float32), data[0]], axis=1)
        (got,) = plan.run([larger, *data[1:]])
    expected = np.concatenate([-wanted, wanted], axis=dim)
    if op == "linear" and device.type != "cpu":  # rows apart are not for tensor cores: sums in another order
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, expected)
