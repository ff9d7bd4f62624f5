"""Quantised layers on maps of bytes: exact sums on every shape of a sweep, what becomes part of what, what
stays in floats, and devices without the instruction."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from clcnn.ops import ON_BYTES
from quantised_nets import Quantised, Tried, device_on_bytes

ROOT = Path(__file__).resolve().parents[2]
OFF = {"CLCNN_BYTE_PRODUCTS": "0"}
INNER = {"stem": "products", "inner": "amx", "last": "amx"}


device = pytest.fixture(scope="module")(device_on_bytes)


DEPTHWISE: Any = (16, 16, (2, 1), (5, 4), {"groups": 16})
# Channels, filters, window, height and width, and attributes: every tile (1, 4, 7, 14 and 28 pixels), blocks
# of 4 and of 16 channels, part blocks, borders, strides.
SWEEP = (
    (3, 64, 7, (29, 31), {"stride": (2, 2), "padding": (3,)}),
    (1, 5, 3, (4, 5), {"padding": (1,)}),
    (4, 16, 1, (1, 1), {}),
    (16, 16, 1, (1, 1), {}),
    (16, 16, 1, (3, 20), {}),
    (5, 17, 1, (2, 2), {}),
    (64, 64, 1, (7, 7), {}),
    (64, 100, 1, (7, 7), {"stride": (2, 2)}),
    (40, 33, 1, (14, 14), {"stride": (2, 1)}),
    (33, 48, 1, (6, 5), {"padding": (1,)}),
    (17, 130, 3, (9, 9), {}),
    (16, 48, 3, (7, 7), {"padding": (1,)}),
    (16, 32, 3, (14, 14), {"padding": (1,)}),
    (20, 16, 3, (15, 29), {"padding": (1, 0, 2, 1), "stride": (2, 2)}),
    (20, 16, 3, (16, 30), {"padding": (1,), "stride": (1, 2)}),
    (18, 20, 3, (12, 13), {"padding": (2,), "dilation": (2, 2)}),
    (18, 20, (1, 5), (6, 40), {"padding": (0, 2)}),
    (18, 20, (5, 1), (9, 8), {"padding": (2, 0)}),
    (32, 16, 2, (5, 5), {"stride": (2, 2)}),
    (17, 17, 3, (9, 11), {"padding": (1,), "groups": 17}),
    (32, 32, 3, (14, 14), {"padding": (1,), "groups": 32, "stride": (2, 2)}),
    (40, 40, 5, (8, 9), {"padding": (2,), "groups": 40}),
    (16, 16, 7, (9, 9), {"padding": (3,), "groups": 16}),
    (16, 16, (3, 9), (9, 12), {"padding": (1, 4), "groups": 16}),
    DEPTHWISE,
    (32, 32, 3, (7, 7), {"padding": (1,), "groups": 8}),
    (64, 64, 3, (14, 9), {"padding": (1,), "groups": 4, "stride": (2, 2)}),
    (48, 96, 3, (6, 7), {"padding": (1,), "groups": 2}),
    (120, 72, 1, (5, 6), {"groups": 3}),
    (20, 30, 3, (5, 5), {"groups": 5}),
)


@pytest.mark.parametrize("row", SWEEP, ids=lambda row: "-".join(map(str, row[:4])).replace(" ", ""))
@pytest.mark.parametrize("batch", [1, 3])
def test_sums_are_exact(device, row, batch):
    channels, filters, size, plane, attrs = row
    net = Quantised(channels + filters)
    taps = (size if isinstance(size, tuple) else (size, size))[0] ** 2
    most = min(127, 2**24 // (channels * taps * 300))  # so that float32 holds the sums too
    x = net.steps("q", net.input("x", batch, channels, *plane), 77, 0.5)
    net.output(net.sum("a", x, filters, size, 100, most, **attrs))
    tried = Tried(device, net).exact()
    assert tried.ops == ["div", "to_bytes", "byte_conv", "from_bytes"] or tried.ops == [
        "to_bytes",
        "byte_conv",
        "from_bytes",
    ]


# The same for tiles of 32 pixels, 32 filters and 64 channels.
TILES = (
    (64, 40, 3, (13, 14), {"padding": (1,)}),
    (16, 16, 1, (1, 1), {}),
    (130, 70, 1, (9, 21), {}),
    (65, 33, 1, (14, 15), {"stride": (2, 2)}),
    (33, 48, 1, (6, 5), {"padding": (1,)}),
    (20, 16, 3, (15, 29), {"padding": (1, 0, 2, 1), "stride": (2, 2)}),
    (96, 32, 3, (16, 30), {"padding": (1,), "stride": (1, 2)}),
    (70, 20, 3, (12, 13), {"padding": (2,), "dilation": (2, 2)}),
    (40, 20, (1, 7), (6, 40), {"padding": (0, 3)}),
    (64, 64, 2, (56, 56), {"stride": (2, 2)}),
    (2100, 80, 1, (5, 7), {}),
    (256, 96, 3, (40, 40), {"padding": (1,)}),
    (128, 128, 3, (14, 9), {"padding": (1,), "groups": 32}),
    (192, 96, 3, (9, 7), {"padding": (1,), "groups": 8, "stride": (2, 2)}),
    (240, 72, 1, (5, 6), {"groups": 3}),
    (2048, 512, 1, (4, 6), {"groups": 4}),
)
AMX: dict[str, Any] = {"overrides": {"a": "amx"}}


@pytest.mark.parametrize("row", TILES, ids=lambda row: "-".join(map(str, row[:4])).replace(" ", ""))
@pytest.mark.parametrize("batch", [1, 3])
def test_sums_of_tiles_are_exact(device, row, batch):
    """By the instruction, or by OpenCL C where the processor has no tiles."""
    channels, filters, size, plane, attrs = row
    net = Quantised(channels + filters)
    most = max(1, min(127, 2**24 // (channels * 9 * 300)))
    x = net.steps("q", net.input("x", batch, channels, *plane), 77, 0.5)
    net.output(net.sum("a", x, filters, size, 100, most, **attrs))
    tried = Tried(device, net, **AMX).exact()
    assert "byte_amx" in tried.kernels


def test_tiles_add_maps(device):
    tried, others = (Tried(device, residual(), **options) for options in ({"overrides": INNER}, {}))
    assert "byte_amx" in tried.kernels
    for one, other in zip(tried.got, others.got, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_that_floats_cannot_hold_are_exact(device):
    net = Quantised()
    w, bias = net.whole(16, 512, 3, 3), net.whole(16, most=2**20)
    w[:8] = 127
    x = net.steps("q", net.input("x", 1, 512, 5, 5), 0)
    y = net.layer("conv", "a", x, net.constant(w), net.constant(bias))
    factor = np.float32(1.5e-6)
    y = net.layer("mul", "scaled", net.layer("round", "r", y), net.number(factor))
    net.output(net.steps("s", y, 20))
    data = np.random.default_rng(1).integers(200, 256, (1, 512, 5, 5)).astype(np.float32)
    with _core.Plan(device, net.graph) as plan:
        (got,) = plan.run([data])
        assert "byte_conv" in {row["op"] for row in plan.layers()}
    sums = np.zeros((16, 3, 3), np.int64)
    for i in range(3):
        for j in range(3):
            window = data[0, :, i : i + 3, j : j + 3].astype(np.int64)
            sums += np.einsum("kc,chw->khw", w[:, :, i, j].astype(np.int64), window)
    sums += bias.astype(np.int64)[:, None, None]
    assert sums.max() > 2**26
    steps = np.clip(np.rint(sums.astype(np.float32) * factor), -20, 235)
    np.testing.assert_array_equal(got[0], steps)


def residual(turned: bool = False, relu: bool = False, zero: int = 0) -> Quantised:
    """Two convolutions, of which one is added to the other's input, and one more."""
    net = Quantised(8)
    x = net.sum("stem", net.steps("q", net.input("x", 2, 3, 20, 20), 130, 0.7), 20, 3, 3, padding=(1,))
    y = net.sum("inner", x, 20, 3, 120, padding=(1,))
    parts = [net.scaled("y", y, 0.31), net.scaled("x1", x, 0.17)]
    total = net.layer("add", "total", *parts[:: -1 if turned else 1])
    if relu:
        total = net.layer("relu", "relu", total)
    steps = net.steps("all", total, zero, 0.29)
    real = net.layer("fake_quantize", "real", total, scale=0.29, zero_point=float(zero))
    net.output(net.sum("last", steps, 18, 1, 9), real)
    return net


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("relu", "zero"), [(False, 60), (True, 0), (False, 0)])
def test_sums_of_maps_become_part_of_a_convolution(device, turned, relu, zero):
    """As onnxruntime adds them: the float path rounds a few elements to the other side of a tie."""
    tried = Tried(device, residual(turned, relu, zero))
    assert tried.ops.count("byte_conv") == 3
    assert not {"add", "relu", "conv", "round"} & set(tried.ops)
    assert any(note == "add total to bytes" for note in tried.notes)
    for one, other, step in zip(tried.got, tried.wanted, (1.0, np.float32(0.29)), strict=True):
        assert np.mean(one == other) > 0.995
        assert np.abs(one - other).max() <= step * 1.001


def test_a_relu_that_steps_do_not_cut_stays(device):
    tried = Tried(device, residual(relu=True, zero=60)).exact()
    assert "relu" in str(tried.layers) or "add+relu" in str(tried.layers)
    assert not any(note.startswith("add total") for note in tried.notes)


def test_windows_means_and_linear_layers(device):
    net = Quantised(4)
    x = net.sum(
        "stem", net.steps("q", net.input("x", 3, 3, 21, 23), 100, 0.7), 40, 3, 11, padding=(1,), stride=(2, 2)
    )
    x = net.layer("max_pool", "pool", x, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
    x = net.steps("same", x, 11)
    x = net.sum("b", x, 33, 3, 0, padding=(1,))
    mean = net.layer("reduce_sum", "mean", x, axes=(2, 3), keepdims=True)
    x = net.steps("m", net.layer("mul", "mean.scaled", mean, net.number(0.037)), 0)
    x = net.layer("reshape", "flat", x, shape=(3, 33))
    net.output(net.sum("fc", net.steps("flat.same", x, 0), 70, zero=128))
    tried = Tried(device, net).exact()
    assert [op for op in tried.ops if op != "div"] == [
        *("to_bytes", "byte_conv", "byte_max_pool", "byte_conv", "byte_mean", "byte_conv", "from_bytes")
    ]


def test_ceiled_windows_and_dilation_of_pools(device):
    net = Quantised(6)
    x = net.sum("stem", net.steps("q", net.input("x", 1, 16, 10, 11), 50), 17)
    x = net.layer("max_pool", "pool", x, kernel_size=(2, 3), stride=(2, 2), dilation=(2, 1), ceil_mode=True)
    net.output(net.sum("b", x, 16))
    assert "byte_max_pool" in Tried(device, net).exact().ops


def test_values_that_floats_are_wanted_of(device):
    """Middle values that something else reads come out of the bytes, or are computed beside them."""
    net = Quantised(2)
    x = net.sum("stem", net.steps("q", net.input("x", 1, 16, 9, 9), 50), 20, 3, 7)
    y = net.sum("b", x, 20, 1, 100)
    total = net.layer("add", "total", net.scaled("y", y, 0.5), net.scaled("xs", x, 0.25))
    net.output(net.steps("s", total, 90, 0.3), total, net.layer("tanh", "t", net.scaled("small", x, 0.01)))
    tried = Tried(device, net)
    assert tried.ops.count("byte_conv") == 2
    assert not any(note.startswith("add total") for note in tried.notes)
    for one, other in zip(tried.got, tried.wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def _conv(change: dict[str, Any]) -> Quantised:
    """One layer that would be on bytes, but for the change."""
    net = Quantised(3)
    shape = change.get("shape", (1, 16, 6, 6))
    given = net.input("x", *shape)
    x = net.layer(
        "fake_quantize", "q", given, scale=change.get("scale", 1.0), zero_point=change.get("x_zero", 50.0)
    )
    attrs = {name: change[name] for name in ("groups", "dilation") if name in change}
    w = net.whole(16, shape[1] // change.get("groups", 1), *[3] * (len(shape) - 2)) * change.get("times", 1.0)
    w[0, 0] = change.get("weight", 3.0)
    weights = net.input("w", *w.shape) if change.get("computed") else net.constant(w)
    bias = np.full(16, change.get("bias", 5.0))
    y = net.layer("conv", "a", x, weights, net.constant(bias), **attrs)
    y = net.layer("floor" if change.get("cut") else "round", "r", y)
    factor = np.full((1, 16, *[1] * (len(shape) - 2)), 0.003)
    factor[0, 3] = change.get("factor", 0.002)
    y = net.layer("mul", "m", y, net.constant(factor))
    net.output(
        net.layer(
            "fake_quantize", "s", y, scale=change.get("y_scale", 1.0), zero_point=change.get("zero", 9.0)
        )
    )
    return net


NEAR_MISSES = {
    "weights that are not whole": {"weight": 2.5},
    "weights above 127": {"weight": 128.0},
    "weights below -128": {"weight": -129.0},
    "a bias that is not whole": {"bias": 0.5},
    "sums that do not fit": {"bias": 1.5e9},
    "a factor below zero": {"factor": -0.001},
    "sums times a factor that do not fit": {"factor": 3000.0},
    "a zero point between steps": {"zero": 9.5},
    "an input's zero point between steps": {"x_zero": 50.5},
    "an input that is not whole": {"scale": 0.5},
    "results that are not whole": {"y_scale": 0.5},
    "groups of two channels": {"groups": 8},
    "depthwise windows with holes": {"groups": 16, "dilation": (2, 2)},
    "rows": {"shape": (1, 16, 9)},
    "volumes": {"shape": (1, 16, 4, 4, 4)},
    "computed weights": {"computed": True},
    "sums that are cut": {"cut": True},
}


def test_what_the_near_misses_are_near_to(device):
    assert "byte_conv" in Tried(device, _conv({})).exact().ops


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_stay_in_floats(device, name):
    tried = Tried(device, _conv(NEAR_MISSES[name]))
    assert not set(ON_BYTES) & set(tried.ops)
    for one, other in zip(tried.got, tried.wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1.001)


def test_forced_algorithms_keep_their_layer_in_floats(device):
    tried = Tried(device, _conv({}), overrides={"a": "blocked"})
    assert "conv" in tried.ops and "byte_conv" not in tried.ops


def test_numbers_that_are_none(device):
    """NaN becomes the zero point, as QuantizeLinear has it for constants; infinity is limited."""
    net = Quantised(1)
    net.output(net.sum("a", net.steps("q", net.input("x", 1, 16, 2, 40), 9), 16))
    odd = np.random.default_rng(0).normal(0, 40, (1, 16, 2, 40)).astype(np.float32)
    odd[0, :, 0, ::4], odd[0, :, 0, 1::4], odd[0, :, 0, 2::4] = np.nan, np.inf, -np.inf
    plain = np.nan_to_num(odd, nan=0.0, posinf=1e9, neginf=-1e9)
    with _core.Plan(device, net.graph) as plan:
        np.testing.assert_array_equal(plan.run([odd])[0], plan.run([plain])[0])


def test_every_kernel_algorithm_and_reason_is_reached(device):
    kernels, algos, reasons = set(), set(), set()
    for row, options in ((SWEEP[0], {}), (DEPTHWISE, {}), (TILES[0], {"quick": True}), (TILES[0], AMX)):
        net = Quantised()
        x = net.steps("q", net.input("x", 1, row[0], *row[3]), 77)
        x = net.sum("a", x, row[1], row[2], **row[4])
        x = net.layer("max_pool", "p", x, kernel_size=(2, 2))
        x = net.sum("b", x, 16)
        x = net.steps("looked up", net.layer("tanh", "t", net.scaled("small", x, 0.01)), 128, 1 / 128)
        x = net.layer("concat", "twice", x, x, dim=1)
        x = net.sum("c", net.steps("joined", x, 128), 16)
        x = net.steps("gated", net.layer("mul", "gate", x, net.weight(1, 16, 1, 1)), 128, 0.5)
        mean = net.layer("reduce_sum", "mean", x, axes=(2, 3), keepdims=True)
        net.output(net.steps("m", net.layer("mul", "scaled", mean, net.number(0.03)), 0))
        tried = Tried(device, net, **options)
        kernels |= {name.partition(":")[0] for name in tried.kernels}
        algos |= {(layer["op"], layer["algo"]) for layer in tried.layers}
        reasons |= {c["reason"] for layer in tried.layers for c in layer["candidates"]}
    there = {path.stem for path in (ROOT / "kernels" / "bytes").glob("*.cl")}
    assert there - kernels <= {"byte_conv_pack"}  # of no run
    assert {(op, algo) for op in ON_BYTES for algo in _core.ops()[op]["algos"]} <= algos
    text = "".join(path.read_text() for path in (ROOT / "csrc" / "algos" / "bytes").glob("*.[ch]"))
    told = re.findall(r'(?:REQUIRE|PREFER)\(why,[^;]*?"([^"]+)"\);', text) + re.findall(
        r'#define \w+ "(.+)"', text
    )
    assert len(told) >= 4 and set(told) <= reasons


CHILD = """
import json, sys
import numpy as np
import test_bytes
from clcnn import _core
found = []
with _core.Device("cpu") as device:
    for net in (test_bytes.residual(), test_bytes._conv({}), test_bytes._conv({"groups": 16})):
        with _core.Plan(device, net.graph) as plan:
            rng = np.random.default_rng(5)
            data = [rng.normal(0, 40, shape).astype(np.float32) for _, shape in plan.inputs]
            outs = [out.tolist() for out in plan.run(data)]
            found.append([sorted({row["op"] for row in plan.layers()}), outs])
print(json.dumps(found))
"""


def child(**env: str) -> list[Any]:
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", CHILD]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths} | env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    found: list[Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_devices_without_the_instruction_compute_in_floats(device):
    for (there, with_bytes), (left, without) in zip(child(), child(**OFF), strict=True):
        assert "byte_conv" in there
        assert not set(ON_BYTES) & set(left)
        for one, other in zip(with_bytes, without, strict=True):
            same = np.isclose(np.asarray(one), np.asarray(other), rtol=1e-6)
            assert np.mean(same) > 0.995


def test_the_sums_in_opencl_c_are_those_of_the_instruction(device, tmp_path):
    """For compilers without the assembly: what the header says in its place."""
    folder = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", folder)
    header = folder / "bytes" / "bytes.clh"
    text = header.read_text()
    assert text.count("#if DOTS") == 1
    header.write_text(text.replace("#if DOTS", "#if 0"))
    assert child(CLCNN_KERNEL_DIR=str(folder)) == child()
