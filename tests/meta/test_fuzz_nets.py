"""The differential fuzzer: its table is complete, its tolerance sees what matters, findings become small."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from fuzz import net, oracle, report, rows_nets, rows_shape, rows_values, runner, shrink  # noqa: E402, F401
from onnx import helper  # noqa: E402

import clcnn  # noqa: E402
from clcnn.onnx import ops, table  # noqa: E402, F401
from onnx_models import model  # noqa: E402

needs_onnxruntime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime"
)


def test_every_operator_of_the_importer_has_a_row() -> None:
    """But for quantised ones, which differ at the edges of steps, and what no other runtime knows."""
    quantised = {op for op, rows in table.ROWS.items() if any(row.steps for row in rows)}
    assert set(net.ROWS.rows) == set(table.ROWS) - quantised - {"SimplifiedLayerNormalization"}
    assert set(net.COMMON) <= set(net.ROWS.rows)


def test_every_operator_has_one_class_of_errors() -> None:
    classes = (oracle.EXACT, oracle.ROUNDED, oracle.FUNCTIONS)
    assert len(frozenset().union(*classes)) == sum(map(len, classes))
    assert frozenset().union(*classes) - {"Constant"} <= set(table.ROWS)


# ---- tolerance ---------------------------------------------------------------------------------------------

WANT = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def test_what_noise_explains_is_no_difference() -> None:
    drawn = [WANT + np.float32(d) for d in (1e-3, -8e-4)]
    assert oracle.differs(WANT + np.float32(3e-3), WANT, drawn) == ""
    assert "4 of 4 elements" in oracle.differs(WANT + np.float32(5e-3), WANT, drawn)


def test_where_nothing_is_rounded_results_are_equal() -> None:
    assert oracle.differs(WANT.copy(), WANT, [WANT, WANT]) == ""
    assert "1 of 4" in oracle.differs(np.nextafter(WANT, 9, where=WANT > 2, out=WANT.copy()), WANT, [WANT])


def test_what_hangs_on_a_rounding_excuses_itself_alone() -> None:
    want = np.array([3, 5, 7])
    drawn = [np.array([3, 6, 7]), want]
    assert oracle.differs(np.array([3, 9, 7]), want, drawn) == ""
    assert "at [2]" in oracle.differs(np.array([3, 9, 8]), want, drawn)
    assert oracle.differs(np.zeros(2), np.zeros(3), [np.zeros(4)]) == ""
    assert oracle.differs(np.zeros(2), np.zeros(3), [np.zeros(3)]) == "shape (2,) instead of (3,)"


def test_numbers_that_are_not_finite() -> None:
    want = np.array([np.nan, np.inf, 1.0], np.float32)
    assert oracle.differs(want.copy(), want, [want]) == ""
    for wrong in ([0.0, np.inf, 1.0], [np.nan, -np.inf, 1.0], [np.nan, np.inf, np.nan]):
        assert oracle.differs(np.array(wrong, np.float32), want, [want])


def test_types_must_be_the_same() -> None:
    assert "int32 instead of int64" in oracle.differs(np.zeros(2, np.int32), np.zeros(2, np.int64), [])
    assert not oracle.surely(np.zeros(2, np.int32), np.zeros(2, np.int64))


# ---- making small ------------------------------------------------------------------------------------------


def long_case() -> runner.Case:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.5),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Add", ["x", "w"], ["d"]),
    ]
    proto = model(nodes, [("x", (4, 6))], [("c", None), ("d", None)], {"w": np.ones((4, 6), np.float32)})
    options = runner.Options(precision="high", chain=True, guard=True)
    return runner.Case(proto, [{"x": np.ones((4, 6), np.float32)}], options)


def test_a_finding_becomes_small() -> None:
    def fails(case: runner.Case) -> bool:
        """The fault of a chain with a LeakyRelu in it, on a map of three rows or more."""
        nodes = {node.op_type for node in case.model.graph.node}
        rows = next(iter(case.feeds[0].values())).shape[0]
        return "LeakyRelu" in nodes and bool(case.options.chain) and rows >= 3

    small = shrink.shrink(long_case(), fails)
    assert fails(small) and small.options == runner.Options(chain=True)
    assert "Add" not in {node.op_type for node in small.model.graph.node}
    assert len(small.model.graph.output) == 1 and not small.model.graph.initializer
    assert [a.shape for a in small.feeds[0].values()] == [(3, 1)]


@needs_onnxruntime
def test_what_comes_before_becomes_an_input() -> None:
    def fails(case: runner.Case) -> bool:
        return any(node.op_type == "LeakyRelu" for node in case.model.graph.node)

    small = shrink.shrink(replace(long_case(), options=runner.Options()), fails)
    assert [node.op_type for node in small.model.graph.node] == ["LeakyRelu"]
    assert not small.model.graph.node[0].attribute


def test_a_finding_is_written_and_read(tmp_path) -> None:
    case = long_case()
    path = report.write(tmp_path, 7, 0, case, runner.Verdict("differs", "y: 1 of 2"))
    again = report.read(path)
    assert again.options == case.options and again.model == case.model
    assert np.array_equal(again.feeds[0]["x"], case.feeds[0]["x"])


def test_kinds_leave_names_and_numbers_out() -> None:
    def kind(what: str) -> str:
        return report.kind_of(long_case(), runner.Verdict("raises", what))

    one = kind("ShapeError: concat node5: input 1 has shape [1, 2] but input 0 has [3, 4]")
    assert one == kind("ShapeError: concat node17: input 3 has shape [5, 2, 1] but input 0 has [3]")
    assert one != kind("DtypeError: concat node5: input 1 is int64")


# ---- all of it ---------------------------------------------------------------------------------------------


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clcnn whose results are a little off where it does not fuse."""
    run = runner.run

    def off(case: runner.Case, device: clcnn.Device) -> list[dict[str, np.ndarray]]:
        error = np.float32(0.0 if case.options.fuse else 1e-3)
        return [{n: a + error for n, a in made.items()} for made in run(case, device)]

    monkeypatch.setattr(runner, "run", off)
    yield


@needs_onnxruntime
def test_a_seed_always_makes_the_same_network(device: clcnn.Device) -> None:
    (one, feed), (other, again) = net.make(31), net.make(31)
    assert one == other and all(np.array_equal(feed[n], again[n]) for n in feed)
    case = runner.Case(one, [feed], runner.some_options(random.Random(0), 1))
    assert not runner.judge(case, device).finding


@needs_onnxruntime
def test_a_wrong_result_is_a_finding(device: clcnn.Device, spoiled: None) -> None:
    proto = model([helper.make_node("Tanh", ["x"], ["y"])])
    case = runner.Case(proto, [{"x": np.ones((2, 3), np.float32)}], runner.Options())
    assert runner.judge(case, device).kind == "agrees"
    assert runner.judge(replace(case, options=runner.Options(fuse=False)), device).kind == "differs"
