"""Matrix products that read their operands where they lie and write the result where it belongs: transposes,
slices and factors around them are gone; near misses keep them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rewritten import Both, Net

B, N, H, D = 2, 19, 3, 8
MANY = 270  # too many columns for attention in one kernel


class Heads(Net):
    """q, k and v are parts of one linear layer of tokens."""

    def __init__(self, tokens: int = N, perm: tuple[int, ...] = (2, 0, 3, 1, 4)) -> None:
        super().__init__()
        x = self.input("x", B, tokens, H * D)
        qkv = self.layer("linear", "qkv", x, self.weight(3 * H * D, H * D), self.weight(3 * H * D))
        qkv = self.layer("reshape", "heads", qkv, shape=(B, tokens, 3, H, D))
        qkv = self.layer("transpose", "parts", qkv, perm=perm)
        self.q, self.k, self.v = (self.part(qkv, i) for i in range(3))
        self.tokens = tokens

    def part(self, qkv: int, i: int) -> int:
        part = self.layer("slice", f"slice{i}", qkv, starts=(i,), ends=(i + 1,), axes=(0,))
        return self.layer("squeeze", f"part{i}", part, axes=(0,))

    def number(self, value: float, *shape: int) -> int:
        self._constants += 1
        return self.graph.constant(f"n{self._constants}", np.full(shape, value, np.float32))

    def scaled(self, name: str, x: int, value: float = 0.3) -> int:
        return self.layer("mul", name, x, self.number(value))

    def turned(self, name: str, x: int, perm: tuple[int, ...] = (0, 1, 3, 2)) -> int:
        return self.layer("transpose", name, x, perm=perm)

    def product(self, name: str, a: int, b: int) -> int:
        return self.layer("matmul", name, a, b)

    def tokens_of(self, x: int, perm: tuple[int, ...] = (0, 2, 1, 3)) -> int:
        x = self.layer("transpose", "back", x, perm=perm)
        x = self.layer("reshape", "tokens", x, shape=(B, self.tokens, H * D))
        return self.layer("linear", "projection", x, self.weight(H * D, H * D), self.weight(H * D))


def _algorithms(device: Any) -> list[str]:
    """Those of products that the device can run."""
    special = ["panels"] if device.type == "cpu" else ["mma"] if device.compute_capability >= 80 else []
    return ["ref", "tiled", *special]


def _check(device: Any, net: Net, wanted: list[str]) -> None:
    """Operators of the steps, by every algorithm of the products."""
    for forced in [None, *_algorithms(device)]:
        names = ("first", "second")[: wanted.count("matmul")]
        both = Both(device, net, dict.fromkeys(names, forced) if forced else {})
        steps = {row["layer"]: row["op"] for row in both.steps}
        assert list(steps.values()) == wanted
        products = [row for row in both.layers if row["op"] == "matmul"]
        assert not forced or {row["algo"] for row in products} == {forced}


def _mixed(net: Heads, name: str, x: int) -> int:
    """Every score becomes a sum of those of all heads."""
    x = net.layer("transpose", f"{name}_last", x, perm=(0, 2, 3, 1))
    x = net.layer("linear", name, x, net.weight(H, H), net.weight(H))
    return net.layer("transpose", f"{name}_first", x, perm=(0, 3, 1, 2))


def test_talking_heads(device):
    """As CaiT has them."""
    net = Heads()
    scores = net.product("first", net.scaled("scale", net.q), net.turned("turn", net.k))
    weights = net.layer("softmax", "softmax", _mixed(net, "heads_before", scores))
    net.output(net.tokens_of(net.product("second", _mixed(net, "heads_after", weights), net.v)))
    _check(device, net, ["linear", "matmul", "conv", "softmax", "conv", "matmul", "linear"])


def test_channel_attention_of_davit(device):
    net = Heads(MANY)
    scale = 0.02  # sums over tokens are large, and softmax makes much of their errors
    scores = net.product("first", net.turned("turn_k", net.scaled("scale", net.k, scale)), net.v)
    y = net.product("second", net.layer("softmax", "softmax", scores), net.turned("turn_q", net.q))
    net.output(net.tokens_of(net.turned("turn_y", y)))
    _check(device, net, ["linear", "matmul", "softmax", "matmul", "linear"])


def test_channel_attention_of_xcit(device):
    net = Heads(MANY, (2, 0, 3, 4, 1))
    q, k = (net.layer("l2_norm", f"norm{i}", x, dim=-1) for i, x in enumerate((net.q, net.k)))
    scores = net.layer(
        "mul", "temperature", net.product("first", q, net.turned("turn", k)), net.weight(H, 1, 1)
    )
    y = net.product("second", net.layer("softmax", "softmax", scores), net.v)
    net.output(net.tokens_of(y, (0, 3, 1, 2)))
    before = ["linear", "transpose", "l2_norm", "l2_norm"]
    _check(device, net, [*before, "matmul", "mul", "softmax", "matmul", "linear"])


def test_linear_attention(device):
    """As EfficientViT has it: keys and values are multiplied first; one head, and three dimensions."""
    net = Net()
    q, k, v = (net.layer("relu", n, net.input(f"in_{n}", B, N, D)) for n in "qkv")
    pairs = net.layer("matmul", "first", net.layer("transpose", "turn", k, perm=(0, 2, 1)), v)
    y = net.layer("mul", "scale", net.layer("matmul", "second", q, pairs), net.weight(1, low=0.5))
    net.output(net.layer("relu", "relu", net.layer("transpose", "back", y, perm=(0, 2, 1))))
    _check(device, net, ["relu", "relu", "relu", "matmul", "matmul"])


def test_heads_that_are_items(device):
    """Heads and items in one dimension; a map is added where the result is brought."""
    net = Heads()
    q, v = (net.layer("reshape", f"all{i}", x, shape=(B * H, N, D)) for i, x in enumerate((net.q, net.v)))
    k = net.layer("reshape", "all_k", net.turned("turn", net.k), shape=(B * H, D, N))
    scores = net.layer("sigmoid", "sigmoid", net.product("first", q, k))
    y = net.layer("reshape", "apart", net.product("second", scores, v), shape=(B, H, N, D))
    y = net.layer("transpose", "back", y, perm=(0, 2, 1, 3))
    net.output(net.layer("add", "add", y, net.input("other", B, N, H, D)))
    _check(device, net, ["linear", "matmul", "matmul"])


def test_right_operand_of_all_items(device):
    net = Net()
    x, w = net.input("x", B, H, N, D), net.input("w", 5, D)
    y = net.layer("matmul", "first", x, net.layer("transpose", "turn", w, perm=(1, 0)))
    net.output(net.layer("transpose", "back", y, perm=(0, 1, 3, 2)))
    _check(device, net, ["matmul"])


@pytest.mark.parametrize("turned", ["a", "b", "ab", "y", "aby"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 33, 40), (37, 1, 19), (19, 8, 1), (45, 70, 300), (16, 32, 64)])
def test_sizes(device, turned, m, n, k):
    """Sides that are no multiples of tiles and vectors; b is one of two, item by item."""
    net = Net()
    a = net.input("a", B, *((k, m) if "a" in turned else (m, k)))
    b = net.input("b", B, 2, *((n, k) if "b" in turned else (k, n)))
    b = net.layer("slice", "half", b, starts=(1,), ends=(2,), axes=(1,))
    b = net.layer("squeeze", "one", b, axes=(1,))
    a = net.layer("transpose", "turn_a", a, perm=(0, 2, 1)) if "a" in turned else a
    b = net.layer("transpose", "turn_b", b, perm=(0, 2, 1)) if "b" in turned else b
    y = net.layer("matmul", "first", a, b)
    net.output(net.layer("transpose", "turn_y", y, perm=(0, 2, 1)) if "y" in turned else y)
    _check(device, net, ["matmul"])


# ---- near misses ----


def _stays(device: Any, net: Net, *layers: str) -> None:
    assert [layer for layer in layers if layer not in Both(device, net).names] == []


@pytest.mark.parametrize("what", ["output", "second reader"])
def test_a_result_that_is_wanted_stays(device, what):
    net = Net()
    y = net.layer("matmul", "first", net.input("a", B, N, D), net.input("b", B, D, N + 1))
    turned = net.layer("transpose", "back", y, perm=(0, 2, 1))
    net.output(turned, y if what == "output" else net.layer("softmax", "other", y))
    _stays(device, net, "back")


def test_an_operand_without_neighbours_stays(device):
    """Heads are what lies side by side."""
    net = Net()
    a = net.layer("transpose", "turn", net.input("a", B, N, D, H), perm=(0, 3, 1, 2))
    net.output(net.layer("matmul", "first", a, net.input("b", B, H, D, 5)))
    _stays(device, net, "turn")


def test_a_result_without_neighbours_stays(device):
    net = Net()
    y = net.layer("matmul", "first", net.input("a", B, H, N, D), net.input("b", B, H, D, 5))
    net.output(net.layer("transpose", "back", y, perm=(0, 2, 3, 1)))
    _stays(device, net, "back")


def test_a_factor_of_each_head_stays(device):
    net = Net()
    a = net.layer("mul", "scale", net.input("a", B, H, N, D), net.weight(H, 1, 1))
    net.output(net.layer("matmul", "first", a, net.input("b", B, H, D, 5)))
    _stays(device, net, "scale")


def test_an_operand_that_others_read_is_computed_for_them(device):
    net = Net()
    a = net.layer("transpose", "turn", net.input("a", B, D, N), perm=(0, 2, 1))
    net.output(net.layer("matmul", "first", a, net.input("b", B, D, 5)), net.layer("softmax", "other", a))
    both = Both(device, net)
    assert any(note.startswith("let matmul first read and write views") for note in both.notes)
    assert "turn" in both.names


def test_more_than_four_dimensions_stay(device):
    net = Net()
    a = net.layer("transpose", "turn", net.input("a", 2, 2, 2, D, N), perm=(0, 1, 2, 4, 3))
    net.output(net.layer("matmul", "first", a, net.input("b", 2, 2, 2, D, 5)))
    _stays(device, net, "turn")
