"""Every algorithm on numbers that mean nothing: no kernel reads or writes outside of its buffers for them.

A user can hand in such numbers, and the first run of a plan computes on whatever its memory holds. Indices,
regions, grids and counts are then of any size.
"""

from __future__ import annotations

import pytest

from caselib import Case
from clcnn import _core
from runner import OPERATORS, compile_case, merges, quick_cases, run_on_any_numbers

RUNS = 8


def try_any(device: _core.Device, case: Case, algo: str | None) -> bool:
    """Whether the algorithm takes the case."""
    try:
        plan = compile_case(device, case, case.data(), algo, guard=True)
    except (_core.UnsupportedError, _core.ArgumentError):
        return False
    with plan:
        run_on_any_numbers(plan, case, RUNS)
    return True


@pytest.mark.parametrize("op", OPERATORS)
def test_any_data(device, op):
    cases = [case for case in quick_cases() if case.op == op and merges(device, case)]
    if not cases:
        pytest.skip("this device makes no such layers")
    ran = {algo for algo in OPERATORS[op]["algos"] if any(try_any(device, case, algo) for case in cases)}
    assert ran or any(try_any(device, case, None) for case in cases)  # views have no algorithm
