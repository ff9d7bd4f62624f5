"""Every argument of the public functions with values of the wrong kind and beyond its range: whatever is
raised is a clcnn.Error and the builtin that says the same, or an OSError where a file is opened."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import _core, nn, ops
from clcnn.graph import Graph
from clcnn.model_io import ModelFileError
from helpers import refused

F32 = np.float32
X = (1, 2, 4, 4)
Call = Callable[[Any], Any]

NUMBERS: list[Any] = [
    2**31, 2**40, 2**63, 2**70, -1, -(2**63), -(2**70), 0, True, 1.5, 1j, float("nan"), float("inf"), "1",
    b"1", None, np.int64(2), np.uint64(2**63), np.int32(-1), F32(1), np.array(1), np.array([1, 2]), [1], {},
    object(),
]  # fmt: skip
TEXTS: list[Any] = [
    "a\0b",
    "\ud800",
    "x\udc80",
    "x" * 100_000,
    "",
    "é",
    b"x",
    1,
    None,
    np.str_("x"),
    ["x"],
    object(),
]


class Subclass(np.ndarray):
    pass


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def read_only() -> np.ndarray:
    array = ones(*X)
    array.flags.writeable = False
    return array


def quiet_matrix() -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return ones(2, 2).view(np.matrix)


ARRAYS: dict[str, Callable[[], Any]] = {
    "subclass": lambda: ones(*X).view(Subclass),
    "matrix": quiet_matrix,
    "record": lambda: np.rec.array(np.zeros(X, [("a", F32)])),
    "structured": lambda: np.zeros(X, [("a", F32)]),
    "big-endian": lambda: ones(*X).astype(">f4"),
    "transposed": lambda: ones(1, 4, 4, 2).transpose(0, 3, 1, 2),
    "broadcast": lambda: np.broadcast_to(F32(1), (2**20, 2**20)),
    "no dimensions": lambda: np.array(1, F32),
    "scalar": lambda: F32(1),
    "empty": lambda: ones(0, 2, 4, 4),
    "rank": lambda: ones(*(1,) * 9),
    "read-only": read_only,
    "float64": lambda: np.ones(X),
    "half": lambda: np.ones(X, np.float16),
    "complex": lambda: np.ones(X, np.complex64),
    "times": lambda: np.zeros(X, "M8[s]"),
    "void": lambda: np.zeros(X, "V4"),
    "objects": lambda: np.full(X, None),
    "strings": lambda: np.full(X, "a"),
    "memory": lambda: memoryview(b"abcd"),
    "list": lambda: [1.0],
    "None": lambda: None,
    "text": lambda: "x",
}
MASKED: dict[str, Callable[[], Any]] = {
    "some": lambda: np.ma.masked_array(ones(*X), mask=np.arange(32).reshape(X) > 9),
    "none": lambda: np.ma.masked_array(ones(*X)),
    "integers": lambda: np.ma.masked_array(np.ones(X, np.int64), mask=True),
}


def graph() -> Graph:
    made = Graph()
    made.output(ops.relu(made.input("x", X), name="r"), "y")
    return made


class Stage:
    """What the calls below share."""

    def __init__(self, device: clcnn.Device, folder: Path) -> None:
        self.device, self.folder = device, folder
        self.plan = clcnn.compile(graph(), device=device)
        self.tensor = clcnn.Tensor(device, X)
        self.file = folder / "model.safetensors"
        clcnn.save(graph(), self.file)

    def compile(self, **options: Any) -> None:
        clcnn.compile(graph(), **{"device": self.device, **options}).close()

    def node(self, op: Any = "relu", inputs: Any = None, attrs: Any = None, name: Any = None) -> None:
        made = Graph()
        made.node(op, [made.input("x", X)] if inputs is None else inputs, attrs, name)

    def output(self, value: Any = None, name: Any = "y") -> None:
        made = Graph()
        x = made.input("x", X)
        made.output(x if value is None else value, name)

    def expression(self, other: Any) -> None:
        made = Graph()
        made.apply("add", made.input("x", X), other)

    def named(self, name: str) -> None:
        made = Graph()
        made.output(ops.relu(made.input("x", X), name=name), "y")
        with clcnn.compile(made, device=self.device, outputs=[name]) as plan:
            plan.explain(), plan.summary(), plan.run(ones(*X)), repr(plan)


@pytest.fixture(scope="module")
def stage(device: clcnn.Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(device, tmp_path_factory.mktemp("arguments"))
    yield made
    made.plan.close()
    made.tensor.close()


def opened(**options: Any) -> None:
    clcnn.Device(DEVICE, **options).close()


COMPILE = ("device", "precision", "workspace_limit", "memory_limit", "algorithms", "outputs", "fuse", "chain",
           "batch_part", "skip", "guard")  # fmt: skip
# Arguments of any kind: each gets all numbers and all texts.
CALLS: dict[str, Callable[[Stage, Any], Any]] = {
    "compile model": lambda s, v: clcnn.compile(v, (1, 2), device=s.device),
    "compile input_shape": lambda s, v: clcnn.compile(nn.Conv2d(2, 2, 3), v, device=s.device),
    "compile dimension": lambda s, v: clcnn.compile(nn.ReLU(), (1, 2, v), device=s.device, memory_limit="1M"),
    "compile shape of a graph": lambda s, v: s.compile(input_shape=v),
    **{f"compile {name}": lambda s, v, name=name: s.compile(**{name: v}) for name in COMPILE},
    "compile tune": lambda s, v: s.compile(tune=v),
    "compile algorithm": lambda s, v: s.compile(algorithms={"r": v}),
    "compile output": lambda s, v: s.compile(outputs=[v]),
    "Device": lambda s, v: clcnn.Device(v).close(),
    **{
        f"Device {name}": lambda s, v, name=name: opened(**{name: v})
        for name in ("memory_limit", "build_threads", "kernel_dir")
    },
    "Device cache_dir": lambda s, v: opened(cache_dir=v if v is not None else False),
    "Tensor device": lambda s, v: clcnn.Tensor(v, (2,)),
    "Tensor shape": lambda s, v: clcnn.Tensor(s.device, v),
    "Tensor dimension": lambda s, v: clcnn.Tensor(s.device, (v,)),
    "Tensor dtype": lambda s, v: clcnn.Tensor(s.device, (2,), v),
    "from_numpy": lambda s, v: clcnn.Tensor.from_numpy(v, s.device),
    "from_numpy device": lambda s, v: clcnn.Tensor.from_numpy(ones(2), v),
    "write": lambda s, v: s.tensor.write(v),
    "read": lambda s, v: s.tensor.read(v),
    "input name": lambda s, v: Graph().input(v, X),
    "input shape": lambda s, v: Graph().input("x", v),
    "input dimension": lambda s, v: Graph().input("x", (1, v)),
    "input dtype": lambda s, v: Graph().input("x", X, v),
    "constant": lambda s, v: Graph().constant(v),
    "constant name": lambda s, v: Graph().constant(ones(2), v),
    "output": lambda s, v: s.output(v),
    "output name": lambda s, v: s.output(name=v),
    "node op": lambda s, v: s.node(v),
    "node inputs": lambda s, v: s.node(inputs=v),
    "node input": lambda s, v: s.node(inputs=[v]),
    "node attrs": lambda s, v: s.node(attrs=v),
    "node name": lambda s, v: s.node(name=v),
    "expression": lambda s, v: s.expression(v),
    "graph shape": lambda s, v: graph().shape(v),
    "graph layer": lambda s, v: graph().layer(v),
    "plan": lambda s, v: s.plan(v),
    "plan out": lambda s, v: s.plan(ones(*X), out=v),
    "plan timeout": lambda s, v: s.plan(ones(*X), timeout=v),
    "run inputs": lambda s, v: s.plan.run(v),
    "run input": lambda s, v: s.plan.run({"x": v}),
    "run outputs": lambda s, v: s.plan.run(ones(*X), v),
    "run output": lambda s, v: s.plan.run(ones(*X), {"y": v}),
    "run timeout": lambda s, v: s.plan.run(ones(*X), timeout=v),
    "map": lambda s, v: list(s.plan.map(v)),
    "map batch": lambda s, v: list(s.plan.map([v])),
    "map timeout": lambda s, v: list(s.plan.map([ones(*X)], timeout=v)),
    "profile": lambda s, v: s.plan.profile(v),
    "core shape": lambda s, v: graph()._core.shape(v),
    "core dtype": lambda s, v: graph()._core.dtype(v),
    "core donate": lambda s, v: graph()._core.donate(v),
    "parameter": lambda s, v: setattr(nn.ReLU6() and nn.Linear(2, 2).weight, "data", v),
    "image size": lambda s, v: clcnn.image.resize(np.zeros((4, 4, 3), np.uint8), v),
}
# Dictionaries by name, for what can be a key.
KEYS: dict[str, Callable[[Stage, Any], Any]] = {
    "compile algorithms": lambda s, v: s.compile(algorithms={v: "ref"}),
    "compile input_shape": lambda s, v: clcnn.compile(nn.ReLU(), {v: (1, 2)}, device=s.device),
    "node attrs": lambda s, v: s.node(attrs={v: 1}),
    "run inputs": lambda s, v: s.plan.run({v: ones(*X)}),
    "run outputs": lambda s, v: s.plan.run(ones(*X), {v: ones(*X)}),
}
FILES: dict[str, Callable[[Stage, Any], Any]] = {
    "load": lambda s, v: clcnn.load(v),
    "weights": lambda s, v: clcnn.weights.load(v),
    "image": lambda s, v: clcnn.image.load(v),
}


def in_our_words(call: Callable[[], Any], *others: type[BaseException]) -> None:
    """Whatever it raises is clcnn's own, and a builtin beside it."""
    try:
        call()
    except others:
        pass
    except clcnn.Error as error:
        builtins = [kind for kind in type(error).__mro__ if kind.__module__ == "builtins"]
        assert issubclass(builtins[0], Exception) and builtins[0] is not Exception, type(error)
        assert str(error) and len(str(error)) < 3000


@pytest.mark.parametrize("name", CALLS)
def test_values_of_every_kind(stage: Stage, name: str) -> None:
    for value in NUMBERS + TEXTS:
        in_our_words(lambda value=value: CALLS[name](stage, value))


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_kind(stage: Stage, name: str) -> None:
    for value in NUMBERS + TEXTS:
        if value.__hash__ is not None:
            in_our_words(lambda value=value: KEYS[name](stage, value))


@pytest.mark.parametrize("name", FILES)
def test_paths_of_every_kind(stage: Stage, name: str) -> None:
    for value in [*TEXTS, 1.5, 2**70]:
        in_our_words(lambda value=value: FILES[name](stage, value), OSError)


@pytest.mark.parametrize("op", _core.ops())
def test_attributes_of_every_kind(op: str) -> None:
    row = _core.ops()[op]
    needed = {attr["name"]: 1 for attr in row["attrs"] if attr["required"]}
    count = sum(not name.endswith("?") for name in row["inputs"])
    for attr in row["attrs"]:
        for value in [*NUMBERS, *TEXTS, [2**70], [None], ["\0"], [[1]], list(range(100))]:
            made = Graph()
            inputs = [made.input(f"x{i}", (1, 4, 4, 4)) for i in range(count)]
            in_our_words(lambda: made.node(op, inputs, {**needed, attr["name"]: value}, "n"))  # noqa: B023


@pytest.mark.parametrize("name", ["é", "x" * 300, "a b\n", "a\tb", "%s", "{x}"])
def test_odd_names_that_are_taken(stage: Stage, name: str) -> None:
    in_our_words(lambda: stage.named(name))


MODULES: dict[str, Call] = {
    "Conv2d in": lambda v: nn.Conv2d(v, 2, 3), "Conv2d out": lambda v: nn.Conv2d(2, v, 3),
    "Conv2d kernel": lambda v: nn.Conv2d(2, 2, v), "Conv2d stride": lambda v: nn.Conv2d(2, 2, 3, stride=v),
    "Conv2d padding": lambda v: nn.Conv2d(2, 2, 3, padding=v),
    "Conv2d groups": lambda v: nn.Conv2d(2, 2, 3, groups=v),
    "Linear in": lambda v: nn.Linear(v, 2), "Linear out": lambda v: nn.Linear(2, v),
    "BatchNorm2d": lambda v: nn.BatchNorm2d(v), "MaxPool2d": lambda v: nn.MaxPool2d(v),
    "AdaptiveAvgPool2d": lambda v: nn.AdaptiveAvgPool2d(v), "Flatten": lambda v: nn.Flatten(v),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_arguments_of_modules(name: str) -> None:
    """A module takes what it is given; tracing it refuses what cannot be."""
    for value in [2**31, 2**70, -1, 0, True, 1.5, "1", "x", None, [1], [], {}, object()]:

        def build(value: Any = value) -> None:
            clcnn.graph.trace(MODULES[name](value), (1, 2, 8, 8) if "Linear" not in name else (1, 2))

        in_our_words(build, TypeError, MemoryError)


# ---- arrays ----

ENDS: dict[str, Callable[[Stage, Any], Any]] = {
    "constant": lambda s, a: Graph().constant(a, "w"),
    "plan": lambda s, a: s.plan(a),
    "run": lambda s, a: s.plan.run({"x": a}),
    "run array": lambda s, a: s.plan.run(a),
    "map": lambda s, a: list(s.plan.map([a])),
    "profile": lambda s, a: s.plan.profile(a),
    "out": lambda s, a: s.plan(ones(*X), out=a),
    "run out": lambda s, a: s.plan.run(ones(*X), {"y": a}),
    "from_numpy": lambda s, a: clcnn.Tensor.from_numpy(a, s.device),
    "write": lambda s, a: s.tensor.write(a),
    "read": lambda s, a: s.tensor.read(a),
    "expression": lambda s, a: s.expression(a),
    "weight": lambda s, a: ops.conv(Graph().input("x", X), a),
    "parameter": lambda s, a: setattr(nn.Linear(2, 2).weight, "data", a),
    "save": lambda s, a: clcnn.weights.save_npz(s.folder / "a.npz", {"a": a}),
    "image": lambda s, a: clcnn.image.load(a),
}


@pytest.mark.parametrize("end", ENDS)
def test_arrays_of_every_kind(stage: Stage, end: str) -> None:
    for kind, make in ARRAYS.items():
        if not (kind == "broadcast" and end in ("parameter", "save")):  # would be copied
            in_our_words(lambda make=make: ENDS[end](stage, make()), *([OSError] if end == "image" else []))


@pytest.mark.parametrize("end", [end for end in ENDS if end != "read"])
@pytest.mark.parametrize("case", MASKED)
def test_masked_arrays_are_refused(stage: Stage, end: str, case: str) -> None:
    refused(
        lambda: ENDS[end](stage, MASKED[case]()), clcnn.DtypeError, TypeError, "masked", "x.filled(value)"
    )


def test_masked_arrays_of_models(stage: Stage) -> None:
    helper = pytest.importorskip("onnx.helper")
    info = [helper.make_tensor_value_info(name, 1, X) for name in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]))
    with clcnn.InferenceSession(model.SerializeToString(), device=stage.device) as session:
        refused(
            lambda: session.run(None, {"x": MASKED["some"]()}), clcnn.DtypeError, TypeError, "masked", "'x'"
        )
    net = nn.Linear(4, 4)
    state = {"weight": np.ma.masked_array(ones(4, 4)), "bias": ones(4)}
    refused(lambda: net.load_state_dict(state), clcnn.DtypeError, TypeError, "masked")


@pytest.mark.parametrize("out", [np.ones(X), [1.0], np.ones(X, ">f4")])
def test_an_output_is_not_told_to_convert_the_input(stage: Stage, out: Any) -> None:
    with pytest.raises(clcnn.DtypeError) as caught:
        stage.plan(ones(*X), out=out)
    assert "output y" in str(caught.value) and "np.empty(shape, np.float32)" in str(caught.value)
    assert "(x" not in str(caught.value)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "cpu\0"])
def test_device_names_with_odd_characters(name: str) -> None:
    refused(lambda: clcnn.Device(name), clcnn.ArgumentError, ValueError, "device", repr(name))


# ---- names in files ----


def with_header(path: Path, change: Callable[[str], str]) -> bytes:
    """The bytes of a safetensors file whose header is another text."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = change(data[8 : 8 + length].decode()).encode()
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


@pytest.mark.parametrize("name", [r"\u0000", r"a\u0000b", r"\ud800", r"\udfff\ud800", "x" * 100_000])
@pytest.mark.parametrize("replaced", ["x", "y", "r"])
def test_odd_names_in_a_model_file(stage: Stage, tmp_path: Path, name: str, replaced: str) -> None:
    def change(header: str) -> str:
        fields = json.loads(header)
        ((key, graph),) = fields["__metadata__"].items()
        assert f'"{replaced}"' in graph
        fields["__metadata__"][key] = graph.replace(f'"{replaced}"', f'"{name}"')
        return json.dumps(fields)

    path = tmp_path / "odd.safetensors"
    path.write_bytes(with_header(stage.file, change))
    refused(lambda: clcnn.load(path), ModelFileError, ValueError, str(path))


@pytest.mark.parametrize("name", ["a\0b", "\0"])
def test_nul_in_the_names_of_an_onnx_model(stage: Stage, name: str) -> None:
    helper = pytest.importorskip("onnx.helper")
    for x, y, node in ((name, "y", "n"), ("x", name, "n"), ("x", "y", name)):
        info = [helper.make_tensor_value_info(n, 1, X) for n in (x, y)]
        made = helper.make_graph([helper.make_node("Relu", [x], [y], name=node)], "g", info[:1], info[1:])
        data = helper.make_model(made).SerializeToString()

        def run(data: bytes = data, x: str = x) -> None:
            with clcnn.InferenceSession(data, device=stage.device) as session:
                session.run(None, {x: ones(*X)})

        in_our_words(run)


# ---- the loader's words ----


def test_a_loader_that_lacks_a_library_is_not_called_missing(tmp_path: Path) -> None:
    from helpers import python

    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"no library")
    show = """
        import clcnn
        try:
            clcnn.devices()
        except clcnn.NoDeviceError as error:
            print(error)
    """
    said = python(show, CLCNN_OPENCL_LIBRARY=str(broken))
    assert f"{broken} does not open ({broken}: " in said and "not found" not in said
    said = python(show, CLCNN_OPENCL_LIBRARY="libnosuch.so.9")
    assert "libnosuch.so.9 not found" in said
