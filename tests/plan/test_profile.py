"""Profiles of CPU devices: what the rules make of one, measuring, and the files they are kept in."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DEVICE

import clcnn
from caselib import parse_case
from clcnn import _core, nn
from clcnn.report import explain_text
from clcnn.wisdom import profile as profiles
from runner import MAIN, build_graph, has_blocks

FIP = parse_case("conv n1 c128 h9 w9 k128 r1 s1")
WINOGRAD = parse_case("conv n1 c64 h14 w14 k64 r3 s3 p1")
STRIDED = parse_case("conv n1 c64 h57 w57 k64 r3 s3 p1 u2")
SEPARABLE = parse_case("separable n1 c128 h7 w84 k64 r3 s3 p1")
MACHINE = profiles.Machine("a device", "1.0", 2, "0.1")


def candidates(device: _core.Device, case: Any, **factors: float) -> dict[str, Any]:
    with _core.Plan(device, build_graph(case, case.data()), profile=factors) as plan:
        row = next(row for row in plan.layers() if MAIN in row["layer"])
        return {c["algo"]: c for c in row["candidates"]} | {"": row["algo"]}


def both(name: str, factor: float) -> dict[str, float]:
    return {f"{name}_small": factor, f"{name}_large": factor}


# ---- rules ----


@pytest.fixture
def blocks(device: clcnn.Device) -> clcnn.Device:
    if not has_blocks(device):
        pytest.skip("the device has no channel blocks")
    return device


@pytest.fixture
def without_tiles(blocks: clcnn.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[_core.Device]:
    """The same device as one whose processor has no AMX, whose tiles come before what profiles decide."""
    monkeypatch.setenv("CLCNN_AMX_TILES", "0")
    with _core.Device(DEVICE) as device:
        yield device


def test_choices_follow(without_tiles):
    blocks = without_tiles
    assert candidates(blocks, FIP, **both("fip", 0.5))[""] == "fip"
    assert candidates(blocks, FIP, **both("fip", 2.0))[""] == "blocked"
    assert candidates(blocks, WINOGRAD)[""].startswith("winograd")
    assert candidates(blocks, WINOGRAD, **both("winograd", 4.0))[""] == "blocked"
    assert candidates(blocks, STRIDED, **both("winograd_strided", 9.0))[""] == "blocked"
    rules, fast = (candidates(blocks, STRIDED, **f) for f in ({}, both("winograd_strided", 0.2)))
    assert fast["winograd_strided"]["effort"] == pytest.approx(0.2 * rules["winograd_strided"]["effort"])
    assert candidates(blocks, SEPARABLE, **both("strassen", 0.3), **both("fip", 3.0))[""] == "strassen"
    assert candidates(blocks, SEPARABLE, **both("strassen", 3.0), **both("fip", 3.0))[""] != "strassen"


def test_what_is_nearly_right_changes_nothing(blocks):
    for case in (FIP, WINOGRAD, STRIDED, SEPARABLE):
        rules = candidates(blocks, case)
        for factor in (0.951, 1.0, 1.049):
            near = dict.fromkeys(_core.profile_rows(), factor)
            assert candidates(blocks, case, **near) == rules


def test_a_factor_between_two_sizes(blocks):
    """A small layer has the factor of the small row, one between the rows has some of both."""

    def ratio(size: int, large: float) -> float:
        case = parse_case(f"conv n1 c128 h{size} w{size} k128 r1 s1")
        expected = [candidates(blocks, case, **f)["fip"]["effort"] for f in ({}, {"fip_large": large})]
        return expected[1] / expected[0]

    assert ratio(9, 2.0) == 1.0
    middle = ratio(56, 2.0)
    assert 1.4 < middle < 1.6 and ratio(200, 2.0) == pytest.approx(2.0)


def test_memory(device):
    if device.type != "cpu":
        pytest.skip("of CPU devices alone")
    case = parse_case("linear [1,64] w[64,64]")
    was, now = (candidates(device, case, **f)["gemv"]["effort"] for f in ({}, {"memory": 3.0}))
    assert now == pytest.approx(3 * was)


@pytest.mark.parametrize(
    ("factors", "error"),
    [
        ({"fip": 1.0}, "there is no 'fip'"),
        ({3: 1.0}, "there is no 3"),
        ({"memory": 0.0}, "'memory' must be above 0, got 0.0"),
        ({"memory": float("nan")}, "must be above 0, got nan"),
        ({"memory": float("inf")}, "must be above 0, got inf"),
    ],
)
def test_bad_profiles_are_refused(device, factors, error):
    with pytest.raises(clcnn.ArgumentError, match=error):
        _core.Plan(device, build_graph(FIP, FIP.data()), profile=factors)
    with pytest.raises(clcnn.DtypeError, match="'memory' must be a number, got 'x'"):
        _core.Plan(device, build_graph(FIP, FIP.data()), profile={"memory": "x"})


def test_explain_prints_what_is_expected(blocks):
    case = parse_case("conv n1 c128 h9 w9 k128 r1 s1")
    with _core.Plan(blocks, build_graph(case, case.data()), profile=both("fip", 2.0)) as plan:
        row = next(row for row in plan.layers() if MAIN in row["layer"])
        text = explain_text([row], [])
    told = {c["algo"]: c["effort"] for c in row["candidates"] if c["effort"]}
    lines = {line[4:].split()[0]: line for line in text.splitlines()[1:]}
    for name, effort in told.items():
        assert f"expected {effort / min(told.values()):.2f})" in lines[name]
    assert told.keys() >= {"fip", "blocked", "strassen", "direct"}
    assert "expected" not in lines["winograd"] and lines["winograd"].split(":")[0].endswith("rejected")


# ---- measuring ----


class Clock:
    """Made-up times: of each algorithm so many times what is expected, with noise of so large a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, noise: float = 0.0, **factors: float) -> None:
        self.factors, self.noise, self.runs, self.now = factors, noise, 0, 0.0
        self.numbers = itertools.cycle((0.83, 0.02, 0.4, 0.97, 0.61, 0.3, 0.11))
        monkeypatch.setattr(profiles, "_step_times", self.steps)
        monkeypatch.setattr(profiles, "_clock", lambda: self.now)

    def steps(self, plan: _core.Plan, inputs: Any) -> list[float]:
        (row,) = [row for row in plan.layers() if row["layer"] == "layer"]
        effort = next(c["effort"] for c in row["candidates"] if c["algo"] == row["algo"])
        us = 1e-6 * row["macs"] * effort * self.factors.get(row["algo"], 1.0)
        us *= 1 + self.noise * next(self.numbers)
        self.runs, self.now = self.runs + 1, self.now + us / 1e6
        spent = [step["layer"] for step in plan.steps()]
        return [us if spent.index(layer) == i and layer == "layer" else 0.0 for i, layer in enumerate(spent)]


def test_measuring_finds_how_far_the_rules_are_off(blocks, monkeypatch):
    Clock(monkeypatch, fip=0.7, gemv=1.5)
    found, unsure = profiles.measure(blocks)
    assert not unsure and found.keys() == _core.profile_rows().keys()
    wrong = both("fip", 0.7) | {"memory": 1.5}
    for name, factor in found.items():
        assert factor == pytest.approx(wrong.get(name, 1.0)), name


def test_noise_changes_nothing(blocks, monkeypatch):
    Clock(monkeypatch, noise=0.5)
    found, _ = profiles.measure(blocks)
    for case in (FIP, WINOGRAD, STRIDED, SEPARABLE):
        assert candidates(blocks, case, **found) == candidates(blocks, case)


class Drifting(Clock):
    """The machine becomes slower and faster: of every round something else."""

    def steps(self, plan: _core.Plan, inputs: Any) -> list[float]:
        self.factors["fip"] = 1.0 + 0.5 * (self.runs // (6 * len(_core.profile_rows())) % 2)
        return super().steps(plan, inputs)


def test_times_that_do_not_agree_count_for_nothing(blocks, monkeypatch):
    Drifting(monkeypatch)
    found, unsure = profiles.measure(blocks)
    assert unsure == ["fip_small", "fip_large"]
    assert found.keys() == _core.profile_rows().keys() - set(unsure)


def test_a_profile_of_a_busy_machine_is_not_kept(blocks, cache, monkeypatch, caplog):
    busy = Drifting(monkeypatch)
    found = profiles.of(blocks, measured=True)
    assert "memory" in found and "fip_small" not in found
    assert "not kept" in caplog.text and "fip_small" in caplog.text
    assert not (cache / "wisdom").exists() and profiles.of(blocks, measured=False) == {}
    runs = busy.runs
    profiles.of(blocks, measured=True)
    assert busy.runs > runs  # and tries again
    Clock(monkeypatch, fip=0.7)
    caplog.clear()
    found = profiles.of(blocks, measured=True)
    assert found.keys() == _core.profile_rows().keys() and not caplog.text
    assert profiles.known(profiles.machine_of(blocks))["fip_small"] == pytest.approx(0.7)


def test_gpus_have_no_profile(device, monkeypatch):
    monkeypatch.setattr(type(device), "type", "gpu", raising=False)
    assert profiles.measure(device) == ({}, [])


# ---- files ----


def test_files_come_back(tmp_path):
    path, factors = tmp_path / "p.txt", {"fip_small": 1.25, "memory": 0.5}
    path.write_text(profiles._text(MACHINE, factors))
    assert profiles.read(path, MACHINE) == factors
    path.write_text(profiles._text(MACHINE, {}))
    assert profiles.read(path, MACHINE) == {}


def test_what_is_damaged_or_foreign_is_not_there(tmp_path):
    path = tmp_path / "p.txt"
    text = profiles._text(MACHINE, {"fip_small": 1.25})
    foreign = [MACHINE._replace(device="b"), MACHINE._replace(driver="2"), MACHINE._replace(units=3)]
    damaged = [text[:n] for n in range(len(text))] + [text.replace("1.25", "1.35"), text + text, "\0", "x"]
    others = [profiles._text(m, {"fip_small": 1.25}) for m in (*foreign, MACHINE._replace(version="0.2"))]
    wild = [profiles._text(MACHINE, f) for f in ({"new": 1.0}, {"memory": 1e9}, {"memory": float("nan")})]
    assert profiles.read(path, MACHINE) is None
    for content in [*damaged, *others, *wild]:
        path.write_text(content)
        assert profiles.read(path, MACHINE) is None, content
    path.write_bytes(b"\xff\xfe" + text.encode())
    assert profiles.read(path, MACHINE) is None
    path.unlink()
    path.mkdir()
    assert profiles.read(path, MACHINE) is None


def _writer(folder: str, factor: float) -> None:
    os.environ["CLCNN_CACHE_DIR"] = folder
    for _ in range(300):
        profiles.remember(MACHINE, {"fip_small": factor, "memory": factor})


def test_two_writers(tmp_path, monkeypatch):
    """Readers see the profile of one of them, whole, at any time."""
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    profiles.remember(MACHINE, {"fip_small": 1.5, "memory": 1.5})
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_writer, args=(str(tmp_path), factor)) for factor in (1.5, 2.5)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        found = profiles.known(MACHINE)
        assert found["fip_small"] == found["memory"] in (1.5, 2.5)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(list((tmp_path / "wisdom").iterdir())) == 1


# ---- compile(tune=...) ----


def chosen(device: _core.Device, **options: Any) -> str:
    with clcnn.compile(nn.Conv2d(128, 128, 1), (1, 128, 9, 9), device, **options) as plan:
        return str(next(row for row in plan.layers if row["op"] == "conv")["algo"])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CLCNN_TUNE", raising=False)
    return tmp_path


def test_only_measuring_measures_and_all_read_it(blocks, cache, monkeypatch):
    machine = profiles.machine_of(blocks)
    clock = Clock(monkeypatch, fip=0.4)
    rules = chosen(blocks, tune="off")
    assert chosen(blocks) == rules
    assert clock.runs == 0 and not (cache / "wisdom").exists()
    assert chosen(blocks, tune="measure") in ("fip", "blocked", "strassen")
    runs = clock.runs
    assert runs > 0 and profiles.known(machine)["fip_small"] == pytest.approx(0.4)
    profiles.remember(machine, both("fip", 0.2))  # and once is enough
    with clcnn.compile(nn.Conv2d(8, 8, 1), (1, 8, 4, 4), blocks, tune="measure"):
        assert clock.runs == runs and profiles.known(machine) == both("fip", 0.2)
    assert chosen(blocks, tune="off") == "fip"
    path = profiles.own_file(machine)
    assert path is not None and path.is_relative_to(cache)
    path.write_text("damaged")
    assert chosen(blocks, tune="off") == rules and clock.runs == runs


def test_without_a_cache_the_constants_stand(blocks, cache, monkeypatch):
    machine = profiles.machine_of(blocks)
    rules = chosen(blocks)
    profiles.remember(machine, both("fip", 0.2 if rules != "fip" else 5.0))
    assert chosen(blocks) != rules
    monkeypatch.setenv("CLCNN_CACHE_DIR", "0")
    clock = Clock(monkeypatch)
    assert profiles.own_file(machine) is None and profiles.remember(machine, {}) is None
    assert profiles.of(blocks, measured=True) == {} and clock.runs == 0
    assert chosen(blocks) == rules


INTERRUPTED = """
import os, sys, threading, time
import clcnn
from clcnn.wisdom import profile
steps = profile._step_times
def running(plan, inputs):
    print("running", flush=True)
    profile._step_times = steps
    return steps(plan, inputs)
profile._step_times = running
profile.SECONDS, profile.ROUNDS, profile.AGREE = 60.0, (10**6, 10**6), 0.0
if sys.argv[2] == "early":
    print("running", flush=True)
try:
    profile.of(clcnn.Device(sys.argv[1]), measured=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def seconds_to_end(command: list[str], env: dict[str, str]) -> float:
    """From an interrupt of the child to its word that it was interrupted."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        time.sleep(0.7)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        return time.monotonic() - start


@pytest.mark.parametrize("when", ["early", "late"])
def test_an_interrupt_ends_measuring_and_leaves_files_as_before(blocks, cache, when):
    """Early: kernels are being built, since the folder is empty, and the one under way must be finished. That
    may take a busy machine seconds; measuring, left alone, a minute."""
    command = [sys.executable, "-c", INTERRUPTED, str(blocks.index), when]
    env = os.environ | {"POCL_CACHE_DIR": str(cache / "pocl")}
    assert seconds_to_end(command, env) < 20.0
    assert not (cache / "wisdom").exists()
