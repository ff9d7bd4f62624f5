"""The package as people get it: what the sdist holds, how a build without a system package ends."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import clcnn
from clcnn import _version

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"csrc", "kernels", "python", "tests", "benchmarks", "notebooks", "docs"}
FILES = {
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *("pyproject.toml", "setup.py", "Makefile", "MANIFEST.in"),
}


def build_environment(**more: str) -> dict[str, str]:
    """This process's environment without preloaded libraries (make sanitize), which would fail compilers."""
    return {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | more


def copy_sources(folder: Path) -> Path:
    """A copy of the sources, so that nothing is built in the working tree."""
    copy = folder / "clcnn"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", ".ipynb_checkpoints")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in FILES:
        shutil.copy2(ROOT / name, copy / name)
    return copy


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_sources(tmp_path)


def tracked() -> list[str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    command = ["git", "-c", "safe.directory=*", "ls-files"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_top_level_is_the_agreed_one() -> None:
    top = {name.split("/")[0] for name in tracked() if not name.startswith(".")}
    assert top == FOLDERS | FILES


def test_sdist_holds_every_source(source: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "sdist"]
    subprocess.run(command, cwd=source, env=build_environment(), check=True, capture_output=True)
    (archive,) = (source / "dist").iterdir()
    with tarfile.open(archive) as tar:
        held = {name.partition("/")[2] for name in tar.getnames()}
    wanted = {name for name in tracked() if name.split("/")[0] in FOLDERS | FILES}
    assert {name for name in wanted if name.startswith(("csrc/", "kernels/"))}
    assert wanted - held == set()


@pytest.mark.parametrize(("header", "package"), [
    ("stdlib.h", "gcc libc6-dev"),
    ("Python.h", "python3-dev"),
    ("CL/cl.h", "opencl-c-headers"),
])  # fmt: skip
def test_build_names_the_missing_package(source: Path, header: str, package: str) -> None:
    """A compiler that finds all headers but one stands in for a machine without that one's package."""
    compiler = source / "cc"
    compiler.write_text(f'#!/bin/sh\n! grep -qF "<{header}>"\n')
    compiler.chmod(0o755)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    environment = build_environment(CC=str(compiler))
    built = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    assert built.returncode == 1
    sentence = built.stderr.strip().splitlines()[-1]
    expected = rf"clcnn needs .* \({re.escape(header)}\): run `apt install {package}` .* first\."
    assert re.fullmatch(expected, sentence)
    assert "Traceback" not in built.stderr


def test_build_names_the_compiler_when_there_is_none(source: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    environment = build_environment(CC=str(source / "no-such-compiler"))
    built = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    assert built.returncode == 1
    assert built.stderr.strip().splitlines()[-1].startswith("clcnn needs a C compiler")


def test_one_version_everywhere() -> None:
    try:
        installed = importlib.metadata.version("clcnn")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("clcnn is not installed: it was built in place")
    assert clcnn.__version__ == _version.__version__ == installed
    assert f"({_version.__version__})" in (ROOT / "CHANGELOG.md").read_text("utf-8") or (
        f"## [{_version.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    )


def test_system_packages_without_root(tmp_path: Path) -> None:
    """Without root and without sudo, the set-up prints the apt line and stops."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "cat", "grep", "test"):
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    scripts = {"id": "echo 1000", "apt-get": "exit 99", "python3": f'exec "{sys.executable}" "$@"'}
    for name, body in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    command = [shutil.which("bash") or "/bin/bash", str(ROOT / ".ci" / "system"), "build"]
    done = subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(r"sudo apt-get install -y --no-install-recommends .*\bgcc\b", done.stderr)


def test_system_packages_refuse_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    environment = build_environment(PYTHON=str(old))
    command = [str(ROOT / ".ci" / "system"), "build"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "3.11 or newer" in done.stderr and str(old) in done.stderr
