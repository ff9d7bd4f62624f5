"""Compiles that take long: Ctrl-C, also twice, what is told meanwhile, and who may end them."""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

import clcnn
from clcnn import _core, _progress, ops
from clcnn import device as devices
from clcnn._background import building
from helpers import python
from slow_plan import random


def small_graph() -> clcnn.Graph:
    graph = clcnn.Graph()
    x = graph.input("x", (1, 2, 4, 4))
    graph.output(ops.relu(ops.conv(x, random(2, 2, 3, 3), padding=1, name="c")), "y")
    return graph


CODE = """
import os, signal, sys, threading, time
import numpy as np
import clcnn
from slow_plan import interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)
net, shape = clcnn.zoo.get("resnet18"), (1, 3, 64, 64)
device = clcnn.Device("cpu")
name, seconds = interrupted(lambda: clcnn.compile(net, shape, device=device), 0.8)
assert name == "KeyboardInterrupt" and seconds < 0.5, (name, seconds)
"""


def test_ctrl_c_does_not_wait_for_the_driver(tmp_path: Any) -> None:
    again = """
plan = clcnn.compile(net, shape, device=device)
assert np.isfinite(plan(np.ones(shape, np.float32))).all()
"""
    python(CODE + again, 120, POCL_CACHE_DIR=str(tmp_path), CLCNN_CACHE_DIR="0")


def test_ctrl_c_twice(tmp_path: Any) -> None:
    twice = """
name, seconds = interrupted(lambda: clcnn.compile(net, shape, device=device), 0.3)
assert name == "KeyboardInterrupt" and seconds < 0.5, (name, seconds)
"""
    python(CODE + twice, 120, POCL_CACHE_DIR=str(tmp_path), CLCNN_CACHE_DIR="0")


def test_what_a_watch_raises_ends_the_compile() -> None:
    device, told = devices.get(), []

    def watch(what: str = "", done: int = 0, wanted: int = 0) -> None:
        told.append(what)
        if what == "weights":
            raise LookupError("enough")

    graph = small_graph()
    with pytest.raises(LookupError, match="enough"):
        _core.Plan(device, graph._core, watch=watch)
    assert told[0] == "programs" and told[-1] == "weights"
    with clcnn.compile(graph, device=device) as plan:
        assert plan(np.ones((1, 2, 4, 4), np.float32)).shape == (1, 2, 4, 4)


def test_what_the_log_says_as_it_happens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "clcnn"):
        clcnn.compile(small_graph()).close()
    lines = [record.message for record in caplog.records]
    order = [next(i for i, line in enumerate(lines) if line.startswith(start))
             for start in ("building programs", "packing weights", "first run", "compiled ")]  # fmt: skip
    assert order == sorted(order)


def test_a_job_gives_its_result_or_its_error_and_can_be_stopped() -> None:
    assert building.Job(lambda watch: 3).result() == 3
    with pytest.raises(KeyError):
        building.Job(lambda watch: {}["x"]).result()
    begun, ended = threading.Event(), threading.Event()

    def work(watch: building.Watch) -> None:
        begun.set()
        try:
            while True:
                watch()
                time.sleep(0.01)
        except building.Stopped:
            ended.set()
            raise

    job: building.Job[None] = building.Job(work)
    assert begun.wait(10) and not job.done
    job.stop()
    assert ended.wait(10)


def test_the_line_of_a_long_compile() -> None:
    stream = io.StringIO()
    line = _progress.Line(stream, quiet_s=1e6)
    line.show("building programs, 0 of 5")
    assert stream.getvalue() == ""
    line = _progress.Line(stream, quiet_s=0.0)
    watch = building.Watch()
    watch("conv_direct", 2, 5)
    line.show(watch.text)
    assert "building programs, 2 of 5" in stream.getvalue()
    line.close()
    assert _progress.Line._width == 0
    assert stream.getvalue().endswith("\r") and stream.getvalue().split("\r")[-2].strip() == ""


def test_one_place_decides_where_progress_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    for stream, seen in ((Terminal(), True), (io.StringIO(), False), (None, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert _progress.watched() is (stream if seen else None)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert _progress.watched() is sys.stdout
    deciding = [p.name for p in (ROOT / "python").rglob("*.py") if "isatty(" in p.read_text("utf-8")]
    assert deciding == ["_progress.py"]
