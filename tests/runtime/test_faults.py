"""Every OpenCL and CLBlast call, and every allocation, fails once: an exception of the right kind, nothing
leaked, and the same device works again.

In child processes, since a crash is what this looks for; each prints how far it got.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What the children share: a graph with folded and packed weights, fused and merged layers, views, a library
# call and several outputs; and one whole life of a device.
LIFE = """
import gc, json, os, sys
import numpy as np
from clcnn import _core

def graph():
    rng = np.random.default_rng(5)
    g = _core.Graph()
    def constant(name, *shape):
        return g.constant(name, np.asarray(rng.uniform(0.1, 1.0, shape), np.float32))
    x = g.input("x", (2, 8, 6, 6))
    y, = g.node("conv", "conv", [x, constant("w", 8, 8, 3, 3), constant("b", 8)], {"padding": 1})
    y, = g.node("batch_norm", "bn", [y, *(constant(f"n{i}", 8) for i in range(4))], {})
    y, = g.node("relu", "relu", [y], {})
    z, = g.node("conv", "dw", [y, constant("dw", 8, 1, 3, 3)], {"groups": 8, "padding": 1})
    z, = g.node("conv", "pw", [z, constant("pw", 8, 8, 1, 1)], {})
    both, = g.node("concat", "both", [y, z], {"dim": 1})
    flat, = g.node("flatten", "flat", [both], {})
    fc, = g.node("linear", "fc", [flat, constant("fw", 5, 576), constant("fb", 5)], {})
    g.output(fc, "fc")
    g.output(both, "both")
    return g

X = np.linspace(-1.0, 1.0, 576, dtype=np.float32).reshape(2, 8, 6, 6)

def use(device):
    with _core.Plan(device, graph(), overrides={"fc": "clblast", "pw": "split"}) as plan:
        first = plan.run([X])
        with plan.clone() as clone:
            again = clone.run([X])
        profiled, _ = plan.profile([X])
        with _core.Tensor(device, X.shape) as tensor:
            tensor.write(X)
            fourth = plan.run([tensor])
        for other in (again, profiled, fourth):
            assert all(np.array_equal(a, b) for a, b in zip(first, other))
    device.finish()
    return first

def attempt(step, allowed):
    '''The exception that step() ends with, None without one; any other type is a finding.'''
    try:
        step()
    except allowed as why:
        assert str(why) or type(why) is MemoryError
        return why
"""

FAULTS = (
    LIFE
    + """
CACHE, CALL, CODE = sys.argv[1], sys.argv[2], int(sys.argv[3])
TIMES, PATIENCE, STEP = map(int, sys.argv[4:7])
CACHE = None if CACHE == "0" else CACHE
SELECTOR = os.environ.get("CLCNN_TEST_DEVICE", "cpu")
with _core.Device(SELECTOR, cache_dir=CACHE) as device:
    wanted = use(device)

def facts(device):
    return device.info()

TOLD = facts(device)

def agree(device):
    # a device that does not tell what it is gets other kernels, which round elsewhere
    loose = 0.0 if facts(device) == TOLD else 1e-5
    return all(np.allclose(a, b, rtol=loose, atol=loose) for a, b in zip(use(device), wanted))

kinds, tolerated, failed, quiet = {}, 0, 0, 0
for nth in range(1, TIMES + 1, STEP):
    os.environ["CLCNN_FAULT"] = f"{CALL}:{nth}:{CODE}"
    print(nth, flush=True)
    device = None
    def live():
        global device
        device = _core.Device(SELECTOR, cache_dir=CACHE)
        assert agree(device)
    why = attempt(live, (_core.Error, MemoryError))
    del os.environ["CLCNN_FAULT"]
    _core.devices()  # sees that the variable is gone
    if why is not None:
        failed += 1
        kinds[type(why).__name__] = str(why)
        why.__traceback__ = None
    else:
        tolerated += 1
    if device is not None:
        gc.collect()
        assert agree(device), f"{nth}: wrong afterwards"
        gc.collect()
        assert device.stats()["weights_bytes"] == 0, f"{nth}: weights stay"
        device.close()
        stats = device.stats()
        assert stats["live_objects"] == 0 == stats["bytes_now"], f"{nth}: {stats}"
    quiet = 0 if why is not None else quiet + 1
    if quiet * STEP >= PATIENCE:
        break
print(json.dumps({"failed": failed, "tolerated": tolerated - quiet, "kinds": kinds, "last": nth}))
"""
)

ALLOCATIONS = (
    LIFE
    + """
CACHE, TIMES, PATIENCE, STEP = sys.argv[1], *map(int, sys.argv[2:5])
SELECTOR = os.environ.get("CLCNN_TEST_DEVICE", "cpu")
with _core.Device(SELECTOR, cache_dir=CACHE) as device:
    wanted = use(device)
failed = tolerated = quiet = 0
kinds = {}
for nth in range(1, TIMES + 1, STEP):
    print(nth, flush=True)
    device = None
    def live():
        global device
        device = _core.Device(SELECTOR, cache_dir=CACHE)
        use(device)
    os.environ["CLCNN_FAIL_ALLOC"] = str(nth)
    why = attempt(live, (_core.Error, MemoryError))
    del os.environ["CLCNN_FAIL_ALLOC"]
    if why is not None:
        failed += 1
        kinds[type(why).__name__] = str(why)
        why.__traceback__ = None
    else:
        tolerated += 1
    if device is not None:
        gc.collect()
        assert all(np.array_equal(a, b) for a, b in zip(use(device), wanted)), f"{nth}: wrong afterwards"
        device.close()
        stats = device.stats()
        assert stats["live_objects"] == 0 == stats["bytes_now"], f"{nth}: {stats}"
    quiet = 0 if why is not None else quiet + 1
    if quiet * STEP >= PATIENCE:
        break
print(json.dumps({"failed": failed, "tolerated": tolerated, "kinds": kinds, "last": nth}))
"""
)


def _child(script: str, *arguments: object, timeout: float = 240) -> dict[str, Any]:
    """The JSON in the last line of what the script prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={k: v for k, v in os.environ.items() if not k.startswith(("CLCNN_FAULT", "CLCNN_FAIL"))},
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"after {lines[-1:]}: status {done.returncode}\n{done.stderr[-3000:]}"
    return json.loads(lines[-1])


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A kernel cache of this module's own, so that the children need to build nothing twice."""
    return tmp_path_factory.mktemp("cache")


EVERY = [7, pytest.param(1, marks=pytest.mark.slow)]  # all of them take three minutes


@pytest.mark.parametrize("step", EVERY)
def test_each_call_of_a_life_fails_in_turn(cache, step):
    """Until no call is left to fail. Queries that only inform may fail unnoticed (a GPU gets some more of
    them); much more must not."""
    result = _child(FAULTS, cache, "*", -5, 2000, 100, step, timeout=1200 / step)
    assert result["last"] < 2000 - step
    assert result["failed"] * step > 100
    assert result["tolerated"] < result["failed"] / 2
    assert set(result["kinds"]) <= {"DeviceError", "NoDeviceError", "DeviceMemoryError", "BuildError"}
    assert "CL_OUT_OF_RESOURCES" in result["kinds"]["DeviceError"]


@pytest.mark.parametrize(
    ("call", "code", "kind", "words"),
    [
        ("clCreateContext", -6, "MemoryError", "clCreateContext"),
        ("clCreateCommandQueue", -5, "DeviceError", r"clCreateCommandQueue: CL_OUT_OF_RESOURCES \(-5\)"),
        ("clCreateBuffer", -4, "DeviceMemoryError", "CL_MEM_OBJECT_ALLOCATION_FAILURE|refused"),
        ("clCreateKernel", -46, "DeviceError", "CL_INVALID_KERNEL_NAME"),
        ("clSetKernelArg", -51, "DeviceError", "CL_INVALID_ARG_SIZE"),
        ("clEnqueueNDRangeKernel", -54, "DeviceError", "CL_INVALID_WORK_GROUP_SIZE"),
        ("clEnqueueWriteBuffer", -36, "DeviceError", "CL_INVALID_COMMAND_QUEUE"),
        ("clEnqueueReadBuffer", -14, "DeviceError", "clEnqueue(Read|Write)Buffer: CL_EXEC_STATUS"),
        ("clGetEventProfilingInfo", -7, "DeviceError", "CL_PROFILING_INFO_NOT_AVAILABLE"),
        ("CLBlastSgemmWithTempBuffer", -2048, "DeviceError", "CLBlast"),
        ("clGetPlatformIDs", -1001, "NoDeviceError", "install"),
    ],
)
def test_calls_fail_as_what_they_are(cache, call, code, kind, words):
    result = _child(FAULTS, cache, call, code, 8, 2, 1)
    assert result["failed"] > 0, f"{call} is never called"
    assert kind in result["kinds"], result["kinds"]
    assert re.search(words, result["kinds"][kind])


@pytest.mark.parametrize("call", ["clCreateProgramWithSource", "clBuildProgram"])
def test_kernels_that_do_not_build(call):
    """Without a disk cache; the kernel, its defines and the driver's words are in the message."""
    result = _child(FAULTS, 0, call, -11, 2, 2, 1)
    assert result["failed"] == 2
    if call == "clBuildProgram":
        assert set(result["kinds"]) == {"BuildError"}
        (text,) = result["kinds"].values()
        assert re.search(r"kernel \w+ did not build on '.+' with .*CL_BUILD_PROGRAM_FAILURE", text)


def test_a_cache_that_cannot_be_read_is_built_anew(cache):
    """A binary that the driver refuses costs time, no more."""
    result = _child(FAULTS, cache, "clCreateProgramWithBinary", -42, 2, 3, 1)
    assert (result["failed"], result["last"]) == (0, 2)


@pytest.mark.parametrize("step", EVERY)
def test_each_allocation_fails_in_turn(cache, step):
    result = _child(ALLOCATIONS, cache, 5000, 60, step, timeout=1200 / step)
    assert result["last"] < 5000 - step
    assert result["failed"] * step > 200
    assert set(result["kinds"]) == {"MemoryError"}


def test_calls_are_listed_for_injection():
    """Every call through the table can be made to fail: none goes around the macros but releases."""
    table = (ROOT / "csrc" / "runtime" / "cl.def").read_text()
    names = set(re.findall(r"(?:CL|CLBLAST)_FN\([^,]+, (\w+)", table))
    direct = set()
    for path in (ROOT / "csrc" / "runtime").glob("*.c"):
        direct |= set(re.findall(r"api->(\w+)\(", path.read_text()))
    assert len(names) > 30
    assert {name for name in direct & names if not name.startswith("clRelease")} <= {
        "clCreateProgramWithBinary",  # these three ask cl_fault themselves: all go on, or report more
        "clCreateBuffer",
        "clSetMemObjectDestructorCallback",
        "clRetainMemObject",  # and these have nothing to report to
        "clRetainEvent",
        "clFinish",
        "clGetPlatformIDs",  # before there is a table whose calls could fail
        "CLBlastClearCache",
    }
