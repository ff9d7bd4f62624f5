"""Maps that are left as scaled halves for tensor cores (on Hopper: as halves at precision "high", as pairs at
"highest"), against float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn, ops
from tolerance import compare


@pytest.fixture(autouse=True)
def hopper(device):
    if device.compute_capability < 90:
        pytest.skip("only NVIDIA GPUs of compute capability 9.0 have these kernels")


@pytest.fixture(autouse=True, params=["high", "highest"])
def precision(request):
    return request.param


class Mlp(nn.Module):
    """Half a block of a transformer."""

    def __init__(self, channels: int, wide: int, norm: type = nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm(channels)
        self.fc1 = nn.Linear(channels, wide)
        self.fc2 = nn.Linear(wide, channels)

    def forward(self, x: Any) -> Any:
        return ops.add(self.fc2(ops.gelu(self.fc1(self.norm(x)))), x)


class Pixels(nn.Module):
    """The same of maps, as ConvNeXt has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(np.linspace(0.5, 2, channels, dtype=np.float32))
        self.fc1 = nn.Conv2d(channels, 4 * channels, 1)
        self.fc2 = nn.Conv2d(4 * channels, channels, 1)

    def forward(self, x: Any) -> Any:
        y = ops.layer_norm(x, self.scale, self.scale, dim=1, dims=1)
        return ops.add(self.fc2(ops.gelu(self.fc1(y))), x)


class Attention(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: Any) -> Any:
        n, rows, channels = x.shape
        y = ops.reshape(self.qkv(self.norm(x)), shape=[n, rows, 3, self.heads, channels // self.heads])
        y = ops.transpose(y, perm=[2, 0, 3, 1, 4])
        q, k, v = (ops.reshape(part, shape=y.shape[1:]) for part in ops.split(y, dim=0, sizes=[1, 1, 1]))
        scores = ops.softmax(
            ops.matmul(q * float(q.shape[-1] ** -0.5), ops.transpose(k, perm=[0, 1, 3, 2])), dim=-1
        )
        y = ops.transpose(ops.matmul(scores, v), perm=[0, 2, 1, 3])
        return ops.add(self.proj(ops.reshape(y, shape=[n, rows, channels])), x)


class Branch(Mlp):
    """Without what is added."""

    def forward(self, x: Any) -> Any:
        return self.fc2(ops.gelu(self.fc1(self.norm(x))))


class Twice(Mlp):
    """What the norm gives is also read by an addition, which takes floats."""

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        return ops.add(self.fc2(ops.gelu(self.fc1(y))), y)


def left(plan: clcnn.Plan) -> int:
    return sum("halves for those who multiply it" in line for line in str(plan.explain()).splitlines())


def check(device, precision: str, net: nn.Module, x: np.ndarray, maps: set[int]) -> None:
    """The plan leaves so many maps (one of these numbers), and gives what precision "strict" gives, but for
    what the net adds; the same bits again."""
    with clcnn.compile(net, x.shape, device=device, precision="strict") as plan:
        wanted = plan(x)
    with clcnn.compile(net, x.shape, device=device, precision=precision) as plan:
        assert left(plan) in maps
        y = plan(x)
        np.testing.assert_array_equal(plan(x), y)
    if not isinstance(net, Branch):
        y, wanted = y - x, wanted - x
    compare(y, wanted, "linear", "high" if precision == "high" else "fp32")


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


# Rows that fill no tile, or several; chunks of 32 and of 64 channels; all tiles.
@pytest.mark.parametrize(
    ("rows", "channels", "wide"),
    [
        (197, 384, 1536),
        (50, 768, 3072),
        (785, 192, 768),
        (300, 96, 384),
        (6304, 384, 1536),
        (6304, 768, 3072),
    ],
)
def test_rows(device, precision, rows, channels, wide):
    check(device, precision, Mlp(channels, wide), values(rows, channels), {2})


def test_rows_of_items(device, precision):
    check(device, precision, Mlp(384, 1536), values(3, 65, 384), {2})


def test_rms_norm(device, precision):
    check(device, precision, Mlp(384, 1536, nn.RMSNorm), values(197, 384), {2})


@pytest.mark.parametrize(("n", "side", "channels"), [(1, 14, 384), (2, 28, 192), (8, 56, 96), (3, 7, 768)])
def test_pixels(device, precision, n, side, channels):
    check(device, precision, Pixels(channels), values(n, channels, side, side), {2})


@pytest.mark.parametrize(
    ("n", "rows", "channels", "heads"), [(1, 197, 384, 6), (2, 50, 384, 12), (4, 65, 192, 2)]
)
def test_attention(device, precision, n, rows, channels, heads):
    check(device, precision, Attention(channels, heads), values(n, rows, channels), {2})


def test_no_input_exceeds_the_bound(device, precision):
    """A spike makes a norm's largest result, and weights along it a product's."""
    net = Branch(384, 1536)
    weight = np.zeros((1536, 384), np.float32)
    weight[:, 5] = 3.0
    net.fc1.weight.data = weight
    x = np.zeros((64, 384), np.float32)
    x[:, 5] = np.geomspace(1e-3, 1e30, 64)
    check(device, precision, net, x, {1, 2})


def test_what_is_not_a_number_stays(device, precision):
    x = values(197, 384)
    x[3, 7], x[9, 1] = np.nan, np.inf
    with clcnn.compile(Mlp(384, 1536), x.shape, device=device, precision=precision) as plan:
        y = plan(x)
    assert np.isnan(y[[3, 9]]).all()
    assert np.isfinite(np.delete(y, [3, 9], axis=0)).all()


def test_others_that_read_it_keep_it_float(device, precision):
    check(device, precision, Twice(384, 1536), values(197, 384), {0, 1})


def test_outputs_stay_float(device, precision):
    with clcnn.compile(nn.LayerNorm(384), (197, 384), device=device, precision=precision) as plan:
        assert left(plan) == 0


@pytest.mark.parametrize("options", [{"algorithms": {"fc1": "mma"}}, {"fuse": False}])
def test_what_a_caller_asks_for_comes_first(device, precision, options):
    with clcnn.compile(Mlp(384, 1536), (197, 384), device=device, precision=precision, **options) as plan:
        assert left(plan) <= 1


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_weights_that_are_not_finite_have_no_bound(device, precision, bad):
    net = Mlp(384, 1536)
    weight = np.array(net.norm.weight.data)
    weight[1] = bad
    net.norm.weight.data = weight
    with clcnn.compile(net, (197, 384), device=device, precision=precision) as plan:
        assert left(plan) == 0


@pytest.mark.parametrize("other", ["strict", "medium"])
def test_other_precisions_leave_none(device, other):
    with clcnn.compile(Mlp(384, 1536), (197, 384), device=device, precision=other) as plan:
        assert left(plan) == 0
