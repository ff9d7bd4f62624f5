"""clcnn.save() and clcnn.load(): what comes back, and what is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn, ops, zoo
from clcnn.model_io import ModelFileError
from clcnn.weights import save_safetensors

SHAPE = (2, 3, 6, 6)


class Branches(nn.Module):
    """Branches, several outputs, a shared layer, a literal, and attributes of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=(1, 1), bias=False)
        self.norm = nn.BatchNorm2d(8, eps=1e-3)
        self.act = nn.GELU("tanh")
        self.pool = nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)
        self.head = nn.Sequential(nn.Unflatten(1, (2, 4)), nn.Flatten(), nn.Linear(72, 5))

    def forward(self, x: Any) -> Any:
        left, right = ops.split(self.norm(self.conv(x)), sizes=[3, 5], dim=1)
        joined = ops.concat(self.act(left), ops.clip(self.act(right), min=-0.25), dim=1)
        padded = ops.pad(joined, pads=[0, 0, 1, 0, 0, 0, 0, 0], value=float("-inf"))
        pooled = ops.max_pool(padded, kernel_size=3, stride=2, padding=0) * 0.5
        return {"logits": self.head(self.pool(joined)), "pooled": pooled}


def saved(tmp_path: Path, model: Any = None, shape: Any = SHAPE) -> tuple[Any, Path]:
    model = model or Branches()
    path = tmp_path / "model.clcnn"
    clcnn.save(model, path, shape)
    return model, path


def same_outputs(device: clcnn.Device, one: Any, other: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    with clcnn.compile(one, shape, device) as a, clcnn.compile(other, shape, device) as b:
        want, got = a.run(x), b.run(x)
    assert list(got) == list(want)
    for name, array in want.items():
        assert np.array_equal(got[name], array), name


# ---- what comes back ----


def test_a_loaded_model_computes_the_same(device: clcnn.Device, tmp_path: Path) -> None:
    model, path = saved(tmp_path)
    loaded = clcnn.load(path)
    assert loaded.input_shapes == {"input": SHAPE}
    same_outputs(device, model, loaded, SHAPE)


def test_another_batch_size(device: clcnn.Device, tmp_path: Path) -> None:
    model, path = saved(tmp_path)
    same_outputs(device, model, clcnn.load(path), (5, *SHAPE[1:]))


def test_a_net_of_the_zoo(device: clcnn.Device, tmp_path: Path) -> None:
    model, path = saved(tmp_path, zoo.lenet5(), (1, 1, 28, 28))
    loaded = clcnn.load(path)
    assert set(loaded.state_dict()) == set(model.state_dict())
    same_outputs(device, model, loaded, (3, 1, 28, 28))


def test_a_graph_and_several_inputs(device: clcnn.Device, tmp_path: Path) -> None:
    graph = clcnn.Graph()
    a, b = graph.input("a", (2, 3)), graph.input("b", (3,))
    graph.output(ops.relu(a - b, name="a"), "positive")  # a node may be called as an input is
    graph.output(a @ np.eye(3, dtype=np.float32), "same")
    path = tmp_path / "graph.clcnn"
    clcnn.save(graph, path)
    loaded = clcnn.load(path)
    assert loaded.input_shapes == {"a": (2, 3), "b": (3,)}
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full(3, 2.0, np.float32)
    with clcnn.compile(loaded, loaded.input_shapes, device) as plan:
        result = plan.run({"a": x, "b": y})
    assert np.array_equal(result["positive"], np.maximum(x - y, 0)) and np.array_equal(result["same"], x)


def test_a_constant_of_rank_0(device: clcnn.Device, tmp_path: Path) -> None:
    graph = clcnn.Graph()
    graph.output(graph.input("x", (2, 3)) * graph.constant(np.array(2.0, np.float32), "two"), "y")
    clcnn.save(graph, tmp_path / "graph")
    loaded = clcnn.load(tmp_path / "graph")
    assert loaded.state_dict()["two"].shape == ()
    with clcnn.compile(loaded, loaded.input_shapes, device) as plan:
        assert np.array_equal(plan(np.ones((2, 3), np.float32)), np.full((2, 3), 2.0, np.float32))


def test_inputs_and_constants_of_every_type(device: clcnn.Device, tmp_path: Path) -> None:
    graph = clcnn.Graph()
    x, at = graph.input("x", (2, 4)), graph.input("at", (3,), "int64")
    ids, mask = graph.input("ids", (3,), "int32"), graph.input("mask", (3,), "bool")
    graph.output(ops.gather(x, at, dim=1), "picked")
    graph.output(ops.where(mask, ids, np.array([7, 8, 9], np.int32)), "chosen")
    graph.output(ops.logical_or(mask, np.array([True, False, False])), "either")
    first, second = tmp_path / "first", tmp_path / "second"
    clcnn.save(graph, first)
    loaded = clcnn.load(first)
    assert loaded.input_dtypes == {"x": "float32", "at": "int64", "ids": "int32", "mask": "bool"}
    assert not loaded.state_dict()  # constants of these types are no weights
    clcnn.save(loaded, second)
    assert second.read_bytes() == first.read_bytes()
    feed = {
        "x": np.arange(8, dtype=np.float32).reshape(2, 4),
        "at": np.array([3, 0, 1]),
        "ids": np.array([1, 2, 3], np.int32),
        "mask": np.array([False, True, False]),
    }
    with clcnn.compile(loaded, loaded.input_shapes, device) as plan:
        assert plan.input_dtypes == loaded.input_dtypes
        results = plan.run(feed)
    assert np.array_equal(results["picked"], feed["x"][:, [3, 0, 1]])
    assert results["chosen"].tolist() == [7, 2, 9] and results["chosen"].dtype == np.int32
    assert results["either"].tolist() == [True, True, False]


def test_saving_what_was_loaded_gives_the_same_file(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    again = tmp_path / "again.clcnn"
    clcnn.save(clcnn.load(path), again)
    assert again.read_bytes() == path.read_bytes()


def test_state_and_weights(tmp_path: Path) -> None:
    model, path = saved(tmp_path)
    loaded = clcnn.load(path)
    assert set(model.state_dict()) < set(loaded.state_dict())  # which has the literal 0.5, too
    zeros = {name: np.zeros_like(array) for name, array in loaded.state_dict().items()}
    loaded.load_state_dict(zeros)
    assert not np.any(loaded.state_dict()["conv.weight"])
    for name, array in clcnn.weights.load(path).items():  # every reader of safetensors finds the weights
        assert np.array_equal(array, model.state_dict().get(name, array))


def test_a_loaded_model_can_be_a_part_of_another(tmp_path: Path) -> None:
    _, path = saved(tmp_path, zoo.lenet5(), (1, 1, 28, 28))
    whole = nn.Sequential({"net": clcnn.load(path), "softmax": nn.Softmax(1)})
    names = [row.name for row in clcnn.graph.trace(whole, (2, 1, 28, 28)).rows()]
    assert names[0] == "net.features.0" and names[-1] == "softmax"
    assert "net.features.0.weight" in whole.state_dict()


def test_saving_needs_a_shape_and_layers(tmp_path: Path) -> None:
    with pytest.raises(clcnn.ArgumentError, match="input_shape is needed: a LeNet5 has none"):
        clcnn.save(zoo.lenet5(), tmp_path / "x.clcnn")
    with pytest.raises(clcnn.ArgumentError, match="the graph is empty: it has no node"):
        clcnn.save(clcnn.Graph(), tmp_path / "x.clcnn")
    with pytest.raises(clcnn.ShapeError, match=r"conv features\.0: "):
        clcnn.save(zoo.lenet5(), tmp_path / "x.clcnn", (1, 3, 28, 28))
    with pytest.raises(clcnn.ArgumentError, match="expected a clcnn.Graph or a model with build"):
        clcnn.save(object(), tmp_path / "x.clcnn", (1, 3, 28, 28))
    with pytest.raises(clcnn.ArgumentError, match="model: 'net' is no file"):
        clcnn.save("net", tmp_path / "x.clcnn", (1, 3, 28, 28))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["path", "bytes", "model", "graph"])
def test_saves_what_compile_takes(device: clcnn.Device, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("onnx")
    file, path = tmp_path / "net.onnx", tmp_path / "net.clcnn"
    clcnn.onnx.save(zoo.lenet5(), file, (1, 1, 28, 28), dynamic_batch=True)
    shape = (2, 1, 28, 28)
    given: dict[str, Any] = {
        "path": file,
        "bytes": file.read_bytes(),
        "model": clcnn.onnx.load(file),
        "graph": clcnn.onnx.load(file).graph({"input": shape}),
    }
    clcnn.save(given[kind], path, None if kind == "graph" else shape)
    same_outputs(device, clcnn.load(path), file, shape)


def test_a_loaded_model_has_a_shape_of_its_own(device: clcnn.Device, tmp_path: Path) -> None:
    _, path = saved(tmp_path, zoo.lenet5(), (3, 1, 28, 28))
    with clcnn.compile(clcnn.load(path), device=device) as plan:
        assert plan.inputs == {"input": (3, 1, 28, 28)}


# ---- what is refused ----

W = np.ones((4, 3), np.float32)
DOCUMENT = {
    "version": 1,
    "inputs": [{"name": "x", "shape": [2, 3]}],
    "nodes": [
        {"name": "fc", "op": "linear", "inputs": ["x", "w", None], "outputs": ["h"], "attrs": {}},
        {
            "name": "act",
            "op": "clip",
            "inputs": ["h"],
            "outputs": ["y"],
            "attrs": {"min": 0.0, "max": "Infinity"},
        },
    ],
    "outputs": [{"name": "output", "value": "y"}],
}


def write(path: Path, graph: Any, tensors: dict[str, np.ndarray] | None = None) -> Path:
    text = graph if isinstance(graph, str) else json.dumps(graph)
    save_safetensors(path, {"w": W} if tensors is None else tensors, {"clcnn": text})
    return path


def test_the_document_by_itself_is_right(device: clcnn.Device, tmp_path: Path) -> None:
    model = clcnn.load(write(tmp_path / "m", DOCUMENT))
    with clcnn.compile(model, model.input_shapes, device) as plan:
        assert np.array_equal(plan(np.array([[1, 2, 3], [-9, 2, 3]], np.float32)), [[6] * 4, [0] * 4])


def node(at: int, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["nodes"][at].update(changes)


def row(key: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document[key][0].update(changes)


def twice(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document[key].append(copy.deepcopy(document[key][0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (node(0, op="system"), "node 'fc': there is no operator 'system'"),
        (node(0, op=3), r"nodes\[0\] 'fc': 'op' must be a str, got 3"),
        (node(0, extra=1), r"nodes\[0\] 'fc': has \['attrs', 'extra', .*expected"),
        (node(1, attrs={"mim": 0.0}), "node 'act': clip has no attribute 'mim'"),
        (node(1, attrs={"min": "much"}), "node 'act': attribute min is a float, got 'much'"),
        (node(1, attrs={"min": None}), "node 'act': attribute min is a float, got None"),
        (node(1, attrs={"min": {}}), "node 'act': attribute min is a float, got {}"),
        (node(1, attrs={"min": [1.0, [2.0]]}), "node 'act': attribute min is a float"),
        (node(1, attrs=[]), r"nodes\[1\] 'act': 'attrs' must be a dict, got \[\]"),
        (node(1, name="fc"), "two nodes are called 'fc'"),
        (node(1, outputs=["h"]), "two values are called 'h'"),
        (node(0, outputs=["x"]), "two values are called 'x'"),
        (node(0, outputs=["w"]), "two values are called 'w'"),
        (node(0, outputs=[]), r"node 'fc': outputs must be names, got \[\]"),
        (node(1, outputs=["y", "z"]), "node 'act': clip makes 1 outputs, the file names 2"),
        (node(0, inputs=["y", "w", None]), "node 'fc': uses 'y' before it is made; .*without a cycle"),
        (node(0, inputs=["h", "w", None]), "node 'fc': uses 'h' before it is made"),
        (node(0, inputs=["x", "v", None]), "node 'fc': uses 'v', which nothing makes"),
        (node(0, inputs=["x", ["w"]]), "node 'fc': inputs must be names or null"),
        (node(0, inputs=["x"]), "tensor 'w' is used by no node"),
        (node(0, inputs=["x", "w", None, "x"]), "linear fc: "),
        (node(1, op="conv", inputs=["h", "w"], attrs={}), "conv act: "),
        (node(1, op="flatten", attrs={"start_dim": 2**70}), "flatten act: attribute start_dim does not fit"),
        (row("inputs", shape=[2, 4]), r"linear fc: .*4"),
        (row("inputs", shape=[2, 0]), "input x: .*0"),
        (row("inputs", shape=[2, -3]), "input x: .*-3"),
        (row("inputs", shape=[2, 2**40]), "input x: .*1099511627776"),
        (row("inputs", dtype="float64"), "input 'x': dtype 'float64' must be one of float32, int64, int32"),
        (row("inputs", shape=[2, 1.5]), r"input 'x': shape \[2, 1.5\] must be a list of integers"),
        (row("inputs", shape="23"), r"inputs\[0\] 'x': 'shape' must be a list"),
        (row("outputs", value="q"), "output 'output': nothing makes 'q'"),
        (row("outputs", value=None), "'value' must be a str, got None"),
        (twice("inputs"), "two inputs are called 'x'"),
        (twice("outputs"), "two outputs are called 'output'"),
        (lambda d: d.update(nodes=[]), "inputs, nodes and outputs must not be empty"),
        (lambda d: d.update(version=7), "version 7 of the format is not known; this clcnn reads version 1"),
        (lambda d: d.pop("version"), "version None of the format is not known"),
        (lambda d: d.update(nodes={}), "graph: 'nodes' must be a list"),
        (lambda d: d.pop("outputs"), "graph: 'outputs' must be a list"),
        (lambda d: d["nodes"].append(3), r"nodes\[2\]: must be an object, got 3"),
    ],
)  # fmt: skip
def test_broken_documents(tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    path = write(tmp_path / "m.clcnn", document)
    with pytest.raises(ModelFileError, match=message) as raised:
        clcnn.load(path)
    assert str(raised.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "version None of the format is not known"),
        ("{", "graph: not readable as JSON"),
        ("[" * 100_000, "graph: not readable as JSON: .*recursion"),
        ('{"inputs": [], "inputs": []}', "graph: an object has the same key twice"),
        ('{"inputs": NaN}', "graph: NaN is no JSON number"),
        ("9" * 5000, "graph: not readable as JSON: .*digits"),
    ],
)
def test_broken_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        clcnn.load(write(tmp_path / "m", text))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "node 'fc': uses 'w', which nothing makes"),
        ({"w": W, "left": W}, "tensor 'left' is used by no node"),
        (
            {"w": W.astype(np.float64)},
            "tensor 'w': must be one of float32, int64, int32, bool, uint8, not float64",
        ),
        ({"w": W[:, :2].copy()}, "linear fc: "),
        ({"w": np.ones((0, 3), np.float32)}, r"tensor 'w': shape \[0, 3\] has no elements"),
        ({"w": np.ones((1,) * 20, np.float32)}, "w: .*20"),
    ],
    ids=str,
)
def test_broken_tensors(tmp_path: Path, tensors: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        clcnn.load(write(tmp_path / "m", DOCUMENT, tensors))


def test_other_files(tmp_path: Path) -> None:
    plain = tmp_path / "plain.safetensors"
    save_safetensors(plain, {"w": W}, {"format": "pt"})
    with pytest.raises(ModelFileError, match="not a model file: it carries no graph that clcnn.save.. wrote"):
        clcnn.load(plain)
    plain.write_bytes(b"PK\x03\x04 and more, which is no model")
    with pytest.raises(
        ModelFileError, match="not a model file: it is no safetensors file, or a truncated one"
    ):
        clcnn.load(plain)
    with pytest.raises(FileNotFoundError):
        clcnn.load(tmp_path / "none")


def test_truncated_files_never_load(tmp_path: Path) -> None:
    whole = write(tmp_path / "m", DOCUMENT).read_bytes()
    cut = tmp_path / "cut"
    for length in [*range(0, len(whole), 23), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=str(cut)):
            clcnn.load(cut)


def test_flipped_bytes_raise_nothing_else(tmp_path: Path) -> None:
    whole = bytearray(write(tmp_path / "m", DOCUMENT).read_bytes())
    rng = np.random.default_rng(0)
    path = tmp_path / "flipped"
    refused = 0
    for _ in range(300):
        at, value = int(rng.integers(len(whole))), int(rng.integers(256))
        changed = whole.copy()
        changed[at] = value
        path.write_bytes(changed)
        try:
            clcnn.load(path)
        except ModelFileError:
            refused += 1
    assert refused > 150
