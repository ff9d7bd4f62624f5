"""What cpu_inference.py and gpu_inference.py share: a net at a batch, ours and the peers checked, then
timed in turn."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import common
import numpy as np
import peers
from nets import Net
from sessions import Session, ours

import clcnn

# Logits whose rms error, over their rms, exceeds this are wrong: nothing is timed. With operands of 10 bits
# (tf32, half) it is twice what rounding operands alone does to the net (Net.tf32_rms), which is what
# PyTorch's tf32 is off by too, within a third. Operands that are cut instead give four times as much.
FLOAT32_LIMIT = 2e-4
TF32_LIMIT = 2.0
HEAD = [
    "net",
    "batch",
    "precision",
    "clcnn ms",
    "peer",
    "peer ms",
    "ratio",
    "max error",
    "rms error",
    "peer rms",
    "MiB",
    "peer MiB",
]
WIDTHS = [14, 5, 9, 9, 15, 9, 6, 9, 9, 9, 7, 8]


def limit_of(net: Net, precision: str) -> float:
    """Largest rms error of logits, over their rms."""
    return FLOAT32_LIMIT if precision in ("strict", "highest") else TF32_LIMIT * net.tf32_rms


def measure(
    net: Net,
    batch: int,
    precision: str,
    device: clcnn.Device,
    wanted: dict[str, peers.Peer],
    args: argparse.Namespace,
) -> list[dict[str, Any]]:
    """A result for each peer, or one without a peer when there is none. Raises common.Wrong and clcnn.Error
    for our own plan; a peer that fails or is wrong is named and left out."""
    graph, x, want = net.graph(batch), net.inputs(batch), net.reference(batch)
    model = peers.Model(graph)
    with ours(graph, x, device, precision) as (plan, mine):
        sessions = {"clcnn": mine}
        found = common.checked(mine.run(x), want, limit_of(net, precision))
        facts: dict[str, dict[str, Any]] = {"clcnn": {**found, "peak_bytes": plan.peak_bytes}}
        for name, peer in wanted.items():
            try:
                before = peers.cuda_bytes()
                sessions[name] = peer.load(model, x)
                facts[name] = common.checked(sessions[name].run(x), want, limit_of(net, precision))
                if taken := peers.cuda_peak(sessions[name].resident) - before:
                    facts[name]["peak_bytes"] = taken
            except Exception as error:  # a peer may fail in any way, and the others still count
                sessions.pop(name, None)
                print(f"{net.name} batch {batch}: {name} left out: {type(error).__name__}: {error}"[:300])
        forms = _forms(sessions, x, device)
        timed = {form: common.interleave(runs, args.rounds, args.seconds) for form, runs in forms.items()}
        common.checked(mine.run(x), want, limit_of(net, precision))  # still, after all those runs
        rows = _rows({"case": net.name, "batch": batch, "precision": precision}, timed, facts)
    sessions.clear()
    gc.collect()  # sessions hold themselves through their closures, and with them gigabytes
    return rows


def _forms(
    sessions: dict[str, Session], x: np.ndarray, device: clcnn.Device
) -> dict[str, dict[str, Callable[[], Any]]]:
    """What is timed, by the prefix of its figures: data in place and, where that is not host memory, from
    host array to host array too."""
    forms = {"": {name: session.resident for name, session in sessions.items()}}
    if not device.host_unified:
        forms["host_"] = {name: partial(session.run, x) for name, session in sessions.items()}
    return forms


def _rows(
    case: dict[str, Any], timed: dict[str, dict[str, dict[str, float]]], facts: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    names = [name for name in facts if name != "clcnn"]
    made = []
    for name in names or [None]:
        row: dict[str, Any] = {**case, "peer": name, **facts["clcnn"]}
        for who, prefix in (("clcnn", "clcnn_"), (name, "peer_")):
            for form, times in timed.items():
                if who:
                    row[f"{prefix}{form}ms"] = times[who]["min"]
                    row[f"{prefix}{form}median_ms"] = times[who]["median"]
                    row["rounds"] = times[who]["rounds"]
        if name:
            row |= {f"peer_{key}": value for key, value in facts[name].items()}
            row["ratio"] = row["peer_ms"] / row["clcnn_ms"]
        made.append(row)
    return made


def show(rows: list[dict[str, Any]]) -> None:
    """Table lines of some results."""
    for row in rows:
        cells = [
            row["case"], row["batch"], row["precision"], f"{row['clcnn_ms']:.3f}",
            *(_cell(row, key, form) for key, form in (("peer", "s"), ("peer_ms", ".3f"), ("ratio", ".3f"))),
            f"{row['max_error']:.1e}", f"{row['rms_error']:.1e}", _cell(row, "peer_rms_error", ".1e"),
            f"{row['peak_bytes'] / 2**20:.1f}",
            f"{row['peer_peak_bytes'] / 2**20:.1f}" if row.get("peer_peak_bytes") else "-",
        ]  # fmt: skip
        print(common.table([], [cells], WIDTHS), flush=True)


def best_of(rows: list[dict[str, Any]], peer: str, prefix: str) -> list[dict[str, Any]]:
    """For each case, batch and precision the row of the fastest peer whose name begins so, under the name
    `peer` and its precision."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["case"], row["batch"], row["precision"])
        if (row["peer"] or "").startswith(prefix) and row["ratio"] <= found.get(key, row)["ratio"]:
            found[key] = row
    return [row | {"peer": f"{peer}, {row['precision']}, batch {row['batch']}"} for row in found.values()]


def _cell(row: dict[str, Any], key: str, form: str) -> str:
    return format(row[key], form) if row.get(key) else "-"


def run(args: argparse.Namespace, device: clcnn.Device, table: dict[str, peers.Peer]) -> int:
    """Every net, batch and precision of the arguments; returns the exit status: 1 when one of ours failed."""
    wanted = {name: table[name] for name in peers.installed(args.peers, table)}
    results: list[dict[str, Any]] = []
    failed: list[str] = []
    print(
        f"clcnn {clcnn.__version__} on {device.name} ({device.platform}), "
        f"minimum of up to {args.rounds} interleaved rounds"
    )
    print(common.table(HEAD, [], WIDTHS))
    for name in args.nets:
        net = Net(name)
        for precision in args.precision:
            peers.set_precision(precision)
            for batch in args.batch:
                try:
                    made = measure(net, batch, precision, device, wanted, args)
                except (common.Wrong, clcnn.Error) as error:
                    failed.append(f"{name} batch {batch} {precision}: {type(error).__name__}: {error}")
                    print(failed[-1], flush=True)
                    continue
                show(made)
                results += made
                common.write(results, args.json, device=device.name, failed=failed)
    common.finish(results, args.json, device=device.name, failed=failed)
    for peer, ratio in common.geomeans(best_of(results, "the fastest of PyTorch", "torch-")).items():
        print(f"geometric mean against {peer}: {ratio:.3f}")
    return 1 if failed else 0
