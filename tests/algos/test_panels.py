"""Register tiles over panels (`panels`): the same sums as the definition's, wherever operands lie."""

from __future__ import annotations

import json

import numpy as np
import pytest

import device_face
from caselib import load_cases, parse_case
from helpers import need_blocks
from rewritten import Both, Net
from runner import compile_case, run_case

PRODUCTS = [case for case in load_cases("gemm") if case.op in ("linear", "matmul", "gemm")]

NARROW = """
import json
from clcnn import _core
from runner import try_case
from test_panels import PRODUCTS
with _core.Device("cpu") as device:
    assert device.float_width == 8
    outcomes = [try_case(device, case, "panels") for case in PRODUCTS]
print(json.dumps([[text for o in outcomes for text in o.failures], sum(bool(o.rejected) for o in outcomes)]))
"""


def test_vectors_of_eight(tmp_path):
    """Every case on CPUs whose vectors have 8 floats, whatever this one has."""
    printed = device_face.run(tmp_path, NARROW, kind="CPU", width=8)
    failures, rejected = json.loads(printed.splitlines()[-1])
    assert failures == []
    assert rejected == 0


# Rows of every tile, depths around what is added at a time, one vector and two, whole and not; operands where
# they lie, packed for the device, and packed in every run.
SIZES = [
    (1, 1, 16),
    (3, 255, 17),
    (8, 256, 31),
    (14, 257, 32),
    (15, 513, 33),
    (57, 600, 49),
    (200, 70, 200),
    (197, 600, 300),
]


@pytest.mark.parametrize("right", ["[{k},{n}]", "w[{k},{n}]", "[{n},{k}] trans_b=1", "w[{n},{k}] trans_b=1"])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_sums_are_those_of_the_definition(device, m, k, n, right):
    """To the last bit: products are added one by one, in the same order."""
    need_blocks(device, "gemm", "panels")
    case = parse_case(f"gemm [{m},{k}] {right.format(k=k, n=n)}")
    data = case.data()
    results = []
    for algo in ("panels", "ref"):
        with compile_case(device, case, data, algo) as plan:
            results.append(run_case(plan, case, data))
    assert np.array_equal(results[0], results[1])


def test_operand_that_cannot_be_packed_is_read_where_it_lies(device):
    """Packing takes scratch, of which a plan may have none."""
    need_blocks(device, "matmul", "panels")
    case = parse_case("matmul [100,300] [300,130]")
    data = case.data()
    results, steps = [], []
    for limit in (1 << 20, 0):
        with compile_case(device, case, data, "panels", workspace_limit=limit) as plan:
            results.append(run_case(plan, case, data))
            steps.append(len(plan.steps()))
    assert steps == [2, 1]
    assert np.array_equal(results[0], results[1])


BATCHES = ["matmul [7,43,33] [7,33,70]", "matmul [7,43,300] [300,70]", "linear [7,43,300] w[70,300]"]


@pytest.mark.parametrize("text", BATCHES)
def test_items_of_a_batch_have_the_same_bits_alone(device, text):
    need_blocks(device, "matmul", "panels")
    case = parse_case(text)
    data = case.data()
    with compile_case(device, case, data, "panels") as plan:
        whole = run_case(plan, case, data)
    alone = parse_case(text.replace("[7,", "[1,"))
    parts = [x[3:4] if x.shape[0] == 7 else x for x in data]
    with compile_case(device, alone, parts, "panels") as plan:
        assert np.array_equal(run_case(plan, alone, parts), whole[3:4])


# Whole panels and parts of one, for vectors of 8 and of 16, and fewer rows than a tile has.
@pytest.mark.parametrize(
    ("m", "k", "n"), [(13, 40, 64), (7, 300, 33), (9, 20, 24), (6, 270, 41), (100, 24, 55)]
)
@pytest.mark.parametrize("act", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("constant", [True, False])
def test_what_follows_a_product(device, m, k, n, act, constant):
    """Bias, residual and activation, on the columns that are there and on no other."""
    need_blocks(device, "matmul", "panels")
    net = Net()
    right = net.weight(k, n) if constant else net.input("b", k, n)
    y = net.layer("matmul", "product", net.input("a", m, k), right)
    y = net.layer("add", "bias", y, net.weight(n))
    y = net.layer("add", "residual", y, net.input("r", m, n))
    net.output(net.layer(act, "act", y))
    both = Both(device, net, {"product": "panels"})
    assert {row["algo"] for row in both.steps if row["layer"] == "product"} == {"panels"}
    assert not constant or both.names == ["product"]
