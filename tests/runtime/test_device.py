"""Devices: listing, opening, options from arguments and the environment, and what goes wrong without one."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE, ROOT

import clcnn
import device_face
from clcnn import device as devices
from clcnn import nn, ops
from helpers import python, refused


@pytest.fixture
def own_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry of shared devices for one test."""
    monkeypatch.setattr(devices, "_opened", {})
    yield
    for opened in devices._opened.values():
        opened.close()


def relu() -> clcnn.Graph:
    g = clcnn.Graph()
    g.output(ops.relu(g.input("x", (3,))), "y")
    return g


def test_listing_and_opening_agree(device: clcnn.Device) -> None:
    found = clcnn.devices()
    assert [d.index for d in found] == list(range(len(found)))
    assert asdict(found[device.index]) == device.info()
    assert found[device.index].type == device.type and device.compute_units > 0
    assert found[device.index].name in found._repr_html_() and device.name in device._repr_html_()
    assert repr(device).startswith(f"<clcnn.Device {device.index}: {device.name}")


def test_selectors_lead_to_the_same_hardware(device: clcnn.Device) -> None:
    info = clcnn.devices()[device.index]
    for selector in (
        device.index,
        str(device.index),
        info,
        device.name.upper(),
        f"{device.platform}:{device.name}",
    ):
        with clcnn.Device(selector) as again:
            assert again.index == device.index


def test_info_has_every_field(device: clcnn.Device) -> None:
    for key, value in device.info().items():
        assert getattr(device, key) == value
    with pytest.raises(AttributeError):
        device.name = "other"  # type: ignore[misc]


def test_shared_devices(device: clcnn.Device, own_devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = devices.get(device.index)
    assert devices.get(device.index) is shared and devices.get(str(device.index)) is shared
    assert devices.get(device) is device
    assert devices.get(clcnn.devices()[device.index]) is shared
    monkeypatch.setenv("CLCNN_DEVICE", str(device.index))
    assert devices.get() is shared
    assert clcnn.compile(relu()).device is shared
    shared.close()
    assert not devices.get(device.index).closed


def test_a_device_opens_while_the_model_is_read(own_devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, opening = threading.Event(), devices.Device

    class Waits(nn.Module):
        def forward(self, x: Any) -> Any:
            reading.set()
            return ops.relu(x)

    def opened(*given: Any, **options: Any) -> clcnn.Device:
        assert reading.wait(20) and threading.current_thread() is not threading.main_thread()
        return opening(*given, **options)

    monkeypatch.setattr(devices, "Device", opened)
    with clcnn.compile(Waits(), (1, 3), DEVICE) as plan:
        assert plan(np.ones((1, 3), np.float32)).sum() == 3
    with clcnn.compile(relu(), device=DEVICE) as again:
        assert again(np.ones(3, np.float32)).sum() == 3, "from now on it is there at once"
    assert len(devices._opened) == 1


def test_a_wrong_model_is_told_before_a_wrong_device(own_devices: None) -> None:
    refused(lambda: clcnn.compile(nn.Conv2d(3, 4, 3), (1, 2, 8, 8), "gone"), clcnn.ShapeError, ValueError)
    refused(lambda: clcnn.compile(relu(), device="gone"), clcnn.NoDeviceError, RuntimeError, "gone")


def test_the_process_ends_while_a_device_opens() -> None:
    """A model is refused at once, and the program with it."""
    said = python("""
        import clcnn
        try:
            clcnn.compile(clcnn.nn.Conv2d(3, 4, 3), (1, 2, 8, 8))
        except clcnn.ShapeError as error:
            print("refused")
    """)
    assert said.split() == ["refused"]


def test_the_context_manager_closes() -> None:
    with clcnn.Device(DEVICE) as own:
        assert not own.closed
        own.finish()
    assert own.closed and "closed" in repr(own)
    own.close()


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("123", 123), ("2K", 2048), ("1.5 MiB", 3 << 19), ("3gb", 3 << 30), (7, 7)]
)
def test_sizes(text: str | int, count: int) -> None:
    assert devices.parse_bytes(text, "x") == count


@pytest.mark.parametrize("text", ["", "K", "-1", "nan", "1e400", "2X", "1 2", "9999999T"])
def test_sizes_that_are_none(text: str) -> None:
    refused(
        lambda: devices.parse_bytes(text, "limit"),
        clcnn.ArgumentError,
        ValueError,
        "limit: expected",
        repr(text),
    )


def test_the_kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(**options: Any) -> tuple[int, int]:
        with clcnn.Device(DEVICE, **options) as own:
            clcnn.compile(relu(), device=own)(np.ones(3, np.float32))
            return own.stats()["programs_built"], own.stats()["programs_loaded"]

    folder = tmp_path / "kernels"
    monkeypatch.delenv("POCL_KERNEL_CACHE", raising=False)
    with clcnn.Device(DEVICE) as own:
        kept = "Portable" in own.platform
    made, loaded = counts(cache_dir=folder)
    assert made > 0 and loaded == 0 and any(folder.iterdir())
    assert counts(cache_dir=folder) == (0, made)
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    assert counts(cache_dir=folder) == ((made, 0) if kept else (0, made))  # kernels and all now
    assert counts(cache_dir=folder) == (0, made)
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(folder))
    assert counts() == (0, made)
    assert counts(cache_dir=False) == (made, 0)
    monkeypatch.setenv("CLCNN_CACHE_DIR", "0")
    assert counts() == (made, 0)
    monkeypatch.delenv("CLCNN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (
        devices.cache_folder() == devices.default_cache_dir()
        and devices.default_cache_dir().name == "kernels"
    )


def test_an_argument_block_of_one_family_leaves_the_kernels_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of a compiled kernel is made of its text: a block that all of them saw would empty caches."""
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    kernels, cache = tmp_path / "kernels", tmp_path / "cache"
    shutil.copytree(ROOT / "kernels", kernels)
    g = clcnn.Graph()
    x = g.input("x", (1, 3, 8, 8))
    g.output(ops.softmax(ops.pad(x, pads=(0, 0, 1, 1, 0, 0, 1, 1)), dim=1), "y")

    def counts() -> tuple[int, int]:
        with (
            clcnn.Device(DEVICE, cache_dir=cache, kernel_dir=kernels) as own,
            clcnn.compile(g, device=own, chain=False),
        ):
            return own.stats()["programs_built"], own.stats()["programs_loaded"]

    assert counts() == (2, 0)
    assert counts() == (0, 2)
    header = kernels / "norm_reduce" / "norm_reduce_args.h"
    block = "struct added_args {\n    i64 rows;\n};\n\n#endif\n"
    header.write_text(header.read_text().removesuffix("#endif\n") + block)
    assert counts() == (1, 1)


def test_the_memory_limit_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLCNN_MEMORY_LIMIT", "1M")
    with clcnn.Device(DEVICE) as own, pytest.raises(clcnn.DeviceMemoryError):
        clcnn.Tensor(own, (1 << 20,))


# ---- bad input ----


@pytest.mark.parametrize("selector", ["no such device", 99, "-1", "cpu:nothing"])
def test_unknown_devices(selector: str | int) -> None:
    refused(
        lambda: clcnn.Device(selector), clcnn.NoDeviceError, RuntimeError, str(selector).removeprefix("cpu:")
    )


@pytest.mark.parametrize("selector", [1.5, b"cpu", {"cpu"}])
def test_selectors_of_another_kind(selector: Any) -> None:
    refused(lambda: clcnn.Device(selector), clcnn.DtypeError, TypeError, repr(selector))
    refused(lambda: clcnn.compile(relu(), device=selector), clcnn.DtypeError, TypeError, repr(selector))


def test_other_device_options(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(
        lambda: clcnn.Device(DEVICE, memory_limit="2X"),
        clcnn.ArgumentError,
        ValueError,
        "memory_limit",
        "'2X'",
    )
    refused(
        lambda: clcnn.Device(DEVICE, build_threads=-1), clcnn.ArgumentError, ValueError, "build_threads", "-1"
    )
    monkeypatch.setenv("CLCNN_MEMORY_LIMIT", "lots")
    refused(lambda: clcnn.Device(DEVICE), clcnn.ArgumentError, ValueError, "CLCNN_MEMORY_LIMIT", "'lots'")
    monkeypatch.setenv("CLCNN_DEVICE", "no such device")
    monkeypatch.delenv("CLCNN_MEMORY_LIMIT")
    refused(clcnn.Device, clcnn.NoDeviceError, RuntimeError, "no such device")


NO_DEVICE = """
    import clcnn
    for call in (clcnn.devices, clcnn.Device, lambda: clcnn.Device("gpu")):
        try:
            call()
        except clcnn.NoDeviceError as error:
            print(error)
    g = clcnn.Graph()
    print(clcnn.ops.relu(g.input("x", (2, 3))).shape)
"""


def test_no_platform(tmp_path: Path) -> None:
    out = python(NO_DEVICE, OCL_ICD_VENDORS=str(tmp_path)).splitlines()
    assert len(out) == 4 and out[3] == "(2, 3)", "graphs need no device"
    assert all(str(tmp_path) in line and "install" in line for line in out[:3])


def test_a_driver_that_is_no_driver(tmp_path: Path) -> None:
    (tmp_path / "broken.icd").write_text(str(tmp_path / "libmissing.so") + "\n")
    out = python(NO_DEVICE, OCL_ICD_VENDORS=str(tmp_path)).splitlines()
    assert len(out) == 4 and all("broken.icd" in line for line in out[:3])


# ---- inputs on their way to a GPU ----

INPUTS = """
import json
import numpy as np
from clcnn import _core

with _core.Device("gpu") as device:
    graph = _core.Graph()
    given = [graph.input(f"x{i}", (300_000,)) for i in range(4)]
    total = given[0]
    for i, value in enumerate(given[1:]):
        (total,) = graph.node("add", f"sum{i}", [total, value], {})
    graph.output(total, "y")
    rng = np.random.default_rng(0)
    right = []
    with _core.Plan(device, graph) as plan:
        before = device.stats()["live_objects"]
        for _ in range(3):
            x = [rng.integers(-9, 9, 300_000).astype(np.float32) for _ in given]
            right.append(bool((plan.run(x)[0] == sum(x)).all()))
        kept = device.stats()["live_objects"] - before
    print(json.dumps({"right": right, "kept": kept}))
"""


@pytest.mark.parametrize(("fault", "kept"), [("", 1), ("clEnqueueMapBuffer:1:-12", 0)])
def test_inputs_of_gpus_go_through_pinned_memory(tmp_path, fault, kept):
    """Four of 1.2 MB, of which three fit: right in every run, one OpenCL object more, and none is needed."""
    printed = device_face.run(tmp_path, INPUTS, CLCNN_FAULT=fault)
    assert json.loads(printed.splitlines()[-1]) == {"right": [True] * 3, "kept": kept}


# ---- threads ----


def test_threads_limits_the_cores_of_a_cpu_device(device: clcnn.Device) -> None:
    if device.info()["type"] != "cpu" or device.info()["compute_units"] < 2:
        pytest.skip("a CPU device of two cores is needed")
    x = np.random.default_rng(0).standard_normal((2, 3, 20, 20)).astype(np.float32)
    net = clcnn.nn.Sequential(*(clcnn.nn.Conv2d(3, 3, 3, padding=1) for _ in range(9)))
    want = clcnn.compile(net, x.shape, device=DEVICE)(x)
    for threads in (1, device.info()["compute_units"]):
        with clcnn.compile(net, x.shape, device=DEVICE, threads=threads) as plan:
            assert plan.device.info()["compute_units"] == threads
            np.testing.assert_allclose(plan(x), want, rtol=0, atol=1e-5)
    assert clcnn.device.get(DEVICE, 1) is clcnn.device.get(DEVICE, 1)


def test_threads_that_cannot_be_are_refused(device: clcnn.Device) -> None:
    for wrong in (0, -1, device.info()["compute_units"] + 1):
        with pytest.raises(clcnn.ArgumentError, match="threads"):
            clcnn.Device(DEVICE, threads=wrong)
    with pytest.raises(clcnn.DtypeError, match="threads"):
        clcnn.Device(DEVICE, threads="2")
    with pytest.raises(clcnn.ArgumentError, match="is open"):
        clcnn.compile(clcnn.nn.ReLU(), (1, 4), device=device, threads=1)


GPU_THREADS = """
import clcnn
try:
    clcnn.Device(threads=1)
except clcnn.ArgumentError as error:
    print(error)
"""


def test_threads_of_a_device_without_cores(tmp_path: Path) -> None:
    assert "is no CPU device" in device_face.run(tmp_path, GPU_THREADS)


def test_a_program_is_the_same_out_of_the_cache(tmp_path: Path) -> None:
    """Built without a cache folder, with one, and loaded from it: PoCL by way of bitcode."""
    net, x = clcnn.zoo.lenet5(), np.random.default_rng(0).standard_normal((2, 1, 28, 28)).astype(np.float32)
    found = []
    for folder in (False, tmp_path, tmp_path):
        with clcnn.Device(DEVICE, cache_dir=folder) as own, clcnn.compile(net, x.shape, device=own) as plan:
            found.append(plan(x))
            loaded = own.stats()["programs_loaded"]
    assert loaded > 0 and np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
