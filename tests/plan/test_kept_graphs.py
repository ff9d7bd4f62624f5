"""Graphs of ONNX files in the cache folder: found again, and only for what they are of."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import _onnx_file
from clcnn._graph import kept
from helpers import python

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SHAPE = (3, 256)
LARGE = (256, 256)  # weights that are read from the file


def model(seed: int = 0, external: str | None = None) -> Any:
    """x W + b, times a factor that is folded; and the same for another W."""
    rng = np.random.default_rng(seed)
    initial = {
        "w": rng.standard_normal(LARGE),
        "v": rng.standard_normal(LARGE),
        "b": rng.standard_normal(256),
    }
    tensors = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in initial.items()]
    tensors.append(numpy_helper.from_array(np.array([2.0, 0.5], np.float32), "factors"))
    tensors.append(numpy_helper.from_array(np.array(1), "which"))
    nodes = [
        helper.make_node("Gather", ["factors", "which"], ["factor"]),
        helper.make_node("MatMul", ["x", "w"], ["xw"], "first"),
        helper.make_node("Add", ["xw", "b"], ["sum"], "bias"),
        helper.make_node("Mul", ["sum", "factor"], ["scaled"], "scale"),
        helper.make_node("MatMul", ["scaled", "v"], ["y"], "second"),
    ]
    graph = helper.make_graph(
        nodes,
        "two products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("rows", 256))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were imported, and not found in the cache, which is a new one."""
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path / "cache"))
    found: list[str] = []
    load = clcnn.onnx.load
    monkeypatch.setattr(clcnn.onnx, "load", lambda path: found.append(Path(path).name) or load(path))
    return found


def answer(path: Path, device: clcnn.Device) -> Any:
    x = np.random.default_rng(9).standard_normal(SHAPE).astype(np.float32)
    with clcnn.compile(str(path), SHAPE, device) as plan:
        return plan(x), [row.name for row in plan.rows]


def test_the_same_plan_without_an_import(
    tmp_path: Path, device: clcnn.Device, imports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    with monkeypatch.context() as without:
        without.setenv("CLCNN_CACHE_DIR", "0")
        wanted, _ = answer(path, device)
    imports.clear()
    first, rows = answer(path, device)
    assert imports == ["net.onnx"]
    second, again = answer(path, device)
    assert imports == ["net.onnx"] and rows == again
    assert np.array_equal(first, wanted) and np.array_equal(second, wanted)


@pytest.mark.parametrize("shape", [{"x": SHAPE}, [SHAPE], (4, 256)])
def test_each_shape_has_its_own(tmp_path: Path, device: clcnn.Device, imports: list[str], shape: Any) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    answer(path, device)
    for _ in range(2):
        with clcnn.compile(str(path), shape, device) as plan:
            assert plan.inputs["x"] == (SHAPE if shape != (4, 256) else shape)
    assert imports == ["net.onnx"] * 2


def test_a_file_that_has_changed_is_imported(
    tmp_path: Path, device: clcnn.Device, imports: list[str]
) -> None:
    """In its weights alone, with its size and its time of modification as they were."""
    path, other = tmp_path / "net.onnx", tmp_path / "other.onnx"
    onnx.save(model(), path)
    onnx.save(model(1), other)
    first, _ = answer(path, device)
    before = path.stat()
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size and path.stat().st_mtime_ns == before.st_mtime_ns
    changed, _ = answer(path, device)
    assert imports == ["net.onnx", "net.onnx"]
    assert not np.array_equal(first, changed)
    assert np.array_equal(changed, answer(other, device)[0])
    shutil.copy(other, path)
    assert np.array_equal(changed, answer(path, device)[0])


def test_entries_that_are_damaged_or_gone(tmp_path: Path, device: clcnn.Device, imports: list[str]) -> None:
    path, cache = tmp_path / "net.onnx", tmp_path / "cache"
    onnx.save(model(), path)
    wanted, _ = answer(path, device)

    def entry() -> Path:
        (found,) = [f for f in cache.rglob("*.bin") if f.read_bytes().startswith(kept.FORM)]
        return found

    for damage in (
        lambda data: data[:-1],
        lambda data: data[: len(kept.FORM) + 3],
        lambda data: b"",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: kept.FORM + clcnn._core.hash128(b"") + b"",
    ):
        found = entry()
        found.write_bytes(damage(found.read_bytes()))
        imports.clear()
        assert np.array_equal(answer(path, device)[0], wanted)
        assert imports == ["net.onnx"] and found == entry()
    entry().unlink()
    assert np.array_equal(answer(path, device)[0], wanted)


def test_what_is_not_kept(
    tmp_path: Path, device: clcnn.Device, imports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with parts in another file; one whose folded constants are many; without a cache folder."""
    path = tmp_path / "outside.onnx"
    onnx.save(model(), path, save_as_external_data=True, location="outside.data", size_threshold=1024)
    answer(path, device)
    answer(path, device)
    assert imports == ["outside.onnx"] * 2
    imports.clear()
    whole = tmp_path / "net.onnx"
    onnx.save(model(), whole)
    monkeypatch.setattr(kept, "MOST_BYTES", 0)
    answer(whole, device)
    answer(whole, device)
    assert imports == ["net.onnx"] * 2
    monkeypatch.undo()
    monkeypatch.setenv("CLCNN_CACHE_DIR", "0")
    answer(whole, device)
    assert not _onnx_file._shapes_text([("no", "shape")])


def test_errors_are_those_of_the_import(tmp_path: Path, device: clcnn.Device, imports: list[str]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    for _ in range(2):
        with pytest.raises(clcnn.ShapeError, match="input 'x': expected shape"):
            clcnn.compile(str(path), (3, 7), device)
        with pytest.raises(clcnn.ShapeError, match=r"input 'x': \('a',\) is no shape"):
            clcnn.compile(str(path), [("a",)], device)
    with pytest.raises(OSError, match="none.onnx"):
        clcnn.compile(str(tmp_path / "none.onnx"), SHAPE, device)
    path.write_bytes(b"no model")
    with pytest.raises(clcnn.ModelError, match="not an ONNX model"):
        clcnn.compile(str(path), SHAPE, device)


def test_a_pipe_can_be_compiled(tmp_path: Path, device: clcnn.Device, imports: list[str]) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(model().SerializeToString()))
    writer.start()
    clcnn.compile(str(pipe), SHAPE, device).close()
    writer.join()
    assert imports == ["pipe.onnx"]


def test_the_package_onnx_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    code = f"import sys, clcnn\nclcnn.compile({str(path)!r}, {SHAPE}).close()\nprint('onnx' in sys.modules)"
    said = [python(code, CLCNN_CACHE_DIR=str(tmp_path / "cache")).strip() for _ in range(2)]
    assert said == ["True", "False"]


def test_steps_that_are_kept_are_the_same() -> None:
    """Attributes of every kind, infinite ones, constants of other types, literals."""
    g = clcnn.Graph()
    x = g.input("x", (2, 4, 6, 6))
    y = clcnn.ops.clip(x * 2.0, min=-float("inf"), max=3.0)
    y = clcnn.ops.max_pool(y, kernel_size=2, stride=2, padding=(0, 0, 0, 0), name="pool")
    index = g.constant(np.array([2, 0], np.int64), "index")
    g.output(clcnn.ops.gather(y, index, dim=1), "y")
    g.output(y, "pooled")
    data = kept.pack(g, [])
    with open(os.devnull, "rb") as nothing:
        again = kept.unpack(data, nothing)

    assert len(again.records) == len(g.records)
    for ours, theirs in zip(again.records, g.records):
        assert ours._replace(array=None, attrs={}) == theirs._replace(array=None, attrs={})
        assert ours.attrs.keys() == theirs.attrs.keys()
        for key, value in theirs.attrs.items():
            assert np.array_equal(ours.attrs[key], value), key
        if theirs.array is not None:
            assert ours.array is not None and ours.array.dtype == theirs.array.dtype
            assert np.array_equal(ours.array, theirs.array)
    g.state("s", (1,))
    with pytest.raises(kept.Unfit):
        kept.pack(g, [])
