"""What zeros of the maps are worth: layers with and without skipping, on maps of real photos.

    sparsity.py --maps                           # ten layers of VGG-16, a photo of a cat
    sparsity.py --maps --match 'vgg16_china_*'   # by the names of the files
    sparsity.py --calibrated                     # what the planner takes that knows the maps' zeros

Maps are those of `sparse_maps` in the folder of test data (CLCNN_TEST_DATA); filters are random. Both plans
are held against float64 before they are timed, and against each other: their bits must be the same. A figure
is the least sum of a layer's own steps, transforms of inputs and masks included; plans run in turn. The ratio
is the time without skipping over that with it. `dense` is the same on a map without a zero. With calibration
the ratio is the time of the plan without over that of the plan with it; `expected` is the same by the costs
of the rules, for the algorithm that was taken.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import algorithms
import common
import numpy as np
import sessions
import strategy

import clcnn

ERROR_LIMIT = 4e-6  # of the rms, as the tests hold normal distributions to it
HEAD = ["map", "algorithm", "density", "rms error", "skip ms", "all ms", "ratio", "dense"]
WIDTHS = [24, 10, 7, 9, 8, 8, 6, 6]
CALIBRATED_HEAD = ["map", "without", "with", "zeros", "tiles", "with ms", "w/o ms", "ratio", "expected"]
CALIBRATED_WIDTHS = [24, 12, 12, 6, 6, 8, 8, 6, 8]
CONSUMER = re.compile(r"Conv (\d+)x(\d+) 3x3 stride 1 pad 1,")


def map_folder() -> Path:
    """Where the maps are, as the tests look for them."""
    data = os.environ.get("CLCNN_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    return Path(data) / "sparse_maps"


def layers(match: str) -> Iterator[tuple[str, np.ndarray, algorithms.Point]]:
    """Name, map and layer of each file that matches and feeds a 3x3 convolution."""
    folder = map_folder()
    for row in json.loads((folder / "index.json").read_text())["maps"]:
        name, consumer = Path(row["file"]).stem, CONSUMER.search(row["consumer"])
        if consumer and fnmatch.fnmatch(name, match):
            x = np.ascontiguousarray(np.load(folder / row["file"])["x"], np.float32)
            filters, channels = map(int, consumer.groups())
            yield name, x, algorithms.Point(3, channels, filters, x.shape[2], x.shape[0])


def paired(plans: dict[bool, clcnn.Plan], x: np.ndarray, rounds: int) -> dict[bool, float]:
    """Least milliseconds of the layer with skipping and without, in turn."""
    times: dict[bool, list[float]] = {skip: [] for skip in plans}
    for _ in range(rounds):
        for skip, plan in plans.items():
            plan(x)  # what the other plan left in the caches is gone
            times[skip].append(algorithms.layer_time(plan, x)[0])
    return {skip: min(t) for skip, t in times.items()}


def measured(
    name: str, x: np.ndarray, point: algorithms.Point, device: clcnn.Device, args: argparse.Namespace
) -> dict[str, Any]:
    """A layer with skipping and without. Raises Wrong where a result is off, or their bits differ."""
    graph, full, w = algorithms.graph_of(point)
    with ExitStack() as stack:
        compiled = (clcnn.compile(graph, device=device, skip=skip, tune="off") for skip in (True, False))
        plans = {skip: stack.enter_context(plan) for skip, plan in zip((True, False), compiled)}
        results = {skip: plan(x) for skip, plan in plans.items()}
        error = algorithms.rms_error(point, results[False], x, w)
        if not error <= ERROR_LIMIT:
            raise common.Wrong(f"the result is off by {error:.2g} of its rms, at most {ERROR_LIMIT} is right")
        if results[True].tobytes() != results[False].tobytes():
            raise common.Wrong("skipping changes the result")
        (row,) = (row for row in plans[True].layers if row["layer"] == "conv")
        on_map, dense = (
            paired(plans, x, args.rounds),
            paired(plans, np.abs(full) + np.float32(0.1), args.rounds),
        )
    case = {"case": name, "batch": point.batch, "precision": "highest", "algorithm": row["algo"]}
    case |= {"density": float(np.count_nonzero(x)) / x.size, "rms_error": error}
    case |= strategy.beside(on_map[True], "own:skip=False", on_map[False])
    return case | {"dense_ratio": dense[False] / dense[True]}


def effort(plan: clcnn.Plan, algorithm: str) -> float:
    """What the rules expect of an algorithm for the layer."""
    (row,) = (row for row in plan.layers if row["layer"] == "conv")
    return float(next(c["effort"] for c in row["candidates"] if c["algo"] == algorithm))


def calibrated_layer(
    name: str, x: np.ndarray, point: algorithms.Point, device: clcnn.Device, args: argparse.Namespace
) -> dict[str, Any]:
    """A layer with calibration and without. Raises Wrong where a result is off."""
    graph, _, w = algorithms.graph_of(point)
    zeros = clcnn.calibrate(graph, x, device)
    with ExitStack() as stack:
        given: dict[bool, Any] = {True: zeros, False: {}}
        plans = {
            knows: stack.enter_context(clcnn.compile(graph, device=device, zeros=z, tune="off"))
            for knows, z in given.items()
        }
        error = algorithms.rms_error(point, plans[True](x), x, w)
        if not error <= ERROR_LIMIT:
            raise common.Wrong(f"the result is off by {error:.2g} of its rms, at most {ERROR_LIMIT} is right")
        taken = {
            knows: next(row["algo"] for row in plan.layers if row["layer"] == "conv")
            for knows, plan in plans.items()
        }
        times = paired(plans, x, args.rounds)
        expected = effort(plans[False], taken[True]) / effort(plans[True], taken[True])
    case = {"case": name, "batch": point.batch, "precision": "highest", "algorithm": taken[True]}
    case |= {"without": taken[False], "rms_error": error, "expected": expected}
    case |= strategy.beside(times[True], "own:zeros={}", times[False])
    return case | zeros["conv"]._asdict()


def show_calibrated(row: dict[str, Any]) -> None:
    cells = [row["case"], row["without"], row["algorithm"], f"{row['element']:.2f}", f"{row['tile']:.2f}"]
    cells += [f"{row['clcnn_ms']:.3f}", f"{row['peer_ms']:.3f}", f"{row['ratio']:.3f}"]
    print(common.table([], [[*cells, f"{row['expected']:.2f}"]], CALIBRATED_WIDTHS), flush=True)


def show(row: dict[str, Any]) -> None:
    cells = [row["case"], row["algorithm"], f"{row['density']:.2f}", f"{row['rms_error']:.0e}"]
    cells += [f"{row['clcnn_ms']:.3f}", f"{row['peer_ms']:.3f}", f"{row['ratio']:.3f}"]
    print(common.table([], [[*cells, f"{row['dense_ratio']:.3f}"]], WIDTHS), flush=True)


def each_layer(
    args: argparse.Namespace, device: clcnn.Device, measure: Callable[..., dict[str, Any]], show: Any
) -> tuple[list[dict[str, Any]], int]:
    """Shows and returns what is measured on each map, and how many failed."""
    if not map_folder().is_dir():
        print(f"skipped: no maps in {map_folder()} (CLCNN_TEST_DATA names the folder of test data)")
        return [], 0
    results: list[dict[str, Any]] = []
    failed = 0
    for name, x, point in layers(args.match):
        try:
            results.append(measure(name, x, point, device, args))
            show(results[-1])
        except (clcnn.Error, common.Wrong) as error:
            print(f"{name}: {type(error).__name__}: {error}"[:300])
            failed += 1
    if results:
        whole = {key: sum(row[key] for row in results) for key in ("clcnn_ms", "peer_ms")}
        print(f"together: {whole['peer_ms'] / whole['clcnn_ms']:.3f} times as fast")
    return results, failed


def maps(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Real maps by the algorithm that the rules choose, and the layers together."""
    print(common.table(HEAD, [], WIDTHS))
    return each_layer(args, device, measured, show)


def calibrated(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """What the rules choose where they know the maps' zeros, beside what they choose without."""
    print(common.table(CALIBRATED_HEAD, [], CALIBRATED_WIDTHS))
    return each_layer(args, device, calibrated_layer, show_calibrated)


Mode = Callable[[clcnn.Device, argparse.Namespace], tuple[list[dict[str, Any]], int]]
MODES: dict[str, tuple[Mode, str]] = {
    "maps": (maps, "layers on real maps, with skipping and without"),
    "calibrated": (calibrated, "the same layers, with calibration and without"),
}


def main() -> int:
    parser = common.arguments(__doc__)
    for name, (_, text) in MODES.items():
        parser.add_argument(f"--{name}", action="append_const", dest="modes", const=name, help=text)
    parser.add_argument("--match", default="vgg16_chelsea_*", help="maps by the names of their files")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    device = sessions.opened(args.device)
    if device is None:
        return 0
    results: list[dict[str, Any]] = []
    failed = 0
    for name in args.modes or MODES:
        found, wrong = MODES[name][0](device, args)
        results += found
        failed += wrong
    common.finish(results, args.json, device=device.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
