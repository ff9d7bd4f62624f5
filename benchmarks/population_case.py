"""One network of population.py in a process of its own, which may crash or be ended without harm to the rest.

It takes an order and tells what happens in lines of JSON, each after MARK:

    {"name", "source", "shape", "options", "cache", "exporter", "cases": [[batch, precision]], ...}
    {"phase": "compile", ...}   {"done": {...}}   {"failed": {"phase", "kind", "message"}}
"""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np

MARK = "@population "
# Largest rms difference over the rms of the reference, which is float32 itself; or so many times what a peer
# is off by, or what the reference is when the last bit of its input is another: some networks with random
# weights make much of a rounding.
FLOAT32_LIMIT, FLOAT32_PEERS, FLOAT32_SHAKEN = 1e-3, 4.0, 10.0
# With operands of fewer bits: of what PyTorch's tf32 is off by, and where that is not known. Some networks
# with random weights make much of a rounding, PyTorch's own too: only what is off by TF32_PEER is left out,
# or by so many times what the reference is with its input rounded to as many bits.
TF32_LIMIT, TF32_LEAST, TF32_UNKNOWN, TF32_PEER, TF32_SHAKEN = 3.0, 2e-3, 5e-2, 0.3, 2.0
TF32_STEP = 2.0**-11
SLOW_S = 2.0  # a network that takes longer is warmed up once and runs SLOW_ROUNDS rounds
SLOW_ROUNDS = 2
SLOWEST_S = 20.0  # the first run of one that takes longer is its figure
PROFILES = 4
LONGEST_MESSAGE = 600


def tell(**event: Any) -> None:
    """A line for the process that gave the order."""
    print(f"\n{MARK}{json.dumps(event)}", flush=True)


def entry_of(order: dict[str, Any]) -> Any:
    """The order's network."""
    from population_nets import Entry

    shape = order["shape"]
    return Entry(order["source"], tuple(shape) if shape else None, (), order["options"])


class Case:
    """A network at a batch and a precision; `phase` is what it is at, for messages."""

    def __init__(self, order: dict[str, Any], batch: int, precision: str) -> None:
        self.order, self.batch, self.precision = order, batch, precision
        self.entry = entry_of(order)
        self.phase = "start"
        self.shaken = 0.0  # rms error of the reference when its input is off by a bit of the precision

    def enter(self, phase: str, **known: Any) -> None:
        """The next phase, and what is known by now: all there is to say, should the case end in it."""
        self.phase = phase
        tell(phase=phase, **known)

    def measure(self) -> dict[str, Any]:
        """What a row says of the case. Raises whatever goes wrong on our side, Wrong too."""
        from population_nets import build

        import clcnn

        order = self.order
        where = build.folder(Path(order["cache"]), order["exporter"])
        with open(order["lock"], "w") as others:
            fcntl.flock(others, fcntl.LOCK_SH)
            self.enter("export")
            path = build.onnx(order["name"], self.entry, self.batch, where, order["exporter"])
            x = build.inputs(self.entry, self.batch).numpy()
            device = clcnn.Device(order["device"])
            self.enter("reference")
            sessions, want, facts = self._peers(path, x, device, where)
            with self._ours(path, x, device) as (plan, mine, row):
                self.enter("agreement")
                limit = self._limit(facts)
                start = time.perf_counter()
                row |= common.checked(mine.run(x), want, limit)
                first_s = time.perf_counter() - start
                tell(waits=True)
                fcntl.flock(others, fcntl.LOCK_EX)  # nobody else uses the device or its host now
                self.enter("profile", **row)
                row |= shares(plan, x, PROFILES if first_s < SLOW_S else 1)
                self.enter("time", **row)
                runs = {name: session.resident for name, session in sessions.items()}
                timed = self._times(mine.resident, runs, first_s)
                if first_s < SLOW_S:
                    common.checked(mine.run(x), want, limit)  # still, after all those runs
        row |= {"clcnn_ms": timed["clcnn"]["min"], "clcnn_median_ms": timed["clcnn"]["median"]}
        for name, fact in facts.items():
            if name in timed:
                fact |= {"ms": timed[name]["min"], "median_ms": timed[name]["median"]}
        return row | {"rounds": timed["clcnn"]["rounds"], "peers": facts}

    def _times(
        self, mine: Callable[[], Any], others: dict[str, Callable[[], Any]], first_s: float
    ) -> dict[str, dict[str, float]]:
        """Milliseconds of ours and the others; the slower ours is, the fewer runs."""
        seconds, rounds = self.order["seconds"], self.order["rounds"]
        if first_s < SLOW_S:
            return common.interleave({"clcnn": mine} | others, rounds, seconds)
        if first_s < SLOWEST_S:
            return common.interleave({"clcnn": mine} | others, SLOW_ROUNDS, seconds, warm=1)
        once = {"min": 1e3 * first_s, "median": 1e3 * first_s, "rounds": 1}
        return common.interleave(others, rounds, seconds) | {"clcnn": once}

    @contextmanager
    def _ours(self, path: Path, x: Any, device: Any) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
        """A plan, its session, and how long it took to get there."""
        from sessions import ours

        import clcnn
        import clcnn.onnx

        self.enter("import")
        start = time.perf_counter()
        graph = clcnn.onnx.load(path).specialise({"x0": x.shape}).graph
        imported = time.perf_counter()
        self.enter("compile")
        with ours(graph, x, device, self.precision) as (plan, mine):
            compiled = time.perf_counter()
            row = {"import_s": imported - start, "compile_s": compiled - imported}
            yield plan, mine, row | {"peak_bytes": plan.peak_bytes, "kernels": plan.stats["program_count"]}

    def _peers(
        self, path: Path, x: Any, device: Any, where: Path
    ) -> tuple[dict[str, Any], Any, dict[str, Any]]:
        """The others' sessions, the reference, and of each its error or why it is left out."""
        net = _Net(self.order["name"], self.entry, path, where)
        table, reference = on_cuda(x) if _cuda(device) else on_host()
        answer = reference(net, x, self.precision)
        want = answer(x)
        self.shaken = common.errors(answer(shaken(x, self._exact())), want)["rms_error"]
        del answer
        sessions: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        for name, load in table.items():
            if name not in self.order["peers"]:
                continue
            try:
                sessions[name] = load(net, x)
                facts[name] = common.checked(sessions[name].run(x), want, self._peer_limit())
            except Exception as error:  # a peer may fail in any way, and the others still count
                sessions.pop(name, None)
                facts[name] = {"left_out": message(error)}
        return sessions, want, facts

    def _exact(self) -> bool:
        return self.precision in ("strict", "highest")

    def _peer_limit(self) -> float:
        if self._exact():
            return max(FLOAT32_LIMIT, FLOAT32_SHAKEN * self.shaken)
        return max(TF32_PEER, TF32_SHAKEN * self.shaken)

    def _limit(self, facts: dict[str, Any]) -> float:
        """Largest rms error of ours."""
        theirs = [fact["rms_error"] for fact in facts.values() if "rms_error" in fact]
        if self._exact():
            return max([self._peer_limit(), *(FLOAT32_PEERS * error for error in theirs)])
        return max(TF32_LIMIT * max(theirs), TF32_LEAST) if theirs else max(TF32_UNKNOWN, self.shaken)


class _Net:
    """A network in the forms that peers.py asks for."""

    def __init__(self, name: str, entry: Any, path: Path, where: Path) -> None:
        self._torch = (name, entry, where)
        self._path = path

    @property
    def onnx(self) -> bytes:
        return self._path.read_bytes()

    @property
    def torch(self) -> Any:
        """A new module each time: peers move it to devices and layouts."""
        from population_nets import build

        return build.module(*self._torch)


def shaken(x: Any, exact: bool) -> Any:
    """x with the last bit of its numbers up or down, or half of tf32's last bit; whole numbers stay."""
    if x.dtype.kind != "f":
        return x
    up = np.random.default_rng(0).random(x.shape) < 0.5
    if exact:
        return np.nextafter(x, np.where(up, np.inf, -np.inf).astype(x.dtype))
    return x * np.where(up, 1 + TF32_STEP, 1 - TF32_STEP).astype(x.dtype)


def _cuda(device: Any) -> bool:
    import torch

    return device.type != "cpu" and torch.cuda.is_available()


def on_host() -> tuple[dict[str, Any], Callable[..., Any]]:
    """Peers on the CPU, and what makes the reference: onnxruntime or, without it, PyTorch."""
    import peers

    def reference(net: _Net, x: Any, precision: str) -> Any:
        name = "onnxruntime" if importlib.util.find_spec("onnxruntime") else "torch"
        return peers.CPU[name].load(net, x).run

    names = [name for name in peers.CPU if importlib.util.find_spec(peers.CPU[name].module)]
    return {name: peers.CPU[name].load for name in names}, reference


def on_cuda(x: Any) -> tuple[dict[str, Any], Callable[..., Any]]:
    """PyTorch's CUDA graphs in both layouts, and what makes the reference: PyTorch in strict float32."""
    import peers
    import torch

    def reference(net: _Net, x: Any, precision: str) -> Any:
        module = net.torch.cuda()

        def answer(x: Any) -> Any:
            peers.set_precision("highest")
            with torch.inference_mode():
                y = module(torch.from_numpy(x).cuda()).cpu().numpy()
            peers.set_precision(precision)
            return y

        return answer

    graph = peers.GPU["torch-cudagraph"].load
    table = {"torch-nchw": graph}
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim)
    if last:
        table["torch-nhwc"] = partial(graph, memory_format=last)
    return table, reference


def shares(plan: Any, x: Any, runs: int) -> dict[str, Any]:
    """Time of each operator and algorithm and of the slowest layers, in order; the least of some runs."""
    profiles = [plan.profile(x).rows for _ in range(runs)]
    operators: dict[tuple[str, str], dict[str, Any]] = {}
    layers = []
    for steps in zip(*profiles):
        step, ms = steps[0], min(s.ms for s in steps)
        empty = {"op": step.op, "algorithm": step.algo, "steps": 0, "ms": 0.0, "macs": 0.0}
        row = operators.setdefault((step.op, step.algo), empty)
        for key, value in (("steps", 1), ("ms", ms), ("macs", step.macs)):
            row[key] += value
        layers.append(
            {"layer": step.layer, "op": step.op, "algorithm": step.algo, "ms": ms, "macs": step.macs}
        )
    busy = sum(row["ms"] for row in operators.values()) or 1.0
    rows = sorted(operators.values(), key=lambda row: -row["ms"])
    return {
        "profile_ms": busy,
        "operators": [row | {"share": row["ms"] / busy} for row in rows],
        "slowest_layers": sorted(layers, key=lambda row: -row["ms"])[:10],
    }


def message(error: BaseException) -> str:
    """An error in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_MESSAGE]


def prepare(order: dict[str, Any]) -> None:
    """Makes the files for some batches, with a share of the cores."""
    import torch
    from population_nets import build

    torch.set_num_threads(order["threads"])
    where = build.folder(Path(order["cache"]), order["exporter"])
    for batch in order["prepare"]:
        try:
            build.onnx(order["name"], entry_of(order), batch, where, order["exporter"])
            tell(done={})
        except Exception as error:
            tell(failed={"phase": "export", "kind": type(error).__name__, "message": message(error)})


def end_with_parent() -> None:
    """Ends this process when the one that gave the order is gone, however it went."""
    sys.stdin.read()
    os._exit(1)


def obey(order: dict[str, Any]) -> None:
    """Makes the files or measures the cases that the order names, each whatever becomes of the one before."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    if order["prepare"]:
        prepare(order)
    for batch, precision in order["cases"]:
        case = Case(order, batch, precision)
        try:
            tell(done=case.measure())
        except Exception as error:
            tell(failed={"phase": case.phase, "kind": type(error).__name__, "message": message(error)})
        gc.collect()  # sessions hold themselves through their closures
