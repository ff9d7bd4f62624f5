"""`clcnn selftest`"""

from __future__ import annotations

import argparse

from clcnn import device as devices
from clcnn import selftest
from clcnn._progress import Line
from clcnn.cli import options
from clcnn.report import text_table

WIDTH = 60  # of what the line tells; many operators are tried together
HELP = "check every kernel against its reference on a device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_device(parser)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one problem of each operator, by the algorithm that is chosen for it",
    )


def remark(check: selftest.Check) -> str:
    """The kernels that ran; why it failed; or why it cannot run."""
    if check.status != "pass":
        return check.reason
    return ", ".join(check.kernels) or "(no kernel: a view)"


def run(args: argparse.Namespace) -> int:
    device = devices.get(args.device)
    line = Line(quiet_s=0.0)

    def show(op: str, algorithm: str) -> None:
        line.show(f"{op} {algorithm}".rstrip()[:WIDTH])

    try:
        checks = list(selftest.run(device, args.quick, show))
    finally:
        line.close()
    head = ["operator", "algorithm", "status", "problems", "error/rms", "kernels, or why not"]
    rows = [[c.op, c.algorithm, c.status, c.problems, f"{c.error:.1e}", remark(c)] for c in checks]
    count = {status: sum(c.status == status for c in checks) for status in ("pass", "FAIL", "skip")}
    print(text_table(head, rows))
    print(f"{count['pass']} pass, {count['FAIL']} fail, {count['skip']} cannot run on {device.name}")
    return 1 if count["FAIL"] else 0
