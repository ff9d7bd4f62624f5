"""The float64 definitions against PyTorch, stored PyTorch values, plain loops and identities."""

from __future__ import annotations

import json
import lzma
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caselib import LARGE_DIR, Case, case_files, compare, layers_of_nets, load_cases
from clcnn._reference import REFERENCE, REQUIRED, SPECS


def _shrunk(name: str) -> list[Case]:
    return [case.shrunk(2_000_000) for case in layers_of_nets(name)]


# Files of operators that PyTorch has no single call for; tests/grad and tests/train compare whole passes.
APART = ("gradients", "update")
# One test a file: of tests/cases/, and of benchmarks/cases/ with what tests run of it.
FILES = {name: partial(load_cases, name) for name in case_files() if name not in APART} | {
    f"large-{name}": partial(_shrunk, name) for name in case_files(LARGE_DIR) if layers_of_nets(name)
}


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


# ---- the interface -----------------------------------------------------------------------------------------


def test_attributes_have_known_kinds_and_fitting_defaults():
    for op, spec in SPECS.items():
        for name, (kind, default) in spec.attributes.items():
            if default is not REQUIRED:
                fits = {"int": int, "float": float, "str": str, "ints": tuple, "floats": tuple}[kind]
                assert isinstance(default, fits), (op, name)


def test_wrong_attributes_are_refused():
    with pytest.raises(TypeError, match="conv: unknown attribute 'strides'"):
        REFERENCE["conv"](np.ones((1, 1, 3, 3)), np.ones((1, 1, 3, 3)), strides=2)
    with pytest.raises(TypeError, match="max_pool: attribute 'kernel_size' is required"):
        REFERENCE["max_pool"](np.ones((1, 1, 3, 3)))


# ---- PyTorch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_torch_agrees(name):
    """Every case in float64, tightly; and in float32 within our own tolerances, which shows that they can be
    met."""
    torch = pytest.importorskip("torch")
    import torch_oracle

    compared = 0
    cases = FILES[name]()
    for case in cases:
        data = case.data()
        want = case.reference(data)
        try:
            double = torch_oracle.run_case(case, data, torch.float64)
            single = torch_oracle.run_case(case, data, torch.float32)
        except torch_oracle.NoEquivalent:
            continue
        pairs = zip(double, want) if isinstance(want, list) else [(double, want)]
        for got, expected in pairs:
            np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11, err_msg=case.text)
        # PyTorch's vectorised float32 has quirks of its own at infinity: gelu(inf) is NaN.
        if case.values == "normal":
            try:
                case.check(single, data)
            except AssertionError as why:
                raise AssertionError(f"{case.text} in float32: {why}") from why
        compared += 1
    assert compared >= 0.5 * len(cases)


# ---- stored values -----------------------------------------------------------------------------------------


def test_stored_convolutions(data_dir: Path):
    folder = data_dir / "grads"
    cases = json.loads((folder / "torch_conv_bn.json").read_text())["cases"]
    stored = np.load(folder / "torch_conv_bn.npz")
    checked = 0
    for case in cases:
        op = {"conv2d": "conv", "conv_transpose2d": "conv_transpose"}.get(case["op"])
        if op is None:
            continue
        prefix = f"c{case['id']}_"
        attrs = {
            "stride": case["stride"],
            "padding": case["pad"],
            "dilation": case["dilation"],
            "groups": case["groups"],
        }
        if op == "conv_transpose":
            attrs["output_padding"] = case["output_padding"]
        got = REFERENCE[op](
            stored[prefix + "x"],
            stored[prefix + "w"],
            stored[prefix + "b"] if case["bias"] else None,
            **attrs,
        )
        np.testing.assert_allclose(got, stored[prefix + "y"], rtol=1e-6, atol=1e-6, err_msg=str(case))
        checked += 1
    assert checked == 40


def _dlprimitives(folder: Path, name: str) -> list[tuple[dict[str, Any], list[np.ndarray], np.ndarray]]:
    """Options, inputs (parameters last) and first output of every case that has its numbers in the file."""
    with lzma.open(folder / "grads" / f"dlprimitives_{name}.json.xz") as file:
        tests = json.load(file)["tests"]
    rows = []
    for test in tests:
        for case in test["cases"]:
            if "in_tensors" not in case:
                continue
            shapes = case["in_shapes"] + [spec["shape"] for spec in test.get("param_specs", [])]
            tensors = case["in_tensors"] + test.get("param_tensors", [])
            inputs = [np.reshape(t, s) for t, s in zip(tensors, shapes)]
            rows.append((test["options"], inputs, np.reshape(case["out_tensors"][0], case["out_shapes"][0])))
    return rows


def _pooling(options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    attrs = {
        "kernel_size": options["kernel"],
        "stride": options["stride"],
        "padding": options["pad"],
        "ceil_mode": int(options["ceil_mode"]),
    }
    if options["mode"] == "avg":
        attrs["count_include_pad"] = int(options["count_include_pad"])
    return options["mode"] + "_pool", attrs


def _interpolation(options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    attrs: dict[str, Any] = {}
    if options["out_h"] > 0:
        attrs["size"] = (options["out_h"], options["out_w"])
    else:
        attrs["scales"] = (options["scale_y"], options["scale_x"])
    if options["method"] == "bilinear":
        attrs |= {
            "mode": "linear",
            "coordinates": "align_corners" if options["align_corners"] else "half_pixel",
        }
    elif options["method"] == "nearest":
        attrs |= {"coordinates": "asymmetric"}
    else:  # nearest-exact
        attrs |= {"coordinates": "half_pixel", "nearest_rounding": "round_prefer_ceil"}
    return "resize", attrs


_REDUCTION = {"sum": "reduce_sum", "mean": "reduce_mean"}


def _reduction(options: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    if options["method"] not in _REDUCTION or {"start_axis", "output_scale"} & set(options):
        return None
    return _REDUCTION[options["method"]], {
        "axes": options.get("dims", ()),
        "keepdims": int(options["keep_dim"]),
    }


# File -> operator and attributes for its options, None where we have no such operator.
_STORED = {
    "abs": lambda o: ("abs", {}),
    "hardtanh": lambda o: ("clip", {"min": float(o["min_val"]), "max": float(o["max_val"])}),
    "softmax": lambda o: ("softmax", {"dim": 1}),
    "log_softmax": lambda o: ("log_softmax", {"dim": 1}),
    "activation": lambda o: (o["activation"], {}),
    "global_pooling": lambda o: (f"adaptive_{o['mode']}_pool", {"output_size": 1}),
    "pooling2d": _pooling,
    "concat": lambda o: ("concat", {"dim": o["dim"]}),
    "slice": lambda o: ("slice", {"starts": o["begin"], "ends": o["end"], "axes": o["dim"]}),
    "inner_product": lambda o: ("linear", {}),
    "interpolation": _interpolation,
    "reduction": _reduction,
}


@pytest.mark.parametrize("name", sorted(_STORED))
def test_stored_values(name: str, data_dir: Path):
    checked = 0
    for options, inputs, want in _dlprimitives(data_dir, name):
        mapped = _STORED[name](options)
        if mapped is None:
            continue
        got = REFERENCE[mapped[0]](*inputs, **mapped[1])
        if name == "inner_product" and options["activation"] != "identity":
            got = REFERENCE[options["activation"]](got)
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=2e-5, atol=2e-6, err_msg=str(options))
        checked += 1
    assert checked


# ---- plain loops -------------------------------------------------------------------------------------------


def _conv_loops(x, w, b, stride, padding, dilation, groups):
    n, c, h, width = x.shape
    k, per_group, r, s = w.shape
    top, left, bottom, right = padding
    p = (h + top + bottom - dilation[0] * (r - 1) - 1) // stride[0] + 1
    q = (width + left + right - dilation[1] * (s - 1) - 1) // stride[1] + 1
    y = np.zeros((n, k, p, q))
    for i, o, a, e in product(range(n), range(k), range(p), range(q)):
        total = b[o]
        first = o // (k // groups) * per_group
        for ch, u, v in product(range(per_group), range(r), range(s)):
            row, column = a * stride[0] - top + u * dilation[0], e * stride[1] - left + v * dilation[1]
            if 0 <= row < h and 0 <= column < width:
                total += x[i, first + ch, row, column] * w[o, ch, u, v]
        y[i, o, a, e] = total
    return y


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [
        ((1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 1), (1, 2, 0, 3), (1, 1), 1),
        ((1, 3), (3, 0, 1, 2), (2, 1), 2),
        ((2, 2), (1, 1, 1, 1), (1, 2), 4),
    ],
)
def test_conv_is_the_loops(stride, padding, dilation, groups):
    x, w, b = _random(2, 4, 6, 7), _random(8, 4 // groups, 3, 2), _random(8)
    got = REFERENCE["conv"](x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups)
    np.testing.assert_allclose(
        got, _conv_loops(x, w, b, stride, padding, dilation, groups), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation", "ceil", "include"),
    [
        (7, 3, 2, (0, 0), 1, 1, 1),
        (8, 3, 2, (1, 1), 1, 1, 1),
        (8, 3, 2, (1, 1), 1, 1, 0),
        (9, 2, 3, (0, 2), 2, 0, 1),
        (9, 2, 3, (1, 0), 2, 0, 0),
        (5, 2, 4, (1, 1), 1, 1, 1),
        (6, 2, 2, (2, 1), 1, 1, 0),
    ],
)
def test_pooling_is_the_loops(size, kernel, stride, padding, dilation, ceil, include):
    x = _random(1, 1, size)
    begin, end = padding
    largest, mean = [], []
    start = -begin
    while True:
        taps = [start + i * dilation for i in range(kernel)]
        complete = taps[-1] < size + end
        if not (
            complete
            or (
                ceil
                and start < size
                and (start + begin) - stride + dilation * (kernel - 1) < size + begin + end - 1
            )
        ):
            break
        inside = [x[0, 0, t] for t in taps if 0 <= t < size]
        counted = len([t for t in taps if -begin <= t < size + end]) if include else len(inside)
        largest.append(max(inside, default=-np.inf))
        mean.append(np.divide(sum(inside), counted) if counted else np.nan)
        start += stride
    attrs = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "ceil_mode": ceil,
    }
    np.testing.assert_allclose(REFERENCE["max_pool"](x, **attrs)[0, 0], largest)
    np.testing.assert_allclose(REFERENCE["avg_pool"](x, **attrs, count_include_pad=include)[0, 0], mean)


# ---- identities --------------------------------------------------------------------------------------------

_GEOMETRIES = [
    {"padding": (1,)},
    {"stride": (2,), "padding": (1,)},
    {"stride": (2, 3), "padding": (0, 1, 2, 0), "dilation": (2, 1)},
    {"groups": 2, "stride": (1, 2)},
]


@pytest.mark.parametrize("attrs", _GEOMETRIES)
def test_conv_transpose_is_the_adjoint(attrs):
    """<conv(x), y> = <x, conv_transpose(y)>, where output_padding makes up for what the stride drops."""
    x = _random(2, 4, 9, 11)
    w = _random(6, 4 // attrs.get("groups", 1), 3, 3)
    forward = REFERENCE["conv"](x, w, **attrs)
    y = _random(*forward.shape, seed=1)
    plain = REFERENCE["conv_transpose"](y, w, **attrs)
    missing = tuple(a - b for a, b in zip(x.shape[2:], plain.shape[2:]))
    back = REFERENCE["conv_transpose"](y, w, **attrs, output_padding=missing)
    assert back.shape == x.shape
    np.testing.assert_allclose(np.vdot(forward, y), np.vdot(x, back), rtol=1e-12)


def test_conv_of_an_impulse_is_the_flipped_kernel():
    x = np.zeros((1, 1, 5, 5))
    x[0, 0, 2, 2] = 1.0
    w = _random(1, 1, 3, 3)
    np.testing.assert_array_equal(REFERENCE["conv"](x, w)[0, 0], w[0, 0, ::-1, ::-1])


@pytest.mark.parametrize("attrs", _GEOMETRIES)
def test_conv_is_linear_and_shifts(attrs):
    w = _random(6, 4 // attrs.get("groups", 1), 3, 3)
    a, b = _random(1, 4, 12, 12), _random(1, 4, 12, 12, seed=1)

    def conv(x):
        return REFERENCE["conv"](x, w, **attrs)

    np.testing.assert_allclose(conv(2.0 * a - 3.0 * b), 2.0 * conv(a) - 3.0 * conv(b), rtol=1e-10, atol=1e-10)
    # A batch is its images one by one.
    np.testing.assert_allclose(conv(np.concatenate([a, b])), np.concatenate([conv(a), conv(b)]), rtol=1e-12)


def test_conv_ranks_agree():
    x, w = _random(2, 3, 9), _random(4, 3, 3)
    flat = REFERENCE["conv"](x, w, stride=2, padding=1)
    image = REFERENCE["conv"](x[:, :, None], w[:, :, None], stride=(1, 2), padding=(0, 1))
    volume = REFERENCE["conv"](x[:, :, None, None], w[:, :, None, None], stride=(1, 1, 2), padding=(0, 0, 1))
    np.testing.assert_array_equal(flat, image[:, :, 0])
    np.testing.assert_array_equal(flat, volume[:, :, 0, 0])


def test_conv_1x1_is_a_matrix_product_and_linear_too():
    x, w, b = _random(2, 5, 3, 4), _random(7, 5, 1, 1), _random(7)
    got = REFERENCE["conv"](x, w, b).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(
        got, REFERENCE["linear"](x.transpose(0, 2, 3, 1), w[:, :, 0, 0], b), rtol=1e-12
    )
    rows = x.transpose(0, 2, 3, 1).reshape(-1, 5)
    np.testing.assert_allclose(
        got.reshape(-1, 7), REFERENCE["gemm"](rows, w[:, :, 0, 0], b, trans_b=1), rtol=1e-12
    )


def test_softmax_is_shift_invariant_and_sums_to_one():
    x = _random(3, 7, 5)
    y = REFERENCE["softmax"](x, dim=1)
    np.testing.assert_allclose(y.sum(axis=1), 1.0)
    np.testing.assert_allclose(REFERENCE["softmax"](x + 900.0, dim=1), y, rtol=1e-10)
    np.testing.assert_allclose(np.exp(REFERENCE["log_softmax"](x, dim=1)), y, rtol=1e-12)


def test_global_pooling_is_a_reduction():
    x = _random(2, 3, 5, 7)
    np.testing.assert_allclose(
        REFERENCE["adaptive_avg_pool"](x, output_size=1), REFERENCE["reduce_mean"](x, axes=(2, 3))
    )
    np.testing.assert_array_equal(
        REFERENCE["adaptive_max_pool"](x, output_size=1), REFERENCE["max_pool"](x, kernel_size=(5, 7))
    )


def test_nan_and_infinity_propagate():
    x = np.array([np.nan, np.inf, -np.inf])
    expected = {
        "relu": [np.nan, np.inf, 0.0],
        "relu6": [np.nan, 6.0, 0.0],
        "clip": [np.nan, np.inf, -np.inf],
        "sigmoid": [np.nan, 1.0, 0.0],
        "hard_swish": [np.nan, np.inf, np.nan],
        "silu": [np.nan, np.inf, np.nan],
        "leaky_relu": [np.nan, np.inf, -np.inf],
        "elu": [np.nan, np.inf, -1.0],
        "gelu": [np.nan, np.inf, np.nan],
        "sqrt": [np.nan, np.inf, np.nan],
    }
    for op, want in expected.items():
        np.testing.assert_array_equal(REFERENCE[op](x), want, err_msg=op)
    for op in ("minimum", "maximum"):
        np.testing.assert_array_equal(REFERENCE[op](x, np.zeros(3))[0], np.nan)
        np.testing.assert_array_equal(REFERENCE[op](np.zeros(3), x)[0], np.nan)
    image = np.zeros((1, 1, 2, 2))
    image[0, 0, 1, 0] = np.nan
    assert np.isnan(REFERENCE["max_pool"](image, kernel_size=2)).all()
    assert np.isnan(REFERENCE["reduce_max"](image)).all()


def test_resize_by_hand():
    x = np.array([[[0.0, 10.0, 20.0]]])
    rounding = {
        "floor": [0, 0, 0, 10, 10, 20],
        "ceil": [0, 10, 10, 20, 20, 20],
        "round_prefer_floor": [0, 0, 10, 10, 20, 20],
        "round_prefer_ceil": [0, 0, 10, 10, 20, 20],
    }
    for name, want in rounding.items():
        got = REFERENCE["resize"](x, size=6, nearest_rounding=name)
        np.testing.assert_array_equal(got[0, 0], want, err_msg=name)
    corners = REFERENCE["resize"](x, size=5, mode="linear", coordinates="align_corners")
    np.testing.assert_allclose(corners[0, 0], [0, 5, 10, 15, 20])
    half = REFERENCE["resize"](x, size=6, mode="linear")
    np.testing.assert_allclose(half[0, 0], [0, 2.5, 7.5, 12.5, 17.5, 20])
    # Half a step lies between two neighbours: the rounding decides.
    ties = {"round_prefer_floor": [0, 0, 10, 10, 20], "round_prefer_ceil": [0, 10, 10, 20, 20]}
    for name, want in ties.items():
        got = REFERENCE["resize"](x, size=5, coordinates="align_corners", nearest_rounding=name)
        np.testing.assert_array_equal(got[0, 0], want, err_msg=name)


def test_resize_scales_place_the_samples_when_given():
    x = np.arange(4.0).reshape(1, 1, 4)
    by_scale = REFERENCE["resize"](x, scales=(1.4,), mode="linear")
    by_size = REFERENCE["resize"](x, size=(5,), mode="linear")
    assert by_scale.shape == by_size.shape == (1, 1, 5)
    np.testing.assert_allclose(by_scale[0, 0, 2], 2.5 / 1.4 - 0.5)
    np.testing.assert_allclose(by_size[0, 0, 2], 2.5 * 4 / 5 - 0.5)


def test_movement_by_hand():
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(
        REFERENCE["slice"](x, starts=-1, ends=-9, axes=1, steps=-2), [[2, 0], [5, 3]]
    )
    np.testing.assert_array_equal(REFERENCE["pad"](x, pads=(0, 1, -1, -1), value=9), [[9, 0, 1]])
    assert REFERENCE["reshape"](x, shape=(0, -1, 1)).shape == (2, 3, 1)
    assert REFERENCE["expand"](x, shape=(4, 1, 1)).shape == (4, 2, 3)
    assert [p.shape for p in REFERENCE["split"](x, sizes=(1, 2))] == [(2, 1), (2, 2)]
    with pytest.raises(ValueError, match="do not add up"):
        REFERENCE["split"](x, sizes=(1, 1))


def test_float32_sums_stay_inside_the_strict_bound():
    """A running float32 sum, the plainest GEMM, is what "strict" is measured by."""
    for terms in (9, 100, 2000):
        a, b = _random(50, terms).astype(np.float32), _random(terms, 40, seed=1).astype(np.float32)
        total = np.zeros((50, 40), np.float32)
        for i in range(terms):
            total += a[:, i : i + 1] * b[i]
        compare(total, REFERENCE["matmul"](a, b), "matmul", "strict", terms=terms)
