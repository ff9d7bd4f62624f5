"""What the rules know of a CPU device: how far their constants are off on this processor.

The rules compare algorithms by constants that were measured on a few processors. A profile has a factor for
each layer of `clcnn._core.profile_rows()`: the time of its algorithm over that of `blocked` (register tiles),
beside what the constants say of both. The rules multiply what they expect by it, where it is more than 5 %
off; else a constant stands, so that noise changes no choice. measure() takes a profile in about two seconds,
remember() keeps it beside the user's table of choices, and every compile() for the device reads it there. One
taken while much else happens on the machine is not kept, and taken again by the next that measures. A profile
counts for one device, driver, number of compute units and version of clcnn; a file of others, or one that is
damaged, is as if it were not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clcnn import _core, ops
from clcnn._log import logger
from clcnn._version import __version__
from clcnn.device import cache_folder
from clcnn.errors import Error
from clcnn.graph import Graph
from clcnn.wisdom import file_name, replace

__all__ = ["Machine", "known", "machine_of", "measure", "of", "own_file", "read", "remember"]

Profile = dict[str, float]
REFERENCE = "blocked"
ROUNDS = (8, 40)  # even numbers
REPEATS = 3  # of a pair in a round: the first one finds the caches full of other layers
SECONDS = 1.5  # from which on there are no more
AGREE = 1.05  # of the factors of two halves of the rounds: else too much happens on the machine
SLOWEST = 20.0  # a factor beyond this, or its inverse, is no measurement


class Machine(NamedTuple):
    """What a profile belongs to.

    Attributes
    ----------
    device, driver : str
    units : int
        Compute units.
    version : str
        Of clcnn. Default this one.

    Examples
    --------
    >>> from clcnn.wisdom.profile import Machine
    >>> Machine("a processor", "1.0", 8).units
    8
    """

    device: str
    driver: str
    units: int
    version: str = __version__


def machine_of(device: _core.Device) -> Machine:
    """What a profile of this device belongs to.

    Parameters
    ----------
    device : Device

    Returns
    -------
    Machine

    Examples
    --------
    >>> import clcnn
    >>> from clcnn.wisdom import profile
    >>> with clcnn.Device() as device:
    ...     profile.machine_of(device).units == device.compute_units
    True
    """
    return Machine(device.name, device.driver, device.compute_units)


# ---- measuring ----


@dataclass(frozen=True, eq=False)
class _Timed:
    """A layer by itself: its plan, an input, and its multiply-adds and expected effort for each."""

    plan: _core.Plan
    inputs: list[np.ndarray[Any, Any]]
    macs: float
    effort: float


def _graph_of(row: Mapping[str, Any]) -> tuple[Graph, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    channels, filters, kernel, size = (row[key] for key in ("channels", "filters", "kernel", "size"))
    graph = Graph()
    if row["op"] == "linear":
        x = rng.standard_normal((1, channels), np.float32)
        w = np.full((filters, channels), 1 / channels, np.float32)
        y = ops.linear(graph.input("x", x.shape), w, name="layer")
    else:
        x = rng.standard_normal((1, channels, size, size), np.float32)
        w = rng.standard_normal((filters, channels, kernel, kernel), np.float32)
        w *= np.float32(1 / math.sqrt(w[0].size))
        y = ops.conv(graph.input("x", x.shape), w, stride=row["stride"], padding=kernel // 2, name="layer")
    graph.output(y, "y")
    return graph, x


def _timed(stack: ExitStack, device: _core.Device, row: Mapping[str, Any], algorithm: str) -> _Timed:
    graph, x = _graph_of(row)
    plan = stack.enter_context(_core.Plan(device, graph._core, overrides={"layer": algorithm}))
    layer = next(layer for layer in plan.layers() if layer["layer"] == "layer")
    effort = next(c["effort"] for c in layer["candidates"] if c["algo"] == algorithm)
    return _Timed(plan, [x], layer["macs"], effort)


_clock = time.perf_counter


def _step_times(plan: _core.Plan, inputs: list[np.ndarray[Any, Any]]) -> list[float]:
    """The time of every step of one run, in us."""
    return [(end - start) / 1e3 for start, end in plan.profile(inputs)[1]]


def _off(timed: _Timed) -> float:
    """The time of the layer in one run, over what is expected of it, in a unit that all share."""
    steps = zip(timed.plan.steps(), _step_times(timed.plan, timed.inputs), strict=True)
    return sum(us for step, us in steps if step["layer"] == "layer") / (timed.macs * timed.effort)


def measure(device: _core.Device) -> tuple[Profile, list[str]]:
    """A profile of a CPU device, which takes about two seconds.

    Each algorithm and `blocked` run in turn, all pairs in every round, by device events; the least time of
    each counts. A row is not sure where two halves of the rounds do not agree. One whose layer cannot be
    computed so is left out, and nothing is wrong with that.

    Parameters
    ----------
    device : Device

    Returns
    -------
    factors : {row: float}
        Times over those that the rules expect; see clcnn.wisdom.profile. Empty for other devices.
    unsure : list of str
        The rows that are not in it as their times are not sure.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn.wisdom import profile
    >>> with clcnn.Device("cpu") as device:  # doctest: +SKIP
    ...     factors, unsure = profile.measure(device)
    """
    with ExitStack() as stack:
        timed: dict[str, tuple[_Timed, _Timed]] = {}
        for name, row in _core.profile_rows().items() if device.type == "cpu" else ():
            try:
                ours = _timed(stack, device, row, row["algo"])
                last = list(timed.values())[-1:]
                same = row["op"] == "conv" or not last
                timed[name] = ours, _timed(stack, device, row, REFERENCE) if same else last[0][1]
            except Error as error:
                logger.info("profile: %s left out: %s", name, error)
        factors = _factors(timed)
        return factors, [name for name in timed if name not in factors]


def _factors(timed: Mapping[str, tuple[_Timed, _Timed]]) -> Profile:
    """The time of the first of each over that of the second, beside what is expected of both, where that is
    sure: there are more rounds, for a while, until all are."""
    halves: tuple[dict[_Timed, float], dict[_Timed, float]] = {}, {}
    factors: Profile = {}
    end = _clock() + SECONDS
    for i in range(ROUNDS[1]):
        half = halves[i % 2]
        for pair in timed.values():
            for one in pair * REPEATS:
                half[one] = min(_off(one), half.get(one, math.inf))
        if i + 1 >= ROUNDS[0] and i % 2:
            known = {name: _factor(pair, halves) for name, pair in timed.items()}
            factors = {name: factor for name, factor in known.items() if factor}
            if factors.keys() == timed.keys() or _clock() > end:
                break
    return factors


def _factor(pair: tuple[_Timed, _Timed], halves: Iterable[Mapping[_Timed, float]]) -> float | None:
    """By the least times of all rounds; None where its halves do not agree."""
    ours, theirs = ([half[one] for half in halves] for one in pair)
    first, second = (mine / other for mine, other in zip(ours, theirs, strict=True))
    factor = min(ours) / min(theirs)
    sure = max(first, second) <= AGREE * min(first, second) and 1 / SLOWEST < factor < SLOWEST
    return factor if sure else None


# ---- files ----


def own_file(machine: Machine) -> Path | None:
    """Where the user's profile of a device and its driver is kept.

    Parameters
    ----------
    machine : Machine

    Returns
    -------
    Path, or None
        None when the cache is off. The file need not be there.

    Examples
    --------
    >>> from clcnn.wisdom import profile
    >>> path = profile.own_file(profile.Machine("a processor", "1.0", 8))
    >>> path.name  # doctest: +SKIP
    'profile_a_processor_1_0.txt'
    """
    folder = cache_folder()
    return folder / "wisdom" / file_name("profile", machine.device, machine.driver) if folder else None


def _text(machine: Machine, factors: Mapping[str, float]) -> str:
    """The lines of a file, the last one a sum of those before."""
    lines = [f"{key}\t{value}" for key, value in machine._asdict().items()]
    lines += [f"{name}\t{factor:.4f}" for name, factor in factors.items()]
    body = "\n".join(lines) + "\n"
    return f"{body}sum\t{hashlib.sha256(body.encode()).hexdigest()}\n"


def read(path: Path, machine: Machine) -> Profile | None:
    """The profile in a file.

    Parameters
    ----------
    path : Path
    machine : Machine

    Returns
    -------
    {row: float}, or None
        None where it is damaged, not of this machine, or not there.

    Examples
    --------
    >>> from pathlib import Path
    >>> from clcnn.wisdom import profile
    >>> profile.read(Path("nowhere.txt"), profile.Machine("a processor", "1.0", 8)) is None
    True
    """
    try:
        text = path.read_text(encoding="utf-8")
        cells = [line.split("\t") for line in text.splitlines()[len(machine) : -1]]
        factors = {name: float(factor) for name, factor in cells}
    except (OSError, ValueError):
        return None
    known = factors.keys() <= _core.profile_rows().keys()
    sane = all(1 / SLOWEST < factor < SLOWEST for factor in factors.values())
    return factors if known and sane and _text(machine, factors) == text else None


def known(machine: Machine) -> Profile:
    """What is known of a device.

    Parameters
    ----------
    machine : Machine

    Returns
    -------
    {row: float}
        {} where nothing is.

    Examples
    --------
    >>> from clcnn.wisdom import profile
    >>> profile.known(profile.Machine("no such processor", "1.0", 8))
    {}
    """
    path = own_file(machine)
    return (read(path, machine) if path else None) or {}


def remember(machine: Machine, factors: Mapping[str, float]) -> Path | None:
    """Keeps a profile in the user's file of a device.

    Parameters
    ----------
    machine : Machine
    factors : {row: float}

    Returns
    -------
    Path, or None
        The file; None where the cache is off.

    Raises
    ------
    OSError
        The file cannot be written.

    Examples
    --------
    >>> from clcnn.wisdom import profile
    >>> machine = profile.Machine("a processor", "1.0", 8)
    >>> path = profile.remember(machine, {})  # doctest: +SKIP
    """
    path = own_file(machine)
    if path:
        replace(path, _text(machine, factors))
    return path


def of(device: _core.Device, *, measured: bool) -> Profile:
    """What is known of a device, measured first where that is wanted.

    Parameters
    ----------
    device : Device
    measured : bool
        A CPU device of which nothing is known is measured, unless the cache is off, and that is remembered
        where all of it is sure.

    Returns
    -------
    {row: float}
        {} where nothing is known.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn.wisdom import profile
    >>> with clcnn.Device() as device:
    ...     type(profile.of(device, measured=False))
    <class 'dict'>
    """
    machine = machine_of(device)
    path = own_file(machine)
    found = read(path, machine) if path else None
    if found is None and path and measured and device.type == "cpu":
        found, unsure = measure(device)
        if unsure:
            logger.warning("profile: not kept, as the times of %s do not agree: is the machine busy?", unsure)
            return found
        with contextlib.suppress(OSError):
            remember(machine, found)
    return found or {}
