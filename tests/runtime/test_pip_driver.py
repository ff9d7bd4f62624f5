"""A driver that no ICD file names, as pip installs one: found by its package's files, and listed last."""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from clcnn import _drivers
from clcnn.cli import info
from helpers import python

POCL = Path("/etc/OpenCL/vendors/pocl.icd")
NET = """
    import sys
    import numpy as np
    import clcnn
    from clcnn import _core, nn
    _core.offer_driver(sys.argv[-1] if len(sys.argv) > 1 else PATH)
    try:
        print([row["platform"] for row in _core.devices()])
        net = nn.Conv2d(2, 3, 3, bias=False)
        net.load_state_dict({"weight": np.ones((3, 2, 3, 3), np.float32)})
        print((clcnn.compile(net, (1, 2, 5, 5))(np.ones((1, 2, 5, 5), np.float32)) == 18).all())
    except clcnn.NoDeviceError as error:
        print(error)
"""


def offered(path: object, **environment: str) -> list[str]:
    return python(NET.replace("PATH", repr(str(path))), **environment).splitlines()


def loaded(library: str) -> str:
    """The path of a library that this process has opened or can open."""
    ctypes.CDLL(library)
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if Path(library).name in line)


def pocl() -> Path:
    if not POCL.is_file():
        pytest.skip("PoCL is not there to stand in for pip's driver")
    return Path(loaded(POCL.read_text().strip()))


def package(site: Path, version: str, library: str | None = "../../libintelocl.so") -> Path:
    """The files of an installed intel-opencl-rt in `site`; where its library would be."""
    files = site / f"intel_opencl_rt-{version}.dist-info"
    files.mkdir(parents=True)
    (files / "METADATA").write_text(f"Metadata-Version: 2.1\nName: intel-opencl-rt\nVersion: {version}\n")
    if library is not None:
        (files / "RECORD").write_text(f"{library},,\n../../libintelocl.so-gdb.py,,\n")
    return site.parent.parent / "libintelocl.so"


# ---- in the core ----


def test_driver_without_an_icd_file(tmp_path: Path) -> None:
    platforms, right = offered(pocl(), OCL_ICD_VENDORS=str(tmp_path))
    assert platforms == "['Portable Computing Language']" and right == "True"


def test_driver_that_the_system_has_too() -> None:
    """Listed once, though pip's copy has another path."""
    platforms, right = offered(pocl(), OCL_ICD_VENDORS=str(POCL.parent))
    assert platforms.count("Portable") == 1 and right == "True"


def test_driver_in_the_place_of_the_loader(tmp_path: Path) -> None:
    """No libOpenCL.so.1 opens. A copy of the loader stands in for a driver: it offers the same functions."""
    driver = tmp_path / "libdriver.so"
    driver.write_bytes(Path(loaded("libOpenCL.so.1")).read_bytes())
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (tmp_path / name).write_text("no library")
    platforms, right = offered(driver, LD_LIBRARY_PATH=str(tmp_path), OCL_ICD_VENDORS=str(POCL.parent))
    assert platforms == "['Portable Computing Language']" and right == "True"
    (said,) = offered(tmp_path / "libgone.so", LD_LIBRARY_PATH=str(tmp_path))
    assert "libOpenCL.so.1 does not open" in said and "libgone.so not found" in said
    assert 'pip install "clcnn[cpu]"' in said


@pytest.mark.parametrize(("library", "reason"), [
    ("libbroken.so", "does not open"),
    ("libgone.so", "does not open"),
    ("libother.so", "is no OpenCL driver"),
])  # fmt: skip
def test_broken_driver(tmp_path: Path, library: str, reason: str) -> None:
    (tmp_path / "libbroken.so").write_text("no library")
    (tmp_path / "libother.so").write_bytes(Path(loaded("libm.so.6")).read_bytes())
    path = tmp_path / library
    (said,) = offered(path, OCL_ICD_VENDORS=str(tmp_path))
    assert f"pip's driver: {path} {reason}" in said and 'pip install "clcnn[cpu]"' in said
    platforms, right = offered(path, OCL_ICD_VENDORS=str(POCL.parent))
    assert "Portable" in platforms and right == "True", "the system's drivers are as they were"


# ---- found by its package ----


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that is first on Python's path, and no variable that chooses drivers."""
    folder = tmp_path / "lib" / "python3" / "site-packages"
    monkeypatch.syspath_prepend(folder)
    for name in _drivers.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.mark.parametrize("record", ["../../libintelocl.so", "lib/libintelocl.so"])
def test_library_is_where_the_record_says(site: Path, record: str) -> None:
    package(site, "2026.2.0", record)
    library = (site / record).resolve()
    library.parent.mkdir(exist_ok=True)
    library.touch()
    found = _drivers.installed()[0]
    assert found == _drivers.PipDriver("2026.2.0", library) and _drivers.chosen([found]) == found
    assert _drivers.report()[0] == f"intel-opencl-rt 2026.2.0: {library}"


def test_metadata_is_read_only_where_it_may_be(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """importlib.metadata takes longer to import than the rest of the package."""
    archive = tmp_path / "packages.zip"
    monkeypatch.setattr(sys, "path", [str(site), str(tmp_path / "gone")])
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: pytest.fail("read for nothing"))
    assert _drivers.installed() == []
    monkeypatch.undo()
    archive.touch()
    assert _drivers._may_have(str(archive)), "only importlib knows what is in it"
    package(site, "2026.2.0")
    assert _drivers._may_have(str(site))


@pytest.mark.parametrize("record", ["../../libintelocl.so", "elsewhere.txt", None])
def test_half_uninstalled_driver(site: Path, record: str | None, caplog: pytest.LogCaptureFixture) -> None:
    package(site, "2026.2.0", record)
    assert _drivers.chosen(_drivers.installed()) is None
    _drivers.offer.__wrapped__()
    assert "libintelocl.so is missing; pip install --force-reinstall intel-opencl-rt" in caplog.text


def test_two_versions_of_it(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first on the path counts, as in an import; the other one is named."""
    later = tmp_path / "user" / "python3" / "site-packages"
    for folder, version in ((site, "2026.2.0"), (later, "2025.1.0")):
        package(folder, version).touch()
    monkeypatch.setattr(sys, "path", [str(site), str(later)])
    used = _drivers.chosen(_drivers.installed())
    assert used is not None and used.version == "2026.2.0"
    first, second = _drivers.report()
    assert "2026.2.0" in first and "left out" not in first
    assert "2025.1.0" in second and "left out: the first copy on Python's path counts" in second


def test_variables_of_the_user_stand(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(site, "2026.2.0").touch()
    monkeypatch.setenv("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    assert _drivers.chosen(_drivers.installed()) is None
    assert "left out: OCL_ICD_VENDORS is set" in _drivers.report()[0]


def test_prefix_that_cannot_be_written(site: Path, tmp_path: Path) -> None:
    """Nothing is written beside the driver. The system's own stands in for it, and is listed once."""
    library = package(site, "2026.2.0")
    library.symlink_to(pocl())
    before = sorted(tmp_path.rglob("*"))
    folders = [path for path in before if path.is_dir()]
    for path in folders:
        path.chmod(0o555)
    code = "import clcnn; print([row.platform for row in clcnn.devices()])"
    said = python(code, PYTHONPATH=":".join([str(site), *sys.path]))
    for path in folders:
        path.chmod(0o755)
    assert said.count("Portable") == 1 and sorted(tmp_path.rglob("*")) == before


@pytest.mark.not_sanitized
def test_info_names_it(site: Path) -> None:
    package(site, "2026.2.0")
    (line,) = [line for line in info.gather()["pip_drivers"] if "2026.2.0" in line]
    assert "is broken" in line
    command = [sys.executable, "-m", "clcnn", "info"]
    path = ":".join([str(site), *sys.path])
    done = subprocess.run(command, env={"PYTHONPATH": path, "PATH": ""}, capture_output=True, text=True)
    assert "drivers of pip\n  intel-opencl-rt 2026.2.0 is broken: " in done.stdout


@pytest.mark.slow
def test_the_real_one_comes_last() -> None:
    try:
        importlib.metadata.version(_drivers.PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip('needs pip install "clcnn[cpu]"')
    said = python("import clcnn, json; print(json.dumps([d.platform for d in clcnn.devices()]))")
    assert json.loads(said)[-1] == "Intel(R) OpenCL"
