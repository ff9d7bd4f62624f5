"""What plans, sessions and trainers take for an array: lists, views, tensors of other libraries.

Stand-ins for torch's tensors say what torch says of its own, since the tests run without torch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import Graph, nn, ops
from helpers import refused

X = (1, 2, 4, 4)
F32 = np.float32
CPU, CUDA = 1, 2  # DLPack's numbers
VALUES = np.arange(32, dtype=F32).reshape(X) - 9


class Exchanged:
    """A tensor of a library that speaks DLPack alone."""

    def __init__(self, array: np.ndarray, number: int = CPU) -> None:
        self._array, self._number = array, number

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._number, 0


class Tensor(Exchanged):
    """As torch's: also an array for NumPy, unless something stands against it."""

    requires_grad = False
    layout = "torch.strided"

    def __init__(self, array: np.ndarray, number: int = CPU, **facts: Any) -> None:
        super().__init__(array, number)
        self.dtype = f"torch.{array.dtype.name}"
        self.device = "cpu" if number == CPU else "cuda:0"
        self.__dict__.update(facts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array


class Meta(Tensor):
    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("Unknown device type meta for Dlpack")


class Half(Tensor):
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("Got unsupported ScalarType BFloat16")


class Sparse:
    """As SciPy's matrices."""

    nnz = 3
    dtype = np.dtype(F32)

    def toarray(self) -> np.ndarray:
        return VALUES


def unaligned() -> np.ndarray:
    made = np.zeros(129, np.uint8)[1:].view(F32).reshape(X)
    made[...] = VALUES
    return made


TAKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (VALUES.tolist, "a list"),
    "swapped bytes": (lambda: VALUES.astype(VALUES.dtype.newbyteorder()), "other order"),
    "transposed": (
        lambda: np.ascontiguousarray(VALUES.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), "not contiguous"),
    "negative strides": (lambda: np.ascontiguousarray(VALUES[..., ::-1])[..., ::-1], "not contiguous"),
    "every other": (lambda: np.repeat(VALUES, 2, axis=3)[..., ::2], "not contiguous"),
    "unaligned": (unaligned, "not aligned"),
    "read-only": (lambda: np.frombuffer(VALUES.tobytes(), F32).reshape(X), ""),
    "a subclass": (lambda: VALUES.view(np.recarray), ""),
    "a tensor": (lambda: Tensor(VALUES), ""),
    "a tensor's view": (
        lambda: Tensor(np.ascontiguousarray(VALUES.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)),
        "not contiguous"),
    "DLPack": (lambda: Exchanged(VALUES), ""),
}  # fmt: skip
REFUSED: dict[str, tuple[Callable[[], Any], type[clcnn.Error], type[Exception], tuple[str, ...]]] = {
    "another device": (
        lambda: Tensor(VALUES, CUDA), clcnn.ArgumentError, ValueError, ("on device cuda:0", "x.cpu()")),
    "another device, DLPack": (
        lambda: Exchanged(VALUES, CUDA), clcnn.ArgumentError, ValueError, ("device (2, 0)",)),
    "no memory": (lambda: Meta(VALUES, device="meta"), clcnn.ArgumentError, ValueError, ("on device meta",)),
    "gradients": (
        lambda: Tensor(VALUES, requires_grad=True), clcnn.ArgumentError, ValueError,
        ("needs gradients", "x.detach()")),
    "sparse": (
        lambda: Tensor(VALUES, layout="torch.sparse_coo"), clcnn.ArgumentError, ValueError,
        ("sparse", "x.to_dense()")),
    "SciPy's sparse": (Sparse, clcnn.ArgumentError, ValueError, ("sparse", "x.toarray()")),
    "complex": (lambda: Tensor(VALUES * 1j), clcnn.DtypeError, TypeError, ("complex", "x.real")),
    "bfloat16": (lambda: Half(VALUES), clcnn.DtypeError, TypeError, ("BFloat16",)),
    "no array": (object, clcnn.DtypeError, TypeError, ("got object",)),
    "text": (lambda: "cat", clcnn.DtypeError, TypeError, ("got str",)),
    "rows of different lengths": (lambda: [[1.0], [1.0, 2.0]], clcnn.ShapeError, ValueError, ("list",)),
}  # fmt: skip


@pytest.fixture(scope="module")
def plan(device: clcnn.Device) -> Iterator[clcnn.Plan]:
    graph = Graph()
    graph.output(ops.mul(graph.input("x", X), 2.0), "y")
    with clcnn.compile(graph, device=device) as made:
        yield made


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "clcnn")
    return caplog


@pytest.mark.parametrize("case", TAKEN)
def test_plans_take(plan: clcnn.Plan, lines: pytest.LogCaptureFixture, case: str) -> None:
    make, told = TAKEN[case]
    np.testing.assert_array_equal(plan(make()), 2 * VALUES)
    copies = [record.getMessage() for record in lines.records if "copied" in record.getMessage()]
    assert (len(copies) == 1 and told in copies[0]) if told else copies == []
    np.testing.assert_array_equal(plan.run({"x": make()})["y"], 2 * VALUES)
    np.testing.assert_array_equal(plan.run([make()])["y"], 2 * VALUES)
    (result,) = plan.map([[make()]])
    np.testing.assert_array_equal(result, 2 * VALUES)
    assert plan.profile(make()).rows
    out = np.empty(X, F32)
    assert plan(make(), out=out) is out and (out == 2 * VALUES).all()


def test_tensors_of_other_libraries_are_written_to(plan: clcnn.Plan) -> None:
    for make in (Tensor, Exchanged):
        out = make(np.empty(X, F32))
        assert plan(VALUES, out=out) is out and (out._array == 2 * VALUES).all()
        out = make(np.empty(X, F32))
        assert plan(Tensor(VALUES), out=out) is out and (out._array == 2 * VALUES).all()
        assert plan.run({"x": VALUES}, {"y": out})["y"] is out


@pytest.mark.parametrize(
    ("out", "kind", "builtin", "parts"),
    [
        (Tensor(VALUES, CUDA), clcnn.ArgumentError, ValueError, ["cuda:0", "x.cpu()"]),
        (Tensor(VALUES, requires_grad=True), clcnn.ArgumentError, ValueError, ["needs gradients"]),
        (Tensor(VALUES.astype(np.float64)), clcnn.DtypeError, TypeError, ["float64"]),
        (Tensor(VALUES.transpose(0, 1, 3, 2)), clcnn.ArgumentError, ValueError, ["contiguous"]),
        (Tensor(VALUES[:, :1]), clcnn.ShapeError, ValueError, ["(1, 2, 4, 4)"]),
        (VALUES.tolist(), clcnn.DtypeError, TypeError, ["list"]),
    ],
    ids=["other device", "gradients", "type", "strides", "shape", "list"],
)
def test_outputs_that_are_refused(
    plan: clcnn.Plan, out: Any, kind: type, builtin: type, parts: list[str]
) -> None:
    refused(lambda: plan(VALUES.copy(), out=out), kind, builtin, "output y", *parts)


@pytest.mark.parametrize("case", ["a tensor", "DLPack"])
def test_one_tensor_need_not_be_in_a_list(plan: clcnn.Plan, case: str) -> None:
    make = TAKEN[case][0]
    np.testing.assert_array_equal(plan.run(make())["y"], 2 * VALUES)
    (result,) = plan.map([make()])
    np.testing.assert_array_equal(result, 2 * VALUES)


@pytest.mark.parametrize("case", REFUSED)
def test_plans_refuse(plan: clcnn.Plan, case: str) -> None:
    make, kind, builtin, parts = REFUSED[case]
    refused(lambda: plan(make()), kind, builtin, "input x", *parts)
    refused(lambda: plan.run({"x": make()}), kind, builtin, "input x", *parts)
    np.testing.assert_array_equal(plan(VALUES), 2 * VALUES)


def test_other_types_are_not_converted_behind_the_users_back(plan: clcnn.Plan) -> None:
    for given in (Tensor(VALUES.astype(np.float64)), Exchanged(VALUES.astype(np.int64))):
        refused(lambda given=given: plan(given), clcnn.DtypeError, TypeError, "expected float32", "convert")
    refused(lambda: plan(VALUES * 1j), clcnn.DtypeError, TypeError, "complex64")
    whole = np.broadcast_to(F32(1), (2**20, 2**20))  # a copy would take 4 TiB
    refused(lambda: plan(whole), clcnn.ShapeError, ValueError, "(1048576, 1048576)")


def test_a_list_of_another_kind_of_numbers(device: clcnn.Device) -> None:
    graph = Graph()
    graph.output(ops.identity(graph.input("n", (3,), "int64")), "y")
    with clcnn.compile(graph, device=device) as plan:
        assert plan([1, 2, 3]).tolist() == [1, 2, 3]
        refused(lambda: plan([0.5, 1.0, 2.0]), clcnn.DtypeError, TypeError, "input n", "int64", "float64")


def test_states_and_two_inputs(device: clcnn.Device) -> None:
    graph = Graph()
    a, b = graph.input("a", (2,)), graph.input("b", (2,))
    total = graph.state("total", (2,))
    graph.assign(total, total + a * b)
    graph.output(total, "before")
    state = clcnn.State({"total": np.zeros(2, F32)}, device)
    with clcnn.compile(graph, device=device, state=state) as plan:
        plan.step([1.0, 2.0], Tensor(np.array([3, 4], F32)))
        refused(lambda: plan.step([1.0, 2.0]), clcnn.ArgumentError, ValueError, "2 inputs, got 1")
        assert state["total"].tolist() == [3.0, 8.0]
    state.close()


def test_tensors_of_other_libraries_go_to_devices(device: clcnn.Device) -> None:
    for given in (Tensor(VALUES), Exchanged(VALUES), VALUES[:, :, ::-1][:, :, ::-1], VALUES.tolist()):
        if isinstance(given, list):
            refused(
                lambda given=given: clcnn.Tensor.from_dlpack(given, device),
                clcnn.DtypeError, TypeError, "float64")  # fmt: skip
            continue
        with clcnn.Tensor.from_dlpack(given, device) as tensor:
            np.testing.assert_array_equal(tensor.numpy(), VALUES)
    make, kind, builtin, parts = REFUSED["gradients"]
    refused(lambda: clcnn.Tensor.from_dlpack(make(), device), kind, builtin, *parts)


def test_constants_and_parameters(device: clcnn.Device) -> None:
    graph = Graph()
    x = graph.input("x", X)
    graph.output(x + Tensor(VALUES), "y")
    with clcnn.compile(graph, device=device) as plan:
        np.testing.assert_array_equal(plan(VALUES), 2 * VALUES)
    layer = nn.Linear(2, 2)
    layer.weight.data = Tensor(np.eye(2, dtype=F32))
    assert layer.weight.data.tolist() == [[1, 0], [0, 1]]
    for case in ("gradients", "complex", "sparse"):
        make, kind, builtin, parts = REFUSED[case]
        refused(lambda make=make: x + make(), kind, builtin, "constant", *parts)
        refused(lambda make=make: setattr(layer.weight, "data", make()), clcnn.Error, builtin, *parts)


def test_sessions_take_and_refuse_the_same(device: clcnn.Device) -> None:
    pytest.importorskip("onnx")
    from session_models import convolution

    x = np.random.default_rng(1).random((1, 3, 4, 4), F32)
    with clcnn.InferenceSession(convolution(), device=device) as session:
        (wanted,) = session.run(["y"], {"x": x})
        for given in (Tensor(x), Exchanged(x), x.astype(x.dtype.newbyteorder()), x.tolist()):
            np.testing.assert_array_equal(session.run(["y"], {"x": given})[0], wanted)
        for make, kind, builtin, parts in REFUSED.values():
            refused(lambda make=make: session.run(None, {"x": make()}), kind, builtin, "'x'", *parts)


def test_trainers_take_and_refuse_the_same(device: clcnn.Device) -> None:
    from clcnn import optim, train

    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    optimizer = optim.SGD(net.parameters(), 0.1)
    with train.Trainer(net, nn.CrossEntropyLoss(), optimizer, device=device) as trainer:
        assert np.isfinite(trainer.step(Tensor(VALUES), Exchanged(np.array([2]))))
        assert trainer.predict(VALUES.tolist()).shape == (1, 3)
        for case in ("gradients", "complex", "sparse", "another device"):
            make, kind, builtin, parts = REFUSED[case]
            refused(lambda make=make: trainer.step(make(), [1]), kind, builtin, "x", *parts)


def test_torch(plan: clcnn.Plan) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(VALUES)
    view = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    for given in (x, view):
        np.testing.assert_array_equal(plan(given), 2 * VALUES)
    for bad, part in (
        (x.clone().requires_grad_(), "x.detach()"),
        (x.to_sparse(), "x.to_dense()"),
        (x.to(torch.complex64), "complex"),
        (x.to("meta"), "device meta"),
        (x.bfloat16(), "BFloat16"),
    ):
        with pytest.raises(clcnn.Error, match=f"input x.*{part}"):
            plan(bad)
