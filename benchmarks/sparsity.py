"""What zeros of the maps are worth: layers with and without skipping, on maps of real photos.

    sparsity.py --maps                           # ten layers of VGG-16, a photo of a cat
    sparsity.py --maps --match 'vgg16_china_*'   # by the names of the files
    sparsity.py --calibrated                     # what the planner takes that knows the maps' zeros
    sparsity.py --guard                          # dense maps where the planner counts on zeros
    sparsity.py --sweep                          # formats that leave out single zeros, over density
    sparsity.py --elements                       # the same on the real maps
    sparsity.py --linear                         # linear layers of one row at four densities
    sparsity.py --nets                           # AlexNet with linear inputs of 35 % density
    sparsity.py --pool --device nvidia           # VGG-19 with layers that pool at the end of their tiles
    sparsity.py --cusparse --device nvidia       # lists of what is not zero beside cuSPARSE (unfolded.py)

Maps are those of `sparse_maps` in the folder of test data (CLCNN_TEST_DATA); filters are random. Both plans
are held against float64 before they are timed, and against each other: their bits must be the same, but for
linear layers, which sum in another order. A figure is the least sum of a layer's own steps, transforms of
inputs, masks and lists included; plans run in turn. The ratio is the time without skipping over that with it.
`dense` is the same on a map without a zero. With calibration the ratio is the time of the plan without over
that of the plan with it; `expected` is the same by the costs of the rules, for the algorithm that was taken.
With --guard layers that the planner gives two forms have what they were calibrated on, beside the first
form alone, and a map without a zero, beside a plan without calibration; their bits must be the same.
A format (--sweep, --elements) stands beside a dense algorithm and beside what the rules choose, on maps with
zeros at random places and on real ones; the steps that find the zeros count.
Inputs of linear layers have their zeros at random places. A net is timed whole, beside a plan whose linear
layers alone skip nothing, or whose convolutions do not pool; of the latter also by `pecr`, layer by layer.
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
import linear_rows
import numpy as np
import sessions
import strategy
import unfolded

import clcnn
from clcnn import nn, zoo
from clcnn.graph import trace

ERROR_LIMIT = 4e-6  # of the rms, as the tests hold normal distributions to it
HEAD = ["map", "algorithm", "density", "rms error", "skip ms", "all ms", "ratio", "dense"]
WIDTHS = [24, 10, 7, 9, 8, 8, 6, 6]
CALIBRATED_HEAD = ["map", "without", "with", "zeros", "tiles", "with ms", "w/o ms", "ratio", "expected"]
CALIBRATED_WIDTHS = [24, 12, 12, 6, 6, 8, 8, 6, 8]
GUARD_HEAD = ["map", "form", "zeros", "ms", "alone", "ratio", "dense form", "ms", "alone", "ratio"]
GUARD_WIDTHS = [24, 11, 6, 8, 8, 6, 11, 8, 8, 6]
GUARD_DENSITY = 0.1
NET_DENSITY = 0.35
POOL_BATCH = 32
SWEPT_DENSITIES = (1.0, 0.5, 0.2, 0.1)
SWEPT = [
    algorithms.Point(3, 256, 256, 56),
    algorithms.Point(3, 512, 512, 28),
    algorithms.Point(3, 512, 512, 14),
    algorithms.Point(1, 512, 512, 28),
]
SPARSE = {"CPU": ("sparse_mask", "blocked"), "GPU": ("ecr", "implicit")}  # and the dense one beside it
FORMAT_HEAD = ["layer", "algorithm", "density", "rms error", "ms", "beside", "ms", "ratio"]
FORMAT_HEAD += ["rules", "ms", "ratio"]
FORMAT_WIDTHS = [24, 12, 7, 9, 8, 9, 8, 6, 13, 8, 6]
Layer = tuple[str, algorithms.Point, Iterator[np.ndarray]]  # its name, its maps
CONSUMER = re.compile(r"Conv (\d+)x(\d+) 3x3 stride 1 pad 1,")


def floats(text: str) -> list[float]:
    """Argument type: "1,0.5"."""
    return [float(part) for part in text.split(",")]


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
            algorithms.paired(plans, x, args.rounds),
            algorithms.paired(plans, np.abs(full) + np.float32(0.1), args.rounds),
        )
    case = {"case": name, "batch": point.batch, "precision": "highest", "algorithm": row["algo"]}
    case |= {"density": float(np.count_nonzero(x)) / x.size, "rms_error": error}
    case |= strategy.beside(on_map[True], "own:skip=False", on_map[False])
    return case | {"dense_ratio": dense[False] / dense[True]}


def effort(plan: clcnn.Plan, algorithm: str) -> float:
    """What the rules expect of an algorithm for the layer."""
    row = next(row for row in plan.layers if row["layer"] == "conv")  # its second form comes after it
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
        times = algorithms.paired(plans, x, args.rounds)
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


# ---- formats ----


def random_maps(args: argparse.Namespace) -> Iterator[Layer]:
    """Layers with more and more zeros, at random places."""
    rng = np.random.default_rng(2)
    for point in SWEPT:
        full = np.abs(algorithms.graph_of(point)[1]) + np.float32(0.1)
        thinned = (np.where(rng.random(full.shape) < d, full, np.float32(0)) for d in args.densities)
        yield point.name, point, thinned


def real_maps(args: argparse.Namespace) -> Iterator[Layer]:
    for name, x, point in layers(args.match):
        yield name, point, iter([x])


def beside_dense(layer: Layer, device: clcnn.Device, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A layer by the algorithm that leaves out zeros, a dense one and the rules' choice, on each map. Raises
    Wrong where a result is off."""
    name, point, inputs = layer
    graph, _, w = algorithms.graph_of(point)
    sparse, dense = SPARSE[device.type.upper()]
    names = {"sparse": args.algorithm or sparse, "dense": dense, "rules": ""}
    with ExitStack() as stack:
        plans = {}
        for key, algorithm in names.items():
            forced = {"conv": algorithm} if algorithm else {}
            plan = clcnn.compile(graph, device=device, algorithms=forced, tune="off")
            plans[key] = stack.enter_context(plan)
        (row,) = (row for row in plans["rules"].layers if row["layer"] == "conv")
        names["rules"] = row["algo"]
        for x in inputs:
            errors = {key: algorithms.rms_error(point, plan(x), x, w) for key, plan in plans.items()}
            for key, error in errors.items():
                if not error <= ERROR_LIMIT:
                    raise common.Wrong(f"{names[key]} is off by {error:.2g} of the rms")
            times = algorithms.paired(plans, x, args.rounds)
            case = {"case": name, "batch": point.batch, "precision": "highest"}
            case |= {"algorithm": names["sparse"], "density": float(np.count_nonzero(x)) / x.size}
            case |= {"rms_error": errors["sparse"]}
            case |= strategy.beside(times["sparse"], f"own:{names['dense']}", times["dense"])
            case |= {"dense": names["dense"], "rules": names["rules"], "rules_ms": times["rules"]}
            yield case


def formats(
    given: Iterator[Layer], device: clcnn.Device, args: argparse.Namespace
) -> tuple[list[dict[str, Any]], int]:
    print(common.table(FORMAT_HEAD, [], FORMAT_WIDTHS))
    results: list[dict[str, Any]] = []
    failed = 0
    for layer in given:
        try:
            for row in beside_dense(layer, device, args):
                results.append(row)
                cells = [row["case"], row["algorithm"], f"{row['density']:.2f}", f"{row['rms_error']:.0e}"]
                cells += [
                    f"{row['clcnn_ms']:.3f}",
                    row["dense"],
                    f"{row['peer_ms']:.3f}",
                    f"{row['ratio']:.2f}",
                ]
                cells += [row["rules"], f"{row['rules_ms']:.3f}", f"{row['rules_ms'] / row['clcnn_ms']:.2f}"]
                print(common.table([], [cells], FORMAT_WIDTHS), flush=True)
        except (clcnn.Error, common.Wrong) as error:
            print(f"{layer[0]}: {type(error).__name__}: {error}"[:300])
            failed += 1
    return results, failed


def sweep(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Formats over density."""
    return formats(random_maps(args), device, args)


def elements(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Formats on real maps."""
    if map_folder().is_dir():
        return formats(real_maps(args), device, args)
    print(f"skipped: no maps in {map_folder()} (CLCNN_TEST_DATA names the folder of test data)")
    return [], 0


# ---- what is denser than was calibrated ----


def guarded(
    name: str, x: np.ndarray, point: algorithms.Point, device: clcnn.Device, args: argparse.Namespace
) -> dict[str, Any] | None:
    """A layer calibrated on x beside each of its forms alone, on x and on a dense map; None: it has one form.
    Raises Wrong where a result is off, or has other bits than the form alone."""
    graph, full, w = algorithms.graph_of(point)
    given = {"device": device, "tune": "off"}
    data = {"map": x, "dense": np.abs(full) + np.float32(0.1)}
    with ExitStack() as stack:
        plan = stack.enter_context(clcnn.compile(graph, zeros=clcnn.calibrate(graph, x, device), **given))
        forms = [row["algo"] for row in plan.layers if row["layer"] == "conv"]
        if len(forms) == 1:
            return None
        alone = clcnn.compile(graph, algorithms={"conv": forms[0]}, **given), clcnn.compile(graph, **given)
        found = {}
        for (key, values), other in zip(data.items(), map(stack.enter_context, alone), strict=True):
            result = plan(values)
            error = algorithms.rms_error(point, result, values, w)
            if not error <= ERROR_LIMIT or result.tobytes() != other(values).tobytes():
                raise common.Wrong(f"{key}: off by {error:.2g} of the rms, or not the bits of the form alone")
            found[key] = algorithms.paired({"ours": plan, "alone": other}, values, args.rounds)
    case = {"case": name, "batch": point.batch, "precision": "highest", "algorithm": forms[0]}
    case |= {"dense": forms[1], "density": float(np.count_nonzero(x)) / x.size}
    case |= strategy.beside(found["map"]["ours"], f"own:{forms[0]}", found["map"]["alone"])
    return case | {"dense_ms": found["dense"]["ours"], "dense_alone_ms": found["dense"]["alone"]}


def guard(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Layers of two forms: real maps, and random places."""
    print(common.table(GUARD_HEAD, [], GUARD_WIDTHS))
    args.densities = [GUARD_DENSITY]
    given = [(name, x, point) for name, x, point in layers(args.match)] if map_folder().is_dir() else []
    given += [(name, x, point) for name, point, inputs in random_maps(args) for x in inputs]
    results: list[dict[str, Any]] = []
    failed = 0
    for name, x, point in given:
        try:
            row = guarded(name, x, point, device, args)
        except (clcnn.Error, common.Wrong) as error:
            print(f"{name}: {type(error).__name__}: {error}"[:300])
            failed += 1
            continue
        if row is None:
            print(f"{name}: one form")
            continue
        results.append(row)
        cells = [name, row["algorithm"], f"{1 - row['density']:.2f}"]
        for key, ours, beside in (("", "clcnn_ms", "peer_ms"), ("dense", "dense_ms", "dense_alone_ms")):
            cells += [row[key]] if key else []
            cells += [f"{row[ours]:.3f}", f"{row[beside]:.3f}", f"{row[ours] / row[beside]:.3f}"]
        print(common.table([], [cells], GUARD_WIDTHS), flush=True)
    return results, failed


def thin_out(net: Any, x: np.ndarray, density: float, device: clcnn.Device) -> None:
    """Moves the biases of AlexNet's layers before linear ones, so that this share of their results is above 0
    for x."""
    front = [*net.features[:11], net.features[12], net.avgpool, net.flatten]
    first, second = net.classifier[1], net.classifier[4]
    for layer, more in ((net.features[10], []), (first, [nn.ReLU(), first]), (second, [nn.ReLU(), second])):
        front += more
        with clcnn.compile(nn.Sequential(*front), x.shape, device=device, tune="off") as plan:
            layer.bias.data = layer.bias.data - np.quantile(plan(x), 1.0 - density).astype(np.float32)


def nets(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """AlexNet beside itself with linear layers that skip nothing."""
    x = np.random.default_rng(0).standard_normal((1, *zoo.find("alexnet").input_shape)).astype(np.float32)
    net = zoo.get("alexnet")
    thin_out(net, x, NET_DENSITY, device)
    graph, given = trace(net, x.shape), {"device": device, "tune": "off"}
    with clcnn.compile(graph, skip=False, **given) as plan:
        dense = {row["layer"]: row["algo"] for row in plan.layers if row["op"] == "linear"}
    with clcnn.compile(graph, **given) as plan, clcnn.compile(graph, algorithms=dense, **given) as peer:
        ours, theirs = strategy.in_turn(plan, peer, x, device, ERROR_LIMIT, args)
    row = {"case": "alexnet", "batch": 1, "precision": "highest", "density": NET_DENSITY}
    row |= strategy.beside(ours, "own:dense linear", theirs)
    print(f"alexnet, linear inputs {NET_DENSITY:.0%} dense: {ours:.3f} ms, {theirs:.3f} where linear")
    print(f"layers skip nothing: {row['ratio']:.3f} times as fast")
    return [row], 0


# ---- pooling at the end of tiles ----


def pool(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """VGG-19 at batch 32 beside itself with each conv_pool split, and by pecr."""
    shape = (POOL_BATCH, *zoo.find("vgg19").input_shape)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    graph, given = trace(zoo.get("vgg19"), shape), {"device": device, "tune": "off"}
    with ExitStack() as stack:
        plans = {"rules": stack.enter_context(clcnn.compile(graph, **given))}
        pools = [row for row in plans["rules"].layers if row["op"] == "conv_pool"]
        for name in ("split", "pecr"):
            forced = {row["layer"].split("+")[0]: name for row in pools}
            plans[name] = stack.enter_context(clcnn.compile(graph, algorithms=forced, **given))
            common.checked(plans[name](x), plans["rules"](x), ERROR_LIMIT)
        times: dict[str, list[dict[str, float]]] = {name: [] for name in plans}
        for _ in range(args.rounds):
            for name, plan in plans.items():
                times[name].append(by_layer(plan, x))
    whole = {name: min(sum(each.values()) for each in found) for name, found in times.items()}
    row = {"case": "vgg19", "batch": POOL_BATCH, "precision": "highest"}
    row |= {"algorithms": [row["algo"] for row in pools]} | strategy.beside(
        whole["rules"], "own:split", whole["split"]
    )
    row["layers"] = {
        pool["layer"]: {name: min(each[pool["layer"]] for each in found) for name, found in times.items()}
        for pool in pools
    }
    chosen = ", ".join(row["algorithms"])
    print(f"vgg19, batch {POOL_BATCH}, conv_pool by {chosen}: {whole['rules']:.3f} ms of kernels,")
    print(f"{whole['split']:.3f} where they are split: {row['ratio']:.3f} times as fast")
    for layer, found in row["layers"].items():
        print(f"{layer}: " + ", ".join(f"{ms:.3f} ms by {name}" for name, ms in found.items()))
    return [row], 0


def by_layer(plan: clcnn.Plan, x: np.ndarray) -> dict[str, float]:
    """Milliseconds of each layer's kernels in one run."""
    found: dict[str, float] = {}
    for row in plan.profile(x).rows:
        found[row.layer] = found.get(row.layer, 0.0) + row.ms
    return found


Mode = Callable[[clcnn.Device, argparse.Namespace], tuple[list[dict[str, Any]], int]]
MODES: dict[str, tuple[Mode, str]] = {
    "--maps": (maps, "layers on real maps, with skipping and without"),
    "--calibrated": (calibrated, "the same layers, with calibration and without"),
    "--guard": (guard, "the same layers, where data are denser than calibrated"),
    "--sweep": (sweep, "formats that leave out single zeros, over density"),
    "--elements": (elements, "the same on real maps"),
    "--linear": (linear_rows.linear, "linear layers of one row, with skipping and without"),
    "--nets": (nets, "whole nets, with linear layers that skip and that do not"),
    "--cusparse": (unfolded.cusparse, "convolutions of four nets by ecr, cuSPARSE and the rules"),
    "--pool": (pool, "VGG-19 with convolutions that pool and that do not"),
}


def main() -> int:
    parser = common.arguments(__doc__)
    for name, (_, text) in MODES.items():
        parser.add_argument(name, action="append_const", dest="modes", const=name, help=text)
    parser.add_argument("--match", default="vgg16_chelsea_*", help="maps by the names of their files")
    parser.add_argument("--algorithm", help="of --sweep and --elements, instead of the device's own")
    parser.add_argument(
        "--densities", type=floats, default=SWEPT_DENSITIES, help="of --sweep (default 1,0.5,0.2,0.1)"
    )
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    device = sessions.opened(args.device)
    if device is None:
        return 0
    results: list[dict[str, Any]] = []
    failed = 0
    for name in args.modes or ["--maps"]:
        found, wrong = MODES[name][0](device, args)
        results += found
        failed += wrong
    common.finish(results, args.json, device=device.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
