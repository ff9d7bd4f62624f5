"""Bad input about graphs, plans and tensors: the exception's type, and a message with layer, value
and rule.

After each refusal the device must be usable and nothing may have leaked.
"""

from __future__ import annotations

import functools
import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE, ROOT

import clcnn
from clcnn import _core, ops
from clcnn.graph import Graph
from helpers import refused

F32 = np.float32
ARG, SHAPE, DTYPE, ANY = clcnn.ArgumentError, clcnn.ShapeError, clcnn.DtypeError, clcnn.Error


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def simple() -> Graph:
    g = Graph()
    g.output(ops.relu(ops.conv(g.input("x", (1, 2, 4, 4)), ones(2, 2, 3, 3), padding=1, name="c")), "y")
    return g


def pointwise() -> Graph:
    g = Graph()
    g.output(ops.relu(g.input("x", (1, 4, 8, 8))), "y")
    return g


@pytest.fixture(scope="module")
def plan(device: clcnn.Device) -> Iterator[clcnn.Plan]:
    with clcnn.compile(simple(), device=device) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_leaks(device: clcnn.Device, plan: clcnn.Plan) -> Iterator[None]:
    """Before and after: the same objects and bytes on the device, which still computes."""
    clcnn.compile(pointwise(), device=device).close()  # the device keeps its program
    gc.collect()
    before = device.stats()
    yield
    assert plan(ones(1, 2, 4, 4))[0, 0, 1, 1] == 18
    gc.collect()
    after = device.stats()
    for key in ("bytes_now", "live_objects"):
        assert after[key] == before[key], key


# ---- arrays ----

X = (1, 2, 4, 4)
ARRAYS: dict[str, tuple[Callable[[], Any], type[clcnn.Error], type[Exception], tuple[str, ...]]] = {
    "rank": (
        lambda: ones(2, 4, 4), SHAPE, ValueError, ("expected shape (1, 2, 4, 4), got (2, 4, 4)",)),
    "shape": (lambda: ones(1, 2, 4, 5), SHAPE, ValueError, ("(1, 2, 4, 4)", "(1, 2, 4, 5)")),
    "zero-size": (lambda: ones(0, 2, 4, 4), SHAPE, ValueError, ("dimension 0 is 0",)),
    "float64": (lambda: np.ones(X), DTYPE, TypeError, ("float64", "astype(np.float32)")),
    "int": (lambda: np.ones(X, np.int8), DTYPE, TypeError, ("int8",)),
    "object": (lambda: np.ones(X, object), DTYPE, TypeError, ("object",)),
    "byte order": (lambda: np.ones(X, ">f4"), DTYPE, TypeError, ("native byte order", ">f4")),
    "text": (lambda: "x", DTYPE, TypeError, ("got str", "np.asarray")),
    "None": (lambda: None, DTYPE, TypeError, ("got NoneType",)),
    "transposed": (
        lambda: ones(1, 4, 4, 2).transpose(0, 3, 1, 2), ARG, ValueError, ("not C-contiguous",)),
    "negative strides": (
        lambda: ones(*X)[..., ::-1], ARG, ValueError, ("not C-contiguous", "-4")),
    "every other": (
        lambda: ones(1, 2, 4, 8)[..., ::2], ARG, ValueError, ("np.ascontiguousarray",)),
    "zero strides": (lambda: np.broadcast_to(F32(1), X), ARG, ValueError, ("(0, 0, 0, 0)",)),
    "unaligned": (
        lambda: np.zeros(129, np.uint8)[1:].view(F32).reshape(X), ARG, ValueError, ("not aligned",)
    ),
}  # fmt: skip


# Inputs that are copied instead: tests/binding/test_inputs.py.
COPIED = ("byte order", "transposed", "negative strides", "every other", "zero strides", "unaligned")


@pytest.mark.parametrize("case", [case for case in ARRAYS if case not in COPIED])
def test_input_arrays(plan: clcnn.Plan, case: str) -> None:
    make, kind, builtin, parts = ARRAYS[case]
    refused(lambda: plan(make()), kind, builtin, "input x", *parts)


@pytest.mark.parametrize("case", ARRAYS)
def test_output_arrays(plan: clcnn.Plan, case: str) -> None:
    make, kind, builtin, parts = ARRAYS[case]
    if case != "None":
        told = [part for part in parts if part not in ("astype(np.float32)", "np.asarray")]
        refused(lambda: plan(ones(*X), out=make()), kind, builtin, "output y", *told)


@pytest.mark.parametrize("case", [case for case in ARRAYS if case not in ("rank", "shape", "text", "None")])
def test_constants(case: str) -> None:
    make, kind, builtin, parts = ARRAYS[case]
    refused(lambda: Graph().constant(make(), "w"), kind, builtin, "constant w", *parts)


@pytest.mark.parametrize("case", [case for case in ARRAYS if case not in ("text", "None")])
def test_tensor_writes(device: clcnn.Device, case: str) -> None:
    make, kind, builtin, parts = ARRAYS[case]
    with clcnn.Tensor(device, X) as tensor:
        refused(lambda: tensor.write(make()), kind, builtin, *parts)


def test_a_read_only_output(plan: clcnn.Plan) -> None:
    out = ones(*X)
    out.flags.writeable = False
    refused(lambda: plan(ones(*X), out=out), clcnn.ArgumentError, ValueError, "output y", "read-only")


def test_an_output_that_shares_memory_with_an_input(device: clcnn.Device, plan: clcnn.Plan) -> None:
    x = ones(*X)
    refused(lambda: plan(x, out=x), clcnn.ArgumentError, ValueError, "output y: shares memory with x")
    block = np.ones(48, F32)
    a, b = block[:32].reshape(X), block[16:].reshape(X)
    refused(lambda: plan(a, out=b), clcnn.ArgumentError, ValueError, "shares memory")
    with clcnn.Tensor(device, X) as t:
        refused(lambda: plan(t, out=t), clcnn.ArgumentError, ValueError, "shares memory")


@pytest.mark.parametrize("count", [0, 2])
def test_the_number_of_inputs(plan: clcnn.Plan, count: int) -> None:
    refused(
        lambda: plan(*[ones(*X)] * count),
        clcnn.ArgumentError,
        ValueError,
        f"this plan has 1 input, got {count}",
    )


def test_names_of_inputs_and_outputs(plan: clcnn.Plan) -> None:
    x = ones(*X)
    refused(lambda: plan.run({"z": x}), clcnn.ArgumentError, ValueError, "['x']", "['z']")
    refused(lambda: plan.run(x, {"z": x}), clcnn.ArgumentError, ValueError, "['z'] are no outputs", "['y']")


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_timeouts(plan: clcnn.Plan, timeout: float) -> None:
    refused(
        lambda: plan(ones(*X), timeout=timeout),
        clcnn.ArgumentError,
        ValueError,
        "timeout: must be a positive",
    )


def test_a_tensor_of_another_device(plan: clcnn.Plan) -> None:
    with clcnn.Device(DEVICE) as other, clcnn.Tensor(other, X) as t:
        says = ("input x: the tensor is on another device", plan.device.name, "opened twice", "plan.device")
        refused(lambda: plan(t), clcnn.ArgumentError, ValueError, *says)


# ---- shapes of tensors and inputs ----


@pytest.mark.parametrize(
    ("shape", "kind", "part"),
    [
        ((2, 0), clcnn.ShapeError, "dimension 1 of shape (2, 0) is 0"),
        ((-1, 2), clcnn.ShapeError, "dimension 0 of shape (-1, 2) is -1"),
        ((1 << 31,), clcnn.ShapeError, "from 1 to 2147483647"),
        ((1 << 80,), clcnn.ShapeError, "from 1 to 2147483647"),
        ((1,) * 9, clcnn.ShapeError, "above the limit of 8"),
        ((1.5, 2), clcnn.DtypeError, "is not an integer"),
        (("a",), clcnn.DtypeError, "is not an integer"),
        (5, clcnn.DtypeError, "a shape must be a sequence of integers, got 5"),
        (None, clcnn.DtypeError, "a shape must be a sequence of integers, got None"),
    ],
)
def test_shapes(device: clcnn.Device, shape: Any, kind: type[clcnn.Error], part: str) -> None:
    for call in (lambda: clcnn.Tensor(device, shape), lambda: Graph().input("x", shape)):
        with pytest.raises(kind) as caught:
            call()
        assert part in str(caught.value)


def test_a_shape_beyond_all_memory(device: clcnn.Device) -> None:
    n = 2**31 - 1
    refused(
        lambda: clcnn.Tensor(device, (n, n, n)),
        clcnn.ShapeError,
        ValueError,
        "more bytes than an address has",
    )
    with pytest.raises(clcnn.DeviceMemoryError):
        clcnn.Tensor(device, (n, 1 << 20))


# ---- nodes ----

Build = Callable[[Graph, "clcnn.Value"], Any]
NODES: dict[str, tuple[Build, type[clcnn.Error], tuple[str, ...]]] = {
    "groups that do not divide": (
        lambda g, x: ops.conv(x, ones(4, 1, 1, 1), groups=3, name="c"), SHAPE, ("c", "3")),
    "channels that do not fit": (
        lambda g, x: ops.conv(x, ones(4, 5, 1, 1), name="c"), SHAPE, ("conv c", "5", "4")),
    "kernel larger than the padded input": (
        lambda g, x: ops.conv(x, ones(4, 4, 9, 9), name="c"), SHAPE, ("conv c",)),
    "negative padding larger than the input": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), padding=-4, name="c"), ANY, ("conv c", "padding")),
    "padding that crops everything": (
        lambda g, x: ops.pad(x, pads=[0, 0, -5, 0, 0, 0, -4, 0], name="p"), ANY, ("pad p",)),
    "zero stride": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), stride=0, name="c"), ARG, ("conv c", "stride", "0")),
    "negative dilation": (
        lambda g, x: ops.max_pool(x, kernel_size=2, dilation=-1, name="p"), ARG, ("p", "dilation", "-1")),
    "wrong length": (
        lambda g, x: ops.max_pool(x, kernel_size=[2, 2, 2], name="p"), ANY, ("max_pool p", "kernel_size")),
    "rank": (
        lambda g, x: ops.conv(ops.flatten(x), ones(4, 4, 1, 1), name="c"), SHAPE, ("conv c",)),
    "broadcast": (lambda g, x: ops.add(x, ones(3), name="a"), SHAPE, ("add a", "3")),
    "concat": (lambda g, x: ops.concat(x, ones(1, 4, 8, 9), name="k"), SHAPE, ("concat k",)),
    "split sizes": (lambda g, x: ops.split(x, sizes=[1, 2], name="s"), SHAPE, ("split s",)),
    "reshape": (lambda g, x: ops.reshape(x, shape=[3, -1], name="r"), SHAPE, ("reshape r",)),
    "perm": (
        lambda g, x: ops.transpose(x, perm=[0, 1, 2, 2], name="t"), ANY, ("transpose t", "perm")),
    "axis": (
        lambda g, x: ops.softmax(x, dim=4, name="s"), SHAPE, ("softmax s", "dim=4", "-4 to 3")),
    "choice": (
        lambda g, x: ops.gelu(x, approximate="cubic", name="a"), ARG, ("gelu a", "approximate", "cubic")),
    "kind": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), stride="2", name="c"), ANY, ("conv c", "stride")),
    "fraction": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), stride=1.5, name="c"), ANY, ("conv c", "stride")),
    "dict": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), stride={}, name="c"), DTYPE, ("conv c", "stride", "{}")),
    "mixed list": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), stride=[1, "2"], name="c"), DTYPE, ("stride", "[1, '2']")),
    "huge": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), stride=1 << 70, name="c"), ARG, ("stride", "64 bits")),
    "overflowing size": (
        lambda g, x: ops.conv(x, ones(4, 4, 1, 1), padding=1 << 31, name="c"), ANY, ("conv c",)),
    "missing input": (lambda g, x: g.node("conv", [x, None], name="c"), ARG, ("conv c",)),
    "too many inputs": (lambda g, x: g.node("relu", [x, x], name="r"), ARG, ("relu r",)),
    "missing attribute": (
        lambda g, x: g.node("max_pool", [x], name="p"), ARG, ("p", "kernel_size")),
    "unknown attribute": (
        lambda g, x: g.node("relu", [x], {"slope": 1}, "r"), ARG, ("relu r", "slope")),
    "unknown operator": (lambda g, x: g.node("convolve", [x], name="c"), ANY, ("convolve",)),
    "value of another graph": (
        lambda g, x: ops.add(x, Graph().input("z", (1,))), ARG, ("belongs to another graph",)),
    "no value": (
        lambda g, x: ops.relu(ones(2)), ARG, ("relu: at least one input must be a clcnn.Value",)),
    "text as a value": (lambda g, x: x + "1", ARG, ("got str",)),
}  # fmt: skip


@pytest.mark.parametrize("case", NODES)
def test_nodes(device: clcnn.Device, case: str) -> None:
    build, kind, parts = NODES[case]
    g = Graph()
    x = g.input("x", (1, 4, 8, 8))
    with pytest.raises(kind) as caught:
        build(g, x)
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in {caught.value}"
    g.output(ops.relu(x), "y")  # the graph is as it was
    with clcnn.compile(g, device=device) as made:
        assert [layer["op"] for layer in made.layers] == ["relu"]


def test_names_that_are_taken() -> None:
    g = Graph()
    g.input("x", (1,))
    refused(lambda: g.input("x", (2,)), clcnn.ArgumentError, ValueError, "x")
    core = _core.Graph()
    x = core.input("x", (2,))
    core.node("relu", "r", [x], {})
    refused(lambda: core.node("relu", "r", [x], {}), clcnn.ArgumentError, ValueError, "r")


@pytest.mark.parametrize("value", [-1, 1, 1 << 40])
def test_dangling_values(value: int) -> None:
    core = _core.Graph()
    core.input("x", (2,))
    refused(lambda: core.node("relu", "r", [value], {}), clcnn.ArgumentError, ValueError, "relu r")
    if value < 1 << 31:
        refused(lambda: core.output(value, "y"), clcnn.ArgumentError, ValueError, str(value))


def test_a_node_cannot_use_its_own_output() -> None:
    core = _core.Graph()
    x = core.input("x", (2,))
    refused(lambda: core.node("add", "a", [x, x + 1], {}), clcnn.ArgumentError, ValueError, "add a")


# ---- compile ----


def test_empty_models_and_graphs_without_outputs(device: clcnn.Device) -> None:
    class Nothing:
        def build(self, graph: Graph, x: clcnn.Value) -> clcnn.Value:
            return x

    def compile(model: Any, shape: Any = None) -> Callable[[], clcnn.Plan]:
        return lambda: clcnn.compile(model, shape, device)

    refused(compile(Nothing(), (1, 2)), clcnn.ArgumentError, ValueError, "the model Nothing is empty")
    refused(compile(Graph()), clcnn.ArgumentError, ValueError, "the graph is empty")
    without = Graph()
    ops.relu(without.input("x", (2,)))
    refused(compile(without), clcnn.ArgumentError, ValueError, "output")
    refused(compile(Nothing()), clcnn.ArgumentError, ValueError, "input_shape is needed")
    refused(compile(object(), (1, 2)), clcnn.ArgumentError, ValueError, "got object")
    refused(compile(simple(), (1, 2, 4, 5)), clcnn.ShapeError, ValueError, "(1, 2, 4, 5)", "(1, 2, 4, 4)")
    refused(compile(Nothing(), "12"), clcnn.ArgumentError, ValueError, "input: expected a shape", "'12'")


COMPILES: dict[str, tuple[dict[str, Any], type[clcnn.Error], tuple[str, ...]]] = {
    "unknown layer": ({"algorithms": {"d": "ref"}}, clcnn.ArgumentError, ("'d'",)),
    "unknown algorithm": ({"algorithms": {"c": "magic"}}, clcnn.ArgumentError, ("c", "magic")),
    "algorithm that cannot": (
        {"algorithms": {"c": "depthwise"}},
        clcnn.UnsupportedError,
        ("c", "depthwise", "one input channel"),
    ),
    "algorithm of another kind": ({"algorithms": {"c": 3}}, clcnn.DtypeError, ("'c'", "3")),
    "unknown output": ({"outputs": ["d"]}, clcnn.ArgumentError, ("there is no layer 'd'",)),
    "precision": ({"precision": "low"}, clcnn.ArgumentError, ("precision", "'highest'", "'low'")),
    "negative workspace": ({"workspace_limit": -1}, clcnn.ArgumentError, ("workspace_limit", "-1")),
    "text limit": ({"memory_limit": "many"}, clcnn.ArgumentError, ("memory_limit", "'many'")),
    "kind of limit": ({"memory_limit": 1.5}, clcnn.DtypeError, ("memory_limit", "1.5")),
    "little memory": ({"memory_limit": 64}, clcnn.DeviceMemoryError, ("memory_limit", "arena", "weights")),
}


@pytest.mark.parametrize("case", COMPILES)
def test_compile_options(device: clcnn.Device, case: str) -> None:
    options, kind, parts = COMPILES[case]
    with pytest.raises(kind) as caught:
        clcnn.compile(simple(), device=device, **options)
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in {caught.value}"


def test_a_device_with_a_memory_limit() -> None:
    with clcnn.Device(DEVICE, memory_limit="1M") as small:
        with pytest.raises(clcnn.DeviceMemoryError) as caught:
            clcnn.Tensor(small, (1 << 20,))
        assert isinstance(caught.value, MemoryError)
        assert "4.00 MiB" in str(caught.value) and "limit 1.00 MiB" in str(caught.value)
        with clcnn.Tensor(small, (1 << 10,)) as fits:
            assert fits.nbytes == 4096
        assert small.stats()["bytes_now"] == 0


def test_a_kernel_that_does_not_build(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    (kernels / "elementwise" / "unary_ref.cl").write_text("this is no kernel\n", "utf-8")
    g = Graph()
    g.output(ops.exp(g.input("x", (2,)), name="e"), "y")
    with clcnn.Device(DEVICE, cache_dir=False, kernel_dir=kernels) as own:
        with pytest.raises(clcnn.BuildError) as caught:
            clcnn.compile(g, device=own, algorithms={"e": "ref"})
        error = caught.value
        assert isinstance(error, RuntimeError) and error.kernel == "unary_ref"
        assert "error" in error.log and error.options and error.log[:1000] in error.__notes__[0]
        with clcnn.compile(simple(), device=own, fuse=True) as plan:
            assert plan(ones(*X)).shape == X


# ---- life ----


def test_use_after_close(device: clcnn.Device) -> None:
    plan = clcnn.compile(simple(), device=device)
    plan.close()
    plan.close()
    for call in (
        lambda: plan(ones(*X)),
        plan.clone,
        lambda: plan.profile(ones(*X)),
        lambda: list(plan.map([ones(*X)])),
    ):
        refused(call, clcnn.StateError, RuntimeError, "closed")
    assert "c: conv" in plan.explain() and plan.closed


def test_use_after_the_device_was_closed() -> None:
    own = clcnn.Device(DEVICE)
    plan, tensor, x = clcnn.compile(simple(), device=own), clcnn.Tensor(own, X), ones(*X)
    own.close()
    own.close()
    for use, *arguments in (
        (plan, x), (plan.clone,), (tensor.numpy,), (tensor.write, x),
        (own.finish,), (clcnn.Tensor, own, (1,)), (clcnn.compile, simple(), None, own),
    ):  # fmt: skip
        refused(functools.partial(use, *arguments), clcnn.StateError, RuntimeError, "closed")
    assert own.closed
    del plan, tensor, use, arguments
    gc.collect()
    assert own.stats()["live_objects"] == 0
