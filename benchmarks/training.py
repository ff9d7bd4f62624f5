"""What scripts of training share: a net's step, ours and PyTorch's, checked, then timed in turn, and where
our time goes."""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import common
import numpy as np
import peers as libraries
import torch
from training_nets import Case, TorchTrainer

import clcnn
from clcnn import train
from clcnn.plan import Plan

# What a step may be off by, over the rms, against one in float64: the loss, and all changes of weights; or
# so many times what PyTorch's is off by at the same precision, where a net makes much of rounding errors.
LOSS_LIMIT, CHANGE_LIMIT, PEER_LIMIT = 1e-4, 2e-3, 3.0
TF32_LOSS = 1e-3  # with operands of 10 bits
PASSES = ("forward", "data", "filter", "update")
HEAD = ["net", "batch", "precision", "clcnn ms", "peer", "peer ms", "ratio", *PASSES]
HEAD += ["loss error", "change error", "MiB", "peer MiB"]
WIDTHS = [18, 5, 9, 9, 22, 9, 6, 8, 8, 8, 8, 10, 12, 8, 8]
PROFILES = 3
OPERATIONS_SHOWN = 12


# ---- agreement ----


def changes(case: Case, after: dict[str, Any], names: Iterable[str]) -> np.ndarray:
    """What a step changed of all weights, in one row."""
    return np.concatenate(
        [
            np.asarray(after[n], np.float64).ravel() - np.asarray(case.weights[n], np.float64).ravel()
            for n in names
        ]
    )


def checked(case: Case, trainer: train.Trainer, where: dict[str, Any]) -> dict[str, float]:
    """Errors of the first loss, and of all changes of weights by one step together, both over the rms of what
    PyTorch computes in float64. where: the device for that. Raises common.Wrong."""
    twin = case.twin(dropout=False, dtype=torch.float64, **where)
    want_loss, loss = twin.step(), trainer.step(case.x, case.y)
    names = list(twin.values())
    want = changes(case, twin.values(), names)
    del twin
    other = case.twin(dropout=False, **where)
    off = common.errors(np.array([other.step()]), np.array([want_loss]))["rms_error"]
    peer_change = common.errors(changes(case, other.values(), names), want)["rms_error"]
    least = TF32_LOSS if trainer.precision == "high" and where else LOSS_LIMIT
    limits = [max(least, PEER_LIMIT * off), max(CHANGE_LIMIT, PEER_LIMIT * peer_change)]
    change = common.checked(changes(case, trainer.net.state_dict(), names), want, limits[1])
    error = common.checked(np.array([loss]), np.array([want_loss]), limits[0])["rms_error"]
    return {"loss_error": error, "max_error": change["max_error"], "rms_error": change["rms_error"]}


# ---- where time goes ----


def pass_of(layer: str, op: str, forward: set[str]) -> str:
    """Which of PASSES a step of a plan belongs to: by its name's end, which says what it is the gradient of.
    What came together from several layers belongs where the first one does."""
    first = layer.partition("+")[0]
    name, _, of = first.rpartition(":")
    if name:
        return "data" if of.partition("_")[0] in ("dx", "dy", "dlogits") else "filter"
    return "forward" if first in forward or op.startswith("cross_entropy") else "update"


@contextmanager
def in_place(case: Case, trainer: train.Trainer) -> Iterator[tuple[Plan, list[Any]]]:
    """The plan of the trainer's step and its inputs: on a device with memory of its own they lie there."""
    inputs = trainer._batch(case.x, case.y)
    plan = trainer._plan("step", inputs)
    given = trainer._given(inputs)
    arrays = [given[name] for name in plan.inputs]
    if trainer.device.host_unified:
        yield plan, arrays
        return
    with ExitStack() as stack:
        yield plan, [stack.enter_context(clcnn.Tensor.from_numpy(array, trainer.device)) for array in arrays]


def profiled(case: Case, trainer: train.Trainer, plan: Plan, inputs: list[Any]) -> dict[str, Any]:
    """Milliseconds of each pass, and of each operator by each algorithm: least of some profiled runs."""
    forward = {r.name for r in case.graph.records if r.kind == "node"}
    runs = [plan.profile(*inputs).rows for _ in range(PROFILES)]
    rows = min(runs, key=lambda rows: sum(row.ms for row in rows))
    passes, operations = Counter(), Counter()
    for row in rows:
        passes[pass_of(row.layer, row.op, forward)] += row.ms
        operations[f"{row.op} {row.algo}"] += row.ms
    state = trainer._home.state
    return {
        "passes": {name: passes[name] for name in PASSES},
        "operations": dict(operations.most_common()),
        "peak_bytes": plan.peak_bytes + sum(state[name].nbytes for name in state.names()),
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


def still(optimizer: Any) -> None:
    """Sets all rates to 0, so that many steps on one batch do not run away: what they take stays the same."""
    for group in optimizer.param_groups:
        group["lr"] = 0.0


def peer_twin(case: Case, where: dict[str, Any]) -> tuple[TorchTrainer, int]:
    """PyTorch's trainer, and the most bytes that it holds on a GPU in a step."""
    before = libraries.cuda_bytes()
    twin = case.twin(dropout=True, **where)
    still(twin.optimizer)
    for _ in range(2 if "device" in where else 0):
        twin.step()
    return twin, libraries.cuda_peak(twin.step) - before if "device" in where else 0


def measure(
    case: Case,
    precision: str,
    device: clcnn.Device,
    peers: dict[str, dict[str, Any]],
    args: argparse.Namespace,
) -> list[dict[str, Any]]:
    """A result for each peer, PyTorch moved by Module.to(). Raises common.Wrong and clcnn.Error."""
    where = {key: value for moved in peers.values() for key, value in moved.items() if key == "device"}
    with closing(case.trainer(device, precision, dropout=False)) as trainer:
        start = time.perf_counter()
        facts: dict[str, Any] = checked(case, trainer, where)
        facts["check_s"] = time.perf_counter() - start
    gc.collect()
    twins = {name: peer_twin(case, moved) for name, moved in peers.items()}
    with closing(case.trainer(device, precision, dropout=True)) as trainer:
        still(trainer.optimizer)
        with in_place(case, trainer) as (plan, inputs):
            runs: dict[str, Callable[[], Any]] = {"clcnn": lambda: plan.step(*inputs)}
            timed = common.interleave(
                runs | {name: twin.step for name, (twin, _) in twins.items()},
                args.rounds,
                args.seconds,
                warm=1,
            )
            facts |= profiled(case, trainer, plan, inputs)
    row = {"case": case.name, "batch": case.batch, "precision": precision, **facts}
    row |= {"clcnn_ms": timed["clcnn"]["min"], "clcnn_median_ms": timed["clcnn"]["median"]}
    row["rounds"] = timed["clcnn"]["rounds"]
    finish = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    made = []
    for name, (twin, peak) in twins.items():
        ms = {"peer_ms": timed[name]["min"], "peer_median_ms": timed[name]["median"]}
        ratio = ms["peer_ms"] / row["clcnn_ms"]
        made.append(
            row
            | {"peer": name, **ms, "ratio": ratio, "peer_passes": peer_passes(twin, finish)}
            | ({"peer_peak_bytes": peak} if peak else {})
        )
    return made or [row | {"peer": None}]


def fastest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each net and precision the row of its fastest peer, under one name."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["case"], row["batch"], row["precision"])
        if row["peer"] and row["ratio"] <= best.get(key, row)["ratio"]:
            best[key] = row
    return [row | {"peer": f"the faster layout of PyTorch, {row['precision']}"} for row in best.values()]


def show(rows: list[dict[str, Any]], operations: bool) -> None:
    """Table lines of a net's results, and below them PyTorch's passes and where our time goes."""
    for row in rows:
        cells = [
            row["case"], row["batch"], row["precision"], f"{row['clcnn_ms']:.1f}", row["peer"] or "-",
            f"{row['peer_ms']:.1f}" if row["peer"] else "-", f"{row['ratio']:.3f}" if row["peer"] else "-",
            *(f"{row['passes'][name]:.1f}" for name in PASSES),
            f"{row['loss_error']:.1e}", f"{row['rms_error']:.1e}", f"{row['peak_bytes'] / 2**20:.0f}",
            f"{row['peer_peak_bytes'] / 2**20:.0f}" if row.get("peer_peak_bytes") else "-",
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
        for precision in args.precision:
            libraries.set_precision(precision)
            try:
                made = measure(case, precision, device, peers, args)
            except (common.Wrong, clcnn.Error) as error:
                failed.append(f"{name} batch {batch} {precision}: {type(error).__name__}: {error}")
                print(failed[-1], flush=True)
                continue
            show(made, not args.short)
            results += made
            common.write(results, args.json, device=device.name, failed=failed)
            gc.collect()
    common.finish(results, args.json, device=device.name, failed=failed)
    for peer, ratio in common.geomeans(fastest(results)).items():
        print(f"geometric mean against {peer}: {ratio:.3f}")
    return 1 if failed else 0
