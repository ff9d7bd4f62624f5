"""Records what the zoo's plans are and compute, and compares two records: for changes that change nothing.

Run it in the tree before and in the tree after, on the same device, then compare:

    python benchmarks/same_plans.py --record before.json
    python benchmarks/same_plans.py --record after.json --against before.json --renamed place=view

A record holds, for every net, batch and precision: a hash of the results' bits, `explain()`, the steps with
their kernels and defines, and the memory. Words that were renamed on purpose are told by `--renamed old=new`.
Exit status 1 and a list of what differs when anything does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

import clcnn

Record = dict[str, Any]
MEMORY = ("arena_bytes", "weights_bytes", "workspace_bytes", "peak_bytes")
COUNTS = ("step_count", "chained_steps", "launch_count", "program_count", "shared_ends")


def seeded(module: Any, rng: np.random.Generator) -> None:
    """Gives a zoo net weights of a reasonable size: the same in every tree."""
    state = {}
    for name, array in module.state_dict().items():
        if name.endswith(("running_var", "norm.weight")) or array.ndim == 1:
            state[name] = rng.uniform(0.5, 1.5, array.shape).astype(np.float32)
        else:
            fan_in = max(1, int(np.prod(array.shape[1:])))
            state[name] = (rng.standard_normal(array.shape) * (2 / fan_in) ** 0.5).astype(np.float32)
    module.load_state_dict(state)


def record(net: str, batch: int, precision: str, device: clcnn.Device) -> Record:
    """What one plan is and computes."""
    rng = np.random.default_rng(0)
    module = clcnn.zoo.get(net)
    seeded(module, rng)
    shape = (batch, *clcnn.zoo.find(net).input_shape)
    x = rng.standard_normal(shape, dtype=np.float32)
    with clcnn.compile(module, shape, device=device, precision=precision) as plan:
        y = plan(x)
        return {
            "bits": hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest(),
            "finite": bool(np.isfinite(y).all()),
            "explain": plan.explain(verbose=True).splitlines(),
            "steps": [" ".join(f"{key}={value}" for key, value in step.items()) for step in plan.steps],
            "memory": {key: plan.stats[key] for key in (*MEMORY, *COUNTS)},
        }


def renamed(text: str, words: list[tuple[str, str]]) -> str:
    for old, new in words:
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def differences(before: Record, after: Record, words: list[tuple[str, str]]) -> list[str]:
    """What differs between two records of one plan, a line each."""
    found = [] if before["bits"] == after["bits"] else ["the results' bits"]
    for part in ("explain", "steps"):
        old, new = [renamed(line, words) for line in before[part]], after[part]
        found += [f"{part}: {a!r} became {b!r}" for a, b in zip(old, new) if a != b][:3]
        if len(old) != len(new):
            found.append(f"{part}: {len(old)} lines became {len(new)}")
    for key, value in before["memory"].items():
        if after["memory"][key] != value:
            found.append(f"{key}: {value} became {after['memory'][key]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, required=True, metavar="FILE", help="write the record here")
    parser.add_argument("--against", type=Path, metavar="FILE", help="a record of another tree")
    parser.add_argument(
        "--renamed", action="append", default=[], metavar="OLD=NEW", help="a word renamed on purpose"
    )
    parser.add_argument("--nets", default=",".join(clcnn.zoo.NETS), help="default: all of the zoo")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--precision", default="highest,medium")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    plans: dict[str, Record] = {}
    with clcnn.Device(args.device) as device:
        for net in args.nets.split(","):
            for batch in map(int, args.batch.split(",")):
                for precision in args.precision.split(","):
                    key = f"{net} batch {batch} {precision}"
                    plans[key] = record(net, batch, precision, device)
                    print(key, plans[key]["bits"][:12], flush=True)
        name = str(device)
    args.record.write_text(json.dumps({"device": name, "plans": plans}, indent=1))
    if args.against is None:
        return 0
    words = [tuple(pair.split("=", 1)) for pair in args.renamed]
    old = json.loads(args.against.read_text())["plans"]
    found = [
        f"{key}: {line}"
        for key in plans
        for line in (differences(old[key], plans[key], words) if key in old else ["not in the other record"])
    ]
    print("\n".join(found) or f"{len(plans)} plans are the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
