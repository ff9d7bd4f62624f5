"""What every benchmark shares: arguments, interleaved timing, error figures, and the JSON that all scripts write.

{"machine": ..., "commit": ..., "results": [{"case", "batch", "precision", "clcnn_ms", "peer", "peer_ms", "ratio", ...}],
 "geomean": {peer: ratio}}; ratio > 1 means that clcnn is faster. Times are in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

NETS = ["alexnet", "vgg19", "resnet50", "densenet121", "regnet_x_16gf", "googlenet", "mobilenet_v1"]


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds (default 20)")
    parser.add_argument("--seconds", type=float, default=20.0, help="stop a case after this long, after at least 5 rounds")
    return parser


def ints(text: str) -> list[int]:
    """Argument type: "1,8"."""
    return [int(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Argument type: "vgg19,resnet50"."""
    return text.split(",")


def interleave(
    runs: dict[str, Callable[[], Any]], rounds: int, seconds: float, warm: int = 3
) -> dict[str, dict[str, float]]:
    """Times callables in turn, so that drift of the machine hits all alike: {name: {"min", "median", "rounds"}} in ms."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(warm):
        for run in runs.values():
            run()
    start = time.perf_counter()
    for done in range(rounds):
        if done >= 5 and time.perf_counter() - start > seconds:
            break
        for name, run in runs.items():
            before = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - before) * 1e3)
    return {
        name: {"min": min(t), "median": statistics.median(t), "rounds": len(t)} for name, t in times.items()
    }


def errors(got: np.ndarray, want: np.ndarray) -> dict[str, float]:
    """Largest and rms difference, over the rms of what is wanted."""
    wanted = np.asarray(want, np.float64)
    scale = math.sqrt(float(np.mean(wanted**2))) or 1.0
    difference = np.asarray(got, np.float64) - wanted
    return {
        "max_error": float(np.abs(difference).max()) / scale,
        "rms_error": math.sqrt(float(np.mean(difference**2))) / scale,
    }


def geomeans(results: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Geometric mean of the ratios, per peer."""
    ratios: dict[str, list[float]] = {}
    for row in results:
        ratios.setdefault(row["peer"], []).append(row["ratio"])
    return {peer: math.exp(statistics.fmean(map(math.log, r))) for peer, r in ratios.items()}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor()
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {"cpu": model, "cores": len(_affinity()), "system": platform.platform(), "python": platform.python_version()}


def _affinity() -> set[int]:
    import os

    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def commit() -> str:
    """The checkout's commit, "" outside one."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def finish(results: list[dict[str, Any]], path: Path | None, **extra: Any) -> None:
    """Prints the geometric means and writes the JSON."""
    means = geomeans(row for row in results if "ratio" in row)
    for peer, ratio in means.items():
        print(f"geometric mean against {peer}: {ratio:.3f}")
    if path:
        document = {"machine": machine(), "commit": commit(), **extra, "results": results, "geomean": means}
        path.write_text(json.dumps(document, indent=1) + "\n")
        print(f"wrote {path}")


def peak_rss_mib() -> float:
    """Largest resident set of this process so far, in MiB (Linux)."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")
