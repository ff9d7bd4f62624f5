"""The operators of the core, against the tables that define them: none may lack a definition or a case."""

from __future__ import annotations

import math
from typing import Any

import pytest

from caselib import load_cases
from clcnn import _core
from clcnn.ops import MADE_BY_LAYOUT, MADE_BY_REWRITES
from reference import ATTRIBUTES, REFERENCE, REQUIRED
from runner import quick_cases

OPS = _core.ops()
WRITTEN = [op for op in OPS if op not in MADE_BY_REWRITES + MADE_BY_LAYOUT]
# How the definitions in tests/reference write the kinds of the core.
KINDS = {"int": "int", "bool": "int", "float": "float", "ints": "ints", "floats": "floats", "enum": "str"}


def _default(row: Any) -> Any:
    """The core's default as tests/reference writes it."""
    if row["required"]:
        return REQUIRED
    if row["kind"] in ("ints", "floats"):
        value = row["default"]
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return int(row["default"]) if row["kind"] == "bool" else row["default"]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isfinite(b):
        return math.isclose(a, b, rel_tol=1e-6)  # the core keeps float32
    return type(a) is type(b) and a == b


def test_every_operator_has_a_definition():
    """Those that rewrites make may leave it to the definitions of their parts."""
    assert set(WRITTEN) <= set(REFERENCE) == set(ATTRIBUTES) <= set(OPS)


@pytest.mark.parametrize("op", WRITTEN)
def test_attributes_agree_with_the_definition(op):
    core = {row["name"]: row for row in OPS[op]["attrs"]}
    assert set(core) == set(ATTRIBUTES[op])
    for name, wanted in ATTRIBUTES[op].items():
        assert KINDS[core[name]["kind"]] == wanted.kind, name
        assert _same(_default(core[name]), wanted.default), (name, _default(core[name]), wanted.default)
        assert core[name]["doc"], f"{name} is not explained"


@pytest.mark.parametrize("op", OPS)
def test_every_operator_is_tried_and_explained(op):
    assert OPS[op]["doc"]
    assert OPS[op]["inputs"]
    assert any(case.op == op for case in quick_cases()), "no case in tests/cases"
    assert any(case.op == op for case in load_cases("oclgrind")), "no case in tests/cases/oclgrind.txt"


@pytest.mark.parametrize("op", [op for op in OPS if op not in MADE_BY_LAYOUT])
def test_algorithms_end_with_one_that_always_applies(op):
    names = list(OPS[op]["algos"])
    assert all(OPS[op]["algos"].values()), "an algorithm is not explained"
    assert names[-1] == ("split" if op in MADE_BY_REWRITES else "ref")


@pytest.mark.parametrize("op", WRITTEN)
def test_every_value_of_an_enumeration_is_tried(op):
    """A choice that no case takes would be code that nobody has run."""
    tried = [node.attrs for case in quick_cases() for node in case.nodes if node.op == op]
    for row in OPS[op]["attrs"]:
        seen = {attrs.get(row["name"], row["default"]) for attrs in tried}
        assert set(row["choices"] or ()) <= seen, row["name"]
