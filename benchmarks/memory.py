"""Memory of each net: device memory against the rule, and a process's resident set beside other libraries.

The rule: weights + 1.2 x the largest set of activations alive at once + workspace (64 MiB at most) is enough
for everything that a plan holds on the device. Resident sets are what a fresh process gained from its imports
to the end of three runs, its own copy of the weights dropped where the library allows it. Weights and arena
should be no more than the most that onnxruntime's process gained on its way there.

    memory.py                                        # the zoo's nets at batch 1 and 8
    memory.py --limit --nets resnet50 --batch 8      # what memory_limit= costs, from the least one on
    memory.py --training --nets resnet50 --batch 8   # the same of a Trainer, at shares of what it takes

With --limit and --training plans of several limits run in turn; a time is the least of the rounds, over that
of the plan without a limit, beside what the planner expected. Halving what a step of training takes should
cost 35 % of time at most.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import common
import numpy as np

import clcnn
from clcnn.graph import trace

ACTIVATIONS = 1.2
WORKSPACE = 64 << 20
HELD_BELOW = "onnxruntime"  # whose peak weights and arena stay below
HEAD = [
    "net",
    "batch",
    "parameters",
    "weights",
    "live",
    "arena",
    "workspace",
    "peak",
    "rule",
    "",
    "RSS MiB: clcnn",
]
WIDTHS = [14, 5, 10, 8, 8, 8, 9, 8, 8, 4, 14]


def rule(stats: dict[str, Any]) -> float:
    """Bytes that a plan with these statistics may hold."""
    return (
        stats["weights_bytes"] + ACTIVATIONS * stats["live_bytes"] + min(stats["workspace_bytes"], WORKSPACE)
    )


def plan_stats(net: str, batch: int, device: clcnn.Device) -> dict[str, Any]:
    """The plan's own statistics, what the device's allocator counted, and the bytes of the parameters."""
    module = clcnn.zoo.get(net)
    before = device.stats()["bytes_now"]
    with clcnn.compile(module, (batch, *clcnn.zoo.find(net).input_shape), device=device) as plan:
        parameters = sum(array.nbytes for array in module.state_dict().values())
        return plan.stats | {
            "parameter_bytes": parameters, "allocated_bytes": device.stats()["bytes_now"] - before
        }  # fmt: skip


# ---- in a fresh process ----


def _run_clcnn(net: str, x: np.ndarray, _: str) -> Any:
    plan = clcnn.compile(trace(clcnn.zoo.get(net), x.shape), device="cpu")
    return lambda: plan(x)


def _run_torch(net: str, x: np.ndarray, _: str) -> Any:
    import peers

    return peers.CPU["torch"].load(peers.Model(trace(clcnn.zoo.get(net), x.shape)), x).resident


def _run_openvino(net: str, x: np.ndarray, path: str) -> Any:
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": common.cores()}
    request = openvino.Core().compile_model(path, "CPU", options).create_infer_request()
    return lambda: request.infer([x], share_inputs=True)


def _run_onnxruntime(net: str, x: np.ndarray, path: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = common.cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x0": x})


# Module to import before counting starts, and what loads the net.
CHILDREN = {
    "clcnn": ("clcnn.plan", _run_clcnn),
    "torch": ("torch_net", _run_torch),
    "openvino": ("openvino", _run_openvino),
    "onnxruntime": ("onnxruntime", _run_onnxruntime),
}


def rss_child(who: str, net: str, batch: int, path: str) -> dict[str, float]:
    """MiB that this process gains by loading the net and running it three times: at the end, and at most."""
    importlib.import_module(CHILDREN[who][0])
    x = np.zeros((batch, *clcnn.zoo.find(net).input_shape), np.float32)
    before = common.rss_mib()
    run = CHILDREN[who][1](net, x, path)
    gc.collect()
    for _ in range(3):
        run()
    return {"rss_mib": common.rss_mib() - before, "peak_rss_mib": common.rss_mib("VmHWM") - before}


def rss(wanted: list[str], net: str, batch: int) -> dict[str, dict[str, float]]:
    """rss_child() of clcnn and of each peer, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        if set(wanted) & {"openvino", "onnxruntime"}:
            import peers

            path.write_bytes(
                peers.Model(trace(clcnn.zoo.get(net), (batch, *clcnn.zoo.find(net).input_shape))).onnx
            )
        found = {}
        for who in ["clcnn", *wanted]:
            command = [
                sys.executable,
                __file__,
                "--child",
                who,
                "--nets",
                net,
                "--batch",
                str(batch),
                "--file",
                str(path),
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[who] = json.loads(done.stdout)
        return found


# ---- memory_limit ----

LIMITS = 6  # from the least on, and one more without
SMALLEST = re.compile(r"the smallest plan needs ([\d.]+) KiB")
EXPECTED = re.compile(r"memory_limit: .* at ([\d.]+) times the expected time")
LIMIT_HEAD = ["net", "batch", "limit MiB", "peak MiB", "ms", "time", "expected", "compile s"]
LIMIT_WIDTHS = [14, 5, 9, 8, 8, 6, 8, 9]


def least_limit(graph: Any, device: clcnn.Device) -> int:
    """Bytes of the smallest plan, which a refusal tells."""
    try:
        clcnn.compile(graph, device=device, memory_limit=1).close()
    except clcnn.DeviceMemoryError as error:
        found = SMALLEST.search(str(error))
        if found:
            return int(float(found[1]) * 1024) + 64  # the message is rounded to a tenth of a KiB
        raise
    return 1


def limited(
    net: str, batch: int, device: clcnn.Device, rounds: int, given: list[int]
) -> Iterator[dict[str, Any]]:
    """A result for each limit in MiB, or for LIMITS from the least one on; the first is without one."""
    shape = (batch, *clcnn.zoo.find(net).input_shape)
    graph = trace(clcnn.zoo.get(net), shape)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    with ExitStack() as stack:
        plans, seconds, least = [], [], []
        free = stack.enter_context(clcnn.compile(graph, device=device))
        steps = np.linspace(least_limit(graph, device), free.peak_bytes - 1, LIMITS)
        limits = [0, *([n << 20 for n in given] or [int(n) for n in steps])]
        for limit in limits:
            start = time.perf_counter()
            plans.append(stack.enter_context(clcnn.compile(graph, device=device, memory_limit=limit)))
            seconds.append(time.perf_counter() - start)
            plans[-1](x)
            least.append(float("inf"))
        for _ in range(rounds):
            for i, plan in enumerate(plans):
                start = time.perf_counter()
                plan(x)
                least[i] = min(least[i], 1e3 * (time.perf_counter() - start))
        for plan, limit, ms, compiled in zip(plans, limits, least, seconds):
            noted = [m for m in map(EXPECTED.fullmatch, plan.rewrites) if m]
            yield {
                "case": net, "batch": batch, "precision": "highest", "peer": None, "limit_bytes": limit,
                "peak_bytes": plan.peak_bytes, "clcnn_ms": ms, "time": ms / least[0],
                "expected": float(noted[0][1]) if noted else 1.0, "compile_s": compiled,
            }  # fmt: skip


def limits(args: argparse.Namespace, device: clcnn.Device) -> int:
    """The table of --limit or --training; 1 where a plan takes more than its limit, or half too long."""
    results: list[dict[str, Any]] = []
    print(common.table(LIMIT_HEAD, [], LIMIT_WIDTHS))
    for net in args.nets:
        for batch in args.batch:
            found = (
                trained(net, batch, device, args.rounds)
                if args.training
                else limited(net, batch, device, args.rounds, args.limits)
            )
            for r in found:
                limit = f"{r['limit_bytes'] / 2**20:.1f}" if r["limit_bytes"] else "none"
                cells = [net, batch, limit, f"{r['peak_bytes'] / 2**20:.1f}", f"{r['clcnn_ms']:.1f}"]
                cells += [f"{r['time']:.3f}", f"{r['expected']:.2f}", f"{r['compile_s']:.2f}"]
                print(common.table([], [cells], LIMIT_WIDTHS), flush=True)
                results.append(r)
    common.finish(results, args.json, device=device.name)
    slow = args.training and any(r["time"] > MOST_TIME for r in results)
    return int(slow or any(0 < r["limit_bytes"] < r["peak_bytes"] for r in results))


# ---- memory_limit of a Trainer ----

SHARES = (1.0, 0.75, 0.5)  # of what the plan without a limit takes
MOST_TIME = 1.35  # that half of it may cost


def trained(net: str, batch: int, device: clcnn.Device, rounds: int) -> list[dict[str, Any]]:
    """A result for each of SHARES: steps of trainers of one net and batch, in turn."""
    shape = (batch, *clcnn.zoo.find(net).input_shape)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    y = np.arange(batch)
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        trainers = []
        for share in SHARES:
            limit = int(share * results[0]["peak_bytes"]) if results else 0
            module = clcnn.zoo.get(net)
            sgd = clcnn.optim.SGD(module.parameters(), lr=1e-6, momentum=0.9)
            made = clcnn.train.Trainer(
                module, clcnn.nn.CrossEntropyLoss(), sgd, device=device, memory_limit=limit
            )
            trainers.append(stack.enter_context(made))
            start = time.perf_counter()
            made.step(x, y)
            (plan,) = made._plans.values()
            noted = [m for m in map(EXPECTED.fullmatch, plan.rewrites) if m]
            results.append({
                "case": net, "batch": batch, "precision": "highest", "peer": None, "limit_bytes": limit,
                "peak_bytes": plan.peak_bytes, "clcnn_ms": float("inf"),
                "expected": float(noted[0][1]) if noted else 1.0, "compile_s": time.perf_counter() - start,
            })  # fmt: skip
        for _ in range(rounds):
            for trainer, result in zip(trainers, results):
                start = time.perf_counter()
                trainer.step(x, y)
                result["clcnn_ms"] = min(result["clcnn_ms"], 1e3 * (time.perf_counter() - start))
    for result in results:
        result["time"] = result["clcnn_ms"] / results[0]["clcnn_ms"]
    return results


# ---- the table ----


def result_rows(
    net: str, batch: int, stats: dict[str, Any], resident: dict[str, dict[str, float]]
) -> list[dict[str, Any]]:
    """A result for each peer, or one without. ratio: the peer's resident set over ours."""
    base = {"case": net, "batch": batch, "precision": "highest", **stats, "rule_bytes": rule(stats)}
    base |= {"pass": stats["peak_bytes"] <= rule(stats), **resident.get("clcnn", {})}
    others = {who: figures for who, figures in resident.items() if who != "clcnn"}
    if HELD_BELOW in others:
        held = (stats["weights_bytes"] + stats["arena_bytes"]) / 2**20
        base |= {"held_mib": held, "held_pass": held <= others[HELD_BELOW]["peak_rss_mib"]}
    made = [
        base
        | {
            "peer": who,
            **{f"peer_{k}": v for k, v in figures.items()},
            "ratio": figures["rss_mib"] / base["rss_mib"],
        }
        for who, figures in others.items()
    ]
    return made or [base | {"peer": None}]


def line(rows: list[dict[str, Any]], wanted: list[str]) -> str:
    """One table line for a net at a batch, in MiB."""
    first = rows[0]
    keys = [
        "parameter_bytes",
        "weights_bytes",
        "live_bytes",
        "arena_bytes",
        "workspace_bytes",
        "peak_bytes",
        "rule_bytes",
    ]
    cells = [f"{first[key] / 2**20:.1f}" for key in keys]
    by_peer = {row["peer"]: row for row in rows}
    sets = [f"{first['rss_mib']:.0f}" if "rss_mib" in first else "-"]
    sets += [f"{by_peer[who]['peer_rss_mib']:.0f}" for who in wanted]
    if HELD_BELOW in wanted:
        peak = by_peer[HELD_BELOW]["peer_peak_rss_mib"]
        sets.append(f"{first['held_mib']:.0f} of {peak:.0f} {_verdict(first['held_pass'])}")
    row = [first["case"], first["batch"], *cells, _verdict(first["pass"]), *sets]
    return common.table([], [row], _widths(wanted))


def _verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def _head(wanted: list[str]) -> list[str]:
    return [
        *HEAD,
        *wanted,
        *(["weights + arena of " + HELD_BELOW + "'s peak"] if HELD_BELOW in wanted else []),
    ]


def _widths(wanted: list[str]) -> list[int]:
    return [
        max(width, len(word))
        for width, word in zip([*WIDTHS, *(6 for _ in range(len(wanted) + 1))], _head(wanted))
    ]


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=common.NETS, help="zoo names, with commas")
    parser.add_argument("--batch", type=common.ints, default=[1, 8], help="batch sizes (default 1,8)")
    parser.add_argument("--device", default="cpu", help="OpenCL device of the plans (default cpu)")
    parser.add_argument(
        "--peers",
        type=common.names,
        default=["openvino", "onnxruntime", "torch"],
        help='resident sets, or "none"',
    )
    parser.add_argument("--limit", action="store_true", help="what memory_limit= costs")
    parser.add_argument("--training", action="store_true", help="what memory_limit= of a Trainer costs")
    parser.add_argument(
        "--limits", type=common.ints, default=[], help="MiB, instead of six from the least on"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(rss_child(args.child, args.nets[0], args.batch[0], args.file)))
        return 0
    if args.limit or args.training:
        return limits(args, clcnn.Device(args.device))
    if args.peers and not importlib.util.find_spec("torch"):
        print("peers: skipped, torch makes their models and is not installed (pip install clcnn[bench])")
        args.peers = []
    wanted = [who for who in args.peers if importlib.util.find_spec(who)]
    results: list[dict[str, Any]] = []
    device = clcnn.Device(args.device)
    print(f"{device.name}; MiB; rule: weights + {ACTIVATIONS} x live + workspace, against peak")
    print(common.table(_head(wanted), [], _widths(wanted)))
    for net in args.nets:
        for batch in args.batch:
            stats = plan_stats(net, batch, device)
            made = result_rows(net, batch, stats, rss(wanted, net, batch) if wanted else {})
            print(line(made, wanted), flush=True)
            results += made
            common.write(results, args.json, device=device.name)
    common.finish(results, args.json, device=device.name)
    return int(not all(row["pass"] and row.get("held_pass", True) for row in results))


if __name__ == "__main__":
    sys.exit(main())
