"""Runs Python in a child process in which every OpenCL device passes for a GPU (gpu_face.c)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def build(folder: Path) -> Path:
    """The library, made in `folder`. Skips the test where there is no compiler or nothing to link with."""
    library = folder / "gpu_face.so"
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-shared", "-fPIC", "-o", str(library), str(HERE / "gpu_face.c")]
    try:
        subprocess.run(
            [*compiler, *flags, "-Wl,--no-as-needed", "-l:libOpenCL.so.1", "-ldl"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as why:
        pytest.skip(f"cannot build gpu_face.c: {getattr(why, 'stderr', why)}")
    return library


def run(folder: Path, script: str, *arguments: str, **environment: str) -> str:
    """What `script` prints in the child, which can import the modules of tests/. AssertionError with its
    messages when it fails."""
    more = {"CLCNN_OPENCL_LIBRARY": str(build(folder)), "PYTHONPATH": _path(), **environment}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=os.environ | more, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _path() -> str:
    known = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(HERE), known] if known else [str(HERE)])
