"""Products and softmax that become attention: in the forms that exporters write, as views of what lies before
and after, and what is nearly so and stays as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_rewrites import Both, Net

from clcnn import _core

OP = "scaled_dot_product_attention"
N, H, L, S, D = 2, 3, 37, 70, 16


class Heads(Net):
    """q, k and v as inputs of their own, and the parts of attention."""

    def __init__(self, *lead: int) -> None:
        super().__init__()
        self.rank = len(lead) + 2
        self.q, self.k, self.v = (self.input(n, *lead, s, D) for n, s in (("q", L), ("k", S), ("v", S)))

    def number(self, value: float, *shape: int) -> int:
        self._constants += 1
        return self.graph.constant(f"n{self._constants}", np.full(shape, value, np.float32))

    def turned(self, x: int) -> int:
        perm = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
        return self.layer("transpose", f"turn{x}", x, perm=perm)

    def scores(self) -> int:
        return self.layer("matmul", "scores", self.q, self.turned(self.k))

    def weighted(self, scores: int, **softmax: Any) -> int:
        return self.layer("matmul", "product", self.layer("softmax", "softmax", scores, **softmax), self.v)


def _merged(device: _core.Device, net: Net) -> list[str]:
    """Operators of the steps, one of which must be attention."""
    both = Both(device, net)
    assert [row["op"] for row in both.layers].count(OP) == 1
    assert any(note.startswith("merge matmul scores, softmax softmax") for note in both.notes)
    return [row["op"] for row in both.steps]


def _stays(device: _core.Device, net: Net) -> None:
    assert OP not in [row["op"] for row in Both(device, net).layers]


# ---- scales ----


def _plain(net: Heads) -> int:
    return net.scores()


def _after(net: Heads) -> int:
    return net.layer("mul", "scale", net.scores(), net.number(0.25))


def _divided(net: Heads) -> int:
    return net.layer("div", "scale", net.scores(), net.number(4.0, 1))


def _on_q(net: Heads) -> int:
    net.q = net.layer("mul", "scale", net.number(0.25, 1, 1), net.q)
    return net.scores()


def _on_both(net: Heads) -> int:
    q = net.layer("mul", "scale_q", net.q, net.number(0.5))
    k = net.layer("mul", "scale_k", net.turned(net.k), net.number(0.5))
    return net.layer("matmul", "scores", q, k)


@pytest.mark.parametrize("form", [_plain, _after, _divided, _on_q, _on_both])
@pytest.mark.parametrize("lead", [(N, H), (H,), ()])
def test_scales(device, form, lead):
    net = Heads(*lead)
    net.output(net.weighted(form(net)))
    assert _merged(device, net) == [OP]


def test_scaled_before_it_is_turned_and_read_elsewhere(device):
    net = Heads(N, H)
    net.k = net.layer("mul", "scale", net.k, net.number(0.5))
    net.output(net.weighted(net.scores()), net.k)
    assert sorted(_merged(device, net)) == ["mul", OP]


# ---- masks ----

MASKS = [(S,), (L, 1), (1, L, S), (H, 1, S), (N, 1, L, S), (N, H, L, S), (1, H, L, S)]


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("constant", [True, False])
def test_masks(device, shape, constant):
    net = Heads(N, H)
    mask = net.weight(*shape) if constant else net.input("mask", *shape)
    net.output(net.weighted(net.layer("add", "masked", mask, _after(net))))
    assert _merged(device, net) == [OP]


def test_a_bias_and_a_mask_of_windows(device):
    """As Swin has them: the mask is that of the windows of an image, and there are several images."""
    images, windows = 2, 3
    net = Heads(images * windows, H)
    scores = net.layer("add", "bias", _on_q(net), net.weight(1, H, L, S))
    scores = net.layer("reshape", "images", scores, shape=(images, windows, H, L, S))
    mask = net.layer("unsqueeze", "heads", net.weight(windows, L, S), axes=(0, 2))
    scores = net.layer("add", "mask", scores, mask)
    scores = net.layer("reshape", "windows", scores, shape=(images * windows, H, L, S))
    net.output(net.weighted(scores))
    assert _merged(device, net) == [OP]


def test_a_computed_mask_of_windows_stays(device):
    net = Heads(4, H)
    scores = net.layer("add", "bias", net.scores(), net.weight(H, L, S))
    scores = net.layer("add", "mask", scores, net.input("mask", L, S))
    net.output(net.weighted(scores))
    _stays(device, net)


def test_heads_and_items_in_one(device):
    net = Heads(N * H)
    scores = net.layer("add", "bias", net.scores(), net.weight(N * H, L, S))
    scores = net.layer("reshape", "heads", scores, shape=(N, H, L, S))
    scores = net.layer("add", "mask", scores, net.weight(N, 1, 1, S))
    weights = net.layer("softmax", "softmax", scores)
    weights = net.layer("reshape", "all", weights, shape=(N * H, L, S))
    net.output(net.layer("matmul", "product", weights, net.v))
    assert _merged(device, net) == [OP]


# ---- views ----


def _slices(net: Heads, qkv: int) -> list[int]:
    parts = [net.layer("slice", f"s{i}", qkv, starts=(i,), ends=(i + 1,), axes=(0,)) for i in range(3)]
    return [net.layer("squeeze", f"part{i}", part, axes=(0,)) for i, part in enumerate(parts)]


def _splits(net: Heads, qkv: int) -> list[int]:
    parts = net.graph.node("split", "split", [qkv], {"sizes": (1, 1, 1), "dim": 0})
    return [net.layer("squeeze", f"part{i}", part, axes=(0,)) for i, part in enumerate(parts)]


def _gathers(net: Heads, qkv: int) -> list[int]:
    at = [net.graph.constant(f"i{i}", np.array(i, np.int64)) for i in (0, 1, -1)]
    return [net.layer("gather", f"part{i}", qkv, at[i], dim=0) for i in range(3)]


@pytest.mark.parametrize("cut", [_slices, _splits, _gathers])
@pytest.mark.parametrize("batch", [1, 2])
def test_parts_of_one_projection(device, cut, batch):
    """Between the two projections there is one step."""
    net = Heads()
    net.rank = 4
    x = net.input("x", batch, L, 48)
    qkv = net.layer("linear", "in", x, net.weight(3 * H * D, 48))
    qkv = net.layer("reshape", "five", qkv, shape=(batch, L, 3, H, D))
    qkv = net.layer("transpose", "parts", qkv, perm=(2, 0, 3, 1, 4))
    net.q, net.k, net.v = cut(net, qkv)
    y = net.layer("transpose", "back", net.weighted(_after(net)), perm=(0, 2, 1, 3))
    y = net.layer("reshape", "joined", y, shape=(batch, L, H * D))
    net.output(net.layer("linear", "out", y, net.weight(24, H * D)))
    assert _merged(device, net) == ["linear", OP, "linear"]


W = 5  # windows
WINDOWS = {
    "of rows": ((W, L, 3, H, D), (3, 0, 1, 4, 2, 5), (0, 1, 3, 2, 4)),  # [N, W, H, L, D], Twins
    "beside rows": ((L, W, 3, H, D), (3, 0, 4, 2, 1, 5), (0, 3, 2, 1, 4)),  # [N, H, W, L, D], Hiera
    "after heads": ((W, L, 3, H, D), (3, 0, 4, 1, 2, 5), (0, 2, 3, 1, 4)),  # the same, NesT
}


@pytest.mark.parametrize("form", WINDOWS)
@pytest.mark.parametrize("batch", [1, 2])
def test_heads_of_windows(device, batch, form):
    """Five dimensions, of which items, heads and windows have strides that no two of them share."""
    sizes, parts, back = WINDOWS[form]
    net = Heads()
    net.rank = 5
    x = net.input("x", batch, W * L, 48)
    qkv = net.layer("linear", "in", x, net.weight(3 * H * D, 48))
    qkv = net.layer("reshape", "six", qkv, shape=(batch, *sizes))
    net.q, net.k, net.v = _gathers(net, net.layer("transpose", "parts", qkv, perm=parts))
    y = net.layer("transpose", "back", net.weighted(_after(net)), perm=back)
    y = net.layer("reshape", "joined", y, shape=(batch, W * L, H * D))
    net.output(net.layer("linear", "out", y, net.weight(24, H * D)))
    assert _merged(device, net) == ["linear", OP, "linear"]


def test_runs_of_items_of_two_lengths(device):
    """k has other runs of items than q: the one that comes later is no view."""
    net = Heads(4, 3, H)
    q = net.input("left", 3, 4, H, L, D)
    k = net.input("right", 2, 6, H, S, D)
    net.q = net.layer("transpose", "turned_q", q, perm=(1, 0, 2, 3, 4))
    k = net.layer("transpose", "turned_k", k, perm=(1, 0, 2, 3, 4))
    net.k = net.layer("reshape", "shaped_k", k, shape=(4, 3, H, S, D))
    net.output(net.weighted(net.scores()))
    assert sorted(_merged(device, net)) == [OP, "transpose"]


def test_a_mask_of_windows_beside_runs_of_items(device):
    """Heads of 5 dimensions with a mask of each window."""
    net = Heads(2, H, W)
    q = net.input("left", 2, W, L, H, D)
    net.q = net.layer("transpose", "turned_q", q, perm=(0, 3, 1, 2, 4))
    mask = net.weight(1, 1, W, L, S)
    net.output(net.weighted(net.layer("add", "masked", net.scores(), mask)))
    assert _merged(device, net) == [OP]


@pytest.mark.parametrize("width", [7, 12])
@pytest.mark.parametrize("batch", [1, 2])
def test_channels_of_a_convolution(device, batch, width):
    """Rows are pixels, which lie side by side; columns are channels."""
    net = Heads()
    net.rank = 4
    x = net.input("x", batch, 5, 6, width)
    qkv = net.layer("reshape", "heads", net.conv("in", x, 3 * H * D, 1), shape=(batch, H, 3 * D, 6 * width))
    parts = net.graph.node("split", "split", [qkv], {"sizes": (D, D, D), "dim": 2})
    net.q, net.k, net.v = (net.turned(part) for part in parts)
    y = net.turned(net.weighted(net.scores()))
    net.output(net.conv("out", net.layer("reshape", "map", y, shape=(batch, H * D, 6, width)), 9, 1))
    assert _merged(device, net) == ["conv", OP, "conv"]


@pytest.mark.parametrize("shared", ["k", "v", "kv"])
@pytest.mark.parametrize("turned", [True, False])
def test_heads_that_share_k_and_v(device, shared, turned):
    """Multi-query attention: one head of k, of v or of both is for all heads of q."""
    net = Heads(N, H)
    for name, rows in (("k", S), ("v", S)):
        if name in shared:
            value = net.input(f"one_{name}", N, 1, *((D, rows) if turned else (rows, D)))
            setattr(net, name, net.turned(value) if turned else value)
    net.output(net.layer("transpose", "moved", net.weighted(net.scores()), perm=(0, 2, 1, 3)))
    assert _merged(device, net) == [OP]


def test_heads_and_items_change_places(device):
    """As multi-head attention of [L, N, E] writes it: heads and items are one dimension in the products."""
    net = Heads()
    net.rank = 3
    x = net.input("x", L, N, 48)

    def heads(name: str) -> int:
        y = net.layer("linear", f"in_{name}", x, net.weight(H * D, 48))
        y = net.layer("reshape", f"heads_{name}", y, shape=(L, N * H, D))
        return net.layer("transpose", f"rows_{name}", y, perm=(1, 0, 2))

    net.q, net.k, net.v = heads("q"), heads("k"), heads("v")
    y = net.layer("transpose", "back", net.weighted(_after(net)), perm=(1, 0, 2))
    net.output(net.layer("reshape", "joined", y, shape=(L, N, H * D)))
    assert _merged(device, net) == ["linear", "linear", "linear", OP]


def test_views_that_are_read_elsewhere_too(device):
    net = Heads(N, H)
    turned = net.turned(net.k)
    y = net.weighted(net.layer("matmul", "scores", net.q, turned))
    back = net.layer("transpose", "back", y, perm=(0, 2, 1, 3))
    net.output(turned, y, back)
    assert sorted(_merged(device, net)) == [OP, "transpose", "transpose"]


def test_operands_that_no_strides_describe(device):
    """Every second row turned back to front, and columns of two kinds: copies stay, attention is found."""
    net = Heads(N, H)
    net.q = net.layer("slice", "turned", net.q, starts=(-1,), ends=(-L - 1,), axes=(2,), steps=(-1,))
    net.k = net.layer("slice", "second", net.k, starts=(1,), ends=(S,), axes=(2,), steps=(2,))
    net.v = net.layer("reshape", "pairs", net.v, shape=(N, H, S // 2, 2, D))
    net.v = net.layer("transpose", "kinds", net.v, perm=(0, 1, 2, 4, 3))
    net.v = net.layer("reshape", "columns", net.v, shape=(N, H, S // 2, 2 * D))
    net.output(net.weighted(net.scores()))
    steps = _merged(device, net)
    assert steps[-1] == OP and sorted(steps[:-1]) == ["slice", "transpose"]


# ---- what stays ----


def _other_axis(net: Heads) -> int:
    return net.weighted(net.scores(), dim=2)


def _read_twice(net: Heads) -> int:
    scores = net.scores()
    net.graph.output(scores, "scores")
    return net.weighted(scores)


def _weights_read_twice(net: Heads) -> int:
    weights = net.layer("softmax", "softmax", net.scores())
    net.graph.output(weights, "weights")
    return net.layer("matmul", "product", weights, net.v)


def _no_softmax(net: Heads) -> int:
    return net.layer("matmul", "product", net.layer("sigmoid", "gate", net.scores()), net.v)


def _mask_scaled(net: Heads) -> int:
    masked = net.layer("add", "masked", net.scores(), net.weight(L, S))
    return net.weighted(net.layer("mul", "scale", masked, net.number(0.5)))


def _scale_of_rows(net: Heads) -> int:
    return net.weighted(net.layer("mul", "scale", net.scores(), net.weight(L, 1)))


def _product_at_the_left(net: Heads) -> int:
    weights = net.layer("softmax", "softmax", net.scores())
    left = net.layer("transpose", "left", net.v, perm=(0, 1, 3, 2))
    return net.layer("matmul", "product", left, net.layer("transpose", "right", weights, perm=(0, 1, 3, 2)))


def _heads_broadcast(net: Heads) -> int:
    weights = net.layer("softmax", "softmax", net.scores())
    return net.layer("matmul", "product", weights, net.input("one", 1, H, S, D))


def _divided_by_scores(net: Heads) -> int:
    return net.weighted(net.layer("div", "scale", net.number(4.0), net.scores()))


STAYS: list[Callable[[Heads], int]] = [
    _other_axis, _read_twice, _weights_read_twice, _no_softmax, _mask_scaled, _scale_of_rows,
    _product_at_the_left, _heads_broadcast, _divided_by_scores,
]  # fmt: skip


@pytest.mark.parametrize("form", STAYS)
def test_what_is_nearly_attention_stays(device, form):
    net = Heads(N, H)
    net.output(form(net))
    _stays(device, net)


def test_long_rows_stay(device):
    net = Heads(N, H)
    net.v = net.input("long", N, H, S, 257)
    net.output(net.weighted(net.scores()))
    _stays(device, net)


@pytest.mark.parametrize("layer", ["scores", "product", "softmax"])
def test_forced_parts_stay(device, layer):
    net = Heads(N, H)
    net.output(net.weighted(net.scores()))
    assert OP not in [row["op"] for row in Both(device, net, {layer: "ref"}).layers]


@pytest.mark.parametrize("algo", ["flash", "ref"])
def test_the_merged_layer_can_be_forced(device, algo):
    net = Heads(N, H)
    net.output(net.weighted(net.scores()))
    (layer,) = Both(device, net, {"scores+product": algo}).layers
    assert (layer["op"], layer["algo"]) == (OP, algo)
