"""The command line: `python -m clcnn COMMAND`, or `clcnn COMMAND`.

A command is a module of this package with HELP, add_arguments(parser) and run(args) -> exit status, and one
line in COMMANDS. What it prints for people goes to stdout, progress and errors to stderr. Exit status: 0 all
well, 1 the command ran and something it looked at is wrong, 2 it could not run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from clcnn import _log
from clcnn._version import __version__
from clcnn.cli import (
    bench,
    cache,
    classify,
    demo,
    devices,
    explain,
    info,
    run,
    selftest,
    summary,
    train,
    tune,
    verify,
)
from clcnn.errors import Error
from clcnn.image import ImageError
from clcnn.weights import WeightsError

COMMANDS: dict[str, ModuleType] = {
    "demo": demo,
    "classify": classify,
    "devices": devices,
    "info": info,
    "summary": summary,
    "explain": explain,
    "run": run,
    "bench": bench,
    "train": train,
    "tune": tune,
    "verify": verify,
    "selftest": selftest,
    "cache": cache,
}
# What a user can mend: told in one line. Everything else is a defect, and keeps its traceback.
EXPECTED = (Error, ImageError, WeightsError, FileNotFoundError, IsADirectoryError, PermissionError)
LOG_LEVELS = (None, "info", "debug")
INTERRUPTED = 130  # what shells report of a command that Ctrl-C ended


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    # A default of SUPPRESS lets -v stand before and after the command's name.
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=argparse.SUPPRESS,
        help="log what is done to stderr; twice for details",
    )
    top = argparse.ArgumentParser(
        prog="clcnn", description="Convolutional networks on any OpenCL device.", parents=[common]
    )
    top.add_argument("--version", action="version", version=f"clcnn {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            parents=[common],
        )
        module.add_arguments(sub)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status."""
    args = parser().parse_args(argv)
    _log.configure(LOG_LEVELS[min(getattr(args, "verbose", 0), len(LOG_LEVELS) - 1)])
    try:
        status: int = COMMANDS[args.command].run(args)
        sys.stdout.flush()
        return status
    except EXPECTED as error:
        print(f"clcnn: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or flushing at exit fails again
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
