"""Finding the fastest algorithm of every layer of a graph by running it with each."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clcnn import _core
from clcnn._arguments import Precision
from clcnn._log import logger
from clcnn.errors import Error
from clcnn.graph import Graph
from clcnn.wisdom import Times, Wisdom, density, without_zeros
from clcnn.zeros import LayerZeros

__all__ = ["Measured", "measure", "usable"]

GAIN = 0.97  # of the time of the rules' choice: what is no faster than that is no reason to depart from it
NET_GAIN = 0.99  # of the net's time without a choice: the same for what the choice does to the net
AGAIN = 0.75  # of the pairs of runs in which it must be faster
SLOW = 2.0  # times the best so far: who is so slow in a round takes no part in the next ones
HOPELESS = 3.0  # times the effort of the least one that applies: not tried but on request
AGREE = {"strict": 1e-3, "highest": 1e-3, "high": 0.2, "medium": 0.2}  # of the outputs' rms
PAIRS = (9, 31)  # runs of two plans in turn, by how long they take:
PAIRED_SECONDS = 1.0
USABLE = ("chosen", "not needed", "passed over")

Inputs = list[NDArray[Any]]


@dataclass
class Measured:
    """What measure() found.

    Attributes
    ----------
    choices : {key: algorithm}
        Layers for which another algorithm than the rules' is faster.
    times : {key: {algorithm: float}}
        The least time of each candidate, in microseconds.
    rules : {key: algorithm}
        What the rules choose.

    Examples
    --------
    >>> from clcnn.wisdom.measure import Measured
    >>> Measured({"a": "rows"}, rules={"a": "blocked", "b": "gemv"}).into({"b": "few"})
    {'b': 'gemv', 'a': 'rows'}
    """

    choices: Wisdom = field(default_factory=dict)
    times: Times = field(default_factory=dict)
    rules: Wisdom = field(default_factory=dict)

    def into(self, table: Wisdom) -> Wisdom:
        """A table with these choices; where it has others for these layers, the rules' were faster.

        Parameters
        ----------
        table : {key: algorithm}

        Returns
        -------
        {key: algorithm}
            A new one.
        """
        again = {
            key: algorithm
            for key, algorithm in self.rules.items()
            if key in table or without_zeros(key) in table
        }
        return table | again | self.choices


class _Trial(NamedTuple):
    """A choice, and what part of the net's time it saves by the times of its layers."""

    algorithm: str
    saves: float


class _Nets:
    """Plans of one graph."""

    def __init__(
        self, graph: Graph, device: _core.Device, zeros: Mapping[str, LayerZeros] = {}, **options: Any
    ) -> None:
        self.graph, self.device = graph, device
        self.options = {**options, "zeros": dict(zeros)}
        self.keys: set[str] | None = None  # of the graph's own layers; None: all
        rng = np.random.default_rng(0)
        if zeros:
            with self.plan({}) as plan:
                rows = plan.layers()
            self.keys = {row["key"] for row in rows}
            self.graph = density.masked(rng, graph, density.known_layers(rows, zeros))
        self.inputs: Inputs = density.inputs_of(rng, graph, zeros)

    def layers(self, plan: _core.Plan) -> list[Any]:
        """Rows of the layers that are measured."""
        return [
            row
            for row in plan.layers()
            if row["key"] and not row["part"] and (self.keys is None or row["key"] in self.keys)
        ]

    def plan(self, table: Mapping[str, str]) -> _core.Plan:
        return _core.Plan(self.device, self.graph._core, wisdom=dict(table), **self.options)

    @contextmanager
    def alive(self, tables: Iterable[Mapping[str, str]]) -> Iterator[list[_core.Plan]]:
        """Plans of tables, all at once; one that cannot be built or does not fit is left out."""
        with ExitStack() as stack:
            plans = []
            for i, table in enumerate(tables):
                try:
                    plans.append(stack.enter_context(self.plan(table)))
                except Error as error:
                    logger.info("tuning: trial %d left out: %s", i, error)
            yield plans


def measure(
    graph: Graph,
    device: _core.Device,
    *,
    precision: Precision = "highest",
    workspace_limit: int = 64 << 20,
    profile: Mapping[str, float] = {},
    zeros: Mapping[str, LayerZeros] = {},
    state: _core.State | None = None,
    rounds: int = 8,
    every: bool = False,
) -> Measured:
    """The layers of a graph for which another algorithm than the rules' is faster, in place in the net.

    Candidate i of every layer at once runs in one plan. These plans live together and run in turn, by device
    events, so that what changes on the machine meanwhile changes them alike; the least time counts, with what
    a step costs besides (a launch) for each of the layer's. A candidate that is twice as slow as the best so
    far leaves. A choice stays if the whole net is faster with it in paired runs, and its outputs agree: all
    choices together first, and halves of those that are not, down to single ones, as long as what is tried
    could make a difference. Parts of merged layers are not tried by themselves, nor is `ref`.

    Parameters
    ----------
    graph : Graph
    device : Device
    precision, workspace_limit
        As of clcnn.compile().
    profile : {row: float}
        What the rules know of the device: see clcnn.wisdom.profile. Default {}.
    zeros : {layer: LayerZeros}
        Of layers whose inputs then have about so many. Default {}.
    state : State, optional
        What the plan is compiled with, which stays as it is.
    rounds : int
        How often the plans run in turn. Default 8.
    every : bool
        Also candidates whose arithmetic alone takes three times the least one's. Default False.

    Returns
    -------
    Measured

    Raises
    ------
    Error
        What compiling by the rules raises.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn.wisdom.measure import measure
    >>> graph = clcnn.graph.trace(clcnn.nn.Linear(8, 4), (1, 8))
    >>> with clcnn.Device() as device:
    ...     found = measure(graph, device, rounds=1)
    >>> [key.split()[0] for key in found.times]
    ['linear']
    """
    nets = _Nets(
        graph,
        device,
        zeros,
        precision=precision,
        workspace_limit=workspace_limit,
        profile=dict(profile),
        state=state,
    )
    found = Measured()
    with nets.plan({}) as rules:
        layers = nets.layers(rules)
        found.rules = {row["key"]: row["algo"] for row in layers}
        others = {row["key"]: _others(row, every) for row in layers}
        _race(found.times, nets, rules, others, rounds)
    found.times = {key: found.times[key] for key in found.rules}  # not of reorders that a trial needs
    often = Counter(row["key"] for row in layers)
    _settle(found.choices, nets, _faster(found, often), AGREE[precision])
    return found


def _faster(found: Measured, often: Mapping[str, int]) -> dict[str, _Trial]:
    """The choices that are clearly faster than the rules' by themselves, those first that save most. `often`:
    layers of each key."""
    whole = sum(found.times[key][rule] * often[key] for key, rule in found.rules.items())
    faster = {}
    for key, rule in found.rules.items():
        of_key = found.times[key]
        best = min(of_key, key=of_key.__getitem__)
        if of_key[best] < GAIN * of_key[rule]:
            faster[key] = _Trial(best, (of_key[rule] - of_key[best]) * often[key] / whole)
    return dict(sorted(faster.items(), key=lambda item: item[1].saves, reverse=True))


def usable(row: Mapping[str, Any]) -> list[str]:
    """The algorithms that may compute a layer; not the reference.

    Parameters
    ----------
    row : dict
        Of `Plan.layers`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import clcnn
    >>> from clcnn.wisdom.measure import usable
    >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3)) as plan:
    ...     plan.layers[0]["algo"] in usable(plan.layers[0])
    True
    """
    return [c["algo"] for c in row["candidates"] if c["verdict"] in USABLE and c["algo"] != "ref"]


def _others(row: Mapping[str, Any], every: bool) -> list[str]:
    """What may be tried instead of the rules' choice."""
    efforts = {name: algo["effort"] for name, algo in _core.ops()[row["op"]]["algos"].items()}
    here = {c["algo"]: c["effort"] for c in row["candidates"]}  # of this layer on this device
    names = usable(row)
    least = min((max(efforts[name], here[name]) for name in names), default=0)
    tried = [name for name in names if every or max(efforts[name], here[name]) <= HOPELESS * least]
    return [name for name in tried if name != row["algo"]]


# ---- layers ----


def _race(times: Times, nets: _Nets, rules: _core.Plan, others: Mapping[str, list[str]], rounds: int) -> None:
    """Fills `times` with the least time of each candidate, in us."""
    beside = _beside(rules, nets, rounds)
    most = max(map(len, others.values()), default=0)
    tables = [{key: names[i] for key, names in others.items() if i < len(names)} for i in range(most)]
    with nets.alive(tables) as trials:
        running = [rules, *trials]
        for _ in range(rounds):
            running = [plan for plan in running if _ran(times, plan, nets.inputs, beside)]
            running = [plan for plan in running if plan is rules or _may_win(times, plan, others)]


def _ran(times: Times, plan: _core.Plan, inputs: Inputs, beside: float) -> bool:
    """Takes one run into account; False where a trial cannot be run."""
    try:
        _add(times, plan, _step_times(plan, inputs), beside)
    except Error as error:
        logger.info("tuning: a trial left out: %s", error)
        return False
    return True


def _step_times(plan: _core.Plan, inputs: Inputs) -> list[float]:
    """The time of every step of one run, in us."""
    return [(end - start) / 1e3 for start, end in plan.profile(inputs)[1]]


def _seconds(plan: _core.Plan, inputs: Any, results: Any = None) -> float:
    """The time of one run."""
    start = time.perf_counter()
    plan.run(inputs, results)
    return time.perf_counter() - start


def _beside(plan: _core.Plan, nets: _Nets, rounds: int) -> float:
    """What a run takes for each step beside the step's own time, in us, with all data on the device."""
    with ExitStack() as stack:
        given, results = (
            [stack.enter_context(_core.Tensor(nets.device, a.shape, a.dtype.name)) for a in arrays]
            for arrays in (nets.inputs, plan.run(nets.inputs))
        )
        for tensor, array in zip(given, nets.inputs, strict=True):
            tensor.write(array)
        whole = min(_seconds(plan, given, results) for _ in range(rounds))
    steps = [min(step) for step in zip(*(_step_times(plan, nets.inputs) for _ in range(rounds)), strict=True)]
    return float(max(0.0, 1e6 * whole - sum(steps)) / max(1, len(steps)))


def _of_layers(plan: _core.Plan) -> Iterator[tuple[str, str, str]]:
    """(layer, key, algorithm) of those that are measured."""
    return (
        (row["layer"], row["key"], row["algo"]) for row in plan.layers() if row["key"] and not row["part"]
    )


def _add(times: Times, plan: _core.Plan, steps: list[float], beside: float) -> None:
    """Takes a run of a plan into account: the mean over layers of the same key."""
    spent: dict[str, float] = {}
    for step, us in zip(plan.steps(), steps, strict=True):
        spent[step["layer"]] = spent.get(step["layer"], 0.0) + us + beside
    runs: dict[tuple[str, str], list[float]] = {}
    for layer, key, algorithm in _of_layers(plan):
        if layer in spent:
            runs.setdefault((key, algorithm), []).append(spent[layer])
    for (key, algorithm), of_run in runs.items():
        mean, known = statistics.fmean(of_run), times.setdefault(key, {})
        known[algorithm] = min(mean, known.get(algorithm, mean))


def _may_win(times: Times, plan: _core.Plan, others: Mapping[str, list[str]]) -> bool:
    """Whether a candidate that this trial has is still in the race."""
    return any(
        times[key][algorithm] <= SLOW * min(times[key].values())
        for _, key, algorithm in _of_layers(plan)
        if algorithm in others.get(key, ()) and algorithm in times.get(key, {})
    )


# ---- the net ----


def _settle(choices: Wisdom, nets: _Nets, tried: Mapping[str, _Trial], agree: float) -> None:
    """Takes those of `tried` into `choices` with which the net is faster than without. Those that together
    save too little for that, by their own times, are not tried."""
    if sum(trial.saves for trial in tried.values()) < 1.0 - NET_GAIN:
        return
    more = {key: trial.algorithm for key, trial in tried.items()}
    with nets.alive([choices, choices | more]) as plans:
        if len(plans) == 2 and _better(plans[0], plans[1], nets.inputs, agree):
            choices |= more
            return
    half = len(tried) // 2
    if half:
        keys = list(tried)
        for part in (keys[:half], keys[half:]):
            _settle(choices, nets, {key: tried[key] for key in part}, agree)


def _better(without: _core.Plan, having: _core.Plan, inputs: Inputs, agree: float) -> bool:
    """Whether a plan computes the same as another, and is faster as users run it: times of steps leave
    out what launches cost, and a choice may keep a step out of a chain."""
    for want, got in zip(without.run(inputs), having.run(inputs), strict=True):
        scale = float(np.sqrt(np.mean(np.square(want, dtype=np.float64)))) or 1.0
        if not float(np.abs(np.subtract(got, want, dtype=np.float64)).max(initial=0.0)) <= agree * scale:
            logger.warning("tuning: outputs differ, so it is not kept")
            return False
    once = _seconds(without, inputs) + _seconds(having, inputs)
    fewest, most = PAIRS
    ratios = []
    for i in range(max(fewest, min(most, int(PAIRED_SECONDS / max(once, 1e-6))))):
        spent = {plan: _seconds(plan, inputs) for plan in ((without, having), (having, without))[i % 2]}
        ratios.append(spent[having] / spent[without])
    faster = sum(ratio < 1.0 for ratio in ratios)
    return statistics.median(ratios) < NET_GAIN and faster >= AGAIN * len(ratios)
