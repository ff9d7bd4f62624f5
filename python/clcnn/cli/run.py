"""`clcnn run MODEL.onnx`"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import weights
from clcnn.cli import onnx_input, options
from clcnn.errors import ArgumentError
from clcnn.report import text_table
from clcnn.session import InferenceSession
from clcnn.session_options import SessionOptions

HELP = "run an ONNX file on arrays or an image"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    onnx_input.add_model(parser)
    onnx_input.add_inputs(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the outputs: .npz, or .npy for one"
    )
    options.add_device(parser)
    options.add_zeros(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.output and args.output.suffix not in onnx_input.ARRAYS:
        raise ArgumentError(f"--output {args.output}: the name must end in .npz or .npy")
    model = onnx_input.load(args.model)
    feed = onnx_input.read_inputs(args, model)
    # What --shape says holds for the files too; the session looks at the symbols.
    for name, size in onnx_input.sizes_of(model, args.shape).items():
        if name in feed and feed[name].shape != size:
            raise ArgumentError(f"input {name!r}: --shape says {size}, the file has {feed[name].shape}")
    with InferenceSession(model, fixed_symbols(args), device=args.device, zeros=args.zeros) as session:
        names = [info.name for info in session.get_outputs()]
        start = time.perf_counter()
        results = dict(zip(names, session.run(None, feed)))
        ms = 1e3 * (time.perf_counter() - start)
    if args.output:
        write(args.output, results)
    if args.json:
        print(
            json.dumps({"device": session.device.name, "ms": ms, "outputs": list(map(row, results.items()))})
        )
    else:
        print(text_table(["output", "type", "shape", "min", "mean", "max"], map(cells, results.items())))
    return 0


def fixed_symbols(args: argparse.Namespace) -> SessionOptions:
    """Session options that fix the symbols of --shape."""
    made = SessionOptions()
    for name, sizes in args.shape:
        if len(sizes) == 1:
            made.add_free_dimension_override_by_name(name, sizes[0])
    return made


def write(path: Path, results: dict[str, NDArray[Any]]) -> None:
    """Writes the outputs; the file appears complete or not at all."""
    if path.suffix == ".npz":
        weights.save_npz(path, results)
        return
    if len(results) != 1:
        raise ArgumentError(f"--output {path}: .npy holds one array, the model has {list(results)}")
    with weights.replacing(path) as temporary, open(temporary, "wb") as stream:
        np.save(stream, next(iter(results.values())))


def row(item: tuple[str, NDArray[Any]]) -> dict[str, Any]:
    """What JSON says of an output."""
    name, array = item
    made: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size:
        made |= {key: float(getattr(np, key)(array)) for key in ("min", "mean", "max")}
    return made


def cells(item: tuple[str, NDArray[Any]]) -> list[str]:
    """What the table says of an output."""
    made = row(item)
    figures = [f"{made[key]:.6g}" if key in made else "" for key in ("min", "mean", "max")]
    return [made["name"], made["dtype"], "x".join(map(str, made["shape"])) or "scalar", *figures]
