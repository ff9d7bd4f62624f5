"""Whole numbers of few bits: where the graph knows of them, products that one part of bfloat16 holds exactly,
and roundings that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from caselib import parse_case
from clcnn import _core
from rewritten import Net
from runner import try_case

ROWS, CHANNELS, FILTERS = 40, 70, 48


class Whole(Net):
    """Numbers of its own, and layers whose names are made different."""

    def constant(self, array: Any) -> int:
        self._constants += 1
        return self.graph.constant(f"w{self._constants}", np.asarray(array, np.float32))

    def number(self, value: float) -> int:
        return self.constant(np.full((1, 1), value))

    def then(self, op: str, *inputs: int | None, **attrs: Any) -> int:
        self.layers = getattr(self, "layers", 0) + 1
        return self.layer(op, f"{op}.{self.layers}", *inputs, **attrs)


Rounded = Callable[[Whole, int], int]


@pytest.fixture(scope="module")
def device() -> Any:
    with _core.Device("cpu") as device:
        if try_case(device, parse_case("linear [33,33] w[35,33]"), "amx").rejected:
            pytest.skip("vectors have fewer than 16 floats")
        yield device


def steps(net: Whole, x: int, scale: float = 1.0, zero: float = 77.0) -> int:
    return net.then("fake_quantize", x, scale=scale, zero_point=zero)


def clipped(net: Whole, x: int, high: float = 255.0) -> int:
    return net.then("clip", net.then("round", x), min=0.0, max=high)


def as_dynamic(net: Whole, x: int) -> int:
    """DynamicQuantizeLinear: the zero point is computed, too."""
    zero = clipped(net, net.then("reduce_max", x, axes=(0, 1), keepdims=True))
    inner = net.then("add", net.then("round", x), zero)
    return net.then("sub", net.then("clip", inner, min=0.0, max=255.0), zero)


def normed(net: Whole, x: int) -> int:
    return net.then("layer_norm", x, None, None, dim=1, dims=1)


def moved(net: Whole, x: int) -> int:
    return net.then("reshape", net.then("transpose", steps(net, x), perm=(1, 0)), shape=(ROWS, CHANNELS))


def less(net: Whole, x: int, value: float) -> int:
    return net.then("sub", clipped(net, x), net.number(value))


WHOLE: dict[str, Rounded] = {
    "steps": steps,
    "steps of a norm": lambda net, x: steps(net, normed(net, x)),
    "steps behind a function": lambda net, x: steps(net, net.then("mul", normed(net, x), net.number(50.0))),
    "clipped": clipped,
    "above a computed zero": as_dynamic,
    "turned around": lambda net, x: net.then("neg", steps(net, x)),
    "less a number": lambda net, x: less(net, x, 128.0),
    "a number less it": lambda net, x: net.then("sub", net.number(128.0), clipped(net, x)),
    "a sum": lambda net, x: net.then("add", clipped(net, x, 100.0), clipped(net, x, 156.0)),
    "moved": moved,
    "above zero": lambda net, x: net.then("relu", less(net, x, 9.0)),
}
OTHERS: dict[str, Rounded] = {
    "not rounded": lambda net, x: net.then("clip", x, min=0.0, max=255.0),
    "no limit": lambda net, x: net.then("round", x),
    "too large": lambda net, x: clipped(net, x, 257.0),
    "limited by a part of one": lambda net, x: clipped(net, x, 200.5),
    "other steps": lambda net, x: steps(net, x, scale=0.5),
    "a zero between steps": lambda net, x: steps(net, x, zero=7.5),
    "a sum that is too large": lambda net, x: net.then("add", steps(net, x), steps(net, x, zero=0.0)),
    "less a part of one": lambda net, x: less(net, x, 0.5),
    "a product": lambda net, x: net.then("mul", clipped(net, x, 100.0), net.number(1.5)),
}


def weights(change: float | None = None) -> np.ndarray:
    w = np.random.default_rng(4).integers(-128, 128, (FILTERS, CHANNELS)).astype(np.float32)
    if change is not None:
        w[3, 5] = change
    return w


def parts_of(
    device: _core.Device, rounded: Rounded, w: np.ndarray, data: np.ndarray, exact: bool = True
) -> tuple[str, np.ndarray]:
    """PARTS of the layer's products, and what they give; without rewrites it is the same."""
    net = Whole()
    net.output(net.layer("linear", "a", rounded(net, net.input("x", ROWS, CHANNELS)), net.constant(w)))
    with _core.Plan(device, net.graph, overrides={"a": "amx"}, guard=True) as plan:
        (y,) = plan.run([data])
        plan.check_guards()
        (defines,) = {step["defines"] for step in plan.steps() if step["kernel"].startswith("conv_amx")}
    with _core.Plan(device, net.graph, fuse=False) as plan:
        (wanted,) = plan.run([data])
        np.testing.assert_allclose(y, wanted, rtol=0.0 if exact else 1e-4, atol=0.0 if exact else 0.5)
    return next(word for word in defines.split() if word.startswith("PARTS")), y


def data_of(spread: float = 60.0) -> np.ndarray:
    return np.random.default_rng(2).normal(0, spread, (ROWS, CHANNELS)).astype(np.float32)


@pytest.mark.parametrize("rounded", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_of_few_bits_have_one_part(device, rounded):
    assert parts_of(device, rounded, weights(), data_of())[0] == "PARTS=1"


@pytest.mark.parametrize("rounded", OTHERS.values(), ids=OTHERS)
def test_other_numbers_have_three(device, rounded):
    assert parts_of(device, rounded, weights(), data_of(), exact=False)[0] == "PARTS=3"


@pytest.mark.parametrize("change", [0.5, 257.0, np.nan])
def test_so_have_other_weights(device, change):
    assert parts_of(device, steps, weights(change), data_of(), exact=False)[0] == "PARTS=3"


def test_what_is_not_a_number_stays_so(device):
    data = data_of()
    data[7, 3] = np.nan
    parts, y = parts_of(device, steps, weights(), data)
    assert parts == "PARTS=1"
    assert np.isnan(y[7]).all() and np.isfinite(np.delete(y, 7, 0)).all()


def test_convolutions_of_whole_numbers_have_one_part(device):
    net = Whole()
    w = np.random.default_rng(4).integers(-128, 128, (48, 70, 3, 3))
    x = net.then("fake_quantize", net.input("x", 2, 70, 9, 8), scale=1.0, zero_point=128.0)
    net.output(net.layer("conv", "a", x, net.constant(w), padding=(1,), stride=(2, 2)))
    data = [np.random.default_rng(2).normal(0, 60, (2, 70, 9, 8)).astype(np.float32)]
    with _core.Plan(device, net.graph, overrides={"a": "amx"}) as plan:
        (y,) = plan.run(data)
        assert any("PARTS=1" in step["defines"] for step in plan.steps())
    with _core.Plan(device, net.graph, fuse=False) as plan:
        np.testing.assert_array_equal(y, plan.run(data)[0])


def rounded_twice(second: Rounded) -> tuple[list[str], list[str]]:
    """Layers of a net that rounds, moves and rounds again, and what the rewriter notes."""
    net = Whole()
    x = net.then("transpose", steps(net, net.input("x", 4, 5)), perm=(1, 0))
    net.output(net.then("exp", net.then("mul", second(net, x), net.number(0.01))))
    data = [np.random.default_rng(2).normal(0, 60, (4, 5)).astype(np.float32)]
    with _core.Device("cpu") as device, _core.Plan(device, net.graph) as plan:
        (y,) = plan.run(data)
        notes = plan.rewrites()
    with _core.Device("cpu") as device, _core.Plan(device, net.graph, fuse=False) as plan:
        np.testing.assert_allclose(y, plan.run(data)[0], rtol=1e-6)
        return [row["op"] for row in plan.layers()], notes


SAME: dict[str, Rounded] = {
    "the same steps": steps,
    "round": lambda net, x: net.then("round", x),
    "floor": lambda net, x: net.then("floor", x),
    "steps of a part of them": lambda net, x: steps(net, net.then("relu", x), zero=0.0),
}
NOT_SAME: dict[str, Rounded] = {
    "another zero": lambda net, x: steps(net, x, zero=78.0),
    "other steps": lambda net, x: steps(net, x, scale=2.0),
    "a number between": lambda net, x: net.then("round", net.then("mul", x, net.number(0.5))),
}


@pytest.mark.parametrize("second", SAME.values(), ids=SAME)
def test_whole_numbers_are_not_rounded_again(second):
    assert any(
        note.startswith(("drop fake_quantize", "drop round", "drop floor"))
        for note in rounded_twice(second)[1]
    )


@pytest.mark.parametrize("second", NOT_SAME.values(), ids=NOT_SAME)
def test_what_rounding_changes_is_rounded(second):
    assert not any(note.startswith("drop") for note in rounded_twice(second)[1])
