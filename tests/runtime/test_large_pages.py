"""Large buffers of devices in host memory ask for large pages, and do without where they cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import clcnn

# A layer with 4 MiB of weights; the mappings that may have large pages ("hg"), before and after.
SCRIPT = """
import json, os, re
import numpy as np
from clcnn import _core

def mappings():
    text = open("/proc/self/smaps").read()
    sizes = re.findall(r"^Size: +(\\d+) kB|^VmFlags:(.*)$", text, re.M)
    return sum(int(a[0]) for a, b in zip(sizes[::2], sizes[1::2]) if " hg" in b[1])

rng = np.random.default_rng(0)
g = _core.Graph()
x = rng.integers(-4, 5, (1, 1024)).astype(np.float32)
w = rng.integers(-4, 5, (1024, 1024)).astype(np.float32)
y, = g.node("linear", "fc", [g.input("x", x.shape), g.constant("w", w)], {})
g.output(y, "y")
with _core.Device(os.environ.get("CLCNN_TEST_DEVICE", "cpu")) as device:
    before = mappings()
    with _core.Plan(device, g, precision="strict") as plan:  # as they are, in one buffer
        right = bool((plan.run([x])[0] == x @ w.T).all())
        print(json.dumps({"right": right, "asked": mappings() - before}))
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no large pages"
)
@pytest.mark.parametrize("fault", ["", "clEnqueueMapBuffer:1:-12"])
def test_weights_ask_for_large_pages(device: clcnn.Device, fault: str) -> None:
    if device.type != "cpu" or not device.host_unified:
        pytest.skip("the device has memory of its own")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"CLCNN_FAULT": fault},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["right"]
    if fault:
        assert found["asked"] == 0
    else:
        assert found["asked"] >= 4000
