"""Layers share kernels: few are built for a net, and what one kernel is told at run time is told right."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import clcnn
from clcnn import ops, zoo
from clcnn.graph import Graph, Value

# Kernels of a net: one takes about half a second to build. Vectors of 8 floats need more tiles (D-094).
MOST, MOST_NARROW = 12, 16
MORE = {"efficientnet_lite0": 2}  # windows of 3 and 5 at strides 1 and 2, in layers and in inverted residuals
COMPILED_ANYWAY = {("resnet50", 1), ("googlenet", 1), ("densenet121", 1), ("efficientnet_lite0", 1)}


@pytest.fixture
def blocks(device: clcnn.Device) -> clcnn.Device:
    if device.type != "cpu":
        pytest.skip("channel blocks are for CPU devices")
    return device


def variants(plan: clcnn.Plan, kernel: str = "") -> list[str]:
    """The different kernels of a plan, as text, those that start so."""
    found = {f"{row['kernel']}/{row['entry']} {row['defines']}" for row in plan.steps if row["kernel"]}
    return sorted(text for text in found if text.startswith(kernel))


def random(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def conv(x: Value, filters: int, size: int, name: str, bias: bool = True, **attrs: int) -> Value:
    w = random(filters, x.shape[1], size, size, seed=len(name))
    return ops.conv(x, w, random(filters, seed=1) if bias else None, padding=size // 2, name=name, **attrs)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        pytest.param(name, batch, marks=() if (name, batch) in COMPILED_ANYWAY else pytest.mark.slow)
        for name in zoo.NETS
        for batch in (1, 8)
    ],
)
def test_networks_need_few_kernels(blocks: clcnn.Device, name: str, batch: int) -> None:
    shape = (batch, *zoo.find(name).input_shape)
    with clcnn.compile(zoo.get(name), shape, device=blocks) as plan:
        found = variants(plan)
    most = (MOST if blocks.float_width >= 16 else MOST_NARROW) + MORE.get(name, 0)
    assert 2 < len(found) <= most, "\n".join(found)


def test_a_larger_define_serves_all_that_allow_it(blocks: clcnn.Device) -> None:
    """A 3x3 layer leaves pixels out at the edges (EDGE=1); a 1x1 layer with its tile and stride has none, and
    takes the same kernel only in a plan that needs it anyway."""
    assert [text.count("EDGE=0") for text in strided(blocks, 1)] == [1]
    assert [text.count("EDGE=1") for text in strided(blocks, 3)] == [1]
    assert [text.count("EDGE=1") for text in strided(blocks, 1, 3)] == [1]


def strided(device: clcnn.Device, *sizes: int) -> list[str]:
    """The kernels of strided layers of these sizes side by side, whose results are checked."""
    g = Graph()
    x = g.input("x", (1, 32, 28, 28))
    start = ops.max_pool(x, kernel_size=1)
    ends = [conv(start, 32, size, f"c{size}", stride=2) for size in sizes]
    g.output(ops.concat(ends, dim=1), "y")
    data = random(1, 32, 28, 28)
    by_hand = {f"c{size}": "blocked" for size in sizes}
    with clcnn.compile(g, device=device, algorithms=by_hand) as plan:
        y = plan(data)
        found = variants(plan, "conv_blocked/")
    with clcnn.compile(g, device=device, algorithms=dict.fromkeys(by_hand, "ref")) as plan:
        np.testing.assert_array_equal(y, plan(data))
    return found


def epilogues(g: Graph) -> None:
    """Layers of one size with and without bias, and with the activations that are clips, and a residual."""
    x = ops.max_pool(g.input("x", (1, 32, 7, 7)), kernel_size=1)
    other = ops.max_pool(g.input("other", (1, 32, 7, 7)), kernel_size=1)
    ends = [
        conv(x, 32, 1, "none"),
        conv(x, 32, 1, "unbiased", bias=False),
        ops.relu(conv(x, 32, 1, "relu")),
        ops.relu6(conv(x, 32, 1, "relu6")),
        ops.relu(ops.add(conv(x, 32, 1, "residual"), other)),
        ops.clip(conv(x, 32, 1, "clip"), min=-2.0, max=1.5),
    ]
    for i, end in enumerate(ends):
        g.output(end, f"y{i}")


def test_epilogues_are_told_at_run_time(blocks: clcnn.Device) -> None:
    """One kernel for all of them; NaN and the infinities pass as in the reference kernels."""
    g = Graph()
    epilogues(g)
    x, other = random(1, 32, 7, 7), random(1, 32, 7, 7, seed=1)
    x[0, :, 0, :3] = [np.nan, np.inf, -np.inf]
    x[0, 1:, 0, 1:3] = 0.0  # a sum of infinities of both signs would be NaN everywhere
    other[0, :, 1, :3] = [np.nan, np.inf, -np.inf]
    names = ["none", "unbiased", "relu", "relu6", "residual", "clip"]
    with clcnn.compile(g, device=blocks, algorithms=dict.fromkeys(names, "blocked")) as plan:
        found = plan(x, other)
        kernels = variants(plan, "conv_blocked/")
    assert len(kernels) == 1 and "EPI_ACT=act_clip" in kernels[0], kernels
    with clcnn.compile(g, device=blocks, algorithms=dict.fromkeys(names, "ref")) as plan:
        wanted = plan(x, other)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isnan(found[0]).any() and np.isposinf(found[0]).any() and np.isneginf(found[0]).any()
    assert (
        np.isnan(found[2]).any()
        and not np.isneginf(found[2]).any()
        and found[3][~np.isnan(found[3])].max() == 6
    )


def test_pooling_of_all_kinds_is_one_kernel(blocks: clcnn.Device) -> None:
    g = Graph()
    x = ops.abs(g.input("x", (1, 32, 12, 12)))
    ends = [
        ops.max_pool(x, kernel_size=3, stride=2, padding=1, name="max3"),
        ops.avg_pool(x, kernel_size=2, name="avg2"),
        ops.max_pool(x, kernel_size=5, name="max5"),
        ops.adaptive_avg_pool(x, output_size=1, name="mean"),
        ops.adaptive_max_pool(x, output_size=5, name="bins"),
    ]
    for i, end in enumerate(ends):
        g.output(end, f"y{i}")
    names = ["max3", "avg2", "max5", "mean", "bins"]
    data = random(1, 32, 12, 12)
    data[0, 0, 0, 0] = np.nan
    with clcnn.compile(g, device=blocks, algorithms=dict.fromkeys(names, "blocked")) as plan:
        found = plan(data)
        assert len(variants(plan, "pool_blocked/")) == 1
    with clcnn.compile(g, device=blocks, algorithms=dict.fromkeys(names, "ref")) as plan:
        for a, b in zip(found, plan(data), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
