"""A session of a file gives up the model's arrays while it compiles: results stay right, memory stays low."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
from helpers import python, refused

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from clcnn.session import InferenceSession  # noqa: E402

CHANNELS = 192  # filters of 1x1 that are large enough to be given up: 144 KiB


def norm(x: str, y: str, seed: int, channels: int = CHANNELS) -> tuple[Any, dict[str, np.ndarray]]:
    """A batch normalisation node and its parameters."""
    rng = np.random.default_rng(seed)
    names = [f"{y}_{part}" for part in ("scale", "bias", "mean", "var")]
    values = {name: rng.uniform(0.5, 2, channels).astype(np.float32) for name in names}
    return helper.make_node("BatchNormalization", [x, *names], [y], y), values


def shared_filters() -> Any:
    """Filters behind a convolution alone, behind two, behind a view of them, and among the outputs."""
    rng = np.random.default_rng(0)
    shape = (CHANNELS, CHANNELS, 1, 1)
    initial = {
        name: (rng.standard_normal(shape) / 14).astype(np.float32)
        for name in ("alone", "twice", "viewed", "kept")
    }
    initial["shape"] = np.array(shape)
    nodes = [
        helper.make_node("Reshape", ["viewed", "shape"], ["view"]),
    ]
    outputs = ["kept"]
    for i, name in enumerate(("alone", "twice", "twice", "viewed", "view", "kept")):
        node, values = norm(f"c{i}", f"y{i}", i)
        nodes += [helper.make_node("Conv", ["x", name], [f"c{i}"], f"c{i}"), node]
        initial |= values
        outputs.append(f"y{i}")
    graph = helper.make_graph(
        nodes,
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, CHANNELS, 5, 5))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in initial.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def shared_matrices() -> Any:
    """Weights of one product, of two, and of one that are among the outputs; products transpose them."""
    rng = np.random.default_rng(0)
    initial = {
        name: (rng.standard_normal((CHANNELS, CHANNELS)) / 14).astype(np.float32)
        for name in ("alone", "twice", "kept")
    }
    names = ("alone", "twice", "twice", "kept")
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{i}"], f"y{i}") for i, name in enumerate(names)]
    outputs = ["kept", *(f"y{i}" for i in range(len(names)))]
    graph = helper.make_graph(
        nodes,
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 5, CHANNELS))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in initial.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("make", "shape"), [(shared_filters, (2, CHANNELS, 5, 5)), (shared_matrices, (2, 5, CHANNELS))]
)
def test_shared_weights_are_not_overwritten(
    device: clcnn.Device, tmp_path: Path, make: Callable[[], Any], shape: tuple[int, ...]
) -> None:
    path = tmp_path / "shared.onnx"
    onnx.save(make(), path)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    with (
        InferenceSession(path, device=device) as donated,
        InferenceSession(path.read_bytes(), device=device) as whole,
    ):
        for name, ours, wanted in zip(
            [o.name for o in whole.get_outputs()], donated.run(None, {"x": x}), whole.run(None, {"x": x})
        ):
            np.testing.assert_array_equal(ours, wanted, name)
        # asked for again, the model comes from the file
        for name, array in whole.model.arrays.items():
            np.testing.assert_array_equal(donated.model.arrays[name], array, name)


def test_arrays_of_a_graph_are_overwritten_only_when_spent(device: clcnn.Device) -> None:
    loaded = clcnn.onnx.load(shared_filters().SerializeToString())
    before = {name: array.copy() for name, array in loaded.arrays.items()}
    program = loaded.specialise()
    assert program.graph is not None
    clcnn.compile(program.graph, device=device).close()
    for name, array in before.items():
        np.testing.assert_array_equal(loaded.arrays[name], array, name)
    program.graph._donate(program.fixed.values())
    clcnn.compile(program.graph, device=device).close()
    changed = {n for n, array in before.items() if (loaded.arrays[n] != array).any()}
    assert "alone" in changed and not changed & {"viewed", "kept"}


def test_only_constants_are_spent() -> None:
    graph = clcnn.Graph()
    x = graph.input("x", (1, 3))
    refused(lambda: graph._core.donate(x.id), clcnn.ArgumentError, ValueError, "value 0 is no constant")
    refused(lambda: graph._core.donate(7), clcnn.ArgumentError, ValueError, "value 7 does not exist")


def test_loading_takes_twice_the_file(device: clcnn.Device, tmp_path: Path) -> None:
    """The bytes of the file and protobuf's copy of them; folding and packing 4 layers of 8 MiB need less. A
    copy of all weights more would be three times the file."""
    if device.type != "cpu" or not Path("/proc/self/status").exists():
        pytest.skip("counts the resident set of a CPU device on Linux")
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the sanitizers keep freed memory")
    nodes, initial, last = [], {}, "x"
    for i in range(4):
        initial[f"w{i}"] = np.random.default_rng(i).standard_normal((1024, 2048, 1, 1)).astype(np.float32)
        initial[f"v{i}"] = initial[f"w{i}"].reshape(2048, 1024, 1, 1)
        for weights, channels in ((f"w{i}", 1024), (f"v{i}", 2048)):
            node, values = norm(f"{weights}_conv", f"{weights}_norm", i, channels)
            nodes += [helper.make_node("Conv", [last, weights], [f"{weights}_conv"], weights), node]
            initial |= values
            last = node.output[0]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2048, 1, 1))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in initial.items()],
    )
    path = tmp_path / "large.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    code = f"""
        import clcnn, clcnn.onnx, clcnn.session
        def status(field):
            rows = open("/proc/self/status").read().splitlines()
            return next(int(row.split()[1]) for row in rows if row.startswith(field + ":"))
        device = clcnn.Device({device.index})
        before = status("VmRSS")
        clcnn.InferenceSession({str(path)!r}, device=device)
        print((status("VmHWM") - before) * 1024 / {path.stat().st_size})
        """
    python(code)  # builds the kernels, which takes memory too
    taken = float(python(code))
    assert taken < 2.15, f"{taken} times the file"
