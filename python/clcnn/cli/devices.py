"""`clcnn devices`"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import clcnn
from clcnn.cli import options
from clcnn.report import size, text_table

HELP = "list the OpenCL devices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = clcnn.devices()
    if args.json:
        print(json.dumps([asdict(device) for device in found], indent=2))
        return 0
    head = ["index", "type", "name", "platform", "driver", "units", "memory"]
    rows = [
        [d.index, d.type, d.name, d.platform, d.driver, d.compute_units, size(d.global_mem)] for d in found
    ]
    print(text_table(head, rows))
    return 0
