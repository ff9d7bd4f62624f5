"""`make oclgrind`: every portable kernel under Oclgrind, which looks for accesses out of bounds, data races
and uninitialised reads.

Runs the cases marked `@oclgrind` in tests/cases/ with every algorithm, each case between guard bands and in
a process of its own: once compared with the definitions, once on numbers that mean nothing. Algorithms on
channel blocks, and those in vectors, run with 8 and 16 floats, the simulator passing for a CPU
(device_face.c). What CLBlast's own kernels do is not our business.
Arguments restrict the cases to those that contain one of them, `--blocks` the algorithms to those on channel
blocks: `make oclgrind ARGS="separable"`. The exit status is 1 when Oclgrind had something to say, or a result
was wrong.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import device_face
from caselib import Case, marked_cases, parse_case

ICD = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"
SETTINGS = {
    "OCL_ICD_VENDORS": ICD,
    # --uninitialized needs the first; the simulator does not know what Clang leaves behind after inlining.
    "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable -Dalways_inline=noinline",
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_MAX_ERRORS": "1000000",
    "CLCNN_CACHE_DIR": "0",
}
# --uninitialized loses track of vectors of 16 floats; the kernels built on them are made for CPU devices
# alone.
WIDE = {("conv", "rows"), ("separable", "rows"), ("conv_pool", "rows")}
# Nor does it know of more initialised elements in a buffer than an earlier one in its place had: these pack
# two sets of filters, the second being the larger.
REUSED = {("separable", algo) for algo in ("amx", "blocked", "split_blocked", "strassen", "fip")}
REUSED |= {("inverted_residual", algo) for algo in ("blocked", "split_blocked")}
# It crashes inside, copying what it knows of a value, at windows with padding on blocks of 8.
CRASHES = {("max_pool_grad", "blocked")}
# It takes 5 s for a tap of 32 x 32 x 32 products, as which this algorithm computes the smallest layer.
SLOW, LITTLE = {"amx"}, 3000  # multiply-adds
SHOWN = 5  # messages a run
REJECTED = 3  # exit status of a run whose algorithm does not apply


def run_one(text: str, algo: str) -> int:
    """The child: one case with one algorithm; prints what is wrong with the result."""
    from clcnn import _core
    from runner import MAIN, checked_class, compile_case, merges, run_case, run_on_any_numbers

    case = parse_case(text)
    data = case.data()
    try:
        with _core.Device("Oclgrind", build_threads=1) as device:  # its compiler is not made for several
            if not merges(device, case):
                return REJECTED
            with compile_case(device, case, data, algo, guard=True) as plan:
                case.check(run_case(plan, case, data), data, checked_class(case, plan))
                plan.check_guards()
                run_on_any_numbers(plan, case)
    except _core.UnsupportedError:
        return REJECTED
    except _core.ArgumentError as why:
        if f"layer '{MAIN}'" not in str(why):
            raise
        return REJECTED  # a view: nothing runs
    except (AssertionError, SystemError) as why:
        print(why)
        return 1
    return 0


def _messages(log: Path) -> list[str]:
    """What Oclgrind has written, without what concerns the library's kernels."""
    found = []
    for part in log.read_text(errors="replace").split("\n\n") if log.exists() else ():
        kernel = re.search(r"Kernel: (\S+)", part)
        if part.strip() and (kernel is None or "_k_" in kernel[1]):
            found.append(part.strip())
    rest = [f"... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return found[:SHOWN] + rest


class Job(NamedTuple):
    """One child: a case, an algorithm, and the channels of a block, 0 for an algorithm without blocks."""

    case: Case
    algo: str
    block: int

    def __str__(self) -> str:
        return f"{self.case.text} [{self.algo}{f', blocks of {self.block}' if self.block else ''}]"


def _watch(job: Job, faces: dict[int, Path]) -> tuple[list[str] | None, float]:
    """(what went wrong, seconds) of one child; None where the algorithm does not apply."""
    case, algo, block = job
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        environment = os.environ | SETTINGS | {"OCLGRIND_LOG": str(log)}
        if block:
            environment["CLCNN_OPENCL_LIBRARY"] = str(faces[block])
        if block != 16 and (case.op, algo) not in WIDE | REUSED | CRASHES:
            environment["OCLGRIND_UNINITIALIZED"] = "1"
        command = [sys.executable, __file__, "--one", case.text, algo]
        child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if child.returncode == REJECTED:
            return None, time.perf_counter() - start
        wrong = _messages(log)
    if child.returncode:
        last = "\n".join((child.stdout + child.stderr).strip().splitlines()[-SHOWN:])
        wrong.append(last or f"the process ended with status {child.returncode}")
    return wrong, time.perf_counter() - start


def _jobs(wanted: Sequence[str], only_blocks: bool) -> list[Job]:
    """The long ones first."""
    from clcnn import _core
    from runner import ON_VECTORS, adds_nothing

    jobs = []
    for case in marked_cases():
        if wanted and not any(w in case.text for w in wanted):
            continue
        for algo in _core.ops()[case.op]["algos"]:
            on_blocks = (case.op, algo) in ON_VECTORS
            if (only_blocks and not on_blocks) or adds_nothing(case, algo):
                continue
            if algo in SLOW and case.macs > LITTLE:
                continue
            jobs += [Job(case, algo, block) for block in ((8, 16) if on_blocks else (0,))]
    return sorted(jobs, key=lambda job: -job.case.macs)


def main(arguments: Sequence[str]) -> int:
    if not Path(ICD).exists():
        print(f"oclgrind: {ICD} is missing; apt install oclgrind")
        return 1
    start = time.perf_counter()
    jobs = _jobs([a for a in arguments if a != "--blocks"], "--blocks" in arguments)
    slowest, ran, bad = [], 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool,
    ):
        faces = {width: device_face.build(Path(folder), "CPU", width) for width in (8, 16)}
        for job, (wrong, seconds) in zip(jobs, pool.map(lambda job: _watch(job, faces), jobs)):
            ran += wrong is not None
            if wrong:
                bad += 1
                print("\n".join([str(job), *wrong, ""]), flush=True)
            slowest.append((seconds, str(job)))
    for seconds, name in sorted(slowest, reverse=True)[:SHOWN]:
        print(f"{seconds:6.1f} s  {name}")
    print(f"{ran} runs, {bad} with messages, {time.perf_counter() - start:.0f} s")
    return 1 if bad or not ran else 0


if __name__ == "__main__":
    sys.exit(run_one(*sys.argv[2:]) if sys.argv[1:2] == ["--one"] else main(sys.argv[1:]))
