"""Two devices of one kind on any machine: PoCL makes them of one processor, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import DEVICE, ROOT

INSIDE = "CLCNN_TEST_PAIR"  # set in that process

OUTSIDE = "runs in the process of test_on_a_pair"

needs_pair = pytest.mark.skipif(INSIDE not in os.environ, reason=OUTSIDE)


def run_on_a_pair(file: str) -> None:
    """Runs the tests of a file that need two devices, numbers 0 and 1 there."""
    if DEVICE != "cpu" or INSIDE in os.environ:  # else each process would begin another one
        pytest.skip("PoCL makes two devices of a CPU only")
    pair = {"POCL_DEVICES": "pthread pthread", INSIDE: "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", file]
    command += ["-rs", "-k", "not on_a_pair"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **pair}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert " passed" in done.stdout and OUTSIDE not in done.stdout
