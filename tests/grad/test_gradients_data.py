"""Gradients against PyTorch's, kept in the folder of test data: convolutions and batch norm, computed in
float64, and the cases of dlprimitives."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import Graph, Value, ops
from clcnn.nn import functional


@pytest.fixture(scope="module")
def folder(data_dir: Path) -> Path:
    return data_dir / "grads"


def check(
    device: clcnn.Device,
    forward: Callable[..., Value],
    inputs: dict[str, np.ndarray],
    dy: np.ndarray,
    want: dict[str, np.ndarray],
    tolerance: float,
) -> None:
    """forward(**inputs) and its gradients for dy, against want: "y", and a name of inputs each."""
    g = Graph()
    values = {name: g.input(name, x.shape, str(x.dtype)) for name, x in inputs.items()}
    slope = g.input("slope", dy.shape)
    y = forward(**values)
    g.output(y, "y")
    wrt = [name for name in want if name != "y"]
    loss = ops.reduce_sum(ops.mul(ops.reshape(y, shape=dy.shape), slope), keepdims=False)
    for name, dx in zip(wrt, clcnn.grad(loss, [values[name] for name in wrt])):
        g.output(dx, name)
    with clcnn.compile(g, device=device, tune="off") as plan:
        results = dict(zip(g.outputs, plan(*inputs.values(), dy)))
    for name, wanted in want.items():
        scale = max(float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64)))), 1e-3)
        error = float(np.abs(results[name].reshape(wanted.shape) - wanted).max()) / scale
        assert error < tolerance, f"{name}: {error:.1e} of its rms"


@pytest.mark.parametrize("number", range(40))
def test_convolutions_of_torch(device: clcnn.Device, folder: Path, number: int) -> None:
    case = next(
        c for c in json.loads((folder / "torch_conv_bn.json").read_text())["cases"] if c["id"] == number
    )
    with np.load(folder / "torch_conv_bn.npz") as arrays:
        of = {key.partition("_")[2]: arrays[key] for key in arrays.files if key.startswith(f"c{number}_")}
    op = {"conv2d": "conv", "conv_transpose2d": "conv_transpose"}[case["op"]]
    attrs = {
        "stride": case["stride"],
        "padding": case["pad"],
        "dilation": case["dilation"],
        "groups": case["groups"],
    }
    if op == "conv_transpose":
        attrs["output_padding"] = case["output_padding"]
    names = ["x", "w", "b"] if case["bias"] else ["x", "w"]
    want = {"y": of["y"], **{name: of[f"d{name}"] for name in names}}
    inputs = {name: of[name] for name in names}
    check(device, lambda x, **w: x.graph.apply(op, x, *w.values(), **attrs), inputs, of["dy"], want, 1e-4)


@pytest.mark.parametrize("number", range(6))
def test_batch_norm_of_torch(device: clcnn.Device, folder: Path, number: int) -> None:
    cases = json.loads((folder / "torch_conv_bn.json").read_text())["cases"]
    eps = next(c for c in cases if c["id"] == f"bn{number}")["eps"]
    with np.load(folder / "torch_conv_bn.npz") as arrays:
        of = {key.partition("_")[2]: arrays[key] for key in arrays.files if key.startswith(f"bn{number}_")}
    want = {"y": of["y"], "x": of["dx"], "gamma": of["dgamma"], "beta": of["dbeta"]}
    inputs = {name: of[name] for name in ("x", "gamma", "beta")}
    # Of two values a channel all cancels in dx but what the root of eps lets through.
    tolerance = 1e-4 if of["x"].size > 2 * of["x"].shape[1] else 5e-2
    check(
        device,
        lambda x, gamma, beta: ops.batch_norm_train(x, gamma, beta, eps=eps)[0],
        inputs,
        of["dy"],
        want,
        tolerance,
    )


# ---- dlprimitives ------------------------------------------------------------------------------------------


def _pool(o: dict[str, Any], x: Value) -> Value:
    attrs = {
        "kernel_size": o["kernel"],
        "stride": o["stride"],
        "padding": o["pad"],
        "ceil_mode": o["ceil_mode"],
    }
    if o["mode"] == "max":
        return ops.max_pool(x, **attrs)
    return ops.avg_pool(x, **attrs, count_include_pad=o["count_include_pad"])


def _global(o: dict[str, Any], x: Value) -> Value:
    return (ops.adaptive_max_pool if o["mode"] == "max" else ops.adaptive_avg_pool)(x, output_size=1)


def _activation(o: dict[str, Any], x: Value) -> Value:
    return x if o["activation"] == "identity" else x.graph.apply(o["activation"], x)


def _reduce(o: dict[str, Any], x: Value) -> Value:
    y = {"sumsq": lambda: ops.mul(x, x), "abssum": lambda: ops.abs(x)}.get(o["method"], lambda: x)()
    axes = o.get("dims", tuple(range(o.get("start_axis", 0) % x.ndim, x.ndim)))
    y = (ops.reduce_mean if o["method"] == "mean" else ops.reduce_sum)(y, axes=axes, keepdims=o["keep_dim"])
    return ops.mul(y, o.get("output_scale", 1.0))


def _joined(o: dict[str, Any], losses: Value) -> Value:
    return {"none": lambda y: y, "mean": ops.reduce_mean, "sum": ops.reduce_sum}[o["reduce"]](losses)


def _negative_log(o: dict[str, Any], x: Value, labels: Value) -> Value:
    """By comparing labels with the numbers of all classes."""
    classes = np.arange(x.shape[1], dtype=np.int64)
    chosen = ops.cast(ops.equal(ops.unsqueeze(labels, axes=1), classes), to="float32")
    return _joined(o, ops.neg(ops.reduce_sum(ops.mul(x, chosen), axes=1, keepdims=False)))


def _resized(o: dict[str, Any], x: Value) -> Value:
    size, scale = (o["out_h"], o["out_w"]), (o["scale_y"], o["scale_x"])
    return functional.interpolate(
        x,
        size if size[0] > 0 else None,
        scale if scale[0] > 0 else None,
        mode=o["method"],
        align_corners=o["align_corners"] if o["method"] == "bilinear" else None,
    )


FAMILIES: dict[str, Callable[..., Value]] = {
    "abs": lambda o, x: ops.abs(x),
    "activation": _activation,
    "concat": lambda o, *xs: ops.concat(*xs, dim=o["dim"]),
    "global_pooling": _global,
    "hardtanh": lambda o, x: ops.clip(x, min=o["min_val"], max=o["max_val"]),
    "interpolation": _resized,
    "inner_product": lambda o, x, w, b=None: _activation(o, ops.linear(ops.flatten(x), w, b)),
    "log_softmax": lambda o, x: ops.log_softmax(x, dim=1),
    "mse_loss": lambda o, x, label: _joined(o, ops.pow(ops.sub(x, label), 2.0)),
    "nll_loss": _negative_log,
    "pooling2d": _pool,
    "reduction": _reduce,
    "slice": lambda o, x: ops.slice(x, starts=(o["begin"],), ends=(o["end"],), axes=(o["dim"],)),
    "softmax": lambda o, x: ops.softmax(x, dim=1),
    "softmax_loss": lambda o, x, label: ops.cross_entropy(x, label),
}


def test_a_threshold_has_no_gradient_but_zeros(device: clcnn.Device, folder: Path) -> None:
    """dlprimitives gives zeros; here the operator that lets no gradient through is told by its name."""
    packed, tried = (folder / "dlprimitives_threshold.json.xz").read_bytes(), 0
    for test in json.loads(lzma.decompress(packed))["tests"]:
        for case in test["cases"]:
            g = clcnn.Graph()
            x = g.input("x", case["in_shapes"][0])
            y = ops.cast(ops.greater(x, test["options"].get("threshold", 0.0), name="above"), name="y")
            with pytest.raises(clcnn.UnsupportedError, match="greater above: this operator has no gradient"):
                clcnn.grad(ops.reduce_sum(y, keepdims=False), x)
            g.output(y, "y")
            assert not np.any(case.get("in_diffs", [0.0])[0])
            if "in_tensors" not in case:  # shapes alone
                continue
            with clcnn.compile(g, device=device) as plan:
                given, want = (
                    _arrays(case[f"{side}_tensors"], case[f"{side}_shapes"])[0] for side in ("in", "out")
                )
                np.testing.assert_array_equal(plan(given), want)
            tried += 1
    assert tried


def test_every_file_of_the_folder_is_read(folder: Path) -> None:
    found = {
        path.name.removeprefix("dlprimitives_").partition(".")[0] for path in folder.glob("dlprimitives_*")
    }
    assert found == {*FAMILIES, "threshold"}


def _forward(family: str, options: dict[str, Any], **inputs: Value) -> Value:
    return FAMILIES[family](options, *inputs.values())


def _arrays(flat: list[Any], shapes: list[list[int]]) -> list[np.ndarray]:
    """Lists as arrays; labels, which have no gradient, are whole numbers."""
    return [np.asarray(x, np.float32).reshape(shape) for x, shape in zip(flat, shapes)]


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_of_dlprimitives(device: clcnn.Device, folder: Path, family: str) -> None:
    packed = (folder / f"dlprimitives_{family}.json.xz").read_bytes()
    tests = json.loads(lzma.decompress(packed))["tests"]
    tried = 0
    for test in tests:
        parameters = _arrays(test.get("param_tensors", ()), [p["shape"] for p in test.get("param_specs", ())])
        floats = [p.get("requires_grad", True) for p in test["setup_tensors"]]
        for case in (c for c in test["cases"] if "out_diffs" in c and "in_diffs" in c):
            given = _arrays(case["in_tensors"], case["in_shapes"])
            given = [x if wanted else x.astype(np.int64) for x, wanted in zip(given, floats)] + parameters
            inputs = {f"x{i}": x for i, x in enumerate(given)}
            slopes = [*case["in_diffs"], *case.get("params_diffs", ())]
            want = {
                name: np.asarray(slope, np.float32).reshape(x.shape)
                for (name, x), slope in zip(inputs.items(), slopes)
                if slope is not False and slope is not None
            }
            want["y"] = _arrays(case["out_tensors"], case["out_shapes"])[0]
            dy = _arrays(case["out_diffs"], case["out_shapes"])[0]
            forward = partial(_forward, family, test["options"])
            check(device, forward, inputs, dy, want, 1e-3)
            tried += 1
    assert tried
