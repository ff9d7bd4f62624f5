"""Beside other load: seven nets at batch 1 while 1 to 4 processes keep cores busy, ours and peers in turn.

The figure is the ratio to a peer beside so many busy processes, over the ratio on the idle machine: of
medians, since beside other load a minimum is luck. It should be 0.9 at least.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import common

LIMIT = 0.9
BUSY = "while True:\n    pass\n"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(name: str, device: Any, wanted: list[str], args: Any) -> list[dict[str, Any]]:
    """A row for each peer and number of busy processes, 0 first."""
    import peers
    from nets import Net
    from sessions import of_plan

    import clcnn

    net = Net(name)
    graph, x = net.graph(1), net.inputs(1)
    model = peers.Model(graph)
    rows = []
    chain = {"auto": None, "on": True, "off": False}[args.chain]
    with clcnn.compile(graph, device=device, chain=chain) as plan, of_plan(plan, x, device) as mine:
        common.checked(mine.run(x), net.reference(1), 2e-4)
        sessions = {"clcnn": mine, **{peer: peers.CPU[peer].load(model, x) for peer in wanted}}
        runs = {key: session.resident for key, session in sessions.items()}
        idle: dict[str, float] = {}
        for count in [0, *args.busy]:
            with busy(count):
                times = common.interleave(runs, args.rounds, args.seconds)
            for peer in wanted:
                ours, theirs = times["clcnn"]["median"], times[peer]["median"]
                ratio = theirs / ours
                idle.setdefault(peer, ratio)
                rows.append({
                    "case": name, "batch": 1, "precision": "highest", "busy": count, "clcnn_ms": ours,
                    "peer": peer, "peer_ms": theirs, "ratio": ratio, "over_idle": ratio / idle[peer],
                })  # fmt: skip
                print(
                    f"{name:14} {count} busy  clcnn {ours:7.2f} ms  {peer:12} {theirs:7.2f}"
                    f"  ratio {ratio:5.2f}  over idle {ratio / idle[peer]:5.2f}",
                    flush=True,
                )
    return rows


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=common.NETS, help="zoo names, with commas")
    parser.add_argument(
        "--busy", type=common.ints, default=[1, 2, 3, 4], help="processes beside (default 1,2,3,4)"
    )
    parser.add_argument("--peers", type=common.names, default=["openvino", "onnxruntime"])
    parser.add_argument("--chain", choices=["auto", "on", "off"], default="auto", help="clcnn.compile()'s")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print("skipped: the peers' models come from torch, which is not installed (pip install clcnn[bench])")
        return 0
    import peers

    import clcnn

    device, wanted = clcnn.Device(args.device), peers.installed(args.peers, peers.CPU)
    results = [row for name in args.nets for row in measure(name, device, wanted, args)]
    common.finish(results, args.json, device=args.device, chain=args.chain)
    return int(any(row["over_idle"] < LIMIT for row in results))


if __name__ == "__main__":
    sys.exit(main())
