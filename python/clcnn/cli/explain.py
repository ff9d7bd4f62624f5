"""`clcnn explain MODEL`"""

from __future__ import annotations

import argparse

import clcnn
from clcnn.cli import options

HELP = "print what was decided for each layer of a model on a device, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_device(parser)
    options.add_zeros(parser)
    parser.add_argument("--all", action="store_true", help="every candidate, not near misses alone")


def run(args: argparse.Namespace) -> int:
    with clcnn.compile(options.find_graph(args), device=args.device, zeros=args.zeros) as plan:
        print(plan.explain(args.all))
    return 0
