"""`clcnn tune MODEL`"""

from __future__ import annotations

import argparse
import json

import clcnn
from clcnn import wisdom
from clcnn.cli import options
from clcnn.report import text_table
from clcnn.wisdom import profile

HELP = "measure which algorithm is the fastest for each layer of a model on a device, and remember it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_device(parser)
    options.add_json(parser)
    parser.add_argument(
        "--precision", choices=("strict", "highest", "high", "medium"), default="highest", help="as compiled"
    )
    parser.add_argument("--rounds", type=options.positive, default=8, metavar="N", help="runs of each (8)")
    parser.add_argument(
        "--every",
        action="store_true",
        help="also algorithms whose arithmetic alone takes three times the least",
    )


def run(args: argparse.Namespace) -> int:
    from clcnn.wisdom.measure import measure

    graph, device = options.find_graph(args), clcnn.Device(args.device)
    known = profile.of(device, measured=True)
    found = measure(
        graph, device, precision=args.precision, profile=known, rounds=args.rounds, every=args.every
    )
    path = wisdom.remember(device, found.into(wisdom.known(device)), found.times)
    if args.json:
        print(json.dumps({"choices": found.choices, "times_us": found.times, "rules": found.rules}))
        return 0
    rows = []
    for key, algorithm in found.choices.items():
        before, after = found.times[key][found.rules[key]], found.times[key][algorithm]
        rows.append([key, found.rules[key], f"{before:.1f}", algorithm, f"{after:.1f}"])
    if rows:
        print(text_table(["layer", "by the rules", "us", "chosen", "us"], rows))
    print(
        f"{len(rows)} of {len(found.rules)} kinds of layers are faster by another algorithm than the rules'"
    )
    print(f"remembered in {path}" if path else "not remembered: the cache is off (CLCNN_CACHE_DIR)")
    return 0
