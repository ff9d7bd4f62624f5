"""What every benchmark shares: arguments, timing in turn, error figures, and the JSON that all scripts write.

{"machine": ..., "commit": ..., "results": [{"case", "batch", "precision", "clcnn_ms", "peer", "peer_ms",
"ratio", ...}], "geomean": {peer: ratio}}; ratio > 1 means that clcnn is faster. Times are in milliseconds.
Scripts whose claim has no peer write "peer": null, the figure and its limit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# What tests and benchmarks share: cases, and graphs as PyTorch modules and as ONNX.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "lib"))

NETS = ["alexnet", "vgg19", "resnet50", "densenet121", "regnet_x_16gf", "googlenet", "mobilenet_v1"]
QUICK_S = 0.05  # below this a run is disturbed by what its predecessor leaves behind
SETTLE_S = 0.1  # by then the worker threads of the library before have stopped spinning for more work


class Wrong(Exception):
    """A result that does not agree with the reference."""


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds (default 20)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="stop a case after this long, after at least 5 rounds (default 20)",
    )
    return parser


def ints(text: str) -> list[int]:
    """Argument type: "1,8"."""
    return [int(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Argument type: "vgg19,resnet50"; "none" and "" are the empty list."""
    return [] if text in ("", "none") else text.split(",")


def interleave(
    runs: dict[str, Callable[[], Any]], rounds: int, seconds: float, warm: int = 3
) -> dict[str, dict[str, float]]:
    """Times callables in turn, so that drift of the machine hits all alike.

    Gives {name: {"min", "median", "rounds"}} in ms.

    Before each turn comes a pause, in which the threads of the library before it stop spinning. A quick
    callable runs twice a turn and its second run counts, since the first one meets cold caches.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    last: dict[str, float] = {}
    for _ in range(warm):
        for name, run in runs.items():
            last[name] = _seconds(run)
    start = time.perf_counter()
    for done in range(rounds):
        if done >= 5 and time.perf_counter() - start > seconds:
            break
        for name, run in runs.items():
            time.sleep(SETTLE_S)
            if last[name] < QUICK_S:
                run()
            times[name].append(_seconds(run) * 1e3)
    return {
        name: {"min": min(t), "median": statistics.median(t), "rounds": len(t)} for name, t in times.items()
    }


def _seconds(run: Callable[[], Any]) -> float:
    before = time.perf_counter()
    run()
    return time.perf_counter() - before


def errors(got: np.ndarray, want: np.ndarray) -> dict[str, float]:
    """Largest and rms difference, over the rms of what is wanted."""
    wanted = np.asarray(want, np.float64)
    scale = math.sqrt(float(np.mean(wanted**2))) or 1.0
    difference = np.asarray(got, np.float64) - wanted
    return {
        "max_error": float(np.abs(difference).max()) / scale,
        "rms_error": math.sqrt(float(np.mean(difference**2))) / scale,
    }


def checked(got: np.ndarray, want: np.ndarray, limit: float) -> dict[str, float]:
    """Errors of a result. Raises Wrong above the limit, an rms error over the rms of `want`, and for what is
    not finite."""
    if got.shape != want.shape:
        raise Wrong(f"the result's shape is {got.shape}, not {want.shape}")
    found = errors(got, want)
    if not found["rms_error"] <= limit:
        raise Wrong(f"the result is off by {found['rms_error']:.2g} of its rms, at most {limit:.2g} is right")
    return found


def geomeans(results: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Geometric mean of the ratios, per peer; rows without a ratio do not count."""
    ratios: dict[str, list[float]] = {}
    for row in results:
        if row.get("ratio"):
            ratios.setdefault(row["peer"], []).append(row["ratio"])
    return {peer: math.exp(statistics.fmean(map(math.log, r))) for peer, r in ratios.items()}


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], widths: Sequence[int] | None = None) -> str:
    """Text table, first column to the left, others to the right. widths: columns of several calls line up."""
    cells = [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    columns = widths or [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    lines = [list(head), *cells] if head else cells
    return "\n".join(
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, columns))
        ).rstrip()
        for line in lines
    )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor()
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cores": cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def commit() -> str:
    """The checkout's commit, "" outside one."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip()


def document(results: list[dict[str, Any]], **extra: Any) -> dict[str, Any]:
    """The JSON that all scripts write; extra: what else there is to say of the run."""
    return {
        "machine": machine(), "commit": commit(), **extra, "results": results, "geomean": geomeans(results)
    }  # fmt: skip


def write(results: list[dict[str, Any]], path: Path | None, **extra: Any) -> None:
    """Writes the results so far, so that a run that is cut short leaves what it has."""
    if path:
        path.write_text(json.dumps(document(results, **extra), indent=1) + "\n")


def finish(results: list[dict[str, Any]], path: Path | None, **extra: Any) -> None:
    """Prints the geometric means and writes the JSON."""
    for peer, ratio in geomeans(results).items():
        print(f"geometric mean against {peer}: {ratio:.3f}")
    write(results, path, **extra)
    if path:
        print(f"wrote {path}")


def rss_mib(field: str = "VmRSS") -> float:
    """Resident set of this process in MiB, or with "VmHWM" its largest so far (Linux; NaN elsewhere)."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")
