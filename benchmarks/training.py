"""What scripts of training share: a net's step, ours and PyTorch's, checked, then timed in turn, and where
our time goes."""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import common
import numpy as np
import torch
from training_nets import Case, TorchTrainer

import clcnn
from clcnn import train
from clcnn.plan import Plan

# What float32 may be off by, over the rms, against a step in float64: the loss, and all changes of weights.
LOSS_LIMIT, CHANGE_LIMIT = 1e-4, 2e-3
PASSES = ("forward", "data", "filter", "update")
HEAD = ["net", "batch", "clcnn ms", "peer", "peer ms", "ratio", *PASSES, "loss error", "change error", "MiB"]
WIDTHS = [18, 5, 9, 22, 9, 6, 8, 8, 8, 8, 10, 12, 8]
PROFILES = 3
OPERATIONS_SHOWN = 12


# ---- agreement ----


def checked(case: Case, trainer: train.Trainer) -> dict[str, float]:
    """Errors of the first loss, and of all changes of weights by one step together, both over the rms of what
    PyTorch computes in float64. Raises common.Wrong."""
    twin = case.twin(dropout=False, dtype=torch.float64)
    want_loss, loss = twin.step(), trainer.step(case.x, case.y)
    start = {name: np.asarray(case.weights[name], np.float64) for name in case.weights}
    want = {name: value - start[name] for name, value in twin.values().items()}
    after = trainer.net.state_dict()
    got = {name: np.asarray(after[name], np.float64) - start[name] for name in want}
    flat = [np.concatenate([values[name].ravel() for name in want]) for values in (got, want)]
    change = common.checked(*flat, CHANGE_LIMIT)
    error = common.checked(np.array([loss]), np.array([want_loss]), LOSS_LIMIT)["rms_error"]
    return {"loss_error": error, "max_error": change["max_error"], "rms_error": change["rms_error"]}


# ---- where time goes ----


def step_plan(trainer: train.Trainer) -> Plan:
    """The plan of the trainer's step."""
    return next(plan for key, plan in trainer._plans.items() if key[0] == "step")


def pass_of(layer: str, op: str, forward: set[str]) -> str:
    """Which of PASSES a step of a plan belongs to: by its name's end, which says what it is the gradient of.
    What came together from several layers belongs where the first one does."""
    first = layer.partition("+")[0]
    name, _, of = first.rpartition(":")
    if name:
        return "data" if of.partition("_")[0] in ("dx", "dy", "dlogits") else "filter"
    return "forward" if first in forward or op.startswith("cross_entropy") else "update"


def profiled(case: Case, trainer: train.Trainer) -> dict[str, Any]:
    """Milliseconds of each pass, and of each operator by each algorithm: least of some profiled runs."""
    plan = step_plan(trainer)
    given = {name: np.zeros(shape, plan.input_dtypes[name]) for name, shape in plan.inputs.items()}
    given |= {"x": case.x, "y": case.y}
    forward = {r.name for r in case.graph.records if r.kind == "node"}
    runs = [plan.profile(*given.values()).rows for _ in range(PROFILES)]
    rows = min(runs, key=lambda rows: sum(row.ms for row in rows))
    passes, operations = Counter(), Counter()
    for row in rows:
        passes[pass_of(row.layer, row.op, forward)] += row.ms
        operations[f"{row.op} {row.algo}"] += row.ms
    return {
        "passes": {name: passes[name] for name in PASSES},
        "operations": dict(operations.most_common()),
        "peak_bytes": plan.peak_bytes,
        "kernels": plan.stats["program_count"],
    }


def peer_passes(twin: TorchTrainer, finish: Callable[[], None]) -> dict[str, float]:
    """Milliseconds of PyTorch's forward, backward and update, least of some steps. finish: waits for the
    device."""
    best = {"forward": np.inf, "backward": np.inf, "update": np.inf}
    for _ in range(PROFILES):
        finish()
        times = [time.perf_counter()]
        loss = twin.forward()
        finish()
        times.append(time.perf_counter())
        loss.backward()
        finish()
        times.append(time.perf_counter())
        twin.optimizer.step()
        finish()
        times.append(time.perf_counter())
        for name, start, end in zip(best, times, times[1:]):
            best[name] = min(best[name], 1e3 * (end - start))
    return best


# ---- one net ----


def measure(
    case: Case, precision: str, device: clcnn.Device, peers: dict[str, TorchTrainer], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """A result for each peer. Raises common.Wrong and clcnn.Error."""
    with closing(case.trainer(device, precision, dropout=False)) as trainer:
        start = time.perf_counter()
        facts: dict[str, Any] = checked(case, trainer)
        facts["check_s"] = time.perf_counter() - start
    gc.collect()
    with closing(case.trainer(device, precision, dropout=True)) as trainer:
        runs: dict[str, Callable[[], Any]] = {"clcnn": lambda: trainer.step(case.x, case.y)}
        timed = common.interleave(
            runs | {name: twin.step for name, twin in peers.items()}, args.rounds, args.seconds, warm=1
        )
        facts |= profiled(case, trainer)
    row = {"case": case.name, "batch": case.batch, "precision": precision, **facts}
    row |= {"clcnn_ms": timed["clcnn"]["min"], "clcnn_median_ms": timed["clcnn"]["median"]}
    row["rounds"] = timed["clcnn"]["rounds"]
    finish = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    made = []
    for name, twin in peers.items():
        ms = {"peer_ms": timed[name]["min"], "peer_median_ms": timed[name]["median"]}
        ratio = ms["peer_ms"] / row["clcnn_ms"]
        made.append(row | {"peer": name, **ms, "ratio": ratio, "peer_passes": peer_passes(twin, finish)})
    return made or [row | {"peer": None}]


def fastest(rows: list[dict[str, Any]], peer: str) -> list[dict[str, Any]]:
    """For each net the row of its fastest peer, under one name."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["case"], row["batch"], row["precision"])
        if row["peer"] and row["ratio"] <= best.get(key, row)["ratio"]:
            best[key] = row
    return [row | {"peer": peer} for row in best.values()]


def show(rows: list[dict[str, Any]], operations: bool) -> None:
    """Table lines of a net's results, and below them PyTorch's passes and where our time goes."""
    for row in rows:
        cells = [
            row["case"], row["batch"], f"{row['clcnn_ms']:.1f}", row["peer"] or "-",
            f"{row['peer_ms']:.1f}" if row["peer"] else "-", f"{row['ratio']:.3f}" if row["peer"] else "-",
            *(f"{row['passes'][name]:.1f}" for name in PASSES),
            f"{row['loss_error']:.1e}", f"{row['rms_error']:.1e}", f"{row['peak_bytes'] / 2**20:.0f}",
        ]  # fmt: skip
        print(common.table([], [cells], WIDTHS), flush=True)
    for row in rows if operations else []:
        if row["peer"]:
            passes = ", ".join(f"{name} {ms:.1f}" for name, ms in row["peer_passes"].items())
            print(f"    {row['peer']}: {passes}")
    if operations:
        for name, ms in list(rows[0]["operations"].items())[:OPERATIONS_SHOWN]:
            print(f"    {ms:8.2f} ms  {name}")
    print(end="", flush=True)


def run(args: argparse.Namespace, device: clcnn.Device, peers: dict[str, dict[str, Any]]) -> int:
    """Every net of the arguments against PyTorch, moved by Module.to() of each of `peers`; returns the exit
    status: 1 when one of ours failed."""
    results: list[dict[str, Any]] = []
    failed: list[str] = []
    print(
        f"clcnn {clcnn.__version__} on {device.name} ({device.platform}) beside PyTorch {torch.__version__}: "
        f"ms a step, minimum of up to {args.rounds} interleaved rounds"
    )
    print(common.table(HEAD, [], WIDTHS))
    for name, batch in args.nets:
        case = Case(name, batch)
        try:
            twins = {peer: case.twin(dropout=True, **where) for peer, where in peers.items()}
            made = measure(case, args.precision, device, twins, args)
        except (common.Wrong, clcnn.Error) as error:
            failed.append(f"{name} batch {batch}: {type(error).__name__}: {error}")
            print(failed[-1], flush=True)
            continue
        show(made, not args.short)
        results += made
        common.write(results, args.json, device=device.name, failed=failed)
        gc.collect()
    common.finish(results, args.json, device=device.name, failed=failed)
    for peer, ratio in common.geomeans(fastest(results, "the faster layout of PyTorch")).items():
        print(f"geometric mean against {peer}: {ratio:.3f}")
    return 1 if failed else 0
