"""The extension module itself: its form, its stubs, its exceptions, what importing it costs, and leaks."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import logging
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
import stubgen
from clcnn import _core, _log, ops
from helpers import python

TYPES = (_core.Device, _core.Tensor, _core.Graph, _core.Plan)
CONTAINERS = (*TYPES, _core)


def callables() -> list[tuple[str, Any]]:
    found = []
    for owner in CONTAINERS:
        for name, item in vars(owner).items():
            if callable(item) and not isinstance(item, type) and not name.startswith("__loader"):
                found.append((f"{owner.__name__}.{name}", item))
    return found


@pytest.mark.parametrize("name", [name for name, _ in callables()])
def test_every_callable_has_a_signature(name: str) -> None:
    item = dict(callables())[name]
    if name.split(".")[-1] not in ("__new__", "__repr__"):  # of the type, and of object
        assert item.__text_signature__ is not None
        inspect.signature(item)


@pytest.mark.parametrize("kind", TYPES)
def test_types_are_closed_to_changes(kind: type) -> None:
    assert kind.__text_signature__ is not None and kind.__doc__
    with pytest.raises(TypeError):
        kind.extra = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [_core.Graph, _core.Plan])
def test_final_types(kind: type) -> None:
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Sub", (kind,), {})


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_stubs_agree_with_the_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "clcnn._core", "clcnn.ops"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MYPYPATH": str(Path(clcnn.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_the_operators_stub_is_up_to_date() -> None:
    assert stubgen.PATH.read_text("utf-8") == stubgen.text(), "python/clcnn/ops.pyi is old: run make docs"


def test_operator_tables_are_complete() -> None:
    for name, row in _core.ops().items():
        assert row["doc"] and row["inputs"] and row["algos"], name
        for attr in row["attrs"]:
            assert attr["kind"] in ("int", "bool", "float", "ints", "floats", "enum"), (name, attr)
            if attr["kind"] == "enum" and not attr["required"]:
                assert attr["default"] in attr["choices"], (name, attr)
    conv = {attr["name"]: attr for attr in _core.ops()["conv"]["attrs"]}
    assert conv["stride"]["default"] == 1 and conv["groups"]["kind"] == "int"


# ---- exceptions ----

BUILTINS = {
    "ArgumentError": ValueError,
    "ShapeError": ValueError,
    "DtypeError": TypeError,
    "UnsupportedError": NotImplementedError,
    "BuildError": RuntimeError,
    "DeviceError": RuntimeError,
    "DeviceMemoryError": MemoryError,
    "NoDeviceError": RuntimeError,
    "StateError": RuntimeError,
    "RunTimeoutError": TimeoutError,
}


@pytest.mark.parametrize("name", BUILTINS)
def test_exceptions(name: str) -> None:
    kind = getattr(clcnn, name)
    assert issubclass(kind, clcnn.Error) and issubclass(kind, BUILTINS[name])
    assert kind is getattr(clcnn.errors, name) is getattr(_core, name)
    assert kind.__module__ == "clcnn.errors" and kind.__doc__
    error = kind("what happened")
    error.code = 3
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and str(copy) == "what happened" and copy.code == 3


def test_fields_have_defaults() -> None:
    for error in (clcnn.DeviceError(), clcnn.DeviceMemoryError()):
        assert (error.code, error.name, error.call) == (0, None, None)
    build = clcnn.BuildError()
    assert build.log == build.options == build.kernel == ""


def test_a_failing_call_is_named() -> None:
    out = python(
        """
        import clcnn
        with clcnn.Device() as device:
            try:
                clcnn.Tensor(device, (4,)).write(__import__("numpy").ones(4, "f"))
            except clcnn.DeviceError as error:
                print(error.code, error.name, error.call)
                assert error.call in str(error) and error.name in str(error)
        """,
        CLCNN_FAULT="clEnqueueWriteBuffer:1:-5",
    )
    assert out.split() == ["-5", "CL_OUT_OF_RESOURCES", "clEnqueueWriteBuffer"]


def test_failing_host_memory_is_a_memory_error() -> None:
    out = python(
        """
        import numpy as np, clcnn
        x, kinds = np.ones((1, 2, 4, 4), np.float32), set()
        g = clcnn.Graph()
        g.output(clcnn.ops.conv(g.input("x", x.shape), np.ones((2, 2, 3, 3), np.float32)), "y")
        import os
        for nth in range(1, 40):
            os.environ["CLCNN_FAIL_ALLOC"] = str(nth)
            try:
                with clcnn.Device() as device:
                    clcnn.compile(g, device=device)(x)
                kinds.add(None)
            except Exception as error:
                kinds.add(type(error).__name__)
        print(sorted(kinds, key=str))
        """
    )
    assert "'MemoryError'" in out and "SystemError" not in out


# ---- importing ----


def test_import_is_lazy_and_touches_no_device() -> None:
    out = python("""
        import sys, clcnn
        print([m for m in sys.modules if m.startswith("clcnn.")])
        clcnn.Graph, clcnn.compile, clcnn.Device, clcnn.Tensor, clcnn.ops, clcnn.Error
        print("OpenCL" in open("/proc/self/maps").read())
        clcnn.devices()
        print("OpenCL" in open("/proc/self/maps").read())
    """)
    assert out.splitlines() == ["['clcnn._version']", "False", "True"]


def test_every_public_name_is_there() -> None:
    for name in clcnn.__all__:
        assert getattr(clcnn, name) is not None
    assert set(clcnn.__all__) <= set(dir(clcnn))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = clcnn.nothing  # type: ignore[attr-defined]
    assert clcnn.__version__.count(".") == 2


def test_sub_interpreters_get_a_clear_refusal() -> None:
    if sys.version_info < (3, 13):
        pytest.skip("needs _interpreters")
    interpreters = pytest.importorskip("_interpreters")
    made = interpreters.create()
    failure = interpreters.exec(made, "import clcnn._core")
    interpreters.destroy(made)
    assert failure is not None and "ImportError" in str(failure.type)


# ---- logging ----


def test_logging(device: clcnn.Device, caplog: pytest.LogCaptureFixture) -> None:
    g = clcnn.Graph()
    g.output(ops.relu(g.input("x", (3,))), "y")
    with caplog.at_level(logging.INFO, "clcnn"):
        clcnn.compile(g, device=device)
    assert any("compiled 1 layers to 1 steps" in record.message for record in caplog.records)


def test_the_log_level_of_the_environment() -> None:
    code = """
        import logging, clcnn
        print(logging.getLogger("clcnn").level)
    """
    assert python(code, CLCNN_LOG="debug").strip() == str(logging.DEBUG)
    assert python(code, CLCNN_LOG="").strip() == "0"
    with pytest.warns(UserWarning, match="CLCNN_LOG='loud' is no level name"):
        _log.configure("loud")


# ---- leaks ----


def test_calls_leak_no_host_memory(device: clcnn.Device) -> None:
    """Every call of the binding 200 times: traced memory and reference counts stay where they were."""
    x, w = np.ones((1, 2, 6, 6), np.float32), np.ones((2, 2, 3, 3), np.float32)

    def work() -> None:
        core = _core.Graph()
        value = core.input("x", x.shape)
        (y,) = core.node("conv", "c", [value, core.constant("w", w), None], {"stride": [1, 1], "padding": 1})
        core.output(y, "y")
        core.nodes()
        for bad in ({"stride": [1, "a"]}, {"stride": {}}, {"wrong": 1.5}):
            with pytest.raises(clcnn.Error):
                core.node("conv", "d", [value], bad)
        with _core.Plan(device, core, overrides={"c": "ref"}) as plan:
            plan.run([x])
            plan.profile([x])
            plan.steps(), plan.layers(), plan.rewrites(), plan.stats(), plan.inputs, plan.outputs
            with pytest.raises(clcnn.Error):
                plan.run([w])
        with clcnn.Tensor.from_numpy(x, device) as tensor:
            tensor.read()
        _core.ops(), _core.devices(), device.info(), device.stats()

    def figures() -> tuple[int, int, int, int]:
        gc.collect()
        return (
            tracemalloc.get_traced_memory()[0],
            sys.getrefcount(x),
            sys.getrefcount(w),
            sys.getrefcount(device),
        )

    for _ in range(5):
        work()
    tracemalloc.start()
    work()
    before = figures()
    for _ in range(200):
        work()
    after = figures()
    tracemalloc.stop()
    assert after[0] - before[0] < 200 * 32, f"{after[0] - before[0]} bytes in 200 rounds"
    assert after[1:] == before[1:]
