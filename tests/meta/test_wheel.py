"""The wheel in an empty environment of each Python there is: it installs, runs a net, leaves no file behind.

CLCNN_WHEELS names the folder of the wheels that are tried (`make wheels`); without it one is built here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_packaging import build_environment, copy_sources

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14", "python3.15", "python3.14t")
DEPENDENCIES = ("numpy", "platformdirs")  # all that is needed until a safetensors file is opened
NET = """
import importlib.util
import sys
import numpy as np
import clcnn
from clcnn import nn

assert importlib.util.find_spec("safetensors") is None
assert not getattr(sys, "_is_gil_enabled", lambda: True)() or not sys.abiflags.count("t")
net = nn.Conv2d(2, 3, 3, bias=False)
net.load_state_dict({"weight": np.ones((3, 2, 3, 3), np.float32)})
plan = clcnn.compile(net, (1, 2, 5, 5))
assert (plan(np.ones((1, 2, 5, 5), np.float32)) == 18).all()
clcnn.weights.save_npz("weights.npz", net.state_dict())
net.load("weights.npz")
try:
    clcnn.weights.save_safetensors("weights.safetensors", net.state_dict())
except ImportError as error:
    assert "pip install safetensors" in str(error)
else:
    raise AssertionError("safetensors was found")
print(clcnn.__file__)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "CLCNN_WHEELS" in os.environ:
        return Path(os.environ["CLCNN_WHEELS"]).resolve()
    folder = tmp_path_factory.mktemp("wheels")
    copy = copy_sources(folder)
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(folder)]
    subprocess.run(command, cwd=copy, env=build_environment(), check=True, capture_output=True)
    return folder


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", PYTHONS)
def test_wheel_installs_runs_and_goes(name: str, wheels: Path, tmp_path: Path) -> None:
    python = shutil.which(name)
    venv = tmp_path / "venv"
    if python is None or subprocess.run([python, "-m", "venv", venv], capture_output=True).returncode:
        pytest.skip(f"no {name} that makes environments")
    environment = build_environment(PYTHONDONTWRITEBYTECODE="1")
    environment.pop("PYTHONPATH", None)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [venv / "bin" / "python", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    if run("-m", "pip", "install", "-q", "--only-binary=:all:", *DEPENDENCIES).returncode:
        pytest.skip(f"pip finds no {' or '.join(DEPENDENCIES)} for {name}")
    before = files(venv)
    find = ("--no-index", "--no-deps", "--pre", "--find-links", wheels)
    installed = run("-m", "pip", "install", "-q", *find, "clcnn")
    assert installed.returncode == 0, installed.stderr
    shown = run("-c", NET)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(str(venv))
    assert run("-m", "pip", "uninstall", "-q", "-y", "clcnn").returncode == 0
    assert files(venv) == before
