"""Throughput of a trainer on several devices against that of one, each with a batch of its own."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

import common
import numpy as np
from many_devices import alike
from training import LOSS_LIMIT, still
from training_nets import Case

import clcnn

STATE_LIMIT = 1e-3  # of changes of weights over their rms: sums of parts round otherwise
HEAD = ["net", "batch each", "precision", "devices", "ms one", "ms all", "throughput", "loss error", "change"]
WIDTHS = [18, 10, 9, 7, 9, 9, 10, 10, 10]


def changed(case: Case, trainer: Any) -> np.ndarray:
    """What the first step has changed of all weights."""
    after = trainer.net.state_dict()
    return np.concatenate([(after[name] - case.weights[name]).ravel() for name in case.weights])


def measure(case: Case, precision: str, devices: list[Any], args: argparse.Namespace) -> dict[str, Any]:
    """Every device gets the same samples for the first step, so that batch norms and sums are those of one.
    Raises common.Wrong and clcnn.Error."""
    x, y = np.concatenate([case.x] * len(devices)), np.concatenate([case.y] * len(devices))
    with closing(case.trainer(devices[0], precision, dropout=False)) as one:
        loss = one.step(case.x, case.y)
        want = changed(case, one)
    with closing(case.trainer(devices, precision, dropout=False)) as team:
        error = common.checked(np.array([team.step(x, y)]), np.array([loss]), LOSS_LIMIT)["rms_error"]
        change = common.checked(changed(case, team), want, STATE_LIMIT)["rms_error"]
    with closing(case.trainer(devices[0], precision, dropout=True)) as one:
        still(one.optimizer)
        twin = Case(case.name, case.batch)  # parameters belong to one trainer
        with closing(twin.trainer(devices, precision, dropout=True)) as team:
            still(team.optimizer)
            runs = {"one": lambda: one.step(case.x, case.y), "all": lambda: team.step(x, y)}
            timed = common.interleave(runs, args.rounds, args.seconds, warm=2)
    ms = {name: timed[name]["min"] for name in timed}
    return {
        "case": case.name, "batch": case.batch, "precision": precision, "devices": len(devices),
        "one_ms": ms["one"], "all_ms": ms["all"], "throughput": len(devices) * ms["one"] / ms["all"],
        "loss_error": error, "change_error": change,
    }  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Every net of the arguments; returns the exit status: 1 when one failed."""
    rows = alike(args.device, args.devices)
    if len(rows) < args.devices:
        print(f"skipped: there are {len(rows)} devices like {rows[0].name}, not {args.devices}")
        return 0
    results, failed = [], []
    print(
        f"clcnn {clcnn.__version__} on {args.devices} x {rows[0].name}: minimum of up to {args.rounds} rounds"
    )
    print(common.table(HEAD, [], WIDTHS))
    devices = [clcnn.Device(row) for row in rows]
    for name, batch in args.nets:
        for precision in args.precision:
            try:
                row = measure(Case(name, batch), precision, devices, args)
            except (common.Wrong, clcnn.Error) as error:
                failed.append(f"{name} batch {batch} {precision}: {type(error).__name__}: {error}")
                print(failed[-1], flush=True)
                continue
            cells = [name, batch, precision, row["devices"], f"{row['one_ms']:.1f}", f"{row['all_ms']:.1f}"]
            cells += [f"{row['throughput']:.3f}", f"{row['loss_error']:.1e}", f"{row['change_error']:.1e}"]
            print(common.table([], [cells], WIDTHS), flush=True)
            results.append(row)
            common.write(results, args.json, device=rows[0].name, failed=failed)
    common.finish(results, args.json, device=rows[0].name, failed=failed)
    return 1 if failed else 0
