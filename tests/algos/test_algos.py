"""Every algorithm on every case, against the float64 definition.

One test an operator and algorithm, so that kernels are built once and stay loaded while their cases run; a
failure lists every case that went wrong, as a line that `python tests/lib/runner.py` takes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache

import pytest

import device_face
from caselib import LARGE_DIR, Case, case_files, layers_of_nets, parse_case
from clcnn import _core
from helpers import need_blocks, need_tensor_cores, none_missing
from runner import OPERATORS, adds_nothing, compile_case, merges, quick_cases, try_case

# But for those on maps of bytes and in cores: tests/plan/test_bytes.py, tests/plan/test_maps_in_cores.py.
IN_CORES = {"cores", "pairs", "wgmma_pairs"}
PAIRS = [(op, algo) for op, row in OPERATORS.items() for algo in row["algos"] if algo not in IN_CORES]


@cache
def _by_operator() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in quick_cases():
        found[case.op].append(case)
    return found


def _report(cases: list[Case], device: _core.Device, algo: str, needed: bool = True) -> None:
    """`needed`: one of the cases must be for the algorithm."""
    outcomes = [try_case(device, case, algo) for case in cases]
    failures = [text for outcome in outcomes for text in outcome.failures]
    assert not failures, "\n".join([f"{len(failures)} failures in {len(cases)} cases:", *failures])
    if needed and all(outcome.rejected for outcome in outcomes):
        reasons = sorted({outcome.rejected.rpartition(": ")[2] for outcome in outcomes})
        pytest.fail(
            f"no case of {cases[0].op} can use {algo}: {'; '.join(reasons)}\n"
            f"    edit: tests/cases/<family>.txt (a case that it takes)\n"
            f'    then run: python tests/lib/runner.py "{cases[0].text}" {algo}'
        )


@pytest.mark.parametrize(("op", "algo"), PAIRS, ids=[f"{op}-{algo}" for op, algo in PAIRS])
def test_algorithm(device, op, algo, request):
    need_blocks(device, op, algo)
    need_tensor_cores(device, op, algo)
    known = _by_operator()[op]
    run = f"python -m pytest -q -n0 tests/algos/test_algos.py -k {op}"
    none_missing([] if known else [f"a case of {op}"], "tests/cases/<family>.txt (a line for it)", run)
    cases = [case for case in known if merges(device, case)]
    if not cases:
        pytest.skip("this device makes no such layers")
    if not request.config.getoption("--run-slow"):
        cases = [case for case in cases if not adds_nothing(case, algo)]
    _report(cases, device, algo)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "algo"), [pair for pair in PAIRS if pair[0] in ("conv", "conv_transpose")])
def test_layers_of_networks_at_full_size(device, op, algo):
    need_blocks(device, op, algo)
    need_tensor_cores(device, op, algo)
    cases = [case for name in case_files(LARGE_DIR) for case in layers_of_nets(name) if case.op == op]
    _report(cases, device, algo, needed=False)


# Register tiles that only large layers get: algorithm, what its kernel is built with, a case.
LARGE_TILES = [
    ("wgmma_halves", "DEEP=1 BM=128 BN=128 DEPTH=64", "linear [1576,768] w[3072,768] w[3072] e:gelu"),
    ("wgmma_halves", "DEEP=1 BM=128 BN=256 DEPTH=64", "linear [6301,768] w[3070,768] w[3070] e:gelu"),
    ("wgmma_halves", "DEEP=1 BM=192 BN=256 DEPTH=32", "linear [6304,768] w[767,768] w[767] e:add"),
    ("wgmma_halves", "DEEP=0 BM=128 BN=256 DEPTH=32", "conv n31 c96 h14 w14 k383 r1 s1 e:add"),
    ("wgmma_halves", "DEEP=0 BM=128 BN=128 DEPTH=32", "conv n32 c96 h56 w56 k384 r1 s1 e:gelu"),
    ("wgmma_halves", "DEEP=0 BM=128 KEPT=12", "conv n2 c1600 h13 w13 k130 r1 s1"),
    ("wgmma_halves", "DEEP=0 DEPTH=32", "conv n32 c728 h19 w19 k728 r1 s1"),
    ("wgmma_halves", "DEEP=1 DEPTH=32", "linear [6301,360] w[720,360] w[720] e:relu"),
    ("wgmma_local", "DEEP=1 BM=128 BN=128 LOADERS=8", "linear [6304,192] w[768,192] w[768]"),
    ("wgmma_local", "DEEP=1 BM=64 BN=64 LOADERS=8 SPLIT=2", "linear [196,2048] w[512,2048] w[512]"),
    ("wgmma_local", "DEEP=0 BM=64 BN=64 LOADERS=4 SPLIT=2", "conv n1 c768 h14 w14 k384 r1 s1 e:add"),
    ("wgmma_local", "DEEP=0 BM=128 BN=128 LOADERS=8", "conv n9 c64 h56 w56 k96 r1 s1 e:relu"),
    ("wgmma_scaled", "HIGH=3 WIDE=3 BM=64 BN=64", "conv n1 c64 h28 w28 k100 r3 s3 p1 e:add+relu"),
    ("wgmma_scaled", "HIGH=3 WIDE=3 BM=64 BN=128", "conv n1 c64 h96 w96 k64 r3 s3 p1 e:add"),
    ("wgmma_scaled", "HIGH=3 WIDE=3 BM=64 BN=256", "conv n3 c64 h96 w95 k60 r3 s3 p1 e:relu"),
    ("wgmma_scaled", "HIGH=3 WIDE=3 BM=64 BN=512 VOLUME=1", "conv n2 c16 d6 h56 w56 k64 t3 r3 s3 p1 e:relu"),
    ("wgmma_scaled", "BM=224 BN=192", "conv n32 c64 h28 w28 k224 r1 s1 e:relu"),
    ("wgmma_scaled", "BM=224 BN=192", "conv n31 c64 h27 w29 k200 r1 s1 b0"),
    ("wgmma_scaled", "DEEP=1 BM=224 BN=192", "linear [6304,192] w[768,192] w[768]"),
    ("wgmma_scaled", "DEEP=1 BM=256 BN=128", "linear [25088,192] w[768,192] w[768]"),
    ("wgmma_scaled", "RAGGED=1 HIGH=1 WIDE=1", "conv n32 c72 h28 w28 k200 r1 s1 e:add"),
    ("wgmma_scaled", "RAGGED=1 HIGH=1 WIDE=1", "conv n33 c75 h27 w27 k216 r1 s1"),
    ("wgmma_scaled", "RAGGED=1 DEEP=1", "linear [6304,186] w[768,186] w[768]"),
    ("wgmma_scaled", "RAGGED=1 DEEP=1", "linear [6304,204] w[768,204] w[768]"),
    ("wgmma_scaled", "RAGGED=1 HIGH=3 WIDE=3", "conv n32 c72 h28 w28 k72 r3 s3 p1 e:relu"),
    ("wgmma_scaled", "RAGGED=1 HIGH=3 WIDE=3 VOLUME=1", "conv n2 c25 d6 h56 w56 k64 t3 r3 s3 p1"),
    ("wgmma_scaled", "RAGGED=1 HIGH=5 WIDE=5", "conv n9 c50 g2 h28 w28 k96 r5 s5 p2"),
    ("wgmma_scaled", "DEEP=1", "conv n700 c128 h1 w1 k66 r1 s1 g2 e:add"),
    ("wgmma_scaled", "RAGGED=1 DEEP=1", "conv n700 c108 h1 w1 k66 r1 s1 g2"),
    ("wgmma_scaled", "HIGH=2 WIDE=2 STRIDED=1", "conv n8 c64 h64 w64 k128 r4 s4 u2 p1 e:relu"),
    ("wgmma_scaled", "HIGH=2 WIDE=2 STRIDED=1 RAGGED=1", "conv n9 c40 h57 w55 k130 r3 s3 u2 p1 e:add"),
    ("wgmma_scaled", "HIGH=3 WIDE=3 STRIDED=1", "conv n5 c64 g2 h60 w61 k128 r5 s5 u2 p2"),
    ("wgmma_scaled", "HIGH=2 WIDE=3 STRIDED=1", "conv n8 c32 h64 w56 k96 r3 s3 u2x1 p1"),
    ("wgmma_scaled", "HIGH=4 WIDE=4", "conv n8 c48 h33 w32 k100 r4 s4 p1 e:add+relu"),
    ("wgmma_scaled", "HIGH=7 WIDE=1", "conv n16 c64 h17 w17 k96 r7 s1 p3x0 e:relu"),
    ("wgmma_scaled", "HIGH=1 WIDE=7", "conv n16 c64 h17 w17 k96 r1 s7 p0x3 e:relu"),
    ("wgmma_scaled", "HIGH=3 WIDE=3", "conv n8 c64 h40 w36 k96 r3 s3 p2 l2"),
    ("wgmma_scaled", "HIGH=3 WIDE=3", "conv n8 c64 h40 w36 k96 r3 s3"),
    ("wgmma_scaled", "DEEP=1 BM=128 BN=128", "linear [6305,192] w[190,192] w[190]"),
    ("wgmma_scaled", "SPLIT=1 BM=64 TOGETHER=2", "conv n1 c256 h14 w14 k250 r3 s3 p1 e:add+relu"),
    ("wgmma_scaled", "SPLIT=1 BM=64 TOGETHER=1", "conv n2 c512 g2 h7 w7 k300 r3 s3 p1 e:relu"),
    ("wgmma_scaled", "SPLIT=1 RAGGED=1", "conv n1 c200 h13 w15 k190 r3 s3 p1"),
    ("wgmma_scaled", "SPLIT=1 STRIDED=1", "conv n1 c256 h28 w28 k256 r3 s3 u2 p1 e:relu"),
    ("wgmma_scaled", "SPLIT=1 RAGGED=1 VOLUME=1", "conv n1 c72 d4 h14 w14 k64 t3 r3 s3 p1"),
    ("wgmma_scaled", "SPLIT=1 HIGH=1 WIDE=7", "conv n1 c512 h14 w14 k500 r1 s7 p0x3"),
]


@pytest.mark.parametrize(("algo", "defines", "text"), LARGE_TILES, ids=[row[2] for row in LARGE_TILES])
def test_tiles_of_large_layers(device, algo, defines, text):
    case = parse_case(text)
    outcome = try_case(device, case, algo)
    if outcome.rejected:
        pytest.skip(outcome.rejected)
    assert outcome.failures == []
    with compile_case(device, case, case.data(), algo) as plan:
        assert any(set(defines.split()) <= set(row["defines"].split()) for row in plan.steps())


GPU_FORMS = """
import json
from caselib import marked_cases
from clcnn import _core
from runner import merges, try_case
failures, ran = [], 0
with _core.Device("gpu") as device:
    for case in (case for case in marked_cases() if merges(device, case)):
        for algo in _core.ops()[case.op]["algos"]:
            outcome = try_case(device, case, algo)
            failures += outcome.failures
            ran += not outcome.rejected
print(json.dumps([ran, failures]))
"""


@pytest.mark.slow
def test_forms_for_gpus(tmp_path):
    """The variants that GPUs get, on whatever device there is: they are OpenCL C 1.2 like the others."""
    ran, failures = json.loads(device_face.run(tmp_path, GPU_FORMS).splitlines()[-1])
    assert failures == []
    assert ran > 200
