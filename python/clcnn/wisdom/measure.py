"""Finding the fastest algorithm of every layer of a graph by running it with each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _core
from clcnn._log import logger
from clcnn.errors import Error
from clcnn.graph import Graph
from clcnn.wisdom import Wisdom

GAIN = 0.97  # of the time of the rules' choice: what is no faster than that is no reason to depart from it
AGREE = {"strict": 1e-3, "highest": 1e-3, "high": 0.2, "medium": 0.2}  # of the outputs' rms
RUNS = 3  # of both plans for each round, when they are compared
USABLE = ("chosen", "not needed", "passed over")

Inputs = list[NDArray[Any]]


def measure(
    graph: Graph,
    device: _core.Device,
    *,
    precision: str = "highest",
    workspace_limit: int = 64 << 20,
    rounds: int = 8,
) -> Wisdom:
    """The layers of a graph for which another algorithm than the rules' is faster, in place in the net.

    Candidate i of every layer at once runs in one plan, `rounds` times by device events; the minimum counts,
    with what a step costs besides (a launch) for each of the layer's.
    The table is kept only if the whole net runs faster with it and its outputs agree; else it is empty. Parts
    of merged layers are not tried by themselves, nor is `ref`.

    Raises what compiling by the rules raises.
    """

    def plan(table: Mapping[str, str]) -> _core.Plan:
        return _core.Plan(
            device,
            graph._core,
            precision=precision,
            workspace_limit=workspace_limit,
            wisdom=dict(table),
        )

    inputs = _inputs(graph)
    times: dict[str, dict[str, float]] = {}
    with plan({}) as rules:
        layers = [row for row in rules.layers() if row["key"] and not row["part"]]
        beside = _beside(rules, device, inputs, rounds)
        _add(times, rules, inputs, rounds, beside)
    candidates = {row["key"]: _others(row) for row in layers}
    for i in range(max(map(len, candidates.values()), default=0)):
        try:
            with plan({key: names[i] for key, names in candidates.items() if i < len(names)}) as trial:
                _add(times, trial, inputs, rounds, beside)
        except Error as error:  # one that cannot be built or does not fit leaves its round out
            logger.info("tuning: round %d left out: %s", i, error)
    table: Wisdom = {}
    for row in layers:
        of_key = times[row["key"]]
        best = min(of_key, key=of_key.__getitem__)
        if of_key[best] < GAIN * of_key[row["algo"]]:
            table[row["key"]] = best
    if not table:
        return {}
    with plan({}) as rules, plan(table) as tuned:
        return table if _better(rules, tuned, inputs, rounds, AGREE[precision]) else {}


def _inputs(graph: Graph) -> Inputs:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(value.shape, np.float32).astype(value.dtype) for value in graph.inputs.values()
    ]


def _others(row: Mapping[str, Any]) -> list[str]:
    """What may be tried instead of the rules' choice."""
    usable = [c["algo"] for c in row["candidates"] if c["verdict"] in USABLE]
    return [name for name in usable if name not in (row["algo"], "ref")]


def _least(plan: _core.Plan, inputs: Inputs, rounds: int) -> list[float]:
    """The least time of every step, in ns."""
    runs = [[end - start for start, end in plan.profile(inputs)[1]] for _ in range(rounds + 1)]
    return [float(min(step)) for step in zip(*runs, strict=True)]


def _beside(plan: _core.Plan, device: _core.Device, inputs: Inputs, rounds: int) -> float:
    """What a run takes for each step beside the step's own time, in ns, with all data on the device."""
    spans = []
    with ExitStack() as stack:
        given, results = (
            [stack.enter_context(_core.Tensor(device, a.shape, a.dtype.name)) for a in arrays]
            for arrays in (inputs, plan.run(inputs))
        )
        for tensor, array in zip(given, inputs, strict=True):
            tensor.write(array)
        for _ in range(RUNS * rounds):
            start = time.perf_counter_ns()
            plan.run(given, results)
            spans.append(time.perf_counter_ns() - start)
    return max(0.0, min(spans) - sum(_least(plan, inputs, rounds))) / max(1, len(plan.steps()))


def _add(
    times: dict[str, dict[str, float]], plan: _core.Plan, inputs: Inputs, rounds: int, beside: float
) -> None:
    """Adds {key: {algorithm: ns}} of a plan, the mean over layers of the same key."""
    of_layer: dict[str, float] = {}
    for step, ns in zip(plan.steps(), _least(plan, inputs, rounds), strict=True):
        of_layer[step["layer"]] = of_layer.get(step["layer"], 0.0) + ns + beside
    found: dict[tuple[str, str], list[float]] = {}
    for row in plan.layers():
        if row["key"] and not row["part"] and row["layer"] in of_layer:
            found.setdefault((row["key"], row["algo"]), []).append(of_layer[row["layer"]])
    for (key, algorithm), ns_of in found.items():
        times.setdefault(key, {})[algorithm] = sum(ns_of) / len(ns_of)


def _better(rules: _core.Plan, tuned: _core.Plan, inputs: Inputs, rounds: int, agree: float) -> bool:
    """Whether the tuned plan computes the same, and is faster as users run it: times of steps leave
    out what launches cost, and a choice may keep a step out of a chain."""
    for want, got in zip(rules.run(inputs), tuned.run(inputs), strict=True):
        scale = float(np.sqrt(np.mean(np.square(want, dtype=np.float64)))) or 1.0
        if not float(np.abs(np.subtract(got, want, dtype=np.float64)).max(initial=0.0)) <= agree * scale:
            logger.warning("tuning: outputs differ, so nothing of it is kept")
            return False
    spans: dict[_core.Plan, float] = {}
    for _ in range(RUNS * rounds):
        for plan in (rules, tuned):
            start = time.perf_counter()
            plan.run(inputs)
            seconds = time.perf_counter() - start
            spans[plan] = min(seconds, spans.get(plan, seconds))
    return spans[tuned] < spans[rules]
