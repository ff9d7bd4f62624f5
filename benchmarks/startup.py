"""Start: import (at most 100 ms beyond NumPy's), compile with empty and warm kernel caches, steady runs.

Every figure comes from a fresh process. A net compiled from a warm cache should take at most 0.5 s; from the
import of clcnn to the first result, with compile(background=True), 3 s from an empty cache and 0.3 s from a
warm one; Ctrl-C ends a compile within 1 s; 1000 runs leave the device's memory as it was and the process's to
within a page. Nets that are not in the zoo come from torchvision or timm as ONNX files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import common

IMPORT_LIMIT_MS = 100.0
COLD_LIMIT_MS = {"resnet50": 10000.0}
FIRST_LIMIT_MS = {"cold": 3000.0, "warm": 300.0}
WARM_LIMIT_MS = {"mobilenet_v1": 500.0, "resnet50": 500.0}
INTERRUPT_LIMIT_MS = 1000.0
RSS_LIMIT_KIB = 256.0  # noise of the allocator; an array that each run leaks passes it many times over

# Folders of compiled kernels: ours, and those that PoCL and NVIDIA's driver keep for themselves.
CACHES = ["CLCNN_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH"]

# What a program touches before it compiles anything, with NumPy already there.
IMPORT = """
import time, numpy
start = time.perf_counter()
import clcnn
clcnn.nn, clcnn.zoo, clcnn.compile, clcnn.Device, clcnn.Plan, clcnn.Tensor
print((time.perf_counter() - start) * 1e3)
"""


def fresh(*arguments: str, cache: str | None = None) -> str:
    """Standard output of this interpreter in a new process."""
    environment = dict(os.environ, **(dict.fromkeys(CACHES, cache) if cache else {}))
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def compile_child(net: str, batch: int, device: str, runs: int) -> dict[str, Any]:
    """In a fresh process: milliseconds to open the device, build the net in Python, compile it and run it
    once it is warm; then what `runs` further runs leave behind."""
    import time

    import numpy as np

    import clcnn

    def lap() -> float:
        nonlocal last
        before, last = last, time.perf_counter()
        return (last - before) * 1e3

    last = time.perf_counter()
    opened = clcnn.Device(device)
    times = {"open_ms": lap()}
    module = clcnn.zoo.get(net)
    module.state_dict()  # random weights are drawn when first read; a program would load them here
    times["net_ms"] = lap()
    plan = clcnn.compile(module, (batch, *clcnn.zoo.find(net).input_shape), device=opened)
    times["compile_ms"] = lap()
    x = np.zeros(next(iter(plan.inputs.values())), np.float32)
    y = plan(x)
    lap()
    plan(x, out=y)
    times["run_ms"] = lap()
    built = opened.stats()
    for _ in range(max(20, runs // 10)):
        plan(x, out=y)
    device_before, rss_before = opened.stats()["bytes_now"], common.rss_mib()
    for _ in range(runs):
        plan(x, out=y)
    return times | {
        "programs_built": built["programs_built"], "programs_loaded": built["programs_loaded"],
        "device_growth_bytes": opened.stats()["bytes_now"] - device_before,
        "rss_growth_kib": (common.rss_mib() - rss_before) * 1024,
    }  # fmt: skip


# Ctrl-C so many seconds after a compile has begun; milliseconds until KeyboardInterrupt.
INTERRUPT = """
import os, signal, sys, threading, time
import clcnn
net, after, device = sys.argv[1], float(sys.argv[2]), clcnn.Device(sys.argv[3])
module = clcnn.zoo.get(net)
module.state_dict()
sent = 0.0
def send():
    global sent
    time.sleep(after)
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=send, daemon=True).start()
try:
    clcnn.compile(module, (1, *clcnn.zoo.find(net).input_shape), device=device)
    time.sleep(2 * after)
except KeyboardInterrupt:
    print((time.perf_counter() - sent) * 1e3)
"""


# Milliseconds from the import of clcnn to the first result of a net, of what an import of NumPy left.
FIRST = """
import sys, time, numpy
start = time.perf_counter()
import clcnn
source, shape, background = sys.argv[1], tuple(map(int, sys.argv[2].split(","))), sys.argv[3] == "True"
net = source if source.endswith(".onnx") else clcnn.zoo.get(source)
drawn = time.perf_counter()
if net is not source:
    net.state_dict()  # random weights are drawn when first read; a program would load them here
start += time.perf_counter() - drawn
x = numpy.zeros(shape, numpy.float32)
plan = clcnn.compile(net, shape, sys.argv[4], background=background)
plan(x)
print((time.perf_counter() - start) * 1e3)
plan.wait()
"""


@contextlib.contextmanager
def source_of(net: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What clcnn.compile() takes for a net, and its input's shape: of the zoo its name, else an ONNX file."""
    import clcnn

    if net in clcnn.zoo.NETS:
        yield net, (1, *clcnn.zoo.find(net).input_shape)
        return
    import torch
    import torchvision

    if hasattr(torchvision.models, net):
        module = getattr(torchvision.models, net)(weights=None)
    else:
        import timm

        module = timm.create_model(net, pretrained=False)
    shape = (1, 3, 224, 224)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        torch.onnx.export(module.eval(), (torch.zeros(shape),), path, dynamo=False)
        yield path, shape


def first_results(results: list[dict[str, Any]], net: str, args: argparse.Namespace) -> None:
    """Reports import to first result, cold and warm, with the best kernels and with those that are soon
    built."""
    with source_of(net) as (source, shape):
        for background in (False, True):
            options = [source, ",".join(map(str, shape)), str(background), args.device]
            with tempfile.TemporaryDirectory() as cache:
                cold = float(fresh("-c", FIRST, *options, cache=cache))
                repeats = range(args.repeats // 2 or 1)
                warm = min(float(fresh("-c", FIRST, *options, cache=cache)) for _ in repeats)
            for kind, ms in (("cold", cold), ("warm", warm)):
                case = f"{net}:first_result_{kind}{'_background' if background else ''}"
                limit = FIRST_LIMIT_MS[kind] if background or kind == "warm" else None
                report(results, case, ms, "ms", limit)


def interrupted(net: str, device: str) -> float:
    """The longest wait for KeyboardInterrupt, of some in a compile from an empty cache."""
    waits = []
    for after in (0.3, 1.0, 2.0, 3.0):
        with tempfile.TemporaryDirectory() as cache:
            waits.append(float(fresh("-c", INTERRUPT, net, str(after), device, cache=cache)))
    return max(waits)


def child(net: str, args: argparse.Namespace, cache: str | None, runs: int) -> dict[str, Any]:
    """compile_child() in a fresh process with the kernel cache `cache`, None for the usual one."""
    options = [__file__, "--child", net, "--device", args.device, "--runs", str(runs)]
    return json.loads(fresh(*options, cache=cache))


def report(
    results: list[dict[str, Any]], case: str, value: float, unit: str, limit: float | None, **more: Any
) -> None:
    """Prints a figure beside its limit and keeps it as a result."""
    verdict = "" if limit is None else f"  limit {limit:g} {unit}: {'pass' if value <= limit else 'FAIL'}"
    print(f"{case:40} {value:10.1f} {unit}{verdict}", flush=True)
    row = {
        "case": case,
        "batch": 1,
        "precision": "highest",
        "peer": None,
        "value": value,
        "unit": unit,
        "limit": limit,
    }
    if unit == "ms":
        row["clcnn_ms"] = value
    results.append(row | more)


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument(
        "--nets", type=common.names, default=["mobilenet_v1", "resnet50"], help="nets to compile"
    )
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    parser.add_argument("--repeats", type=int, default=10, help="fresh processes for a minimum (default 10)")
    parser.add_argument("--runs", type=int, default=1000, help="runs that may not allocate (default 1000)")
    parser.add_argument(
        "--first",
        type=common.names,
        default=["resnet50"],
        help="nets whose first result is timed, also of torchvision and timm (swin_t, convnext_atto)",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(compile_child(args.child, 1, args.device, args.runs)))
        return 0
    results: list[dict[str, Any]] = []
    imports = min(float(fresh("-c", IMPORT)) for _ in range(args.repeats))
    report(results, "import", imports, "ms", IMPORT_LIMIT_MS)
    for net in args.first:
        first_results(results, net, args)
    for net in args.nets:
        with tempfile.TemporaryDirectory() as cache:
            cold = child(net, args, cache, 1)
            warm = min(
                (child(net, args, cache, 1) for _ in range(args.repeats // 2 or 1)),
                key=lambda r: r["compile_ms"],
            )
        report(results, f"{net}:compile_cold", cold["compile_ms"], "ms", COLD_LIMIT_MS.get(net), **cold)
        report(results, f"{net}:compile_warm", warm["compile_ms"], "ms", WARM_LIMIT_MS.get(net), **warm)
        report(results, f"{net}:open_and_build_warm", warm["open_ms"] + warm["net_ms"], "ms", None)
        wait = interrupted(net, args.device)
        report(results, f"{net}:interrupt_cold", wait, "ms", INTERRUPT_LIMIT_MS)
    for net in args.nets[:1]:
        steady = child(net, args, None, args.runs)
        report(results, f"{args.runs} runs: device memory", steady["device_growth_bytes"], "bytes", 0)
        report(results, f"{args.runs} runs: resident set", steady["rss_growth_kib"], "KiB", RSS_LIMIT_KIB)
    common.finish(results, args.json, device=args.device)
    return int(any(r["limit"] is not None and r["value"] > r["limit"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
