"""One convolution by every algorithm: time, scratch, weights, error against float64, and who wins where.

    algorithms.py                                  # kernel, channels, map, batch, stride: one by one
    algorithms.py --match 'k5*' --rounds 20        # points by their names
    algorithms.py --layers convnet --batch 8       # layers of the public convnet-benchmarks
    algorithms.py --device nvidia --layers nets    # forward times of its networks, beside the public ones

A point is a layer by itself, of which its own steps count (no reorders at its ends, as inside a net); plans
of all algorithms live together and run in turn. The ratio is the time of the fastest algorithm over that of
the rules' choice: 1 where the rules are right. Public figures are those of an NVIDIA Titan X.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import common
import numpy as np
import sessions
import strategy

import clcnn
from clcnn import ops, zoo
from clcnn.graph import Graph, trace
from clcnn.wisdom.measure import usable

SAMPLES = 64  # outputs of each filter that are computed in float64
SLOW = 5.0  # times the best: who is so slow runs once
HEAD = ["point", "algorithm", "", "ms", "GMAC/s", "scratch MiB", "weights MiB", "rms error"]
NET_WIDTHS = [14, 5, 9, 9, 9]
WIDTHS = [34, 18, 1, 9, 7, 11, 11, 9]

Key = TypeVar("Key")


@dataclass(frozen=True)
class Point:
    """A convolution of `channels` to `filters`, square in all."""

    kernel: int = 3
    channels: int = 128
    filters: int = 128
    size: int = 28
    batch: int = 1
    stride: int = 1
    padded: bool = True
    groups: int = 1

    @property
    def name(self) -> str:
        groups = f" g{self.groups}" if self.groups > 1 else ""
        layer = f"k{self.kernel} c{self.channels} f{self.filters} m{self.size} b{self.batch} s{self.stride}"
        return layer + groups

    @property
    def padding(self) -> int:
        return self.kernel // 2 if self.padded else 0


BASE = Point()
SWEEP = {
    "kernel": [1, 2, 3, 5, 7, 9, 11],
    "channels": [3, 16, 32, 64, 100, 256, 512],
    "size": [7, 14, 20, 56, 112],
    "batch": [2, 8, 16],
    "stride": [2],
}
# Layer by layer, "L1" to "L5" (convnet-benchmarks, all without padding).
CONVNET = [
    Point(11, 3, 96, 128, padded=False),
    Point(9, 64, 128, 64, padded=False),
    Point(9, 128, 128, 32, padded=False),
    Point(7, 128, 128, 16, padded=False),
    Point(3, 384, 384, 13, padded=False),
]
# Forward ms of its networks on a Titan X: zoo name, batch, cuDNN R4, clnn (OpenCL).
PUBLIC = [
    ("alexnet", 128, 27.0, 388.0),
    ("overfeat", 128, 94.0, 1181.0),
    ("vgg_a", 64, 162.0, 875.0),
    ("googlenet", 128, 130.0, 3027.0),
]


def sweep() -> Iterator[Point]:
    """The base, and each property changed by itself; channels and filters together, but for the smallest."""
    yield BASE
    for key, values in SWEEP.items():
        for value in values:
            filters = value if key == "channels" and value > 3 else BASE.filters
            point = replace(BASE, **{key: value}, filters=filters)
            if point != BASE:
                yield point
    yield from (replace(BASE, kernel=1, channels=c, filters=f) for c, f in ((64, 256), (256, 64)))
    yield from (replace(BASE, kernel=5, size=size) for size in (7, 56))


def graph_of(point: Point) -> tuple[Graph, np.ndarray, np.ndarray]:
    """The layer "conv", its input and its weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((point.batch, point.channels, point.size, point.size), np.float32)
    each = point.channels // point.groups
    w = rng.standard_normal((point.filters, each, point.kernel, point.kernel), np.float32)
    w *= np.float32(1 / np.sqrt(w[0].size))
    graph = Graph()
    given = {"stride": point.stride, "padding": point.padding, "groups": point.groups}
    graph.output(ops.conv(graph.input("x", x.shape), w, **given, name="conv"), "y")
    return graph, x, w


def rms_error(point: Point, y: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    """Over the rms of the definition in float64, at some places of the output."""
    rng, pad = np.random.default_rng(1), point.padding
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    images, rows, columns = (rng.integers(0, n, SAMPLES) for n in (y.shape[0], *y.shape[2:]))
    size, step = point.kernel, point.stride
    windows = np.stack(
        [
            padded[n, :, i * step : i * step + size, j * step : j * step + size]
            for n, i, j in zip(images, rows, columns)
        ]
    )
    parts = windows.reshape(SAMPLES, point.groups, -1).astype(np.float64)
    filters = w.reshape(point.groups, -1, parts.shape[2]).astype(np.float64)
    want = np.einsum("pgi,gki->pgk", parts, filters, optimize=True).reshape(SAMPLES, -1)
    return common.errors(y[images, :, rows, columns], want)["rms_error"]


def layer_time(plan: clcnn.Plan, x: np.ndarray, layer: str = "conv") -> tuple[float, float]:
    """Milliseconds of a layer in one run, and its multiply-adds."""
    steps = [step for step in plan.profile(x).rows if step.layer == layer]
    return sum(step.ms for step in steps), sum(step.macs for step in steps)


def paired(plans: dict[Key, clcnn.Plan], x: np.ndarray, rounds: int, layer: str = "conv") -> dict[Key, float]:
    """Least milliseconds of a layer by each plan, in turn."""
    times: dict[Key, list[float]] = {key: [] for key in plans}
    for _ in range(rounds):
        for key, plan in plans.items():
            plan(x)  # what the other plan left in the caches is gone
            times[key].append(layer_time(plan, x, layer)[0])
    return {key: min(t) for key, t in times.items()}


def measured(point: Point, device: clcnn.Device, args: argparse.Namespace) -> dict[str, Any]:
    """Every algorithm on a point."""
    graph, x, w = graph_of(point)
    given = {"device": device, "precision": args.precision, "tune": "off"}
    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        rules = stack.enter_context(clcnn.compile(graph, **given))
        (row,) = (row for row in rules.layers if row["layer"] == "conv")
        plans = {}
        for name in usable(row):
            plan = stack.enter_context(clcnn.compile(graph, algorithms={"conv": name}, **given))
            error, (ms, macs), stats = rms_error(point, plan(x), x, w), layer_time(plan, x), plan.stats
            plans[name] = plan
            found[name] = {"ms": ms, "macs": macs, "rms_error": error}
            found[name] |= {key: stats[key] for key in ("workspace_bytes", "weights_bytes")}
        for _ in range(args.rounds):
            best = min(fact["ms"] for fact in found.values())
            for name, plan in plans.items():
                if found[name]["ms"] <= SLOW * best:
                    found[name]["ms"] = min(found[name]["ms"], layer_time(plan, x)[0])
    fastest, chosen = min(found, key=lambda name: found[name]["ms"]), row["algo"]
    times = strategy.beside(found[chosen]["ms"], "fastest", found[fastest]["ms"])
    case = {"case": point.name, "batch": point.batch, "precision": args.precision}
    return case | times | {"chosen": chosen, "fastest": fastest, "algorithms": found}


def show(row: dict[str, Any]) -> None:
    for i, (name, fact) in enumerate(sorted(row["algorithms"].items(), key=lambda item: item[1]["ms"])):
        cells = [row["case"] if i == 0 else "", name, "*" if name == row["chosen"] else "", fact["ms"]]
        cells += [round(1e-6 * fact["macs"] / fact["ms"], 1)]
        cells += [f"{fact[key] / 2**20:.1f}" for key in ("workspace_bytes", "weights_bytes")]
        print(common.table([], [[*cells, f"{fact['rms_error']:.0e}"]], WIDTHS), flush=True)


def show_winners(results: list[dict[str, Any]]) -> None:
    """Who is fastest where, and where the rules choose another one that takes 3 % longer."""
    winners: dict[str, list[str]] = {}
    for row in results:
        winners.setdefault(row["fastest"], []).append(row["case"])
    for name, cases in sorted(winners.items(), key=lambda item: -len(item[1])):
        print(f"{name} is fastest at {', '.join(cases)}")
    for row in results:
        if row["ratio"] < 0.97:
            print(f"{row['case']}: {row['chosen']} takes {1 / row['ratio']:.2f} times {row['fastest']}")


def networks(device: clcnn.Device, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Forward times of whole nets beside the public ones."""
    print(common.table(["net", "batch", "ms", "cuDNN R4", "clnn"], [], NET_WIDTHS))
    results = []
    for name, batch, cudnn, clnn in PUBLIC:
        shape = (batch, *zoo.find(name).input_shape)
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        with clcnn.compile(trace(zoo.get(name), shape), device=device, precision=args.precision) as plan:
            plan(x)
            ms = min(sum(step.ms for step in plan.profile(x).rows) for _ in range(args.rounds))
        print(common.table([], [[name, batch, ms, cudnn, clnn]], NET_WIDTHS), flush=True)
        case = {"case": name, "batch": batch, "precision": args.precision}
        results.append(case | strategy.beside(ms, "clnn, Titan X", clnn))
    return results


def points(args: argparse.Namespace) -> Iterable[Point]:
    chosen = CONVNET if args.layers == "convnet" else sweep()
    named = (replace(point, batch=args.batch) if args.batch else point for point in chosen)
    return [point for point in named if fnmatch.fnmatch(point.name, args.match)]


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--layers", choices=["sweep", "convnet", "nets"], default="sweep")
    parser.add_argument("--match", default="*", help="points by name, as in 'k3 c64 *'")
    parser.add_argument("--batch", type=int, help="instead of the points' own")
    parser.add_argument("--precision", default="highest")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    device = sessions.opened(args.device)
    if device is None:
        return 0
    results: list[dict[str, Any]] = []
    if args.layers == "nets":
        results = networks(device, args)
    else:
        print(common.table(HEAD, [], WIDTHS))
        for point in points(args):
            results.append(measured(point, device, args))
            show(results[-1])
            common.write(results, args.json)
        show_winners(results)
    common.finish(results, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
