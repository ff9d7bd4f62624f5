"""InferenceSession: onnxruntime's signature, open shapes, threads, pickles and forks."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import nn, zoo
from clcnn.session import InferenceSession
from helpers import refused

pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from session_models import convolution, expected, model_bytes, options_with, photo  # noqa: E402

THREADS, ROUNDS = 4, 8


@pytest.fixture(scope="module")
def session(device: clcnn.Device) -> Any:
    with InferenceSession(convolution(), device=device) as made:
        yield made


# ---- running and looking ----


def test_run(session: InferenceSession) -> None:
    x = photo(2, 3, 9, 7)
    y, maps = session.run(None, {"x": x})
    np.testing.assert_allclose(y, expected(x), atol=1e-5)
    assert maps.shape == (2, 4, 9, 7) and y.dtype == np.float32
    for names in (["maps"], ["maps", "y"], ("y",)):
        results = dict(zip(names, session.run(names, {"x": x}), strict=True))
        assert all((results[n] == {"y": y, "maps": maps}[n]).all() for n in names)
    assert len(session.run([], {"x": x})) == 2


def test_arrays_need_not_be_contiguous(session: InferenceSession) -> None:
    x = photo(1, 5, 5, 3).transpose(0, 3, 1, 2)
    assert not x.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(
        session.run(["y"], {"x": x})[0], session.run(["y"], {"x": np.ascontiguousarray(x)})[0]
    )


def test_inputs_outputs_and_metadata(session: InferenceSession) -> None:
    (given,) = session.get_inputs()
    assert (given.name, given.shape, given.type) == ("x", ["n", 3, "h", "w"], "tensor(float)")
    assert [(o.name, o.shape) for o in session.get_outputs()] == [
        ("y", ["n", 4]),
        ("maps", ["n", 4, "h", "w"]),
    ]
    meta = session.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.description) == ("tests", "tested", "of tests")
    assert meta.graph_description == "a graph" and meta.custom_metadata_map == {}
    assert session.get_overridable_initializers() == []
    assert "x['n', 3, 'h', 'w'] -> y['n', 4]" in repr(session)


def test_same_interface_as_onnxruntime(tmp_path: Path) -> None:
    """One program, two imports."""
    ort = pytest.importorskip("onnxruntime")
    if "CPUExecutionProvider" not in clcnn.get_available_providers():
        pytest.skip("no OpenCL device that is a processor")
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution())
    x = photo(3, 3, 8, 8)
    told = []
    for module in (ort, clcnn):
        options = module.SessionOptions()
        options.graph_optimization_level = module.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = 2
        options.log_severity_level = 3
        options.execution_mode = module.ExecutionMode.ORT_SEQUENTIAL
        made = module.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feed = {made.get_inputs()[0].name: x}
        results = made.run([o.name for o in made.get_outputs()], feed, module.RunOptions())
        shapes = [(i.name, list(i.shape), i.type) for i in [*made.get_inputs(), *made.get_outputs()]]
        told.append((shapes, made.get_providers(), made.get_modelmeta().producer_name, results))
    assert told[0][:3] == told[1][:3]
    for a, b in zip(told[0][3], told[1][3], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_outputs_that_need_no_device_are_there_too(device: clcnn.Device) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Relu", ["x"], ["r"]),
    ]
    rows = [("x", TensorProto.FLOAT, ["n", 2])]
    outputs = [("s", TensorProto.INT64, [2]), ("r", TensorProto.FLOAT, ["n", 2])]
    with InferenceSession(model_bytes(nodes, rows, outputs), device=device) as made:
        s, r = made.run(None, {"x": photo(3, 2)})
        assert s.tolist() == [3, 2] and s.dtype == np.int64 and r.shape == (3, 2)
    only = model_bytes(nodes[:1], rows, outputs[:1])
    with InferenceSession(only, device=device) as made:
        assert made.run(None, {"x": photo(5, 2)})[0].tolist() == [5, 2]
        assert made.profile({"x": photo(5, 2)}).rows == []
        refused(
            lambda: made.plan({"x": (5, 2)}), clcnn.UnsupportedError, NotImplementedError, "nothing to run"
        )


def test_a_model_and_a_path_are_taken_too(device: clcnn.Device, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution(2, 8, 8))
    x = photo(2, 3, 8, 8)
    for source in (path, str(path), clcnn.onnx.load(path), path.read_bytes()):
        with InferenceSession(source, device=device) as made:
            np.testing.assert_allclose(made.run(["y"], {"x": x})[0], expected(x), atol=1e-5)


def test_plan_and_profile(session: InferenceSession) -> None:
    plan = session.plan({"x": (1, 3, 6, 6)})
    assert "conv" in plan.explain() and plan is session.plan({"x": (1, 3, 6, 6)})
    profile = session.profile({"x": photo(1, 3, 6, 6)})
    assert profile.rows and all(row.ms > 0 for row in profile.rows)


# ---- shapes ----


def test_plans_are_made_for_each_shape_and_the_least_recent_goes(device: clcnn.Device) -> None:
    with InferenceSession(convolution(), device=device, max_plans=2) as made:
        a, b, c = [(1, 3, 5, 5), (2, 3, 5, 5), (1, 3, 6, 5)]
        plans = {shape: made.plan({"x": shape}) for shape in (a, b)}
        assert made.plan({"x": a}) is plans[a]
        made.plan({"x": c})  # b is the least recently used
        assert made.plan({"x": a}) is plans[a]
        assert made.plan({"x": b}) is not plans[b]
        for shape in (a, b, c):
            x = photo(*shape)
            np.testing.assert_allclose(made.run(["y"], {"x": x})[0], expected(x), atol=1e-5)


def test_memory_of_forgotten_plans_is_given_back(device: clcnn.Device) -> None:
    with InferenceSession(convolution(), device=device, max_plans=1) as made:
        made.run(None, {"x": photo(1, 3, 8, 8)})
        before = device.stats()["live_objects"]
        for height in range(9, 14):
            made.run(None, {"x": photo(1, 3, height, 8)})
        made.run(None, {"x": photo(1, 3, 8, 8)})
        assert device.stats()["live_objects"] <= before  # a plan that is like another one may need fewer


def test_fixed_shapes_are_compiled_at_once(device: clcnn.Device) -> None:
    with InferenceSession(convolution(1, 8, 8), device=device) as made:
        assert "1 plans" in repr(made)
        made.run(None, {"x": photo(1, 3, 8, 8)})
        assert "1 plans" in repr(made)
        assert made.plan().inputs == {"x": (1, 3, 8, 8)}
    with InferenceSession(convolution(), device=device) as made:
        assert "0 plans" in repr(made)


def test_values_that_decide_shapes(device: clcnn.Device) -> None:
    """A plan for each value of an input that says how to reshape."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    inputs = [("x", TensorProto.FLOAT, [2, 6]), ("shape", TensorProto.INT64, [2])]
    data = model_bytes(nodes, inputs, [("y", TensorProto.FLOAT, ["a", "b"])])
    x = photo(2, 6)
    with InferenceSession(data, device=device) as made:
        for shape in ([3, 4], [12, 1], [-1, 2], [3, 4]):
            (y,) = made.run(None, {"x": x, "shape": np.array(shape)})
            assert (y == np.maximum(x, 0).reshape(shape)).all()
        assert "3 plans" in repr(made)


@pytest.mark.parametrize(
    ("feed", "kind", "parts"),
    [
        ({"x": photo(1, 4, 5, 5)}, clcnn.ShapeError, ("'x'", "(n, 3, h, w)", "(1, 4, 5, 5)")),
        ({"x": photo(3, 5, 5)}, clcnn.ShapeError, ("'x'", "(n, 3, h, w)", "(3, 5, 5)")),
        ({"x": photo(1, 3, 0, 5)}, clcnn.Error, ("(1, 3, 0, 5)",)),
        (
            {"x": np.ones((1, 3, 5, 5))},
            clcnn.DtypeError,
            ("'x'", "tensor(float)", "float64", "astype(np.float32)"),
        ),
        ({"x": np.ones((1, 3, 5, 5), np.int32)}, clcnn.DtypeError, ("'x'", "int32")),
        ({"x": [["a"]]}, clcnn.DtypeError, ("'x'", "<U1")),
        ({}, clcnn.ArgumentError, ("missing ['x']",)),
        (
            {"z": photo(1, 2)},
            clcnn.ArgumentError,
            ("missing ['x']", "unknown ['z']", "inputs are ['x']"),
        ),
        ([photo(1, 3, 5, 5)], clcnn.ArgumentError, ("expected {name: array}", "list")),
    ],
)
def test_feeds_that_do_not_fit(
    session: InferenceSession, feed: Any, kind: type[clcnn.Error], parts: tuple[str, ...]
) -> None:
    builtin = TypeError if kind is clcnn.DtypeError else Exception
    refused(lambda: session.run(None, feed), kind, builtin, *parts)
    x = photo(1, 3, 5, 5)
    np.testing.assert_allclose(session.run(["y"], {"x": x})[0], expected(x), atol=1e-5)


def test_sizes_of_one_symbol_must_agree(device: clcnn.Device) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    rows = [(name, TensorProto.FLOAT, ["n", 2]) for name in "aby"]
    with InferenceSession(model_bytes(nodes, rows[:2], rows[2:]), device=device) as made:
        refused(
            lambda: made.run(None, {"a": photo(2, 2), "b": photo(3, 2)}),
            clcnn.ShapeError,
            ValueError,
            "'b'",
            "'n'",
        )


def test_unknown_outputs(session: InferenceSession) -> None:
    refused(
        lambda: session.run(["z"], {"x": photo(1, 3, 5, 5)}),
        clcnn.ArgumentError,
        ValueError,
        "['z']",
        "['y', 'maps']",
    )


def test_unsupported_nodes_are_told_at_once(device: clcnn.Device) -> None:
    nodes = [
        helper.make_node("Det", ["x"], ["d"], "first"),
        helper.make_node("DFT", ["x"], ["y"], "second"),
    ]
    rows = [("x", TensorProto.FLOAT, ["n", 2, 2])]
    data = model_bytes(nodes, rows, [("y", TensorProto.FLOAT, ["n", 2, 2])])
    refused(
        lambda: InferenceSession(data, device=device),
        clcnn.UnsupportedError,
        NotImplementedError,
        "Det",
        "first",
        "DFT",
        "second",
    )


# ---- threads ----


def in_threads(work: Any) -> None:
    barrier = threading.Barrier(THREADS)

    def together(i: int) -> None:
        barrier.wait(60)
        work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(together, i) for i in range(THREADS)]:
            future.result(120)


def test_threads_share_a_session(device: clcnn.Device) -> None:
    """Every thread runs every shape, while plans come and go: the same bits as alone."""
    shapes = [(1, 3, 8, 8), (2, 3, 8, 8), (1, 3, 9, 7)]
    feeds = [{"x": photo(*shape, seed=i)} for i, shape in enumerate(shapes)]
    with InferenceSession(convolution(), device=device, max_plans=2) as made:
        alone = [[a.tobytes() for a in made.run(None, feed)] for feed in feeds]

        def work(i: int) -> None:
            for n in range(ROUNDS):
                at = (i + n) % len(feeds)
                assert [a.tobytes() for a in made.run(None, feeds[at])] == alone[at]

        in_threads(work)


def test_threads_that_come_first_compile_once(device: clcnn.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    with InferenceSession(convolution(), device=device) as shared:
        specialise = shared.model.specialise
        monkeypatch.setattr(shared.model, "specialise", lambda *a: made.append(a) or specialise(*a))
        in_threads(lambda i: shared.run(None, {"x": photo(1, 3, 5, 5)}))
    assert len(made) == 1


def test_a_compilation_that_fails_is_tried_again(
    device: clcnn.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InferenceSession(convolution(), device=device) as made:
        specialise = made.model.specialise

        def fail(*args: Any) -> Any:
            raise clcnn.DeviceMemoryError("no room")

        monkeypatch.setattr(made.model, "specialise", fail)
        with pytest.raises(clcnn.DeviceMemoryError):
            made.run(None, {"x": photo(1, 3, 5, 5)})
        assert "0 plans" in repr(made)
        monkeypatch.setattr(made.model, "specialise", specialise)
        made.run(None, {"x": photo(1, 3, 5, 5)})


# ---- life and processes ----


def test_close() -> None:
    made = InferenceSession(convolution(1, 5, 5), device=DEVICE)
    made.close()
    made.close()
    refused(lambda: made.run(None, {"x": photo(1, 3, 5, 5)}), clcnn.StateError, RuntimeError, "closed")
    assert "closed" in repr(made)


def test_timeout(session: InferenceSession) -> None:
    assert len(session.run(None, {"x": photo(1, 3, 5, 5)}, timeout=60)) == 2


def test_pickle() -> None:
    options = options_with(graph_optimization_level=clcnn.GraphOptimizationLevel.ORT_DISABLE_ALL)
    options.add_free_dimension_override_by_name("n", 2)
    x = photo(2, 3, 5, 6)
    keywords: dict[str, Any] = {"max_plans": 3, "precision": "strict", "zeros": 0.5}
    with InferenceSession(convolution(), options, device=DEVICE, **keywords) as made:
        before = made.run(None, {"x": x})
        with pickle.loads(pickle.dumps(made)) as again:
            assert again.get_inputs() == made.get_inputs() and again.get_providers() == made.get_providers()
            assert again._max_plans == 3 and again._compile_options == made._compile_options
            assert again.get_session_options().graph_optimization_level == 0
            for a, b in zip(before, again.run(None, {"x": x}), strict=True):
                assert a.tobytes() == b.tobytes()


def test_sessions_of_files_keep_no_weights(device: clcnn.Device, tmp_path: Path) -> None:
    """The device has them; who wants more than runs reads the file again, if it is the same."""
    path, x = tmp_path / "net.onnx", photo(1, 3, 6, 6)
    path.write_bytes(convolution(1, 6, 6))
    with InferenceSession(path, device=device) as made:
        assert made._model is None
        before = made.run(None, {"x": x})
        assert [i.name for i in made.model.inputs] == ["x"]
        with pickle.loads(pickle.dumps(made)) as again:
            assert again.run(None, {"x": x})[0].tobytes() == before[0].tobytes()
        path.write_bytes(convolution(1, 7, 7))
        refused(lambda: pickle.dumps(made), clcnn.StateError, RuntimeError, "net.onnx has changed")
        path.unlink()
        refused(lambda: made.model, clcnn.StateError, RuntimeError, "is gone")
        assert made.run(None, {"x": x})[0].tobytes() == before[0].tobytes()
        assert made.get_modelmeta().producer_name == "tests"


def test_pickle_of_a_session_on_an_opened_device(device: clcnn.Device) -> None:
    with InferenceSession(convolution(), device=device) as made, pickle.loads(pickle.dumps(made)) as again:
        assert again.device.index == device.index
    provider = clcnn.get_available_providers()[-1:]
    with (
        InferenceSession(convolution(), providers=provider) as made,
        pickle.loads(pickle.dumps(made)) as again,
    ):
        assert again.get_providers() == made.get_providers() and again.device is made.device


SPAWNED = """
import hashlib, json, pickle, sys
import numpy as np

def work(session, x):
    return [hashlib.sha256(a.tobytes()).hexdigest() for a in session.run(None, {"x": x})]

if __name__ == "__main__":
    import multiprocessing
    import clcnn
    session = clcnn.InferenceSession(sys.argv[1], device=sys.argv[2])
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(json.dumps([work(session, x), pool.apply(work, (session, x))]))
"""


def test_spawned_processes_rebuild_it(tmp_path: Path) -> None:
    script, model = tmp_path / "spawned.py", tmp_path / "net.onnx"
    script.write_text(SPAWNED)
    model.write_bytes(convolution())
    done = subprocess.run(
        [sys.executable, script, model, DEVICE], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    here, there = json.loads(done.stdout)
    assert here == there and len(here) == 2


FORKED = """
import os, sys
import numpy as np
import clcnn

session = clcnn.InferenceSession(sys.argv[1], device=sys.argv[2])
x = np.ones((1, 3, 5, 5), np.float32)
session.run(None, {"x": x})
pid = os.fork()
if pid == 0:
    try:
        session.run(None, {"x": x})
    except clcnn.StateError as error:
        print(error, flush=True)
        os._exit(7)
    os._exit(8)
_, status = os.waitpid(pid, 0)
session.run(None, {"x": x})
print("status", os.waitstatus_to_exitcode(status))
"""


def test_forked_children_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(convolution())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, model, DEVICE],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "does not survive fork()" in done.stdout and "status 7" in done.stdout


# ---- nets ----


@pytest.mark.parametrize("batch", [1, 3])
def test_a_net_of_the_zoo_through_its_file(batch: int, device: clcnn.Device, tmp_path: Path) -> None:
    net: nn.Module = zoo.lenet5()
    path = tmp_path / "lenet.onnx"
    clcnn.onnx.save(net, path, (1, 1, 28, 28), dynamic_batch=True)
    x = photo(batch, 1, 28, 28)
    with InferenceSession(path, device=device) as made, clcnn.compile(net, x.shape, device) as plan:
        assert made.run(None, {"input": x})[0].tobytes() == plan(x).tobytes()


# ---- other shapes ----


def test_warm_compiles_ahead(device: clcnn.Device) -> None:
    with InferenceSession(convolution(), device=device) as session:
        session.warm([(1, 3, 9, 7), {"x": (2, 3, 8, 8)}])
        assert "2 plans" in repr(session)
        for shape in ((1, 3, 9, 7), (2, 3, 8, 8), (1, 3, 20, 11)):  # the last one was not asked for
            x = photo(*shape)
            np.testing.assert_allclose(session.run(["y"], {"x": x})[0], expected(x), atol=1e-5)
        assert "3 plans" in repr(session)


def test_warm_refuses_what_cannot_be(device: clcnn.Device) -> None:
    with InferenceSession(convolution(), device=device, max_plans=2) as session:
        refused(lambda: session.warm([(1, 4, 9, 7)]), clcnn.ShapeError, ValueError, "'x'", "(1, 4, 9, 7)")
        refused(lambda: session.warm([(1, 3, 9)]), clcnn.ShapeError, ValueError, "'x'")
        refused(lambda: session.warm([{"z": (1, 3, 9, 7)}]), clcnn.ArgumentError, ValueError, "unknown ['z']")
        refused(lambda: session.warm([(1, 3, n, 7) for n in (5, 6, 7)]), clcnn.ArgumentError, ValueError,
                "3 combinations", "max_plans")  # fmt: skip
        refused(lambda: session.warm([(1, 3, 0, 7)]), clcnn.ArgumentError, ValueError, "'x'")
        refused(lambda: session.warm(7), clcnn.DtypeError, TypeError, "shapes")


def test_a_session_knows_the_zeros_that_it_is_told(device: clcnn.Device) -> None:
    with InferenceSession(convolution(), device=device, zeros=0.5) as made:
        x = np.ones([4 if isinstance(n, str) else n for n in made.get_inputs()[0].shape], np.float32)
        made.run(None, {made.get_inputs()[0].name: x})
        assert "50 % zeros" in made.plan({made.get_inputs()[0].name: x.shape}).explain()
    made = InferenceSession(convolution(), device=device, zeros=2.0)
    with made, pytest.raises(clcnn.ArgumentError, match="the share element must be from 0 to 1, got 2"):
        made.run(None, {made.get_inputs()[0].name: x})
