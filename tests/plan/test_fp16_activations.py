"""Maps between steps that are stored as halves (precision "medium" on GPUs), against float32.

A device that is no GPU passes for one in a child process (device_face.py), which runs this file's checks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
import device_face
from clcnn import nn, ops
from tolerance import compare

# Sizes of images: planes of a multiple of four pixels, of an even and of an odd number, and of one pixel.
SIZES = ((32, 32), (20, 28), (30, 34), (29, 31), (1, 1))


class Mixed(nn.Module):
    """Every kernel that takes halves on GPUs of all makers: tiles with and without a gather, a sum that is
    split, residuals, both forms of a separable layer, small pooling, batch norm, concat, global pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 3, padding=1)
        self.wide = nn.Conv2d(40, 48, 1)
        self.back = nn.Conv2d(48, 40, 3, padding=1)
        self.deep = nn.Conv2d(40, 33, 5, padding=2)
        self.dw = nn.Conv2d(40, 40, 3, padding=1, groups=40)
        self.pw = nn.Conv2d(40, 64, 1)
        self.thin = nn.Conv2d(40, 32, 1)
        self.dw2 = nn.Conv2d(32, 32, 3, padding=1, stride=2, groups=32)
        self.pw2 = nn.Conv2d(32, 40, 1)
        self.bn = nn.BatchNorm2d(73)
        self.fc = nn.Linear(137, 10)

    def forward(self, x: Any) -> Any:
        x = ops.relu(self.first(x))
        x = ops.relu(ops.add(self.back(ops.relu(self.wide(x))), x))
        x = ops.max_pool(x, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1])
        y = self.deep(x)
        pair = ops.concat([y, x], dim=1)
        z = self.pw(ops.relu(self.dw(x)))
        small = self.pw2(ops.relu(self.dw2(ops.relu(self.thin(x)))))
        pooled = [ops.adaptive_avg_pool(v, output_size=[1, 1]) for v in (ops.relu(self.bn(pair)), z)]
        return self.fc(ops.flatten(ops.concat(pooled, dim=1))), small


class Tiles(nn.Module):
    """For one algorithm of convolutions, in all the ways in which it comes by pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 1)
        self.a = nn.Conv2d(32, 80, 1)
        self.b = nn.Conv2d(80, 32, 3, padding=1)
        self.c = nn.Conv2d(32, 48, 3, padding=1, stride=2)
        self.d = nn.Conv2d(48, 48, 1)
        self.e = nn.Conv2d(48, 64, 1, stride=2)
        self.f = nn.Conv2d(64, 48, 3, padding=2, dilation=2, groups=2)

    def forward(self, x: Any) -> Any:
        x = ops.relu(self.first(x))
        x = ops.relu(ops.add(self.b(ops.relu(self.a(x))), x))
        x = ops.relu(self.c(x))
        return self.f(self.e(ops.relu(ops.add(self.d(x), x))))


class Normed(nn.Module):
    """DenseNet's order: scales and shifts are applied on the way to a 1x1 convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 3, padding=1)
        self.bn = nn.BatchNorm2d(40)
        self.squeeze = nn.Conv2d(40, 64, 1)
        self.grow = nn.Conv2d(64, 40, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(80)
        self.last = nn.Conv2d(80, 40, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        y = self.grow(self.squeeze(ops.relu(self.bn(x))))
        return self.last(ops.relu(self.bn2(ops.concat([x, y], dim=1))))


NETS = {net.__name__: net for net in (Mixed, Tiles, Normed)}
# Algorithms of Tiles' layers, where the device has them; "": by the rules.
FORCED = {
    "": (),
    "implicit": ("a", "b", "c", "d", "e", "f"),
    "winograd_gemm": ("b",),
    "half": ("a", "b", "c", "d", "e", "f"),
    "wgmma_half": ("a", "b", "c", "d", "e", "f"),
    "wgmma_window_tf32": ("b",),
    "winograd_mma": ("b",),
}


def _exact(device: clcnn.Device, net: nn.Module, shape: tuple[int, ...]) -> clcnn.Plan:
    """Each layer by itself, convolutions with "ref": kernels that are quick to build, unlike the others."""
    layers = [name for name, layer in net.named_modules() if isinstance(layer, nn.Conv2d)]
    return clcnn.compile(net, shape, device, algorithms=dict.fromkeys(layers, "ref"), fuse=False, tune="off")


def _medium(device: clcnn.Device, net: nn.Module, shape: tuple[int, ...], **options: Any) -> clcnn.Plan:
    return clcnn.compile(net, shape, device, precision="medium", tune="off", **options)


def _stores(plan: clcnn.Plan) -> int:
    """How many steps take or store halves."""
    return sum("HALF=1" in step["defines"] for step in plan.steps)


def _list(outputs: Any) -> list[np.ndarray]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class Large(nn.Module):
    """Maps too large for caches, at so little work that most launches stay whole."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 1)
        self.last = nn.Conv2d(40, 8, 1)

    def forward(self, x: Any) -> Any:
        x = ops.relu(self.first(x))
        x = ops.max_pool(x, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1], name="mid")
        return self.last(x)

    def expected(self, x: np.ndarray) -> np.ndarray:
        """The same in float64; zeros around maps that are not negative change no maximum."""
        padded = np.pad(np.maximum(_pointwise(self.first, x), 0.0), [(0, 0), (0, 0), (1, 1), (1, 1)])
        rows = np.maximum(np.maximum(padded[..., :-2], padded[..., 1:-1]), padded[..., 2:])
        return _pointwise(
            self.last, np.maximum(np.maximum(rows[:, :, :-2], rows[:, :, 1:-1]), rows[:, :, 2:])
        )


def _pointwise(layer: nn.Conv2d, x: np.ndarray) -> np.ndarray:
    """A 1x1 convolution in float64."""
    weight, bias = (p.data.astype(np.float64) for p in (layer.weight, layer.bias))
    return np.einsum("kc,nchw->nkhw", weight[:, :, 0, 0], x, optimize=True) + bias[:, None, None]


def check(device: clcnn.Device, name: str, algo: str, sizes: Sequence[tuple[int, int]]) -> list[str]:
    """Runs a net in both precisions and compares; returns what went wrong, or "rejected: ...". Guarded plans
    store halves whatever the size."""
    rng, failures = np.random.default_rng(0), []
    net = NETS[name]()
    for size in sizes:
        x = rng.standard_normal((2, 3, *size), np.float32)
        forced = dict.fromkeys(FORCED[algo], algo)
        try:
            plan = _medium(device, net, x.shape, algorithms=forced, guard=True)
        except clcnn.UnsupportedError as why:
            return [f"rejected: {why}"]
        with plan, _exact(device, net, x.shape) as exact:
            if _stores(plan) < 2:
                failures.append(f"{size}: {_stores(plan)} steps with halves")
            try:
                compare(_list(plan(x)), _list(exact(x)), "conv", "medium")
                plan._core.check_guards()
            except (AssertionError, clcnn.Error) as why:
                failures.append(f"{size}: {why}")
    return failures


CHILD = """
import json, sys
import clcnn
from test_fp16_activations import check
with clcnn.Device("gpu") as device:
    print(json.dumps(check(device, sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
"""


def _checked(device: clcnn.Device, folder: Path, name: str, algo: str) -> list[str]:
    if device.type == "gpu":
        return check(device, name, algo, SIZES)
    sizes = SIZES[2:4] if algo in ("", "implicit") else SIZES[3:4]
    return json.loads(device_face.run(folder, CHILD, name, algo, json.dumps(sizes)).splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "algo"), [("Mixed", ""), ("Normed", ""), *(("Tiles", algo) for algo in FORCED)]
)
def test_halves_between_steps(device, tmp_path, name, algo):
    failures = _checked(device, tmp_path, name, algo)
    if any(text.startswith("rejected") for text in failures):
        assert device.compute_capability < 90, failures
        pytest.skip(failures[0])
    assert failures == []


STORED = """
import json
import numpy as np
import clcnn
from clcnn import nn
from test_fp16_activations import Large, Mixed, _medium, _stores
from tolerance import compare
found = {}
with clcnn.Device("gpu") as device:
    shape = (2, 3, 29, 31)
    plan = _medium(device, Mixed(), shape, algorithms={"deep": "ref", "back": "implicit"}, guard=True)
    found["text"] = plan.explain(verbose=True)
    found["classes"] = {row["layer"]: row["error_class"] for row in plan.layers}
    net, y = Large(), np.random.default_rng(0).standard_normal((1, 3, 328, 320), np.float32)
    full, plan = clcnn.compile(net, y.shape, device, tune="off"), _medium(device, net, y.shape)
    compare(plan(y), net.expected(y), "conv", "medium")
    found["arenas"] = [p.stats["arena_bytes"] for p in (full, plan)]
    found["halves"] = [_stores(p) for p in (full, plan)]
    with _medium(device, net, shape) as small:
        found["small"] = small.explain(verbose=True)
    for name, outputs in (("asked", ["mid"]), ("unasked", [])):
        with _medium(device, net, shape, outputs=outputs, guard=True) as asked:
            found[name] = [note for note in asked.explain().splitlines() if " mid " in note]
    large = nn.Sequential(nn.Conv2d(1, 40, 1, bias=False), nn.ReLU(), nn.Conv2d(40, 40, 1, bias=False))
    for layer in (large[0], large[2]):
        layer.weight.data = np.ones(layer.weight.data.shape, np.float32)
    with _medium(device, large, (1, 1, 1, 5), guard=True) as small:
        given = np.array([1.0, 65504.0, 65536.0, -65536.0, np.nan], np.float32).reshape(1, 1, 1, 5)
        found["values"] = [repr(float(v)) for v in np.asarray(small(given))[0, 0, 0]]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> dict[str, Any]:
    printed = device_face.run(tmp_path_factory.mktemp("face"), STORED)
    return json.loads(printed.splitlines()[-1])


def test_explain_tells_what_is_stored_and_why_not(stored):
    assert "store the map of first as halves" in stored["text"]
    assert "in float32: algorithm 'ref' of deep has no form for halves" in stored["text"]
    assert "maps are stored as halves here, which it does not take" in stored["text"]
    assert stored["classes"]["wide"] == "medium"
    assert stored["classes"]["deep"] == "strict"


def test_tensors_that_are_asked_for_stay_float32(stored):
    assert any("as halves" in note for note in stored["unasked"])
    assert not any("as halves" in note for note in stored["asked"])


def test_only_medium_stores_halves(stored):
    full, half = stored["halves"]
    assert full == 0 and half >= 2


def test_halves_take_less_memory(stored):
    full, half = stored["arenas"]
    assert half < 0.55 * full


def test_small_maps_stay_float32(stored):
    assert "keep maps in float32: they are small enough to stay in a GPU's caches" in stored["small"]
    assert "as halves" not in stored["small"]


def test_beyond_65504_is_infinite_and_nan_stays(stored):
    assert stored["values"] == ["40.0", repr(40 * 65504.0), "inf", "0.0", "nan"]


def test_cpu_devices_keep_float32(device):
    if device.type != "cpu":
        pytest.skip("needs a CPU device")
    with _medium(device, Large(), (1, 3, 9, 9)) as plan:
        assert "keep maps in float32: kernels for CPU devices have no form for halves" in plan.explain()
        assert _stores(plan) == 0
