"""PlanGroup: plans of one model on several devices, used as one plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arrays, _core
from clcnn._background.mapping import mapped
from clcnn._background.threads import Task, Threads
from clcnn.device import blame, named
from clcnn.errors import DeviceError, Error, StateError, UnsupportedError
from clcnn.plan import Array, Plan, Target, copies_nothing, listed
from clcnn.report import Profile

__all__ = ["PlanGroup"]

AHEAD = 3  # batches that map() holds for each device: fast ones go on while a slow one is at the oldest
ROUNDS = 3  # runs that tell how fast a device is

# (a device, the group's plan there, its part of the batch) -> a plan for that part
Remake = Callable[[_core.Device, Plan, int], Plan]


class PlanGroup(Plan):
    """What clcnn.compile(device=[...]) returns: a plan on each device, called and closed as one.

    A call divides its batch among the devices by their speed, which the first call measures: it runs the
    whole batch a few times on each device, all at once, and compiles plans for the parts. This takes every
    item of a batch for itself; where a result has other rows than the batch, and for a Graph, a call goes to
    one free device as a whole. map() gives whole batches to whichever device is free. After a DeviceError,
    which names the device, the others serve alone.

    Attributes
    ----------
    plans : tuple of Plan
        The plan for the whole batch on each device.
    failed : dict
        What went wrong with the devices that are out of use: {device: exception}.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> group = clcnn.compile(clcnn.zoo.lenet5(), (4, 1, 28, 28), device=[clcnn.Device()])
    >>> [y.shape for y in group.map([np.zeros((4, 1, 28, 28), np.float32)] * 3)]
    [(4, 10), (4, 10), (4, 10)]
    >>> group.close()
    """

    __slots__ = ("plans", "failed", "_remake", "_parts", "_threads", "_gate", "_runner", "_queues", "_turns")

    def __init__(self, plans: Sequence[Plan], remake: Remake | None) -> None:
        first = plans[0]
        super().__init__(first._core, first._main, first.rows)
        self.plans = tuple(plans)
        self.failed: dict[_core.Device, Error] = {}
        self._remake = remake
        self._parts: list[tuple[Plan, Plan, slice]] | None = None  # (on a device, for a part, which part)
        self._threads = Threads(len(self.plans))
        self._gate = threading.Lock()  # of _queues
        self._turns = threading.Lock()  # of calls that use all devices
        self._runner = 0
        self._queues = {plan.device: 0 for plan in self.plans}  # calls that each is at, or that wait for it

    # ---- running ----

    def __call__(
        self,
        *inputs: Array,
        out: Target | Sequence[Target | None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        results = self._run(inputs, self._all(out), timeout)[: len(self._main)]
        return results[0] if len(self._main) == 1 else tuple(results)

    def step(self, *inputs: Array, out: Any = None, timeout: float | None = None) -> Any:
        """Refused: clcnn.train.Trainer(device=[...]) is what changes states on several devices.

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError("plans on several devices change no states: train.Trainer(device=[...]) does")

    def _run(
        self, inputs: Sequence[Any], out: list[Any], timeout: float | None, commit: bool = False
    ) -> list[Any]:
        if self._runner == threading.get_ident():
            raise StateError("this plan is in the middle of a run (was it called from a signal handler?)")
        arrays = self._divisible(inputs, out)
        if arrays is None:
            return self._whole(inputs, out, timeout)
        with self._turns:
            self._runner = threading.get_ident()
            try:
                parts = self._divided(arrays)
                if parts is not None:
                    return self._by_parts(parts, arrays, out, timeout)
            finally:
                self._runner = 0
        return self._whole(inputs, out, timeout)

    def _by_parts(
        self,
        parts: list[tuple[Plan, Plan, slice]],
        arrays: list[NDArray[Any]],
        out: list[Any],
        timeout: float | None,
    ) -> list[Any]:
        """Each part by its device, all at once."""
        targets = [
            np.empty(shape, self.output_dtypes[name]) if given is None else given
            for given, (name, shape) in zip(out, self.outputs.items(), strict=True)
        ]
        self._together(
            [
                (whole, plan, [x[part] for x in arrays], [y[part] for y in targets], timeout)
                for whole, plan, part in parts
            ]
        )
        return targets

    def _whole(self, inputs: Sequence[Any], out: list[Any], timeout: float | None) -> list[Any]:
        """The whole batch on one device: that of a tensor, else one that is free, or has fewest calls."""
        tensors = [x.device for x in (*inputs, *out) if isinstance(x, _core.Tensor)]
        with self._gate:
            plans = [p for p in self._usable() if not tensors or p.device == tensors[0]] or [self.plans[0]]
            plan = min(plans, key=lambda plan: self._queues[plan.device])
            self._queues[plan.device] += 1
        try:
            return self._guarded(plan, plan, list(inputs), out, timeout)
        finally:
            with self._gate:
                self._queues[plan.device] -= 1

    def _divisible(self, inputs: Sequence[Any], out: list[Any]) -> list[NDArray[Any]] | None:
        """The inputs as arrays that can be divided; None where the batch stays whole, or is not what the plan
        takes, which it says best itself."""
        if self._remake is None or len(self._usable()) == 1:
            return None
        plain = _arrays.plan_inputs(inputs, self._core)
        arrays = list(inputs) if plain is None else plain
        shapes, types = list(self.inputs.values()), list(self.input_dtypes.values())
        fits = len(arrays) == len(shapes) and all(
            isinstance(x, np.ndarray) and x.shape == shape and x.dtype == dtype
            for x, shape, dtype in zip(arrays, shapes, types)
        )
        kept = zip(out, self.outputs.values(), self.output_dtypes.values())
        fits = fits and all(
            y is None or (isinstance(y, np.ndarray) and y.shape == shape and y.dtype == dtype)
            for y, shape, dtype in kept
        )
        return arrays if fits else None

    def _divided(self, arrays: list[NDArray[Any]]) -> list[tuple[Plan, Plan, slice]] | None:
        """The parts of a batch, measured and compiled at first; None where they cannot be."""
        if self._parts is None and self._remake is not None:
            plans = self._usable()
            speeds = self._together([(p, p, arrays, None, None) for p in plans], rounds=ROUNDS)
            sizes = shares(self._batch, speeds)
            begins = np.cumsum([0, *sizes]).tolist()
            made = []
            for plan, size, begin in zip(plans, sizes, begins):
                if size:
                    part = self._remake(plan.device, plan, size)
                    made.append((plan, part, slice(begin, begin + size)))
            if not all(self._fits(part, size.stop - size.start) for _, part, size in made):
                self._remake = None  # for good
                for _, part, _ in made:
                    part.close()
                return None
            self._parts = made
        return self._parts

    @property
    def _batch(self) -> int:
        return next(iter(self.inputs.values()))[0]

    def _fits(self, part: Plan, size: int) -> bool:
        """Whether a plan for a part gives these rows of what the plan for the batch gives."""
        mine = [*self.inputs.values(), *self.outputs.values()]
        others = [*part.inputs.values(), *part.outputs.values()]
        return all(
            a and a[0] == self._batch and b == (size, *a[1:]) for a, b in zip(mine, others, strict=True)
        )

    def _together(self, jobs: list[tuple[Any, ...]], rounds: int = 1) -> list[float]:
        """Runs of several devices at once; how many of them each could do in a second. After Ctrl-C, or what
        else a signal handler raises, parts end within about 100 ms, and a whole batch once it is done."""

        halted = False

        def run(whole: Plan, plan: Plan, *arguments: Any) -> float:
            times = []
            for _ in range(rounds + (rounds > 1)):
                if halted:
                    return 0.0
                start = time.perf_counter()
                self._guarded(whole, plan, *arguments)
                times.append(time.perf_counter() - start)
            return 1.0 / min(times[rounds > 1 :])

        def stop() -> None:
            nonlocal halted
            halted = True
            for whole, plan, *_ in jobs:
                if plan is not whole:
                    plan._core.stop()

        tasks = [Task(partial(run, *job)) for job in jobs]
        try:
            self._threads.finish(tasks, stop)
        except BaseException:
            self._forget_parts()  # stopped for good: the next call compiles others, whose kernels are there
            raise
        return [task.result() for task in tasks]

    def _forget_parts(self) -> None:
        for _, part, _ in self._parts or []:
            part.close()
        self._parts = None

    def _guarded(self, whole: Plan, plan: Plan, inputs: Any, out: Any, timeout: float | None) -> list[Any]:
        """A run, whose failure says on which device."""
        try:
            return plan._run(inputs, [None] * len(self._names) if out is None else out, timeout)
        except Error as error:
            self._note(whole, error)
            raise

    def _note(self, plan: Plan, error: Error) -> None:
        device = plan.device
        if isinstance(error, DeviceError) or device.closed:
            self.failed[device] = error
            blame(device, error)

    def _usable(self) -> list[Plan]:
        """The plans of the devices that have not failed. Raises StateError."""
        if self.closed:
            raise StateError("the plan is closed")
        found = [plan for plan in self.plans if plan.device not in self.failed]
        if not found:
            raise StateError(f"all devices have failed: {'; '.join(map(str, self.failed.values()))}")
        if self._parts is not None and any(whole not in found for whole, _, _ in self._parts):
            self._forget_parts()
        return found

    def map(
        self, batches: Iterable[Array | Sequence[Array]], *, timeout: float | None = None
    ) -> Iterator[Any]:
        """Results for a stream of batches, in order, each computed whole by a device that was free, with the
        bits that its plan gives.

        Two clones on each device work in turn, so that one batch is copied while another is computed; on
        processors there is one. At most three batches for each device are held at once.

        Parameters
        ----------
        batches : iterable of arrays, or of sequences of arrays
            What each call takes, all of the compiled shape.
        timeout : float, optional
            Seconds for each batch.

        Yields
        ------
        array, or tuple of arrays
            A batch's output, a tuple if the model has several.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError, StateError, DeviceError, RunTimeoutError
            As calling the group, in the place of the batch that it is about; map() can be called again then.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> batches = [np.full((1, 2), n, np.float32) for n in (-1, 2, 3)]
        >>> with clcnn.compile(clcnn.nn.ReLU(), (1, 2), device=[clcnn.Device()]) as group:
        ...     [y.sum().item() for y in group.map(batches)]
        [0.0, 4.0, 6.0]
        """
        usable = self._usable()
        workers: list[tuple[Plan, Plan]] = []
        try:
            again = [plan for plan in usable if not copies_nothing(plan.device)]
            for plan in [*usable, *again]:  # every device once before any twice
                workers.append((plan, plan.clone()))

            def work(worker: tuple[Plan, Plan], batch: Any) -> Any:
                try:
                    return worker[1](*listed(batch, "batch"), timeout=timeout)
                except Error as error:
                    self._note(worker[0], error)
                    raise

            yield from mapped(
                workers, work, lambda worker: worker[1]._core.stop(), batches, AHEAD * len(usable)
            )
        finally:
            for _, clone in workers:
                clone.close()

    def profile(self, *inputs: Array) -> Profile:
        """A profile of the whole batch on the first device that is in use; `plans` has the others.

        Parameters
        ----------
        *inputs : array or Tensor
            As for calling the group.

        Returns
        -------
        Profile

        Raises
        ------
        StateError
            The group is closed, or all devices have failed. And what Plan.profile() raises.
        """
        return self._usable()[0].profile(*inputs)

    # ---- life ----

    def clone(self) -> Plan:
        """Refused: threads may share a group, whose calls take turns.

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError("plans on several devices have no clones: compile another one, or use map()")

    def close(self) -> None:
        """Gives the memory back on all devices. Closing twice is fine."""
        self._threads.close()
        self._forget_parts()
        for plan in self.plans:
            plan.close()

    def check_guards(self) -> None:
        """Plan.check_guards() of each device's plan.

        Raises
        ------
        SystemError
        """
        for plan in self.plans:
            plan.check_guards()

    # ---- looking ----

    @property
    def devices(self) -> list[_core.Device]:
        """The devices, in the order in which they were given."""
        return [plan.device for plan in self.plans]

    @property
    def stats(self) -> dict[str, Any]:
        """The stats of the plan for the whole batch on each device: {"device 0 (name)": Plan.stats}."""
        return {named(plan.device): plan.stats for plan in self.plans}

    @property
    def peak_bytes(self) -> int:
        """Device memory of all devices together, that of plans for parts included."""
        parts = [part for _, part, _ in self._parts or []]
        return sum(plan.peak_bytes for plan in [*self.plans, *parts])

    @property
    def parts(self) -> dict[str, int]:
        """How many items of a call's batch each device takes, {"device 0 (name)": 5}; empty before the first
        call, and where calls are not divided.
        """
        return {named(whole.device): part.stop - part.start for whole, _, part in self._parts or []}

    def explain(self, verbose: bool = False) -> str:
        """Plan.explain() of each device, under its name.

        Parameters
        ----------
        verbose : bool
            As there. Default False.

        Returns
        -------
        str

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (1, 2), device=[clcnn.Device(0)]) as group:
        ...     group.explain().startswith("device 0 (")
        True
        """
        return "\n".join(f"{named(plan.device)}:\n{plan.explain(verbose)}" for plan in self.plans)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.plans)} devices"
        where = ", ".join(named(plan.device) for plan in self.plans)
        return f"<clcnn.PlanGroup on {where}: {self.inputs} -> {self.outputs}, {state}>"


def shares(count: int, speeds: Sequence[float]) -> list[int]:
    """`count` items divided by speeds: to whole numbers, so that the slowest is done earliest."""
    sizes = [int(count * speed / sum(speeds)) for speed in speeds]
    while sum(sizes) < count:
        ends = [(size + 1) / speed for size, speed in zip(sizes, speeds)]
        sizes[ends.index(min(ends))] += 1
    return sizes


def compiled(
    compile: Callable[..., Plan],
    model: Any,
    input_shape: Any,
    devices: Sequence[_core.Device],
    options: Mapping[str, Any],
) -> PlanGroup:
    """For clcnn.compile(): a plan on each device, and how to make those for parts of a batch."""
    options = dict(options)
    like = options.pop("like")
    earlier = like.plans if isinstance(like, PlanGroup) else [like] * len(devices)
    plans: list[Plan] = []
    try:
        for device, other in zip(devices, earlier):
            plans.append(compile(model, input_shape, device, like=other, **options))
    except BaseException:
        for plan in plans:
            plan.close()
        raise
    group = PlanGroup(plans, None)
    whole = group.inputs

    def remake(device: _core.Device, plan: Plan, size: int) -> Plan:
        part = [(size, *shape[1:]) for shape in whole.values()]
        given = dict(zip(whole, part)) if isinstance(input_shape, Mapping) else part
        return compile(model, given, device, like=plan, **options)

    batches = {shape[0] if shape else 0 for shape in whole.values()}
    if not hasattr(model, "records") and len(batches) == 1 and max(batches) > 1:
        group._remake = remake
    return group
