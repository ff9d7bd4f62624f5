"""The operators of the core, against the tables that define them: none may lack a definition or a case."""

from __future__ import annotations

import math
from typing import Any

import pytest

from caselib import marked_cases
from clcnn import _core
from clcnn._reference import REQUIRED, SPECS, Attribute
from clcnn.ops import MADE_BY_LAYOUT, MADE_BY_REWRITES, ON_BYTES
from helpers import none_missing
from runner import quick_cases

OPS = _core.ops()
WRITTEN = [op for op in OPS if op not in MADE_BY_REWRITES + MADE_BY_LAYOUT]
ROW = "python/clcnn/_reference/<family>.py (the definition, and its row in SPECS)"
# How the definitions in clcnn._reference write the kinds of the core.
KINDS = {"int": "int", "bool": "int", "float": "float", "ints": "ints", "floats": "floats", "enum": "str"}


def _default(row: Any) -> Any:
    """The core's default as the definitions write it."""
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
    none_missing(set(WRITTEN) - set(SPECS), ROW, "python -m pytest -q -n0 tests/ops/test_ops.py")
    none_missing(set(SPECS) - set(OPS), "csrc/ops.def (an OP line), or drop the row", "make setup")


@pytest.mark.parametrize("op", WRITTEN)
def test_attributes_agree_with_the_definition(op):
    """Kinds and defaults are told twice: by the core, and by the signature of the definition."""
    if op not in SPECS:
        pytest.fail(f"{op} has no definition\n    edit: {ROW}")
    core = {row["name"]: row for row in OPS[op]["attrs"]}
    told = SPECS[op].attributes
    where = f"the keyword-only parameters of the definition of {op} (python/clcnn/_reference/), or csrc/ops/"
    none_missing(set(core) ^ set(told), where, f"python -m pytest -q -n0 tests/ops/test_ops.py -k {op}")
    for name, wanted in told.items():
        found = Attribute(KINDS[core[name]["kind"]], _default(core[name]))
        same = found.kind == wanted.kind and _same(found.default, wanted.default)
        assert same, f"{name} is {found} in the core and {wanted} in the definition\n    edit: {where}"
        assert core[name]["doc"], f"{name} is not explained\n    edit: its row in csrc/ops/"


@pytest.mark.parametrize("op", OPS)
def test_every_operator_is_tried_and_explained(op):
    """Those on maps of bytes are tried by tests/plan/test_bytes.py."""
    assert OPS[op]["doc"] and OPS[op]["inputs"], f"{op} is not explained\n    edit: its op_def in csrc/ops/"
    if op in ON_BYTES:
        return
    run = f"python -m pytest -q -n0 tests/algos/test_algos.py -k {op}"
    none_missing({op} - {case.op for case in quick_cases()}, "tests/cases/<family>.txt (a line for it)", run)
    none_missing(
        {op} - {case.op for case in marked_cases()},
        "tests/cases/<family>.txt (the mark @oclgrind at the end of a small case)",
        f'make oclgrind ARGS="{op}"',
    )


@pytest.mark.parametrize("op", [op for op in OPS if op not in MADE_BY_LAYOUT])
def test_algorithms_end_with_one_that_always_applies(op):
    names = list(OPS[op]["algos"])
    silent = [algo for algo, facts in OPS[op]["algos"].items() if not facts["doc"]]
    none_missing(silent, f"the doc of csrc/algos/*/{op}_*.c", "make setup")
    merged = {"elementwise": "together"}.get(op, "split")
    last = merged if op in MADE_BY_REWRITES and op not in ON_BYTES else "ref"
    last = "products" if op == "byte_conv" else last
    assert names[-1:] == [last], f"{op} does not end with {last}\n    edit: its ALGO lines in csrc/ops.def"


@pytest.mark.parametrize("op", WRITTEN)
def test_every_value_of_an_enumeration_is_tried(op):
    """A choice that no case takes would be code that nobody has run."""
    tried = [node.attrs for case in quick_cases() for node in case.nodes if node.op == op]
    for row in OPS[op]["attrs"]:
        seen = {attrs.get(row["name"], row["default"]) for attrs in tried}
        none_missing(
            {f"{op} {row['name']}={choice}" for choice in set(row["choices"] or ()) - seen},
            "tests/cases/<family>.txt (a case with it)",
            f"python -m pytest -q -n0 tests/algos/test_algos.py -k {op}",
        )
