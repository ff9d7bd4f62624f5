"""Large buffers of devices in host memory lie in large pages, which they share where the driver lets them.

None touches another, what is closed goes back to the system, and all do without where they cannot.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

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
@pytest.mark.parametrize("fault", ["", "clSetMemObjectDestructorCallback:-1:-5"])
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
    assert found["asked"] >= 4000


# ---- pages that buffers share ----

MIB = 1 << 20


@pytest.fixture
def shared(device: clcnn.Device) -> clcnn.Device:
    if device.platform != "Portable Computing Language":
        pytest.skip("other drivers keep memory of their own")
    return device


def test_blocks_do_not_touch_each_other(shared):
    rng = np.random.default_rng(0)
    sizes = [16385, 300_000, 2 * MIB, 70_000, 9 * MIB, 16384, 524_288]
    arrays = [rng.standard_normal(n).astype(np.float32) for n in sizes]
    tensors = [clcnn.Tensor.from_numpy(a, shared) for a in arrays]
    for i in (1, 4, 5):
        tensors[i].close()
    more = [clcnn.Tensor.from_numpy(a + 1, shared) for a in arrays[1:3]]
    for i in (0, 2, 3, 6):
        np.testing.assert_array_equal(tensors[i].numpy(), arrays[i])
    for tensor, array in zip(more, arrays[1:3]):
        np.testing.assert_array_equal(tensor.numpy(), array + 1)
    for tensor in [*tensors, *more]:
        tensor.close()


CLOSING = """
import gc
import os
import numpy as np
import clcnn

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

device, ones = clcnn.Device("cpu"), np.ones(3 << 20, np.float32)
clcnn.Tensor.from_numpy(ones, device).close()
gc.collect()
before, kept, most = resident(), [], 0
for round in range(4):
    for size in (1 << 20, 3 << 20, 1 << 16, 1 << 20):
        kept.append(clcnn.Tensor.from_numpy(ones[:size], device))
    most = max(most, resident())
    for tensor in kept[1:-1]:
        tensor.close()
    kept = [kept[0], kept[-1]]
while kept:
    kept.pop().close()
gc.collect()
print(most - before, resident() - before)
"""


def test_pages_go_back_to_the_system(shared):
    del shared
    gc.collect()
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r})\n{CLOSING}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    most, left = map(int, done.stdout.split())
    assert 20 <= most <= 64  # a round takes 20.25 MiB, and at most two tensors stay
    assert left <= 12  # what the driver and the allocator keep
