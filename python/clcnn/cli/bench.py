"""`clcnn bench MODEL.onnx`"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn.cli import onnx_input, options
from clcnn.errors import ArgumentError, Error
from clcnn.report import text_table
from clcnn.session import InferenceSession

HELP = "time an ONNX file, alone or beside onnxruntime"
CLCNN = "clcnn"
ONNXRUNTIME = "onnxruntime"
AGREEMENT = 1e-3  # of the largest value: beyond it the two do not compute the same thing
MIN_ROUNDS, MAX_ROUNDS = 5, 10_000

Run = Callable[[], list[NDArray[Any]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    onnx_input.add_model(parser)
    onnx_input.add_inputs(parser)
    parser.add_argument(
        "--batch", type=options.positive, default=1, metavar="N", help="size of a batch that is left open (1)"
    )
    parser.add_argument("--against", choices=[ONNXRUNTIME], help="what to time in turn with clcnn")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="how long to measure each of them (3)"
    )
    options.add_device(parser)
    options.add_zeros(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    model = onnx_input.load(args.model)
    given = onnx_input.read_inputs(args, model)
    if given:
        feed, batch = given, next(iter(given.values())).shape[:1]
    else:
        shapes = onnx_input.shapes_of(model, args.shape, args.batch)
        feed, batch = onnx_input.random_inputs(model, shapes), next(iter(shapes.values()), ())[:1]
        if args.batch != 1 and batch != (args.batch,):
            raise ArgumentError(f"--batch {args.batch}: the model's batch is fixed, its inputs are {shapes}")
    sides: dict[str, Run] = {}
    with InferenceSession(model, device=args.device, zeros=args.zeros) as session:
        sides[CLCNN] = lambda: session.run(None, feed)
        start = time.perf_counter()
        ours = sides[CLCNN]()
        first_ms = 1e3 * (time.perf_counter() - start)
        report: dict[str, Any] = {
            "model": args.model,
            "device": session.device.name,
            "first_run_ms": first_ms,
        }
        if args.against:
            sides[args.against] = onnxruntime_run(args.model, feed)
            report["largest_error"] = agreeing(ours, sides[args.against]())
        times = measured(sides, args.seconds)
    count = batch[0] if batch else 1
    report["batch"] = count
    report["results"] = [
        {"who": who, "min_ms": min(ms), "median_ms": float(np.median(ms)), "rounds": len(ms)}
        for who, ms in times.items()
    ]
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0


def onnxruntime_run(path: str, feed: dict[str, NDArray[Any]]) -> Run:
    """The same file in onnxruntime on the processor, with a thread for each core that this process may
    use."""
    if importlib.util.find_spec(ONNXRUNTIME) is None:
        raise ArgumentError(f"--against {ONNXRUNTIME}: it is not installed: pip install {ONNXRUNTIME}")
    import onnxruntime

    given = onnxruntime.SessionOptions()
    given.intra_op_num_threads = len(os.sched_getaffinity(0))
    given.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(path, given, providers=["CPUExecutionProvider"])
    return lambda: list(session.run(None, feed))


def agreeing(ours: list[NDArray[Any]], theirs: list[NDArray[Any]]) -> float:
    """The largest error over the largest value of each output. Raises Error where the two disagree: nothing
    is timed then."""
    from clcnn.onnx.verify import largest_error

    worst = max((largest_error(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
    if not worst <= AGREEMENT:
        raise Error(f"clcnn and onnxruntime disagree by {worst:.2g} of the largest value: see clcnn verify")
    return worst


def measured(sides: dict[str, Run], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of every round, the sides in turn."""
    times: dict[str, list[float]] = {who: [] for who in sides}
    for call in sides.values():
        call()
    end = time.perf_counter() + seconds * len(sides)
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.perf_counter() >= end:
            break
        for who, call in sides.items():
            start = time.perf_counter()
            call()
            times[who].append(1e3 * (time.perf_counter() - start))
    return times


def show(report: dict[str, Any]) -> None:
    """The report for people."""
    print(f"{report['model']} on {report['device']}, batch {report['batch']}")
    print(f"first run, compiling included where shapes were open: {report['first_run_ms']:.1f} ms")
    rows = [
        [
            r["who"],
            f"{r['min_ms']:.3f}",
            f"{r['median_ms']:.3f}",
            f"{1e3 * report['batch'] / r['min_ms']:.1f}",
        ]
        for r in report["results"]
    ]
    print(text_table(["", "min ms", "median ms", "items/s"], rows))
    if len(rows) == 2:
        ours, theirs = (r["min_ms"] for r in report["results"])
        print(
            f"ratio {theirs / ours:.2f} (above 1: clcnn is faster); "
            f"largest error {report['largest_error']:.1e} of the largest value"
        )
