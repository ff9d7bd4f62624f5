"""Export to ONNX: every case and every net of the zoo means the same to others, and what cannot be written is
refused."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from caselib import Case
from clcnn import nn, ops, zoo
from clcnn.graph import Graph, trace
from helpers import none_missing, python, refused
from runner import quick_cases

onnx = pytest.importorskip("onnx")

from clcnn.onnx import export  # noqa: E402
from clcnn.onnx.ops import WRITE  # noqa: E402

BIG = {"overfeat", "vgg_a", "vgg16", "vgg19", "regnet_x_16gf", "alexnet"}  # beyond 200 MB, or slow to run
Feed = dict[str, np.ndarray]


def _onnxruntime(model: Any, feed: Feed) -> list[np.ndarray]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options).run(None, feed)


def _reference(model: Any, feed: Feed) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feed)


READERS: dict[str, Callable[[Any, Feed], list[np.ndarray]]] = {
    "onnxruntime": _onnxruntime,
    "reference": _reference,
}
# Where a reader departs from the definition, or ONNX leaves it open, and why.
POOLED = ("max_pool", "max_pool_indices", "adaptive_max_pool")
LIMITS = (*POOLED, "reduce_max", "reduce_min", "argmax", "argmin", "topk")


def odd(case: Case) -> bool:
    return case.values in ("nan", "special")


def whole(case: Case) -> bool:
    return all(given.dtype in ("int64", "int32") for given in case.inputs)


def older(package: str, *version: int) -> bool:
    """Whether an installed package is older than that."""
    return tuple(map(int, importlib.metadata.version(package).split(".")[: len(version)])) < version


KNOWN: dict[str, dict[str, Callable[[Case], bool]]] = {
    "onnxruntime": {
        "NaN loses against numbers": lambda c: odd(c) and c.op in LIMITS,
        "NaN counts as a small number": lambda c: odd(c) and c.op in ("thresholded_relu", "shrink"),
        "open: out of range": lambda c: odd(c) and c.op == "cast",
        "open: a step for NaN": lambda c: odd(c) and c.op == "fake_quantize",
        "open: by zero, negative powers": lambda c: whole(c) and c.op in ("div", "mod", "pow"),
        "open: order": lambda c: c.op == "topk" and not c.attrs.get("sorted", 1),
        "not implemented": lambda c: c.op == "where" and c.inputs[1].dtype == "bool",
        "cubic in two dimensions": lambda c: c.attrs.get("mode") == "cubic" and len(c.shapes[0]) != 4,
        "wraps once": lambda c: c.attrs.get("mode") == "wrap" and older("onnxruntime", 1, 31),
        "reflects once": lambda c: c.op == "pad" and c.attrs.get("mode") == "reflect",
    },
    "reference": {
        "NaN loses against numbers": lambda c: odd(c) and c.op in POOLED,
        "NaN counts as a small number": lambda c: odd(c) and c.op in ("thresholded_relu", "shrink"),
        "open: out of range": lambda c: odd(c) and c.op == "cast",
        "open: a step for NaN": lambda c: odd(c) and c.op == "fake_quantize",
        "open: negative powers": lambda c: whole(c) and c.op == "pow",
        "no groups": lambda c: c.op == "conv_transpose" and c.attrs.get("groups", 1) != 1,
        "sums other channels": lambda c: c.op == "local_response_norm",
        "does not crop": lambda c: c.op == "pad" and min(np.atleast_1d(c.attrs["pads"])) < 0,
        "cancels": lambda c: c.op == "log_softmax" and c.values in ("large", "special"),
        "counts otherwise": lambda c: c.op == "max_pool_indices",
        "leaves volumes": lambda c: c.op == "max_pool" and len(c.shapes[0]) == 5,
        "rounds otherwise": lambda c: c.attrs.get("coordinates") == "tf_crop_and_resize",
        "equal sizes only": lambda c: c.op == "gather_elements",
        "other edges": lambda c: c.op == "grid_sample",
        "fails, or lacks it": lambda c: c.op in ("max_roi_pool", "nms"),
    },
    "clcnn": {
        "refuses to set an element twice": lambda c: c.op == "scatter" and "reduction" not in c.attrs,
    },
}


def case_graph(case: Case, data: list[np.ndarray]) -> Graph:
    """The case as a user writes it; outputs out0, out1, ..."""
    graph = Graph()
    values: dict[str | None, Any] = {None: None}
    for given, array in zip(case.inputs, data, strict=True):
        if given.constant:
            values[given.name] = graph.constant(array, given.name)
        else:
            values[given.name] = graph.input(given.name, given.shape, given.dtype)
    made: tuple[Any, ...] = ()
    for node in case.nodes:
        made = graph.node(node.op, [values[name] for name in node.inputs], node.attrs, node.output)
        values[node.output] = made[0]
    for i, value in enumerate(made):
        graph.output(value, f"out{i}")
    return graph


def written_cases() -> list[Case]:
    """Every case but those of the operators that only rewrites make."""
    return [case for case in quick_cases() if case.op in WRITE]


def close(got: list[np.ndarray], expected: Any) -> None:
    """Within 2e-5 of the largest value, which the readers' own float32 allows; NaN and infinity where they
    belong."""
    wanted = expected if isinstance(expected, list) else [expected]
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        with np.errstate(over="ignore"):
            want = w.astype(np.float32)
        largest = np.abs(want[np.isfinite(want)]).max(initial=0.0)
        np.testing.assert_allclose(g, want, rtol=2e-5, atol=2e-5 * largest + 1e-30)


def test_every_operator_has_a_row() -> None:
    run = "python -m pytest -q -n0 tests/onnx/test_onnx_export.py"
    written = set(ops.__all__) - set(ops.TRAINING)
    none_missing(written - set(WRITE), "python/clcnn/onnx/ops/<family>.py (a row of WRITE)", run)
    tried = {case.op for case in written_cases()}
    none_missing(written - tried, "tests/cases/<family>.txt (a line for it)", run)


@pytest.mark.parametrize("reader", READERS)
def test_others_compute_the_cases(reader: str) -> None:
    tried, failures = 0, []
    for case in written_cases():
        if any(rule(case) for rule in KNOWN[reader].values()):
            continue
        data = case.data()
        model = export.to_model(case_graph(case, data))
        feed = {given.name: array for given, array in zip(case.inputs, data) if not given.constant}
        try:
            with np.errstate(all="ignore"):
                close(READERS[reader](model, feed), case.reference(data))
        except Exception as error:
            failures.append(f"{case.text}: {str(error)[:300]}")
        tried += 1
    edit = "WRITE in python/clcnn/onnx/ops/<family>.py, or KNOWN here where the reader is wrong"
    none_missing(failures, edit, f"python -m pytest -q -n0 tests/onnx/test_onnx_export.py -k {reader}")
    assert tried > 0.9 * len(written_cases())


def test_cases_come_back(device: clcnn.Device, request: pytest.FixtureRequest) -> None:
    """Exported, loaded again and run on the device: every case with --run-slow, else each operator's first
    and every third."""
    failures, seen = [], set()
    for number, case in enumerate(written_cases()):
        first = case.op not in seen
        seen.add(case.op)
        if not (first or number % 3 == 0 or request.config.getoption("--run-slow")):
            continue
        if any(rule(case) for rule in KNOWN["clcnn"].values()):
            continue
        data = case.data()
        model = export.to_model(case_graph(case, data))
        feed = {given.name: array for given, array in zip(case.inputs, data) if not given.constant}
        try:
            with clcnn.InferenceSession(model.SerializeToString(), device=device) as session:
                close(session.run(None, feed), case.reference(data))
        except Exception as error:
            failures.append(f"{case.text}: {str(error)[:300]}")
    edit = "the reader (@row) or WRITE in python/clcnn/onnx/ops/<family>.py"
    none_missing(failures, edit, "python -m pytest -q -n0 tests/onnx/test_onnx_export.py -k come_back")


# ---- nets ----


def small_weights(net: nn.Module) -> nn.Module:
    """Random weights, quickly: one tile repeated through every parameter, positive where variances are."""
    tile = np.random.default_rng(1).standard_normal(4099).astype(np.float32) * 0.05
    for name, parameter in net._named_state():
        values = np.resize(tile, parameter.shape)
        parameter.data = np.abs(values) + 0.5 if name.endswith(("running_var", "weight")) and len(
            parameter.shape
        ) == 1 else values  # fmt: skip
    return net


NETS = [pytest.param(n, marks=[pytest.mark.slow] if n in BIG else []) for n in zoo.NETS]


@pytest.mark.parametrize("name", NETS)
def test_nets_in_onnxruntime(name: str, device: clcnn.Device, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    net, shape = small_weights(zoo.get(name)), (2, *zoo.find(name).input_shape)
    path = tmp_path / "net.onnx"
    clcnn.onnx.save(net, path, (1, *shape[1:]), dynamic_batch=True)
    x = np.random.default_rng(0).random(shape, np.float32)
    with clcnn.compile(net, shape, device=device) as plan:
        ours = plan(x)
    session = ort.InferenceSession(path)
    assert session.get_inputs()[0].shape == ["N", *shape[1:]]
    (theirs,) = session.run(None, {"input": x})
    assert np.ptp(ours) > 0
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("name", NETS)
def test_nets_come_back(name: str, device: clcnn.Device, tmp_path: Path) -> None:
    """The same layers with the same weights, and so the same bits."""
    net, shape = small_weights(zoo.get(name)), (1, *zoo.find(name).input_shape)
    clcnn.onnx.save(net, tmp_path / "net.onnx", shape)
    x = np.random.default_rng(0).random(shape, np.float32)
    with clcnn.compile(net, shape, device=device) as plan:
        ours = plan(x)
    with clcnn.InferenceSession(tmp_path / "net.onnx", device=device) as session:
        (again,) = session.run(["output"], {"input": x})
    assert np.ptp(ours) > 0 and again.tobytes() == ours.tobytes()


# ---- the form of the file ----


def lenet() -> nn.Module:
    return zoo.lenet5()


def two_outputs() -> Graph:
    g = Graph()
    x = g.input("x", (2, 4))
    y = ops.relu(x, name="r")
    g.output(y, "first")
    g.output(y, "second")
    g.output(x, "through")
    g.output(g.constant(np.ones(3, np.float32), "c"), "const")
    return g


def test_names_and_structure() -> None:
    model = export.to_model(lenet(), (1, 1, 28, 28))
    graph = model.graph
    assert model.opset_import[0].version == export.OPSET and model.producer_name == "clcnn"
    assert [i.name for i in graph.input] == ["input"] and [o.name for o in graph.output] == ["output"]
    kinds = {node.name: node.op_type for node in graph.node}
    records = [r for r in trace(lenet(), (1, 1, 28, 28)).records if r.kind == "node"]
    assert [r.name for r in records] == list(kinds)
    weights = {t.name: tuple(t.dims) for t in graph.initializer}
    assert set(lenet().state_dict()) <= set(weights)
    dims = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    assert dims == [1, 1, 28, 28]


def test_outputs_of_every_kind() -> None:
    model = export.to_model(two_outputs())
    x = np.array([[-1, 0, 1, 2], [3, -4, 5, -6]], np.float32)
    first, second, through, const = _reference(model, {"x": x})
    assert (first == np.maximum(x, 0)).all() and (second == first).all()
    assert (through == x).all() and (const == 1).all()
    assert [n.output[0] for n in model.graph.node] == ["first", "second", "through", "const"]


def test_nodes_of_one_operator_have_names_of_their_own() -> None:
    g = Graph()
    g.output(ops.silu(ops.silu(g.input("x", (1, 2)), name="a/b"), name="a"), "y")
    names = [node.name for node in export.to_model(g).graph.node]
    assert len(set(names)) == len(names) == 4 and all(names)


def test_a_loaded_model_is_exported(tmp_path: Path) -> None:
    net = lenet()
    clcnn.save(net, tmp_path / "net.clcnn", (1, 1, 28, 28))
    clcnn.onnx.save(clcnn.load(tmp_path / "net.clcnn"), tmp_path / "a.onnx")
    graph, direct = (onnx.load(tmp_path / "a.onnx").graph, export.to_model(net, (1, 1, 28, 28)).graph)
    assert list(graph.node) == list(direct.node)
    assert {t.name: t.raw_data for t in graph.initializer} == {t.name: t.raw_data for t in direct.initializer}


@pytest.mark.parametrize("as_graph", [False, True])
def test_any_batch(as_graph: bool) -> None:
    net = lenet()
    source = trace(net, (3, 1, 28, 28)) if as_graph else net
    model = export.to_model(source, None if as_graph else (3, 1, 28, 28), dynamic_batch=True)
    for info in (model.graph.input[0], model.graph.output[0]):
        assert info.type.tensor_type.shape.dim[0].dim_param == export.BATCH
    x = np.random.default_rng(0).random((5, 1, 28, 28), np.float32)
    (y,) = _reference(model, {"input": x})
    with clcnn.compile(net, x.shape, device=DEVICE) as plan:
        np.testing.assert_allclose(plan(x), y, atol=1e-5)


def test_any_batch_where_shapes_name_it() -> None:
    """A reshape and an expand that repeat the batch size are written without it."""
    g = Graph()
    x = g.input("x", (3, 4, 1))
    g.output(ops.reshape(ops.expand(x, shape=(3, 4, 5)), shape=(3, 20)), "y")
    x2 = np.random.default_rng(0).random((7, 4, 1), np.float32)
    (y,) = _reference(export.to_model(g, dynamic_batch=True), {"x": x2})
    assert (y == np.broadcast_to(x2, (7, 4, 5)).reshape(7, 20)).all()


# ---- what is refused ----


def fixed_batch(kind: str) -> Graph:
    g = Graph()
    x = g.input("x", (2, 4))
    if kind == "constant":
        y = x + np.ones((2, 4), np.float32)
    elif kind == "node":
        y = ops.reshape(x, shape=(4, 2))
        y = ops.slice(y, starts=[0], ends=[2], axes=[0])
        y = ops.concat(x, ops.reshape(y, shape=(1, 4)), dim=0)
    else:
        y = ops.reshape(g.input("z", (3, 4)), shape=(12,)) + ops.reshape(x, shape=(8, 1))
    g.output(y, "y")
    return g


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("constant", "does not fit another batch size"),
        ("node", "does not fit another batch size"),
        ("sizes", "all inputs must have the same first dimension"),
    ],
)
def test_models_of_one_batch_size(kind: str, message: str) -> None:
    g = fixed_batch(kind)
    export.to_model(g)
    refused(lambda: export.to_model(g, dynamic_batch=True), clcnn.ArgumentError, ValueError, message)


class Depends(nn.Module):
    """A model whose constant, or whose node, is made for the batch size."""

    def __init__(self, node: bool) -> None:
        super().__init__()
        self.node = node

    def forward(self, x: Any) -> Any:
        return ops.relu(x) if self.node and x.shape[0] == 1 else x * (1.0 / x.shape[0])


@pytest.mark.parametrize(("node", "message"), [(True, "(Relu)"), (False, "const")])
def test_models_that_look_at_the_batch_size(node: bool, message: str) -> None:
    refused(
        lambda: export.to_model(Depends(node), (1, 4), dynamic_batch=True),
        clcnn.ArgumentError,
        ValueError,
        message,
        "depends on the batch size",
    )


def test_resize_with_a_size_that_the_scales_do_not_make() -> None:
    def model(size: int) -> Graph:
        g = Graph()
        g.output(ops.resize(g.input("x", (1, 1, 4, 4)), size=(size, size), scales=(2.0, 2.0), name="up"), "y")
        return g

    export.to_model(model(8))
    refused(
        lambda: export.to_model(model(7)), clcnn.UnsupportedError, NotImplementedError, "up", "size [8, 8]"
    )


def test_names_that_onnx_needs_twice() -> None:
    g = Graph()
    g.output(ops.relu(g.input("x", (1, 2))), "x")
    refused(lambda: export.to_model(g), clcnn.ArgumentError, ValueError, "output 'x'")


def test_what_is_no_model(tmp_path: Path) -> None:
    def write(model: Any, shape: Any = None) -> None:
        clcnn.onnx.save(model, tmp_path / "x.onnx", shape)

    refused(lambda: write(Graph()), clcnn.ArgumentError, ValueError, "graph is empty")
    refused(lambda: write(lenet()), clcnn.ArgumentError, ValueError, "input_shape is needed")
    refused(lambda: write(lenet(), (1, 3, 28, 28)), clcnn.ShapeError, ValueError)
    refused(lambda: write(7, (1, 2)), clcnn.ArgumentError, ValueError, "int")
    assert list(tmp_path.iterdir()) == []


def test_a_file_beyond_protobufs_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MAX_BYTES", 1000)
    refused(
        lambda: export.to_model(lenet(), (1, 1, 28, 28)),
        clcnn.UnsupportedError,
        NotImplementedError,
        "without external data",
    )


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    clcnn.onnx.save(lenet(), path, (1, 1, 28, 28))
    before = path.read_bytes()
    g = Graph()
    g.output(ops.relu(g.input("x", (1, 2))), "x")
    with pytest.raises(clcnn.ArgumentError):
        clcnn.onnx.save(g, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        clcnn.onnx.save(lenet(), tmp_path / "none" / "net.onnx", (1, 1, 28, 28))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n == "onnx" or n.startswith(("onnx.", "clcnn.onnx"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delattr(clcnn, "onnx", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'clcnn\[onnx\]'"):
        _ = clcnn.onnx


def test_what_writes_files_is_imported_when_it_is_asked_for():
    said = python("""
        import sys
        import clcnn
        print("clcnn.onnx.export" in sys.modules or not {"save", "to_model"} < set(dir(clcnn.onnx)))
        clcnn.onnx.save
        print("clcnn.onnx.export" in sys.modules)
        from clcnn.onnx import to_model
        try:
            clcnn.onnx.nothing
        except AttributeError as error:
            print(error)
    """)
    assert said.splitlines() == ["False", "True", "module 'clcnn.onnx' has no attribute 'nothing'"]
