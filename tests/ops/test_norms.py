"""Norms of rows and softmax where numbers are hard: large means, NaN and infinity, short and long rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import clcnn
import device_face
from clcnn._reference import REFERENCE
from helpers import need_blocks

RNG = np.random.default_rng(3)
NORMS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("layer_norm", {"dim": -1}, (6, 197)),
    ("layer_norm", {"dim": -1}, (3, 70001)),
    ("layer_norm", {"dim": 1, "dims": 1}, (2, 96, 5, 7)),
    ("layer_norm", {"dim": 1}, (2, 5, 70, 70)),
    ("rms_norm", {"dim": -1}, (6, 197)),
    ("rms_norm", {"dim": 1, "dims": 1}, (2, 96, 5, 7)),
    ("l2_norm", {"dim": -1}, (6, 197)),
    ("l2_norm", {"dim": 1}, (2, 96, 5, 7)),
    ("instance_norm", {}, (2, 20, 9, 11)),
    ("instance_norm", {}, (1, 3, 90, 90)),
    ("group_norm", {"groups": 2}, (2, 48, 9, 11)),
    ("group_norm", {"groups": 3}, (2, 6, 60, 61)),
    ("group_norm", {"groups": 1}, (2, 20, 60, 61)),
    ("instance_norm", {}, (2, 20, 40, 45)),
]
SOFTMAX: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    (op, {"dim": dim}, shape)
    for op in ("softmax", "log_softmax")
    for dim, shape in ((-1, (6, 197)), (-1, (9, 5)), (-1, (2, 70001)), (1, (2, 21, 5, 7)))
]
# Those of maps also on channel blocks.
BLOCKED = [
    (*row, "blocked")
    for row in NORMS
    if len(row[2]) == 4 and (row[1].get("dim", 1), row[1].get("dims", 1)) == (1, 1)
]
BLOCKED = [row for row in BLOCKED if row[0] != "layer_norm" or "dims" in row[1]]
EVERY = [*((*row, algo) for algo in ("", "lanes") for row in [*NORMS, *SOFTMAX]), *BLOCKED]
IDS = [f"{op}-{'x'.join(map(str, shape))}-{algo or i}" for i, (op, _, shape, algo) in enumerate(EVERY)]
SOME = [row for row in EVERY if "softmax" not in row[0]]
every = pytest.mark.parametrize(("op", "attrs", "shape", "algo"), EVERY, ids=IDS)


def apply(device: Any, op: str, attrs: dict[str, Any], x: np.ndarray, algo: str = "") -> np.ndarray:
    if algo:
        need_blocks(device, op, algo)
    graph = clcnn.Graph()
    graph.output(graph.apply(op, graph.input("x", x.shape), name="n", **attrs), "y")
    with clcnn.compile(graph, device=device, algorithms={"n": algo} if algo else {}) as plan:
        return plan(x)


@pytest.mark.parametrize(("op", "attrs", "shape", "algo"), SOME)
def test_large_means_keep_the_digits_of_the_differences(device, op, attrs, shape, algo):
    x = (1000.0 + 0.01 * RNG.standard_normal(shape)).astype(np.float32)
    want = REFERENCE[op](x.astype(np.float64), **attrs, **({} if op == "l2_norm" else {"eps": 1e-9}))
    got = apply(device, op, attrs | ({} if op == "l2_norm" else {"eps": 1e-9}), x, algo)
    rms = np.sqrt(np.mean(want * want))
    assert np.sqrt(np.mean((got - want) ** 2)) <= 4e-6 * rms
    assert np.abs(got - want).max() <= 5e-5 * rms


@every
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_row(device, op, attrs, shape, algo, value):
    x = RNG.standard_normal(shape).astype(np.float32)
    x[tuple(n // 2 for n in shape)] = value
    with np.errstate(all="ignore"):
        want = REFERENCE[op](x.astype(np.float64), **attrs)
    got = apply(device, op, attrs, x, algo)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~np.isnan(want) & ~finite], want[~np.isnan(want) & ~finite])
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dim", "shape"), [(-1, (6, 197)), (-1, (9, 5)), (1, (2, 21, 5, 7))])
def test_softmax_has_zeros_below_the_normal_numbers(device, dim, shape):
    """With which products would take a hundred times as long."""
    x = RNG.uniform(-100, 0, shape).astype(np.float32)
    want = REFERENCE["softmax"](x.astype(np.float64), dim=dim)
    got = apply(device, "softmax", {"dim": dim}, x, "vector")
    least = np.finfo(np.float32).smallest_normal
    assert not ((got > 0) & (got < least)).any()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1.01 * least)
    assert (got[want > 1.01 * least] > 0).all()


@pytest.mark.parametrize(
    ("op", "shape", "want"),
    [
        ("layer_norm", (5, 1), 0.0),
        ("rms_norm", (5, 1), 1.0),
        ("l2_norm", (5, 1), 1.0),
        ("softmax", (5, 1), 1.0),
        ("log_softmax", (5, 1), 0.0),
        ("instance_norm", (5, 3, 1, 1), 0.0),
    ],
)
def test_rows_of_one_element(device, op, shape, want):
    x = np.abs(RNG.standard_normal(shape)).astype(np.float32) + 3.0
    np.testing.assert_allclose(apply(device, op, {}, x), np.full(shape, want, np.float32), atol=1e-5)


@every
def test_an_item_has_the_same_bits_in_any_batch(device, op, attrs, shape, algo):
    x = RNG.standard_normal((7, *shape[1:])).astype(np.float32)
    whole = apply(device, op, attrs, x, algo)
    np.testing.assert_array_equal(whole[4:5], apply(device, op, attrs, x[4:5], algo))


@pytest.mark.parametrize("name", ["relu", "gelu", "clip"])
@pytest.mark.parametrize(("op", "attrs", "shape"), [row for row in NORMS if np.prod(row[2]) < 50_000])
@pytest.mark.parametrize("algo", ["", "ref", "lanes", "blocked"])
def test_an_activation_becomes_the_epilogue(device, op, attrs, shape, algo, name):
    if algo == "blocked":
        if (op, attrs, shape, algo) not in BLOCKED:
            pytest.skip("not on channel blocks")
        need_blocks(device, op, algo)
    limits = {"min": -0.5, "max": 0.5} if name == "clip" else {}
    x = RNG.standard_normal(shape).astype(np.float32)
    graph = clcnn.Graph()
    y = graph.apply(op, graph.input("x", x.shape), name="n", **attrs)
    graph.output(graph.apply(name, y, name="a", **limits), "y")
    with clcnn.compile(graph, device=device, algorithms={"n": algo} if algo else {}) as plan:
        assert {row.layer for row in plan.profile(x).rows if row.op == op} == {"n"}
        assert name not in {row.op for row in plan.profile(x).rows}
        got = plan(x)
    want = REFERENCE[name](REFERENCE[op](x.astype(np.float64), **attrs), **limits)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


NARROW = """
import json
from caselib import load_cases
from clcnn import _core
from runner import try_case
failures, ran = [], set()
with _core.Device("cpu") as device:
    assert device.float_width == 8
    for case in [case for name in ("norm", "reduce") for case in load_cases(name)]:
        if "vector" in _core.ops()[case.op]["algos"]:
            outcome = try_case(device, case, "vector")
            failures += outcome.failures
            ran |= set() if outcome.rejected else {case.op}
print(json.dumps([sorted(ran), failures]))
"""


def test_vectors_of_eight(tmp_path):
    """On CPUs with vectors of 8 floats, whatever this one has."""
    ran, failures = json.loads(device_face.run(tmp_path, NARROW, kind="CPU", width=8).splitlines()[-1])
    assert failures == []
    assert ran == sorted({op for op, _, _, _ in EVERY})
