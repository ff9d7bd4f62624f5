"""Inference on several devices of a host as one plan, against one of them: map() and calls.

The figure is how much more is done in the same time: by map() over a stream of batches, and by calls, whose
batch the devices share. First the results are compared with those of one device.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import common
import numpy as np

import clcnn

BATCHES = 32  # in a stream: what its begin and end cost is shared
LIMIT = 1e-4
HEAD = ["net", "batch", "devices", "way", "ms one", "ms all", "throughput", "error"]
WIDTHS = [18, 6, 8, 6, 9, 9, 11, 9]


def alike(selector: str, count: int) -> list[clcnn.DeviceInfo]:
    """The first `count` devices of the kind that the selector means; fewer where there are no more."""
    with clcnn.Device(selector) as first:
        index, info = first.index, first.info()
    rows = clcnn.devices()
    others = [row for row in rows if row.index != index and (row.name, row.platform) == _kind(info)]
    return [row for row in rows if row.index == index] + others[: count - 1]


def _kind(info: Any) -> tuple[str, str]:
    return info["name"], info["platform"]


def stream(plan: clcnn.Plan, x: np.ndarray) -> Callable[[], Any]:
    return lambda: list(plan.map([x] * BATCHES))


def measure(name: str, batch: int, devices: list[clcnn.Device], args: Any) -> list[dict[str, Any]]:
    """A row for map() and one for calls. Raises common.Wrong and clcnn.Error."""
    from nets import Net

    net = Net(name)
    x = net.inputs(batch)
    rows: list[dict[str, Any]] = []
    with (
        clcnn.compile(net.module, x.shape, device=devices[0]) as one,
        clcnn.compile(net.module, x.shape, device=devices) as group,
    ):
        error = common.checked(group(x), one(x), LIMIT)["rms_error"]
        ways = {"map": (stream(one, x), stream(group, x)), "call": (lambda: one(x), lambda: group(x))}
        for way, runs in ways.items():
            timed = common.interleave(dict(zip(("one", "all"), runs)), args.rounds, args.seconds)
            ms = {key: timed[key]["min"] for key in timed}
            rows.append({
                "case": name, "batch": batch, "precision": "highest", "devices": len(devices), "way": way,
                "clcnn_ms": ms["all"], "one_ms": ms["one"], "throughput": ms["one"] / ms["all"],
                "peer": None, "rms_error": error, "parts": group.parts,
            })  # fmt: skip
    return rows


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=["resnet50", "mobilenet_v1"], help="of the zoo")
    parser.add_argument("--batch", type=common.ints, default=[32], help="batch sizes (32)")
    parser.add_argument("--device", default="gpu", help="one of the devices (gpu)")
    parser.add_argument("--devices", type=int, default=2, help="how many of its kind (2)")
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print("skipped: torch draws the weights, and it is not installed (pip install clcnn[bench])")
        return 0
    import sessions

    device = sessions.opened(args.device)
    if device is None:
        return 0
    rows = alike(args.device, args.devices)
    if len(rows) < args.devices:
        print(f"skipped: there are {len(rows)} devices like {device.name}, not {args.devices}")
        return 0
    results: list[dict[str, Any]] = []
    failed: list[str] = []
    print(
        f"clcnn {clcnn.__version__} on {args.devices} x {device.name}, minimum of up to {args.rounds} rounds"
    )
    print(common.table(HEAD, [], WIDTHS))
    devices = [clcnn.Device(row) for row in rows]
    for name in args.nets:
        for batch in args.batch:
            try:
                made = measure(name, batch, devices, args)
            except (common.Wrong, clcnn.Error) as error:
                failed.append(f"{name} batch {batch}: {type(error).__name__}: {error}")
                print(failed[-1], flush=True)
                continue
            for row in made:
                cells = [name, batch, row["devices"], row["way"], f"{row['one_ms']:.1f}"]
                cells += [f"{row['clcnn_ms']:.1f}", f"{row['throughput']:.3f}", f"{row['rms_error']:.1e}"]
                print(common.table([], [cells], WIDTHS), flush=True)
            results += made
            common.write(results, args.json, device=device.name, failed=failed)
    common.finish(results, args.json, device=device.name, failed=failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
