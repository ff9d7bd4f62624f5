"""`clcnn verify MODEL.onnx`"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from clcnn.cli import onnx_input, options
from clcnn.report import text_table

HELP = "compare each node of an ONNX file with a float64 reference, and name the first that departs"
LARGEST = 5  # rows that are printed where all agree
ALL = ("reference", "onnxruntime", "definitions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    onnx_input.add_model(parser)
    onnx_input.add_inputs(parser)
    parser.add_argument(
        "--against",
        choices=ALL,
        help="whom to compare with (ONNX's reference in float64, then onnxruntime where it is installed; "
        "clcnn's own definitions where neither has an answer)",
    )
    parser.add_argument("--all", action="store_true", help="print every node")
    options.add_device(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    model = onnx_input.load(args.model)
    from clcnn.onnx.verify import first_departure, verify

    inputs = onnx_input.read_inputs(args, model)
    if not inputs:
        inputs = onnx_input.random_inputs(model, onnx_input.shapes_of(model, args.shape))
    checks = verify(model, inputs, args.device, against=[args.against] if args.against else ALL)
    first = first_departure(checks)
    if args.json:
        print(json.dumps({"model": args.model, "nodes": [asdict(check) for check in checks]}, indent=2))
        return int(first is not None)
    done = [check for check in checks if check.verdict != "not checked"]
    wrong = [check for check in checks if check.verdict == "departs"]
    rows = checks if args.all else wrong or sorted(done, key=lambda check: -check.error)[:LARGEST]
    head = ["node", "operator", "verdict", "error / rms", "compared with", ""]
    print(
        text_table(
            head,
            [[c.node, c.op, c.verdict, f"{c.error:.1e}" if c.by else "", c.by, c.note] for c in rows],
        )
    )
    print(f"{len(done) - len(wrong)} agree, {len(wrong)} depart, {len(checks) - len(done)} not checked")
    if first is not None:
        print(f"the first that departs: {first.node} ({first.op}): {first.note}")
    return int(first is not None)
