"""`python -m clcnn` on ONNX files: run, bench, verify, summary, explain."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import DEVICE, ROOT

import clcnn
from clcnn import cli
from helpers import refused

pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from clcnn.cli import bench, onnx_input  # noqa: E402
from clcnn.onnx import verify  # noqa: E402
from session_models import convolution, expected, model_bytes, photo, weights  # noqa: E402


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process: its status, what it printed and what it complained of."""

    def call(command: str, *args: object) -> tuple[int, str, str]:
        device = ["--device", DEVICE] if command != "summary" else []
        status = cli.main([command, *map(str, args), *device])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolution())
    return path


@pytest.fixture
def grey(tmp_path: Path) -> Path:
    """A model of one grey channel that gives back its input: y = x + 0."""
    nodes = [helper.make_node("Add", ["x", "zero"], ["y"])]
    rows = [(name, TensorProto.FLOAT, ["n", 1, 4, 6]) for name in "xy"]
    path = tmp_path / "grey.onnx"
    path.write_bytes(model_bytes(nodes, rows[:1], rows[1:], {"zero": np.zeros(1, np.float32)}))
    return path


Run = Callable[..., tuple[int, str, str]]


# ---- run ----


def test_run_on_an_array(run: Run, model: Path, tmp_path: Path) -> None:
    x = photo(2, 3, 9, 7)
    np.save(tmp_path / "x.npy", x)
    status, out, _ = run("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz")
    assert status == 0
    assert [line.split()[:3] for line in out.splitlines()[2:]] == [
        ["y", "float32", "2x4"],
        ["maps", "float32", "2x4x9x7"],
    ]
    with np.load(tmp_path / "y.npz") as results:
        np.testing.assert_allclose(results["y"], expected(x), atol=1e-5)
    np.savez(tmp_path / "x.npz", x=x)
    status, out, _ = run("run", model, "--input", tmp_path / "x.npz", "--json")
    report = json.loads(out)
    assert [row["shape"] for row in report["outputs"]] == [[2, 4], [2, 4, 9, 7]] and report["ms"] > 0


def test_run_on_several_inputs(run: Run, tmp_path: Path) -> None:
    rows = [(name, TensorProto.FLOAT, ["n", 2]) for name in ("a", "b", "y")]
    path = tmp_path / "sub.onnx"
    path.write_bytes(model_bytes([helper.make_node("Sub", ["a", "b"], ["y"])], rows[:2], rows[2:]))
    a, b = photo(3, 2), photo(3, 2, seed=1)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    out = tmp_path / "y.npy"
    named = ["--input", f"b={tmp_path}/b.npy", "--input", tmp_path / "a.npy"]
    assert run("run", path, *named, "--output", out)[0] == 0
    assert (np.load(out) == a - b).all()


def test_run_on_an_image(run: Run, model: Path, grey: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "p.png")
    out = tmp_path / "y.npz"
    status, _, _ = run("run", grey, "--input", tmp_path / "p.png", "--shape", "n=3", "--output", out)
    assert status == 0
    with np.load(out) as results:
        y = results["y"]
    luma = pixels @ np.array([0.299, 0.587, 0.114])
    assert y.shape == (3, 1, 4, 6) and np.abs(y - luma / 255).max() < 3e-3
    args = ["--mean", "0.5,0.4,0.3", "--std", "2", "--shape", "x=1,3,4,6", "--output", out]
    assert run("run", model, "--input", tmp_path / "p.png", *args)[0] == 0
    x = (pixels.transpose(2, 0, 1)[None] / 255 - np.array([0.5, 0.4, 0.3])[:, None, None]) / 2
    with np.load(out) as results:
        np.testing.assert_allclose(results["y"], expected(x.astype(np.float32)), atol=1e-5)


def test_run_on_an_image_with_channels_last(run: Run, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rows = [("x", TensorProto.FLOAT, ["n", "h", "w", 3]), ("y", TensorProto.FLOAT, ["n", 3, "h", "w"])]
    path, out = tmp_path / "nhwc.onnx", tmp_path / "y.npy"
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 3, 1, 2])
    path.write_bytes(model_bytes([node], rows[:1], rows[1:]))
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "p.png")
    assert run("run", path, "--input", tmp_path / "p.png", "--output", out)[0] == 0
    assert (np.load(out)[0] == pixels.transpose(2, 0, 1) / np.float32(255)).all()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "missing ['x']"),
        (["--input", "x.npy", "--shape", "n=2"], "expected shape (2, 3, h, w), got (1, 3, 5, 5)"),
        (["--input", "x.npy", "--shape", "x=1,3,6,5"], "--shape says (1, 3, 6, 5)"),
        (["--input", "x.npy", "--shape", "q=2"], "no such symbol or input"),
        (["--input", "x.npy", "--shape", "n=2,3"], "a symbol has one size"),
        (["--input", "x.npy", "--output", "y.txt"], "must end in .npz or .npy"),
        (["--input", "x.npy", "--output", "y.npy"], "holds one array"),
        (["--input", "x.npy", "--input", "x.npy"], "all inputs of the model, ['x'], have their file"),
        (["--input", "z.npz"], "'z' is no input of the model"),
        (["--input", "none.npy"], "none.npy"),
        (["--input", "words.jpg"], "not a readable image"),
        (["--input", "double.npy"], "expected tensor(float), an array of float32, got float64"),
    ],
)
def test_what_cannot_be_run(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", photo(1, 3, 5, 5))
    np.save("double.npy", np.ones((1, 3, 5, 5)))
    np.savez("z.npz", z=photo(1, 3, 5, 5))
    Path("words.jpg").write_text("no image")
    status, out, err = run("run", model, *args)
    assert (status, out) == (2, "") and message in err and len(err.splitlines()) == 1


def test_files_that_are_no_models(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\xff" * 100)
    for command in ("run", "bench", "verify", "summary", "explain"):
        status, _, err = run(command, path)
        assert status == 2 and "x.onnx" in err and len(err.splitlines()) == 1
        status, _, err = run(command, tmp_path / "none.onnx")
        assert status == 2 and "none.onnx" in err


# ---- bench ----


def test_bench(run: Run, model: Path) -> None:
    args = ["--shape", "h=8", "--shape", "w=8", "--batch", 4, "--seconds", 0.01]
    status, out, _ = run("bench", model, *args, "--json")
    report = json.loads(out)
    assert status == 0 and report["batch"] == 4 and report["first_run_ms"] > 0
    (row,) = report["results"]
    assert (
        row["who"] == "clcnn" and row["rounds"] >= bench.MIN_ROUNDS and 0 < row["min_ms"] <= row["median_ms"]
    )
    assert "batch 4" in run("bench", model, *args)[1]


def test_bench_against_onnxruntime(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    args = ["--shape", "x=2,3,8,8", "--seconds", 0.01, "--against", "onnxruntime"]
    report = json.loads(run("bench", model, *args, "--json")[1])
    assert [row["who"] for row in report["results"]] == ["clcnn", "onnxruntime"]
    assert 0 <= report["largest_error"] < 1e-5 and report["batch"] == 2
    assert "ratio " in run("bench", model, *args)[1]
    other = model.with_name("other.onnx")
    other.write_bytes(
        convolution().replace(weights(4, 3, 3, 3).tobytes(), np.ones(108, np.float32).tobytes())
    )
    load = bench.onnxruntime_run
    monkeypatch.setattr(bench, "onnxruntime_run", lambda path, feed: load(str(other), feed))
    status, out, err = run("bench", model, *args)
    assert (status, out) == (2, "") and "disagree by" in err


def test_bench_says_what_it_lacks(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = run("bench", model)
    assert status == 2 and "has the open shape (n, 3, h, w): give --shape h=N or --shape x=N,N,..." in err
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    status, _, err = run("bench", model, "--shape", "x=1,3,8,8", "--against", "onnxruntime")
    assert status == 2 and "pip install onnxruntime" in err
    model.write_bytes(convolution(1, 8, 8))
    status, _, err = run("bench", model, "--batch", 2)
    assert status == 2 and "the model's batch is fixed" in err


def test_random_inputs_are_of_each_type() -> None:
    nodes = [helper.make_node("Where", ["c", "i", "i"], ["y"])]
    inputs = [("c", TensorProto.BOOL, [3]), ("i", TensorProto.INT64, ["n"])]
    model = clcnn.onnx.load(model_bytes(nodes, inputs, [("y", TensorProto.INT64, ["n"])]))
    made = onnx_input.random_inputs(model, onnx_input.shapes_of(model, [("n", (3,))]))
    assert made["c"].dtype == np.bool_ and made["i"].dtype == np.int64 and made["i"].shape == (3,)
    assert set(made["i"]) <= {0, 1}


def test_values_that_decide_shapes_are_not_guessed() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    inputs = [("x", TensorProto.FLOAT, [4]), ("s", TensorProto.INT64, [2])]
    model = clcnn.onnx.load(model_bytes(nodes, inputs, [("y", TensorProto.FLOAT, ["a", "b"])]))
    refused(
        lambda: onnx_input.random_inputs(model, {"x": (4,), "s": (2,)}),
        clcnn.ArgumentError,
        ValueError,
        "['s'] decide shapes",
    )


# ---- summary and explain ----


def test_summary_and_explain(run: Run, model: Path) -> None:
    sizes = ["--shape", "h=8", "--shape", "w=6"]
    status, out, _ = run("summary", model, *sizes, "--shape", "n=2")
    assert status == 0 and "2x4x8x6" in out and "108 parameters" in out
    assert run("summary", model, "--input", "2,3,8,6")[1] == out
    status, out, _ = run("explain", model, *sizes)
    assert status == 0 and "conv: conv" in out and "* " in out
    status, _, err = run("summary", "lenet5", "--shape", "n=2")
    assert status == 2 and "--shape is for ONNX files" in err


# ---- verify ----


def test_verify(run: Run, model: Path) -> None:
    status, out, _ = run("verify", model, "--shape", "x=2,3,8,8", "--all")
    assert status == 0 and out.splitlines()[-1].startswith("6 agree, 0 depart, 0 not checked")
    for node in ("conv", "relu", "pool", "flat"):
        assert any(line.split()[0] == node and "reference" in line for line in out.splitlines())
    assert out.count(verify.FUSED) == 2
    report = json.loads(run("verify", model, "--shape", "x=2,3,8,8", "--json")[1])
    assert {row["verdict"] for row in report["nodes"]} == {"agrees"}
    assert max(row["error"] for row in report["nodes"]) < 1e-5


@pytest.mark.parametrize("against", ["reference", "onnxruntime"])
def test_verify_names_the_first_node_that_departs(against: str, model: Path, tmp_path: Path) -> None:
    """With a kernel that is wrong: pooling departs, the node after it does not, since it does what it
    should with what it gets."""
    if against == "onnxruntime":
        pytest.importorskip("onnxruntime")
    kernels = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    for file, right, wrong in (
        ("adaptive_pool_global.cl", ": v / a->divisor", ": 2.0f * v / a->divisor"),
        ("pool_blocked.cl", "(first, past, 1, past - first)", "(first, past, 1, 1)"),
    ):
        path = kernels / "pool" / file
        text = path.read_text("utf-8")
        assert right in text
        path.write_text(text.replace(right, wrong), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "clcnn", "verify", model, "--shape", "x=2,3,8,8", "--device", DEVICE]
        + ["--against", against],
        env={**os.environ, "CLCNN_KERNEL_DIR": str(kernels)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("the first that departs: pool (GlobalAveragePool): ") and " instead of " in last
    assert "1 depart" in done.stdout
