"""Scores to which two broadcast masks are added, one for each digit of the number of a row of k, as MViTv2
and SAM write decomposed relative positions: they become operands of attention. What is nearly so stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from test_rewrite_attention import OP, D, H, Heads, N, _merged, _stays

from clcnn import _core
from rewritten import Both, random_inputs
from tolerance import compare

ROWS, KEYS = (5, 7), (9, 13)  # of maps; rows of more than one tile, keys of more than one block


class Maps(Heads):
    """Rows of q and of k are pixels of maps."""

    def __init__(
        self, lead: tuple[int, ...] = (N, H), rows: tuple[int, int] = ROWS, keys: tuple[int, int] = KEYS
    ):
        super(Heads, self).__init__()
        self.lead, self.rows, self.keys, self.rank = lead, rows, keys, len(lead) + 2
        sizes = {"q": rows[0] * rows[1], "k": keys[0] * keys[1], "v": keys[0] * keys[1]}
        self.q, self.k, self.v = (self.input(n, *lead, s, D) for n, s in sizes.items())

    def as_maps(self, scores: int) -> int:
        return self.layer("reshape", "maps", scores, shape=(*self.lead, *self.rows, *self.keys))

    def as_rows(self, scores: int) -> int:
        rows, keys = (int(np.prod(size)) for size in (self.rows, self.keys))
        return self.layer("reshape", "rows", scores, shape=(*self.lead, rows, keys))

    def part(self, name: str, *keys: int) -> int:
        """An input for each pixel of q, with the digits of a pixel of k that it depends on."""
        return self.input(name, *self.lead, *self.rows, *keys)

    def both(self) -> tuple[int, int]:
        return self.part("high", self.keys[0], 1), self.part("wide", 1, self.keys[1])

    def masked(self, *masks: int) -> int:
        scores = self.as_maps(self.layer("mul", "scale", self.scores(), self.number(0.25)))
        for i, mask in enumerate(masks):
            scores = self.layer("add", f"mask{i}", scores, mask)
        return self.as_rows(scores)


@pytest.mark.parametrize("algo", ["flash", "tiled", "ref"])
@pytest.mark.parametrize("rows", [(5, 7), (1, 3), (9, 9)])
@pytest.mark.parametrize("keys", [(9, 13), (2, 2), (3, 40)])
def test_parts_by_each_algorithm(device, algo, rows, keys):
    net = Maps(rows=rows, keys=keys)
    net.output(net.weighted(net.masked(*net.both())))
    (layer,) = Both(device, net, {"scores+product": algo}).layers
    assert (layer["op"], layer["algo"]) == (OP, algo)


@pytest.mark.parametrize("lead", [(N, H), (H,), (1, 1)])
def test_parts_in_either_order(device, lead):
    net = Maps(lead)
    high, wide = net.both()
    net.output(net.weighted(net.masked(wide, high)))
    assert _merged(device, net) == [OP]


def test_parts_that_are_added_to_each_other_first(device):
    """As Segment Anything has them: their sum is the mask."""
    net = Maps()
    sum_ = net.as_rows(net.layer("add", "sum", *net.both()))
    net.output(net.weighted(net.layer("add", "masked", net.scores(), sum_)))
    assert _merged(device, net) == [OP]


@pytest.mark.parametrize(
    "shape, taken", [((13,), True), ((1, H, 1, 1, 1, 13), True), ((N, 1, 5, 1, 1, 13), False)]
)
def test_a_part_that_is_broadcast_elsewhere_too(device, shape, taken):
    """A row of q has one stride: where one digit of its number alone counts, the mask stays."""
    net = Maps()
    net.output(net.weighted(net.masked(net.part("high", 9, 1), net.weight(*shape))))
    assert ([row["op"] for row in Both(device, net).steps] == [OP]) == taken


def test_parts_that_are_computed_as_einsum_writes_them(device):
    """byhwc,hkc->byhwk and byhwc,wkc->byhwk: one product for each line, and one for each column."""
    net = Maps((1, 2))
    pixels = net.layer("reshape", "pixels", net.q, shape=(1, 2, *ROWS, D))
    lines = net.layer("transpose", "lines", pixels, perm=(2, 0, 1, 3, 4))
    lines = net.layer("reshape", "lines2", lines, shape=(ROWS[0], 2 * ROWS[1], D))
    high = net.layer("matmul", "high", lines, net.weight(ROWS[0], D, KEYS[0]))
    high = net.layer("reshape", "high2", high, shape=(ROWS[0], 1, 2, ROWS[1], KEYS[0]))
    high = net.layer("transpose", "high3", high, perm=(1, 2, 0, 3, 4))
    columns = net.layer("transpose", "columns", pixels, perm=(3, 0, 1, 2, 4))
    columns = net.layer("reshape", "columns2", columns, shape=(ROWS[1], 2 * ROWS[0], D))
    wide = net.layer("matmul", "wide", columns, net.weight(ROWS[1], D, KEYS[1]))
    wide = net.layer("reshape", "wide2", wide, shape=(ROWS[1], 1, 2, ROWS[0], KEYS[1]))
    wide = net.layer("transpose", "wide3", wide, perm=(1, 2, 3, 0, 4))
    high = net.layer("unsqueeze", "high4", high, axes=(5,))
    wide = net.layer("unsqueeze", "wide4", wide, axes=(4,))
    net.output(net.weighted(net.masked(high, wide)))
    steps = _merged(device, net)
    assert steps.count("matmul") == 2 and not {"add", "softmax"} & set(steps)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("algo", ["flash", "tiled", "ref"])
def test_what_is_no_number(device, algo, value):
    """In one part it reaches the keys of its digit; rows that see nothing are NaN."""
    net = Maps()
    net.output(net.weighted(net.masked(*net.both())))
    with _core.Plan(device, net.graph, overrides={"scores+product": algo}) as plan:
        q, k, v, high, wide = data = random_inputs(plan)
        high[0, 1, 2, 3, 4] = wide[1, 2, 3, 4, 0, 5] = value
        high[1, 0, 4, 6] = -np.inf
        (got,) = plan.run(data)
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) * 0.25
    scores = scores.reshape(N, H, *ROWS, *KEYS) + high + wide
    scores = scores.reshape(N, H, 35, 117)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        want = weights @ v.astype(np.float64) / weights.sum(axis=-1, keepdims=True)
    assert np.isnan(got[1, 0, 34]).all()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    compare(got[~np.isnan(want)], want[~np.isnan(want)], OP)


# ---- what stays ----


def _the_same_digit_twice(net: Maps) -> int:
    return net.masked(net.part("one", 9, 1), net.part("two", 9, 1))


def _digits_of_other_sizes(net: Maps) -> int:
    scores = net.layer("add", "mask0", net.as_maps(net.scores()), net.part("high", 9, 1))
    scores = net.layer("reshape", "other", scores, shape=(*net.lead, *net.rows, 13, 9))
    return net.as_rows(net.layer("add", "mask1", scores, net.part("wide", 1, 9)))


def _both_digits_in_one(net: Maps) -> int:
    return net.masked(net.part("high", 9, 1), net.part("all", 9, 13))


def _a_third_mask(net: Maps) -> int:
    return net.masked(*net.both(), net.part("third", 1, 1))


def _one_alone(net: Maps) -> int:
    return net.masked(net.part("high", 9, 1))


def _scaled_behind(net: Maps) -> int:
    return net.layer("mul", "behind", net.masked(*net.both()), net.number(0.5))


def _read_on_the_way(net: Maps) -> int:
    scores = net.layer("add", "mask0", net.as_maps(net.scores()), net.part("high", 9, 1))
    net.graph.output(scores, "scores")
    return net.as_rows(net.layer("add", "mask1", scores, net.part("wide", 1, 13)))


def _turned_on_the_way(net: Maps) -> int:
    scores = net.layer("transpose", "turned", net.as_maps(net.scores()), perm=(0, 1, 3, 2, 4, 5))
    scores = net.layer("add", "mask0", scores, net.input("high", N, H, 7, 5, 9, 1))
    return net.as_rows(net.layer("add", "mask1", scores, net.input("wide", N, H, 7, 5, 1, 13)))


STAYS: list[Callable[[Maps], int]] = [
    _the_same_digit_twice, _digits_of_other_sizes, _both_digits_in_one, _a_third_mask, _one_alone,
    _scaled_behind, _read_on_the_way, _turned_on_the_way,
]  # fmt: skip


@pytest.mark.parametrize("form", STAYS)
def test_what_is_nearly_so_stays(device, form):
    net = Maps()
    net.output(net.weighted(form(net)))
    _stays(device, net)


def test_softmax_of_other_rows_stays(device):
    net = Maps()
    scores = net.layer("reshape", "other", net.masked(*net.both()), shape=(N, H, 35 * 9, 13))
    weights = net.layer("softmax", "softmax", scores)
    weights = net.layer("reshape", "back", weights, shape=(N, H, 35, 117))
    net.output(net.layer("matmul", "product", weights, net.v))
    _stays(device, net)


def test_parts_of_too_many_columns_stay(device):
    net = Maps((1, 1), (1, 2), (2, 257))
    net.output(net.weighted(net.masked(*net.both())))
    _stays(device, net)


def test_a_sum_that_is_read_elsewhere_is_a_mask(device):
    net = Maps()
    sum_ = net.as_rows(net.layer("add", "sum", *net.both()))
    net.output(net.weighted(net.layer("add", "masked", net.scores(), sum_)), sum_)
    assert sorted(_merged(device, net)) == ["add", OP]
