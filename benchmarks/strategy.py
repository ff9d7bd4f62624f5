"""What choosing each layer's algorithm is worth: the rules beside the best measured table and beside one
algorithm everywhere.

    strategy.py --device cpu --batch 1,8                                # seven nets
    strategy.py --nets alexnet --single alexnet --algorithms im2col     # one against im2col everywhere
    strategy.py --nets alexnet --busy 2                                 # measured while others use the cores

For each net the table is measured twice, the second time with warm kernels, which is the time told. Then the
plan of the rules and that of the table run in turn: the gain is their ratio, above 1 where the table is
faster, and 1 where it is empty, since both plans are the same then. Outputs are compared first. Reorders are
between layouts; a share above 3 % of the rules' plan is pointed out. Nets of --single also run with each
algorithm of --algorithms wherever it applies, and by the rules elsewhere; their ratio is the algorithm's time
over the rules'.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import common
import numpy as np
import sessions

import clcnn
from clcnn import _core, zoo
from clcnn.graph import trace
from clcnn.plan import Plan
from clcnn.wisdom import profile
from clcnn.wisdom.measure import AGREE, measure

SINGLE = {"cpu": "blocked,rows,direct,implicit,im2col", "gpu": "implicit,im2col,direct,winograd_gemm"}
REORDERS = 0.03  # of the time, above which a solver over layouts would have something to do
PROFILES = 5
HEAD = ["net", "batch", "precision", "rules ms", "table ms", "gain", "choices", "tuning s", "reorders"]
WIDTHS = [14, 5, 9, 9, 9, 6, 7, 8, 8]
SINGLE_WIDTHS = [14, 5, 9, 9, 14, 9, 6]


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that use a core each."""
    workers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def in_turn(
    first: Any, second: Any, x: np.ndarray, device: clcnn.Device, agree: float, args: argparse.Namespace
) -> tuple[float, float]:
    """Milliseconds of two plans in turn. Raises Wrong where their outputs differ by more than `agree` of the
    rms."""
    with sessions.of_plan(first, x, device) as a, sessions.of_plan(second, x, device) as b:
        common.checked(b.run(x), a.run(x), agree)
        runs = {"first": a.resident, "second": b.resident}
        times = common.interleave(runs, args.rounds, args.seconds, warm=1)
    return times["first"]["min"], times["second"]["min"]


def alone(plan: Any, x: np.ndarray, device: clcnn.Device, args: argparse.Namespace) -> float:
    """Milliseconds of a plan."""
    with sessions.of_plan(plan, x, device) as session:
        return common.interleave({"plan": session.resident}, args.rounds, args.seconds)["plan"]["min"]


def beside(ours: float, peer: str, theirs: float) -> dict[str, Any]:
    """What a row says of two times in ms."""
    return {"clcnn_ms": ours, "peer": peer, "peer_ms": theirs, "ratio": theirs / ours}


def reorders(plan: Any, x: np.ndarray) -> float:
    """Their share of a plan's time."""
    profiles = [plan.profile(x).rows for _ in range(PROFILES)]
    steps = [(rows[0].op, min(row.ms for row in rows)) for rows in zip(*profiles)]
    return sum(ms for op, ms in steps if op == "reorder") / (sum(ms for _, ms in steps) or 1.0)


def tuned(
    case: dict[str, Any], graph: clcnn.Graph, x: np.ndarray, device: clcnn.Device, args: argparse.Namespace
) -> dict[str, Any]:
    """The rules beside a table that was measured for this graph."""
    precision, known = case["precision"], profile.of(device, measured=False)
    with busy(args.busy):
        measure(graph, device, precision=precision, profile=known)
        start = time.perf_counter()
        found = measure(graph, device, precision=precision, profile=known)
        seconds = time.perf_counter() - start
    given = {"device": device, "precision": precision, "tune": "off"}
    with clcnn.compile(graph, **given) as rules:
        facts = {"choices": len(found.choices), "tuning_s": seconds, "reorders": reorders(rules, x)}
        if not found.choices:  # the same plan
            ours = theirs = alone(rules, x, device, args)
        else:
            core = _core.Plan(device, graph._core, precision=precision, wisdom=found.choices, profile=known)
            with Plan(core, tuple(graph.outputs), graph.rows()) as table:
                ours, theirs = in_turn(rules, table, x, device, AGREE[precision], args)
    return case | beside(ours, "table", theirs) | {"gain": ours / theirs} | facts


def single(
    case: dict[str, Any],
    algorithm: str,
    graph: clcnn.Graph,
    x: np.ndarray,
    device: clcnn.Device,
    args: argparse.Namespace,
    **options: Any,
) -> dict[str, Any]:
    """The default plan beside one with a single algorithm wherever it applies; options: of that plan."""
    precision = case["precision"]
    given = {"device": device, "precision": precision, "tune": "off"}
    with (
        clcnn.compile(graph, **given) as rules,
        clcnn.compile(graph, algorithms=algorithm, **given, **options) as plan,
    ):
        ours, theirs = in_turn(rules, plan, x, device, AGREE[precision], args)
    return case | beside(ours, algorithm, theirs)


def show(row: dict[str, Any]) -> None:
    cells = [row["case"], row["batch"], row["precision"], row["clcnn_ms"]]
    if row["peer"] == "table":
        cells += [row["peer_ms"], row["gain"], row["choices"], row["tuning_s"], f"{row['reorders']:.1%}"]
        print(common.table([], [cells], WIDTHS), flush=True)
        if row["reorders"] > REORDERS:
            print(f"    reorders take more than {REORDERS:.0%}: layouts are chosen badly")
    else:
        cells += [row["peer"], row["peer_ms"], row["ratio"]]
        print(common.table([], [cells], SINGLE_WIDTHS), flush=True)


def cases(
    nets: Iterable[str], args: argparse.Namespace
) -> Iterator[tuple[dict[str, Any], clcnn.Graph, np.ndarray]]:
    """What a row says of a case, its graph and an input."""
    for name in nets:
        for batch in args.batch:
            shape = (batch, *zoo.find(name).input_shape)
            graph = trace(zoo.get(name), shape)
            x = np.random.default_rng(0).standard_normal(shape, np.float32)
            for precision in args.precision:
                yield {"case": name, "batch": batch, "precision": precision}, graph, x


def attempt(results: list[dict[str, Any]], row: Callable[[], dict[str, Any]], what: str) -> int:
    """Adds and shows a row, or tells why there is none, and gives 1."""
    try:
        results.append(row())
    except (clcnn.Error, common.Wrong) as error:
        print(f"{what}: {type(error).__name__}: {error}"[:300])
        return 1
    show(results[-1])
    return 0


def arguments(description: str, nets: list[str]) -> argparse.ArgumentParser:
    """The options that this script and baselines.py have."""
    parser = common.arguments(description)
    parser.add_argument("--nets", type=common.names, default=nets, help="zoo names, with commas")
    parser.add_argument("--batch", type=common.ints, default=[1], help="batch sizes (default 1)")
    parser.add_argument("--precision", type=common.names, default=["highest"])
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    return parser


def main() -> int:
    parser = arguments(__doc__, common.NETS)
    parser.add_argument("--single", type=common.names, default=["alexnet", "googlenet"], metavar="NETS")
    parser.add_argument("--algorithms", type=common.names, help=f"of --single (default {SINGLE})")
    parser.add_argument("--busy", type=int, default=0, help="processes that use cores during the tuning")
    args = parser.parse_args()
    device = sessions.opened(args.device)
    if device is None:
        return 0
    algorithms = args.algorithms or SINGLE["cpu" if device.type == "cpu" else "gpu"].split(",")
    print(common.table(HEAD, [], WIDTHS))
    results: list[dict[str, Any]] = []
    failed = 0
    for case, graph, x in cases(dict.fromkeys([*args.nets, *args.single]), args):
        name, here = case["case"], (graph, x, device, args)
        if name in args.nets:
            failed += attempt(results, partial(tuned, case, *here), f"{name}: tuning")
        for algorithm in algorithms if name in args.single else ():
            failed += attempt(results, partial(single, case, algorithm, *here), f"{name}: {algorithm}")
        common.write(results, args.json)
    common.finish(results, args.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
