"""Programs that other processes build: what they leave in the disk cache, and processes that do not do their
part."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import DEVICE

import clcnn
import device_face
from clcnn._background import builders

PROGRAMS = [(f"own{i}", f"kernel void own{i}_k_main(global float *x) {{ x[0] = {i}; }}") for i in range(5)]
BROKEN = ("broken", "kernel void broken_k_main(global float *x) { x[0] = nothing; }" + " " * 100)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL keeps what it compiles itself, unless it is told not to."""
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")


def built_here(folder: Path) -> int:
    """How many of PROGRAMS a device with this cache builds from source."""
    with clcnn.Device(DEVICE, cache_dir=folder) as device:
        for file, text in PROGRAMS:
            device._build(file, text)
        stats = device.stats()
    assert stats["programs_built"] + stats["programs_loaded"] == len(PROGRAMS)
    return stats["programs_built"]


def test_programs_are_in_the_cache(device: clcnn.Device, tmp_path: Path) -> None:
    told: list[int] = []
    assert builders.build(PROGRAMS, device.index, str(tmp_path), 2, told.append) == len(PROGRAMS)
    assert told == sorted(told) and told[-1] == len(PROGRAMS)
    assert built_here(tmp_path) == 0


def test_a_program_that_does_not_build_is_passed_over(device: clcnn.Device, tmp_path: Path) -> None:
    programs = [BROKEN, *PROGRAMS]
    assert builders.build(programs, device.index, str(tmp_path), 1, lambda done: None) == len(programs)
    assert len(list(tmp_path.rglob("*.bin"))) == len(PROGRAMS)


@pytest.mark.parametrize("index", [10**6, 0])
def test_processes_that_end_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    """There is no such device, or the interpreter knows nothing of clcnn."""
    if index == 0:
        monkeypatch.setattr(sys, "path", [])
    assert builders.build(PROGRAMS, index, str(tmp_path), 2, lambda done: None) == 0
    assert built_here(tmp_path) == len(PROGRAMS)


def test_one_that_dies_leaves_the_others_its_share(
    device: clcnn.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, killed = builders._Child.take, []

    def kill_first(child: builders._Child, file: str, text: str) -> bool:
        if not killed:
            killed.append(child)
            child._process.kill()
            child._process.wait()
        return take(child, file, text)

    monkeypatch.setattr(builders._Child, "take", kill_first)
    done = builders.build(PROGRAMS, device.index, str(tmp_path), 2, lambda done: None)
    assert done == len(PROGRAMS) - 1  # the program that it was given
    assert built_here(tmp_path) == 1


def test_stopping_ends_them(device: clcnn.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[builders._Child] = []
    begin = builders._Child.__init__

    def note(child: builders._Child, index: int, cache_dir: str) -> None:
        begin(child, index, cache_dir)
        children.append(child)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(builders._Child, "__init__", note)
    with pytest.raises(KeyboardInterrupt):
        builders.build(PROGRAMS, device.index, str(tmp_path), 2, stop)
    assert len(children) == 2 and all(child._process.returncode is not None for child in children)


@pytest.mark.parametrize(
    ("most", "programs", "gib", "want"),
    [(16, 36, 141, 8), (16, 9, 141, 3), (16, 36, 8, 2), (16, 36, 4, 0), (2, 36, 141, 2), (16, 5, 141, 0)],
)
def test_how_many(monkeypatch: pytest.MonkeyPatch, most: int, programs: int, gib: int, want: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    assert builders.processes(most, programs, gib << 30) == want


@pytest.mark.parametrize("executable", ["", None, "/usr/bin/uwsgi"])
def test_none_without_an_interpreter(monkeypatch: pytest.MonkeyPatch, executable: str | None) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert builders.processes(16, 36, 141 << 30) == 0


COMPILE = """
import json, sys
import numpy as np
import clcnn
from clcnn import nn

net = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, groups=8), nn.Sigmoid(),
    nn.ConvTranspose2d(16, 8, 2, stride=2), nn.LayerNorm((18, 18)), nn.AdaptiveAvgPool2d(5), nn.Softmax(1),
    nn.Flatten(), nn.Linear(200, 7),
)
x = np.random.default_rng(0).standard_normal((1, 3, 24, 24)).astype(np.float32)
with clcnn.Device(cache_dir=sys.argv[1], build_threads=int(sys.argv[2])) as device:
    plan = clcnn.compile(net, x.shape, device=device)
    stats = device.stats()
print(json.dumps([stats["programs_built"], stats["programs_loaded"]]))
"""


def test_compiles_for_nvidia_gpus_ask_them(device: clcnn.Device, tmp_path: Path) -> None:
    """A device that passes for a GPU without tensor cores, whose kernels PoCL builds, too."""
    if device.type != "cpu":
        pytest.skip("a CPU device is to pass for a GPU")
    made = {
        threads: json.loads(
            device_face.run(tmp_path, COMPILE, str(tmp_path / threads), threads, FACE_CAPABILITY="60")
        )
        for threads in ("1", "4")
    }
    alone, helped = made["1"], made["4"]
    assert alone[0] >= 8 and alone[1] == 0
    assert sum(helped) == sum(alone) and helped[1] >= 8
