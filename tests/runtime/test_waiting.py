"""Waiting for other threads: timeout=, Ctrl-C, and forks while they are at work. Each test is a process of
its own with a bound on its time, since what it looks for is one that never ends."""

from __future__ import annotations

import pytest

from helpers import python

LIMIT = 120.0  # seconds for a child; a hang, not slowness, reaches it

START = """
import gc, os, signal, sys, threading, time, warnings
import numpy as np
import clcnn
from clcnn import ops
from clcnn import device as devices
from slow_plan import behind, in_fork, interrupted, make, raised, random, slow_graph
warnings.simplefilter("ignore", DeprecationWarning)  # Python's own about fork() beside threads
"""


def child(code: str, **environment: str) -> str:
    return python(START + code, LIMIT, **environment)


# ---- forks ----

FORKED_RUN = """
slow = make(least=1.0)
graph, x = slow_graph(1), np.ones(4, np.float32)
tensor = clcnn.Tensor.from_numpy(x)
guarded = clcnn.compile(graph, guard=True)
stream = slow.plan.map([slow.x] * 4)
next(stream)
thread = behind(lambda: slow.plan(slow.x))

def work():
    plan = slow.plan
    calls = {
        "run": lambda: plan(slow.x), "run with timeout": lambda: plan(slow.x, timeout=5), "clone": plan.clone,
        "profile": lambda: plan.profile(slow.x), "map": lambda: next(plan.map([slow.x])),
        "check_guards": guarded.check_guards, "stream": lambda: next(stream), "tensor": tensor.numpy,
        "new tensor": lambda: clcnn.Tensor(plan.device, (2,)), "finish": plan.device.finish,
        "compile": lambda: clcnn.compile(graph, device=plan.device), "device": clcnn.Device,
        "shared device": devices.get, "devices": clcnn.devices,
    }
    wrong = {name: got for name, call in calls.items() if (got := raised(call))[0] != "StateError"}
    assert not wrong, wrong
    repr(plan), plan.stats, plan.explain(), plan.device.stats()
    plan.close(), guarded.close(), tensor.close(), plan.device.close()
    assert plan.closed and raised(lambda: plan(slow.x))[0] == "StateError"
    graph.output(ops.relu(ops.conv(graph.input("z", (1, 1, 4, 4)), random(1, 1, 3, 3))), "z")

in_fork(work)
thread.join()
stream.close()
assert slow.plan(slow.x).tobytes() == slow.y.tobytes()
"""


@pytest.mark.leaks_on_purpose
def test_a_fork_while_another_thread_runs() -> None:
    child(FORKED_RUN)


FORKED_COMPILE = """
from onnx import TensorProto, helper
device = devices.get()
graph = clcnn.Graph()
y = graph.input("x", (1, 8, 32, 32))
for i in range(1, 12):
    y = ops.relu(ops.conv(y, random(8 + i, 7 + i, i, i), padding=(i - 1) // 2))
graph.output(y, "y")
other = slow_graph(1)
built = device.stats()["programs_built"]
nodes = [helper.make_node("Conv", ["x" if i == 3 else f"y{i - 2}", f"w{i}"], [f"y{i}"], kernel_shape=[i, i],
                          pads=[i // 2] * 4) for i in (3, 5, 7, 9)]
tensor = lambda name, dims: helper.make_tensor(name, TensorProto.FLOAT, dims, [1.0] * int(np.prod(dims)))
weights = [tensor(f"w{i}", [2, 2, i, i]) for i in (3, 5, 7, 9)]
info = lambda name, n: helper.make_tensor_value_info(name, TensorProto.FLOAT, [n, 2, 16, 16])
model = helper.make_model(helper.make_graph(nodes, "g", [info("x", "n")], [info("y9", "n")], weights))
session = clcnn.InferenceSession(model.SerializeToString())
x = np.ones((1, 2, 16, 16), np.float32)
both = [behind(lambda: clcnn.compile(graph, device=device)), behind(lambda: session.run(None, {"x": x}))]
done = [not thread.is_alive() for thread in both]

def work():
    calls = {"compile": lambda: clcnn.compile(graph, device=device),
             "run": lambda: session.run(None, {"x": x}), "other": lambda: clcnn.compile(other, device=device),
             "device": devices.get, "nodes": lambda: graph._core.nodes(),
             "timeout": lambda: session.run(None, {"x": x}, timeout=1)}
    wrong = {name: got for name, call in calls.items() if (got := raised(call))[0] != "StateError"}
    assert not wrong, wrong
    other.output(ops.relu(other.value(other.inputs["x"])), "z")  # nobody was using this graph
    session.close(), device.close()

in_fork(work)
for thread in both:
    thread.join()
"""


@pytest.mark.leaks_on_purpose
def test_a_fork_while_others_compile(tmp_path) -> None:
    pytest.importorskip("onnx")
    child(FORKED_COMPILE, POCL_CACHE_DIR=str(tmp_path), CLCNN_CACHE_DIR="0")


FORKED_OPENING = """
import clcnn._core as core
real, entered = core.Device.__new__, threading.Event()

def opening():
    with devices._lock:  # as get() holds it while a device opens
        entered.set()
        time.sleep(3)

thread = behind(opening, entered.is_set)
in_fork(lambda: devices.get("cpu"))
"""


def test_a_fork_while_another_thread_opens_a_device() -> None:
    child(FORKED_OPENING)


FORKED_HANDLER = """
slow = make(least=1.0)
pids = []
def handler(*_):
    pids.append(os.fork())
signal.signal(signal.SIGINT, handler)
timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
name, seconds = raised(lambda: slow.plan(slow.x))
if pids == [0]:  # the child, which came back from the handler into the run
    assert name == "StateError", name
    assert raised(lambda: slow.plan(slow.x))[0] == "StateError"
    sys.exit(0)
assert name == "" and len(pids) == 1
assert os.waitpid(pids[0], 0)[1] == 0
assert slow.plan(slow.x).tobytes() == slow.y.tobytes()
"""


@pytest.mark.leaks_on_purpose
def test_a_fork_in_a_handler_that_interrupts_a_run() -> None:
    child(FORKED_HANDLER)


# ---- the clock ----

TIMEOUT = """
slow = make(least=1.4)
own = slow.plan.clone()
for timeout in (0.2, np.float32(0.2)):
    thread = behind(lambda: slow.plan(slow.x))
    name, seconds = raised(lambda: slow.plan(slow.x, timeout=timeout))
    assert name == "RunTimeoutError" and seconds < 0.2 + 1.0, (name, seconds)
    name, seconds = raised(slow.plan.clone)
    assert name == "" and seconds < 1.0, (name, seconds)
    thread.join()
assert slow.plan(slow.x).tobytes() == slow.y.tobytes()
# waiting counts: two runs take longer than the call may
thread = behind(lambda: slow.plan(slow.x))
name, seconds = raised(lambda: slow.plan(slow.x, timeout=1.3 * slow.seconds))
assert name in ("", "RunTimeoutError") and seconds < 1.3 * slow.seconds + 1.0, (name, seconds, slow.seconds)
thread.join()
# a run that began before its time was over goes on without its caller; then the plan can be used again
while raised(lambda: slow.plan(slow.x))[0] == "StateError":
    time.sleep(0.1)
assert slow.plan(slow.x).tobytes() == slow.y.tobytes()
"""


def test_a_timeout_while_waiting_for_another_thread() -> None:
    child(TIMEOUT)


SESSION_TIMEOUT = """
from onnx import TensorProto, helper
info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2])
node = helper.make_node("Relu", ["x"], ["y"])
model = helper.make_model(helper.make_graph([node], "g", [info("x")], [info("y")]))
session = clcnn.InferenceSession(model.SerializeToString())
compiling, go_on, compile = threading.Event(), threading.Event(), session._compile

def slowly(*args):
    compiling.set()
    go_on.wait()
    compile(*args)

session._compile = slowly
x = np.ones((1, 2), np.float32)
thread = behind(lambda: session.run(None, {"x": x}), compiling.is_set)
name, seconds = raised(lambda: session.run(None, {"x": x}, timeout=0.2))
assert name == "RunTimeoutError" and seconds < 0.6, (name, seconds)
name, seconds = interrupted(lambda: session.run(None, {"x": x}))
assert name == "KeyboardInterrupt" and seconds < 0.4, (name, seconds)
in_fork(lambda: (raised(lambda: session.run(None, {"x": x})), session.close()))
go_on.set()
thread.join()
assert session.run(None, {"x": x}, timeout=5)[0].tolist() == [[1, 1]]
for wrong in (0, -1, float("nan")):
    assert raised(lambda: session.run(None, {"x": x}, timeout=wrong))[0] == "ArgumentError"
assert raised(lambda: session.run(None, {"x": x}, timeout="1 s"))[0] == "DtypeError"
"""


def test_a_session_that_another_thread_compiles() -> None:
    pytest.importorskip("onnx")
    child(SESSION_TIMEOUT)


# ---- Ctrl-C ----

INTERRUPTS = """
slow = make(least=1.2)
calls = {"run": lambda: slow.plan(slow.x), "run by name": lambda: slow.plan.run({"x": slow.x}, timeout=60),
         "profile": lambda: slow.plan.profile(slow.x), "close": slow.plan.close}
for what, call in calls.items():
    thread = behind(lambda: slow.plan(slow.x))
    name, seconds = interrupted(call)
    assert name == "KeyboardInterrupt" and seconds < 0.4, (what, name, seconds)
    assert not slow.plan.closed
    thread.join()
stream = slow.plan.map([slow.x] * 4)
name, seconds = interrupted(lambda: list(stream), 0.5)
assert name == "KeyboardInterrupt" and seconds < 0.6, ("map", name, seconds)
assert slow.plan(slow.x).tobytes() == slow.y.tobytes()
"""


def test_ctrl_c_while_waiting_for_another_thread() -> None:
    child(INTERRUPTS)


INTERRUPTED_COMPILE = """
def graph(activations):
    g, algorithms = clcnn.Graph(), {}
    y = g.input("x", (1, 8, 16, 16))
    for act in activations:
        for algo in ("ref", "direct", "im2col", "implicit"):
            y = getattr(ops, act)(ops.conv(y, random(8, 8, 3, 3), padding=(1,), name=f"{act}_{algo}"))
            algorithms[f"{act}_{algo}"] = algo
    g.output(y, "y")
    return g, algorithms

device = devices.get()
shared, algorithms = graph(["relu", "sigmoid", "tanh", "elu", "gelu"])
# in the middle of one's own compile, between two programs; a busy machine takes longer for all of them, too
name, seconds = interrupted(lambda: clcnn.compile(shared, device=device, algorithms=algorithms, chain=False))
other, algorithms = graph(["relu6", "silu", "hard_swish", "hard_sigmoid", "leaky_relu"])
start = time.monotonic()
clcnn.compile(other, device=device, algorithms=algorithms, chain=False).close()
whole = time.monotonic() - start
assert name == "KeyboardInterrupt" and seconds < whole / 2, (name, seconds, whole)
# a graph that another thread compiles
thread = behind(lambda: clcnn.compile(shared, device=device))
name, seconds = interrupted(lambda: shared._core.nodes(), 0.05)
assert (name == "KeyboardInterrupt" and seconds < 0.4) or not thread.is_alive(), (name, seconds)
thread.join()
before = device.stats()
clcnn.compile(shared, device=device).close()
gc.collect()
after = device.stats()
assert all(before[key] == after[key] for key in ("bytes_now", "live_objects"))
"""


def test_ctrl_c_of_a_compile(tmp_path) -> None:
    child(INTERRUPTED_COMPILE, POCL_CACHE_DIR=str(tmp_path), CLCNN_CACHE_DIR="0")


STOPPED = """
slow = make(least=1.0)
clone = slow.plan.clone()
found = []
thread = behind(lambda: found.append(raised(lambda: clone(slow.x))))
clone._core.stop()
thread.join(5)
assert found[0][0] == "StateError" and found[0][1] < 0.5, found
assert raised(lambda: clone(slow.x))[0] == "StateError"
clone.close()
stream = slow.plan.map([slow.x] * 4)
next(stream)
name, seconds = raised(stream.close)
assert name == "" and seconds < 0.4, (name, seconds)
assert slow.plan(slow.x).tobytes() == slow.y.tobytes()
"""


def test_a_stream_that_is_left_ends_its_runs() -> None:
    child(STOPPED)
