"""Gradients of filters from channels and filters of very different sizes, and from values that are no finite
numbers: every algorithm."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from clcnn import _core
from runner import LOOSE

Array = np.ndarray
ALGOS = _core.ops()["conv_filter_grad"]["algos"]


class Layer(NamedTuple):
    x: tuple[int, ...]
    dy: tuple[int, ...]
    attrs: dict[str, Any]


# Windows and none, planes of strides, groups, several parts of the depth.
LAYERS = {
    "3x3": Layer((3, 40, 13, 14), (3, 72, 13, 14), {"kernel_size": (3, 3), "padding": (1,)}),
    "1x1": Layer((4, 72, 12, 11), (4, 40, 12, 11), {"kernel_size": (1, 1)}),
    "strided": Layer(
        (2, 24, 15, 17), (2, 48, 8, 9), {"kernel_size": (3, 3), "padding": (1,), "stride": (2,)}
    ),
    "5x5 of groups": Layer(
        (2, 48, 9, 12), (2, 64, 9, 12), {"kernel_size": (5, 5), "padding": (2,), "groups": 2}
    ),
}


def plan_of(device: _core.Device, layer: Layer, algo: str) -> _core.Plan:
    graph = _core.Graph()
    values = [graph.input("x", layer.x), graph.input("dy", layer.dy)]
    graph.output(graph.node("conv_filter_grad", "dw", values, layer.attrs)[0], "out")
    try:
        return _core.Plan(device, graph, overrides={"dw": algo}, precision=LOOSE.get(algo, "highest"))
    except _core.UnsupportedError as why:
        pytest.skip(str(why).rpartition(": ")[2])


def run(plan: _core.Plan, *arrays: Array) -> Array:
    return plan.run([np.ascontiguousarray(a, np.float32) for a in arrays])[0]


def numbers_of(layer: Layer) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    return rng.standard_normal(layer.x, np.float32), rng.standard_normal(layer.dy, np.float32)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("algo", ALGOS)
def test_powers_of_two_keep_all_digits(device, name, algo):
    """Channels of x and filters times powers of two: the same digits."""
    layer = LAYERS[name]
    with plan_of(device, layer, algo) as plan:
        x, dy = numbers_of(layer)
        rng = np.random.default_rng(6)
        of_x = np.ldexp(1.0, rng.integers(-40, 41, layer.x[1]))
        of_dy = np.ldexp(1.0, rng.integers(-40, 41, layer.dy[1]))
        wanted = run(plan, x, dy)
        got = run(plan, x * of_x[:, None, None], dy * of_dy[:, None, None]).astype(np.float64)
    groups = layer.attrs.get("groups", 1)
    of_filters = np.repeat(of_x.reshape(groups, -1), layer.dy[1] // groups, axis=0)
    np.testing.assert_array_equal(got / of_dy[:, None, None, None] / of_filters[:, :, None, None], wanted)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("algo", ALGOS)
def test_what_is_not_finite_stays_with_its_results(device, name, algo):
    """An infinity in a channel of x, and a NaN in a filter's dy whose windows meet no padding: as the
    definition has it (of Winograd's algorithms docs/precision.md promises less), and nothing changes in other
    channels and filters."""
    layer = LAYERS[name]
    with plan_of(device, layer, algo) as plan, plan_of(device, layer, "ref") as ref:
        x, dy = numbers_of(layer)
        plain = run(plan, x, dy)
        x[1, 3, 4, 5], dy[0, 2, 2, 2] = np.inf, np.nan
        wanted, got = run(ref, x, dy), run(plan, x, dy)
    if algo != "winograd":
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
    same = np.isfinite(wanted)
    assert same.any() and not same.all()
    away = np.ones_like(same)
    away[2], away[:, 3] = False, False
    np.testing.assert_array_equal(got[away], plain[away])
