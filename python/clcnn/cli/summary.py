"""`clcnn summary MODEL`"""

from __future__ import annotations

import argparse

from clcnn.cli import options

HELP = "print a model's layers: shapes, parameters, multiply-adds (needs no device)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)


def run(args: argparse.Namespace) -> int:
    print(options.find_graph(args).summary())
    return 0
