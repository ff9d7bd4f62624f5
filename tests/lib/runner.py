"""Runs cases on a device: case -> clcnn graph -> plan -> outputs, with `clcnn._core` alone.

As a script it tries one case with every algorithm, for the eye:

    python tests/lib/runner.py "conv n1 c3 h9 w9 k4 r3 s3 p1 e:relu" [algorithm ...]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from casedata import any_numbers
from caselib import LARGE_DIR, Case, case_files, layers_of_nets, load_cases, parse_case
from clcnn import _core
from clcnn.ops import MADE_BY_LAYOUT, MANY_OUTPUTS, ON_BYTES

MAIN = "y0"  # name of the layer that computes a case's first operator
CONVOLUTIONS = frozenset(
    {
        "conv",
        "depthwise_nhwc",
        "conv_transpose",
        "separable",
        "inverted_residual",
        "conv_pool",
        "squeeze_excite",
    }
)
PRODUCTS = CONVOLUTIONS | {"linear", "matmul", "gemm"}


def _with_fact(fact: str) -> frozenset[tuple[str, str]]:
    """The algorithms of which the core says this."""
    return frozenset(
        (op, algo) for op, row in _core.ops().items() for algo, facts in row["algos"].items() if facts[fact]
    )


ATTENTION = frozenset({"scaled_dot_product_attention"})  # products and exponentials
SUMS = PRODUCTS | ATTENTION | {"conv_filter_grad"}  # whose operands may be rounded
# Algorithms that compute on channel blocks, which only CPU devices have.
ON_BLOCKS = _with_fact("blocked")
# Those that need a CPU device with such vectors: these, and those in vectors as wide on row-major operands.
ON_VECTORS = _with_fact("vectors")
# What cases are of: not what only maps of bytes have.
OPERATORS = {op: row for op, row in _core.ops().items() if op not in ON_BYTES}
# Activations are the same code in every kernel, on numbers (epilogue.clh) or on vectors (blocked_store.clh):
# these algorithms try them all, the others two.
ALL_ACTIVATIONS = frozenset({"ref", "blocked"})
EVERYWHERE = frozenset({"add", "bn", "maxpool2", "relu", "relu6"})
# Algorithms that precision "highest" does not allow, and the one that does.
LOOSE = {
    algo: facts["error_class"]
    for row in _core.ops().values()
    for algo, facts in row["algos"].items()
    if facts["error_class"] in ("high", "medium")
}
NETS_MACS = 400_000  # to what layers at full size are shrunk in a quick run


@cache
def quick_cases() -> tuple[Case, ...]:
    """Every case that an ordinary run tries, once each, in the order of the files; layers at full size come
    last, shrunk."""
    cases = [case for name in case_files() for case in load_cases(name)]
    cases += [case.shrunk(NETS_MACS) for name in case_files(LARGE_DIR) for case in layers_of_nets(name)]
    found: dict[str, Case] = {}
    for case in cases:
        found.setdefault(case.text.split(' "')[0], case)
    return tuple(found.values())


def adds_nothing(case: Case, algo: str) -> bool:
    """Whether a case tries an activation that others try with the same code. Building kernels is what takes
    most of the tests' time."""
    return len(case.epilogue) == 1 and case.epilogue[0] not in EVERYWHERE and algo not in ALL_ACTIVATIONS


def build_graph(case: Case, data: Sequence[np.ndarray]) -> _core.Graph:
    """The case's graph with `data` for its constants; the output of node i is called y<i>."""
    graph = _core.Graph()
    values: dict[str | None, int | None] = {None: None}
    for given, array in zip(case.inputs, data, strict=True):
        if given.constant:
            values[given.name] = graph.constant(given.name, array)
        else:
            values[given.name] = graph.input(given.name, given.shape, given.dtype)
    outputs: tuple[int, ...] = ()
    for node in case.graph:
        outputs = graph.node(node.op, node.output, [values[name] for name in node.inputs], node.attrs)
        values[node.output] = outputs[0]
    for i, value in enumerate(outputs):
        graph.output(value, f"out{i}")
    return graph


def compile_case(
    device: _core.Device, case: Case, data: Sequence[np.ndarray], algo: str | None = None, **options: Any
) -> _core.Plan:
    """A plan of the case, its first operator forced to `algo` where one is given, in a precision that allows
    it; the pooling of `reorder` is always on channel blocks, with both of its algorithms around it. `options`
    are those of `_core.Plan`. Raises what compiling raises."""
    algo = "blocked" if case.op == "reorder" else algo
    overrides = {MAIN: algo} if algo else {}
    if algo in LOOSE:
        options.setdefault("precision", LOOSE[algo])
    return _core.Plan(device, build_graph(case, data), overrides=overrides, **options)


def run_case(plan: _core.Plan, case: Case, data: Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """What the plan computes, in the form that `Case.check` takes: a list where the operator has several
    outputs by nature, else one array."""
    outputs = plan.run([a for a, given in zip(data, case.inputs) if not given.constant])
    return outputs if case.graph[-1].op in MANY_OUTPUTS else outputs[0]


def run_on_any_numbers(plan: _core.Plan, case: Case, runs: int = 1) -> None:
    """Runs a guarded plan on numbers that mean nothing; raises when a guard band has changed."""
    rng = np.random.default_rng(0)
    for _ in range(runs):
        run_case(plan, case, [any_numbers(rng, given.shape, given.dtype) for given in case.inputs])
        plan.check_guards()


def main_layer(plan: _core.Plan) -> dict[str, Any] | None:
    """The row of `plan.layers()` that computes the case's first operator; None when it is a view."""
    rows = (row for row in plan.layers() if MAIN in row["layer"].split("+"))
    return next(rows, None)


def checked_class(case: Case, plan: _core.Plan) -> str:
    """The error class of tolerance.py to hold a plan's output to: that of the algorithms chosen where sums of
    products decide, else the operators' own."""
    products = [row["error_class"] for row in plan.layers() if row["op"] in SUMS]
    for loose in ("medium", "high"):
        if loose in products:
            return loose
    if case.error_class != "fp32" or case.op not in PRODUCTS or "highest" in products:
        return case.error_class
    return "strict"


def exact_on_integers(case: Case, plan: _core.Plan) -> bool:
    """Whether integer data must come out exactly: the case allows it and no algorithm transforms operands."""
    return case.integer_exact and all(row["error_class"] != "highest" for row in plan.layers())


def has_blocks(device: _core.Device) -> bool:
    """Whether the planner lays maps out in channel blocks for this device."""
    return device.type == "cpu" and device.float_width >= 8


def merges(device: _core.Device, case: Case) -> bool:
    """Whether the rewriter makes one operator of the case's layers on this device: windows with a stride of
    their own become part of a convolution on channel blocks only; there alone three convolutions are one, and
    maps change their layout."""
    if case.op in ("inverted_residual", "reorder"):
        return has_blocks(device)
    strided = any(re.match(r"\w+pool[0-9x]+s", part) for part in case.epilogue)
    return case.op != "conv_pool" or has_blocks(device) or not strided


def layers_of_graph(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `plan.layers()` or `plan.steps()` without the reorders that the planner puts between layers."""
    return [row for row in rows if row["op"] not in MADE_BY_LAYOUT]


def functions_of_graph(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `plan.steps()` as `layers_of_graph` gives them, with a row for each of the element-wise
    functions that are computed in one step."""
    rows = []
    for row in layers_of_graph(steps):
        joined = re.findall(r"PART\d=[a-z]+_(\w+)", row["defines"]) if row["op"] == "elementwise" else []
        names = row["layer"].split("+") if joined else [row["layer"]]
        for name, op in zip(names, joined or [row["op"]], strict=True):
            rows.append(row | {"layer": name, "op": op})
    return rows


@dataclass
class Outcome:
    """What trying one case with one algorithm gave: the rule that forbids it, or what went wrong, or
    neither."""

    rejected: str = ""
    failures: list[str] = field(default_factory=list)


def _same_bits(a: Any, b: Any) -> bool:
    pairs = zip(a, b) if isinstance(a, list) else [(a, b)]
    return all(x.tobytes() == y.tobytes() for x, y in pairs)


def _verify(device: _core.Device, case: Case, algo: str | None, kind: str, guard: bool) -> None:
    """One compilation and two runs, compared with the definition and with each other."""
    data = case.data(kind)
    with compile_case(device, case, data, algo, guard=guard) as plan:
        if case.op == "reorder":
            assert algo in {row["algo"] for row in plan.layers() if row["op"] == "reorder"}, "no such step"
        first, again = run_case(plan, case, data), run_case(plan, case, data)
        if guard:
            plan.check_guards()
        exact = kind == "integer" and exact_on_integers(case, plan)
        case.check(first, data, "exact" if exact else checked_class(case, plan))
        assert _same_bits(first, again), "a second run gave other bits"


def try_case(device: _core.Device, case: Case, algo: str) -> Outcome:
    """Runs the case with the algorithm forced: between guard bands on whole numbers, then as users run it on
    normal ones. Where the operator is a view there is nothing to force. Failures are collected as text, so
    that one does not hide the next."""
    outcome = Outcome()
    for kind, guard in (("integer" if case.integer_exact else "normal", True), ("normal", False)):
        try:
            try:
                _verify(device, case, algo, kind, guard)
            except _core.ArgumentError as why:
                if "has no algorithm of its own" not in str(why):
                    raise
                _verify(device, case, None, kind, guard)
        except _core.UnsupportedError as why:
            outcome.rejected = str(why)
            return outcome
        except (AssertionError, _core.Error, SystemError) as why:
            outcome.failures.append(f"{case.text} [{algo}, {kind}, guard={guard}]: {why}")
    return outcome


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each algorithm; the exit status counts failures."""
    import os

    case, wanted = parse_case(arguments[0]), arguments[1:]
    failed = 0
    with _core.Device(os.environ.get("CLCNN_TEST_DEVICE", "cpu")) as device:
        for algo in wanted or _core.ops()[case.op]["algos"]:
            outcome = try_case(device, case, algo)
            failed += len(outcome.failures)
            print(f"{algo:12} {outcome.rejected or 'ok' if not outcome.failures else ''}")
            for text in outcome.failures:
                print("   ", text)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
