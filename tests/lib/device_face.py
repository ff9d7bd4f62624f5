"""Runs Python in a child process in which every OpenCL device passes for another kind (device_face.c)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def build(folder: Path, kind: str = "GPU", width: int = 0) -> Path:
    """The library, made in `folder`: `kind` is GPU or CPU, `width` the floats of a native vector (0: as it
    is). Raises OSError or CalledProcessError where there is no compiler or nothing to link with."""
    library = folder / f"face_{kind}_{width}.so"
    compiler = os.environ.get("CC", "cc").split()
    faces = [f"-DFACE_TYPE={kind}", f"-DFACE_WIDTH={width}"]
    flags = ["-shared", "-fPIC", *faces, "-o", str(library), str(HERE / "device_face.c")]
    subprocess.run(
        [*compiler, *flags, "-Wl,--no-as-needed", "-l:libOpenCL.so.1", "-ldl"],
        check=True,
        capture_output=True,
        text=True,
    )
    return library


def run(
    folder: Path, script: str, *arguments: str, kind: str = "GPU", width: int = 0, **environment: str
) -> str:
    """What `script` prints in the child, which can import the modules of tests/. AssertionError with its
    messages when it fails; skips the test where the library cannot be built."""
    try:
        library = build(folder, kind, width)
    except (OSError, subprocess.CalledProcessError) as why:
        pytest.skip(f"cannot build device_face.c: {getattr(why, 'stderr', why)}")
    more = {"CLCNN_OPENCL_LIBRARY": str(library), "PYTHONPATH": path(), **environment}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=os.environ | more, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def path() -> str:
    """PYTHONPATH of a child that imports what tests share, or a test's own module."""
    folders = sorted(str(path) for path in HERE.parent.iterdir() if path.is_dir() and path.name != "fuzz")
    known = filter(None, [os.environ.get("PYTHONPATH")])
    return os.pathsep.join([str(HERE), str(HERE.parent), *folders, *known])
