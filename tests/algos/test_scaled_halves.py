"""Tensor cores that multiply scaled halves, in the tiles of large layers: filters, channels and images of
very different sizes in one tile keep their digits, as does what an epilogue adds. Beside them other forms for
tensor cores, which have the range of float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from clcnn import _core
from runner import LOOSE

Array = np.ndarray
ALGOS = ("wgmma", "wgmma_halves", "wgmma_scaled", "wgmma_tf32", "wgmma_window", "mma", "tf32")
UNIT = {"high": 2.0**-11, "highest": 2.0**-24}
# Roundings of both operands and of sums, in units of a product: heavy tails leave a single one that counts.
FACTOR = {"high": 4.0, "highest": 32.0}


class Layer(NamedTuple):
    x: tuple[int, ...]
    w: tuple[int, ...]
    attrs: dict[str, Any] = {}
    added: bool = False


# Tiles of 64 to 256 filters, positions in ones and in fours, what is added on both ways, several tiles a
# group, parts of the depth.
LAYERS = {
    "3x3 of 512 filters": Layer((8, 64, 28, 28), (512, 64, 3, 3), {"padding": (1,)}),
    "3x3 of 64 filters": Layer((32, 64, 56, 56), (64, 64, 3, 3), {"padding": (1,)}),
    "3x3, added": Layer((16, 128, 15, 14), (128, 128, 3, 3), {"padding": (1,)}, added=True),
    "3x3 of groups": Layer((16, 128, 14, 14), (256, 64, 3, 3), {"padding": (1,), "groups": 2}),
    "3x3 strided": Layer((8, 128, 28, 28), (160, 128, 3, 3), {"padding": (1,), "stride": (2,)}),
    "5x5": Layer((8, 32, 27, 27), (192, 32, 5, 5), {"padding": (2,)}),
    "1x1": Layer((32, 64, 28, 28), (224, 64, 1, 1)),
    "1x1, added": Layer((32, 128, 28, 28), (512, 128, 1, 1), added=True),
    "1x1, added in ones": Layer((16, 256, 7, 7), (512, 256, 1, 1), added=True),
    "1x1 of one image": Layer((1, 512, 14, 14), (256, 512, 1, 1)),
    "1x1 of single pixels": Layer((700, 96, 1, 1), (200, 96, 1, 1)),
    "1x1 of single pixels, added": Layer((6300, 128, 1, 1), (257, 128, 1, 1), added=True),
    "1x1 of 104 channels": Layer((32, 104, 28, 28), (224, 104, 1, 1), added=True),
    "3x3 of 72 channels": Layer((16, 72, 28, 28), (144, 72, 3, 3), {"padding": (1,)}),
    "4x4 strided": Layer((8, 64, 64, 64), (128, 64, 4, 4), {"padding": (1,), "stride": (2,)}),
    "4x4": Layer((8, 96, 32, 32), (160, 96, 4, 4), {"padding": (1,)}),
    "5x5 strided": Layer((8, 32, 56, 57), (96, 32, 5, 5), {"padding": (2,), "stride": (2,)}),
    "7x1": Layer((16, 64, 17, 17), (96, 64, 7, 1), {"padding": (3, 0)}),
    "3x3 dilated": Layer((8, 64, 40, 40), (96, 64, 3, 3), {"padding": (2,), "dilation": (2,)}),
    "1x1 strided": Layer((8, 96, 28, 28), (200, 96, 1, 1), {"stride": (2,)}),
}


def plan_of(device: _core.Device, layer: Layer, algo: str) -> _core.Plan:
    graph = _core.Graph()
    values = [graph.input("x", layer.x), graph.input("w", layer.w), graph.input("b", layer.w[:1])]
    out = graph.node("conv", "y", values, layer.attrs)[0]
    if layer.added:
        shape = (layer.x[0], layer.w[0], *layer.x[2:])
        out = graph.node("add", "z", [out, graph.input("a", shape)], {})[0]
    graph.output(out, "out")
    return _core.Plan(device, graph, overrides={"y": algo}, precision=LOOSE.get(algo, "highest"))


class Numbers:
    """Operands of a layer, each image, channel and filter of its own size; weights undo the channels'."""

    def __init__(self, layer: Layer, images: float, channels: float, filters: float) -> None:
        rng = np.random.default_rng(3)

        def sizes(count: int, decades: float) -> Array:
            return np.ldexp(1.0, np.rint(rng.uniform(-decades, decades, count) * np.log2(10.0)).astype(int))

        groups = layer.attrs.get("groups", 1)
        self.images, self.filters = sizes(layer.x[0], images), sizes(layer.w[0], filters)
        of_channels = sizes(layer.x[1], channels)
        undone = np.repeat(of_channels.reshape(groups, -1), layer.w[0] // groups, axis=0)
        self.plain = [rng.standard_normal(shape) for shape in (layer.x, layer.w, layer.w[:1])]
        x, w, b = self.plain
        self.spread = [
            x * self.images[:, None, None, None] * of_channels[:, None, None],
            w * self.filters[:, None, None, None] / undone[:, :, None, None],
            b * self.filters,
        ]
        if layer.added:
            shape = (layer.x[0], layer.w[0], *layer.x[2:])
            self.plain.append(rng.standard_normal(shape))
            self.spread.append(self.plain[3] * self.filters[:, None, None])

    def back(self, y: Array) -> Array:
        """Results of spread operands, brought to the size of plain ones."""
        return y.astype(np.float64) / self.filters[:, None, None] / self.images[:, None, None, None]


def run(plan: _core.Plan, arrays: list[Array]) -> Array:
    return plan.run([np.ascontiguousarray(a, np.float32) for a in arrays])[0]


def layer_plan(device: _core.Device, layer: Layer, algo: str) -> _core.Plan:
    try:
        return plan_of(device, layer, algo)
    except _core.UnsupportedError as why:
        pytest.skip(str(why).rpartition(": ")[2])


@pytest.mark.gpu
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("algo", ALGOS)
def test_sizes_side_by_side(device, name, algo):
    """|error| <= c u (|w| * |x| + |b| + |a|); what is right comes from the same device, with operands of one
    size."""
    layer = LAYERS[name]
    plan, plain = layer_plan(device, layer, algo), plan_of(device, layer, "implicit")
    numbers = Numbers(layer, images=0.0, channels=6.0, filters=6.0)
    error_class = LOOSE.get(algo, "highest")
    right = run(plain, numbers.plain)
    terms = run(plain, [np.abs(a) for a in numbers.plain])
    got = numbers.back(run(plan, numbers.spread))
    plan.close()
    plain.close()
    off = np.abs(got - right) / terms / (UNIT[error_class] * FACTOR[error_class])
    assert np.isfinite(got).all()
    assert off.max() <= 1.0, f"{np.mean(off > 1.0):.2%} are too far off, up to {off.max():.3g} times"


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if not layer.added])
@pytest.mark.parametrize("algo", ALGOS)
def test_powers_of_two_in_large_tiles(device, name, algo):
    """Images and filters times powers of two: the same digits."""
    layer = LAYERS[name]
    plan = layer_plan(device, layer, algo)
    numbers = Numbers(layer, images=9.0, channels=0.0, filters=9.0)
    for arrays in (numbers.plain, numbers.spread):
        arrays[2] = np.zeros_like(arrays[2])
    wanted, got = run(plan, numbers.plain), numbers.back(run(plan, numbers.spread))
    plan.close()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("algo", ALGOS)
def test_small_filter_beside_a_large_one(device, algo):
    """What was lost: a filter a thousand million times smaller than its neighbour gave zeros."""
    layer = Layer((2, 32, 14, 14), (128, 32, 3, 3), {"padding": (1,)})
    plan = layer_plan(device, layer, algo)
    rng = np.random.default_rng(4)
    x, w, b = (rng.standard_normal(shape) for shape in (layer.x, layer.w, (128,)))
    w[1] = w[0] * 2.0**-30
    b[:] = 0.0
    y = run(plan, [x, w, b])
    plan.close()
    np.testing.assert_array_equal(y[:, 1], y[:, 0] * np.float32(2.0**-30))
    assert np.any(y[:, 1])
