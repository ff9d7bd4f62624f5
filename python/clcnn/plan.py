"""Plan: a compiled model, called with NumPy arrays or device tensors."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from clcnn import _arguments, _arrays, _core
from clcnn._background.building import Job, Watch
from clcnn._background.mapping import mapped
from clcnn._log import logger
from clcnn._plan.facts import Facts
from clcnn.errors import ArgumentError, DtypeError, Error
from clcnn.report import LayerRow, Profile, StepTime

Array = ArrayLike | _core.Tensor  # of an input
HELD = 3  # batches that map() holds: two at work, and the one that follows
Target = NDArray[Any] | _core.Tensor  # of an output
_CHANGING = threading.Lock()  # of the kernels of any plan


class Plan(Facts):
    """What clcnn.compile() returns: `y = plan(x)`.

    Inputs are arrays, torch tensors, nested lists or whatever else NumPy or DLPack makes an array of, or
    clcnn.Tensor on the plan's device, of exactly the compiled shapes and types (float32, unless the graph's
    input says otherwise). What is not contiguous, or has its bytes in the other order, is copied first,
    which the log tells at level debug; lists take the input's type. One plan runs one inference at a time
    (other threads wait); clone() is cheap and runs beside it. Use it in `with`, or close() it, to give
    device memory back early.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> plan = clcnn.compile(clcnn.zoo.lenet5(), (2, 1, 28, 28))
    >>> plan(np.zeros((2, 1, 28, 28), np.float32)).shape
    (2, 10)
    >>> plan.inputs, plan.outputs
    ({'input': (2, 1, 28, 28)}, {'output': (2, 10)})
    >>> plan.close()
    """

    __slots__ = ("_better", "_core", "_main", "_names", "rows")

    def __init__(self, core: _core.Plan, main: Sequence[str], rows: list[LayerRow]) -> None:
        self._core = core
        self._main = tuple(main)
        self._names = [name for name, _ in core.outputs]
        self.rows = rows
        self._better: Job[_core.Plan] | None = None  # builds what is to take the place of _core

    # ---- running ----

    def __call__(
        self,
        *inputs: Array,
        out: Target | Sequence[Target | None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """One inference. Layers asked for by compile(outputs=...) are computed too, but returned by run()
        only.

        Parameters
        ----------
        *inputs : array or Tensor
            Of the compiled shapes, N,C,spatial..., and types.
        out : array or Tensor, or a sequence of them
            Written to instead of a new array, and returned; must not share memory with the inputs. Also a
            tensor of another library in host memory, such as torch's.
        timeout : float, optional
            Seconds.

        Returns
        -------
        array, or tuple of arrays
            The model's output, a tuple if the model has several.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError
            An input or output that does not fit, by its name.
        StateError, DeviceError, RunTimeoutError
            The plan is closed; the device failed, or took too long. Ctrl-C stops a run within about 100 ms;
            the plan can be used again.
        """
        if self._better is not None:
            self._change_over()
        if len(self._names) > 1:
            results = self._run(inputs, self._all(out), timeout)[: len(self._main)]
            return results[0] if len(results) == 1 else tuple(results)
        try:  # nearly every net; what a call does beyond the run waits for cold caches
            return self._core.run(inputs, (out,), timeout)[0]  # type: ignore[arg-type] # as run() checks
        except (ArgumentError, DtypeError) as error:
            refusal = error
        return self._run_plain(inputs, self._all(out), timeout, False, refusal)[0]

    def step(
        self,
        *inputs: Array,
        out: Target | Sequence[Target | None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """One run that commits: as calling the plan, and then the states that the graph assigns have their
        new values, unless its condition was false.

        The outputs, and everything else in the run, see the states as they were before. The states change
        together or not at all, whatever ends the run: after Ctrl-C or an error they are those before the step
        or those after it.

        Parameters
        ----------
        *inputs, out, timeout
            As for calling the plan.

        Returns
        -------
        array, or tuple of arrays
            The model's output, a tuple if the model has several.

        Raises
        ------
        ArgumentError
            The graph assigns no state. And what calling the plan raises.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> count = g.state("count", (1,))
        >>> g.assign(count, count + 1)
        >>> g.output(count)
        >>> with clcnn.State({"count": np.zeros(1, np.float32)}) as state:
        ...     plan = clcnn.compile(g, state=state, device=state.device)
        ...     [plan.step().item() for _ in range(3)], state["count"].item()
        ([0.0, 1.0, 2.0], 3.0)
        """
        results = self._run(inputs, self._all(out), timeout, True)[: len(self._main)]
        return results[0] if len(results) == 1 else tuple(results)

    def _run(
        self, inputs: Sequence[Any], out: list[Any], timeout: float | None, commit: bool = False
    ) -> list[Any]:
        """The core takes plain arrays, for which nothing is done here; others are made plain once it refuses
        them, before anything ran."""
        if self._better is not None:
            self._change_over()
        try:
            return self._core.run(inputs, out, timeout, commit)
        except (ArgumentError, DtypeError) as error:
            refusal = error
        return self._run_plain(inputs, out, timeout, commit, refusal)

    def _run_plain(
        self, inputs: Sequence[Any], out: list[Any], timeout: float | None, commit: bool, refusal: Error
    ) -> list[Any]:
        """One run on what the core refused, made plain. Outputs are returned as they were given."""
        to = _arrays.plan_outputs(out, self._names)
        taken = _arrays.plan_inputs(inputs, self._core)
        if to is None and taken is None:
            raise refusal
        results = self._core.run(
            inputs if taken is None else taken, out if to is None else to, timeout, commit
        )
        return [result if x is None else x for result, x in zip(results, out, strict=True)]

    def _plain(self, inputs: Sequence[Any], refusal: Error) -> list[Any]:
        """The inputs as plain arrays. Raises what the core said where they are that already."""
        plain = _arrays.plan_inputs(inputs, self._core)
        if plain is None:
            raise refusal
        return plain

    def _all(self, out: Any) -> list[Any]:
        return [*self._given(out), *[None] * (len(self._names) - len(self._main))]

    def _given(self, out: Any) -> list[Any]:
        count = len(self._main)
        if count == 1:
            return [out]
        if out is None:
            return [None] * count
        if isinstance(out, (list, tuple)) and len(out) == count:
            return list(out)
        raise ArgumentError(f"out: this plan has {count} outputs, so a sequence of {count} arrays is needed")

    def run(
        self,
        inputs: Mapping[str, Array] | Sequence[Array] | Array,
        outputs: Mapping[str, Target] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """One inference by name: every output, those of compile(outputs=...) too.

        Parameters
        ----------
        inputs : {name: array}, sequence of arrays, or the one array
            A sequence is in the order of `inputs`.
        outputs : {name: array or Tensor}, optional
            What to write some of the outputs to, instead of new arrays.
        timeout : float, optional
            Seconds.

        Returns
        -------
        dict of arrays
            By the names in `outputs`, in their order; what was given to write to as it was given.

        Raises
        ------
        ArgumentError
            There are no such names. And what calling the plan raises.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.compile(clcnn.zoo.lenet5(), (1, 1, 28, 28), outputs=["features.0"]) as plan:
        ...     found = plan.run({"input": np.zeros((1, 1, 28, 28), np.float32)})
        >>> {name: array.shape for name, array in found.items()}
        {'output': (1, 10), 'features.0': (1, 6, 28, 28)}
        """
        names = self._names
        to = _arguments.mapping(outputs, "outputs", "{name: array}")
        unknown = [name for name in to if name not in names]
        if unknown:
            raise ArgumentError(
                f"outputs: {_arguments.shown(unknown)} are no outputs of this plan, which has {names}"
            )
        given = [to.get(name) for name in names]
        return dict(zip(names, self._run(self._ordered(inputs), given, timeout), strict=True))

    def _ordered(self, inputs: Mapping[str, Array] | Sequence[Array] | Array) -> Sequence[Any]:
        if not isinstance(inputs, Mapping):
            return listed(inputs, "inputs")
        names = [name for name, _ in self._core.inputs]
        if set(inputs) != set(names):
            raise ArgumentError(f"inputs: expected the names {names}, got {_arguments.shown(list(inputs))}")
        return [inputs[name] for name in names]

    def map(
        self, batches: Iterable[Array | Sequence[Array]], *, timeout: float | None = None
    ) -> Iterator[Any]:
        """Results for a stream of batches, in order, as calling the plan gives them.

        Two clones work in turn in two threads, so that one batch is copied while another is computed; on
        processors, which copy nothing, there is one. At most three batches are held at once.

        Parameters
        ----------
        batches : iterable of arrays, or of sequences of arrays
            What each call takes. Every batch must have the compiled shape, the last one too.
        timeout : float, optional
            Seconds for each batch.

        Yields
        ------
        array, or tuple of arrays
            A batch's output, a tuple if the model has several.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError, StateError, DeviceError, RunTimeoutError
            As calling the plan, in the place of the batch that it is about; no results follow.
        UnsupportedError
            The graph assigns states.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> batches = [np.full((1, 2), n, np.float32) for n in (-1, 2, 3)]
        >>> with clcnn.compile(clcnn.nn.ReLU(), (1, 2)) as plan:
        ...     [y.sum().item() for y in plan.map(batches)]
        [0.0, 4.0, 6.0]
        """

        def work(worker: Plan, batch: Array | Sequence[Array]) -> Any:
            return worker(*listed(batch, "batch"), timeout=timeout)

        workers: list[Plan] = []
        try:
            for _ in range(1 if copies_nothing(self.device) else 2):
                workers.append(self.clone())
            yield from mapped(workers, work, lambda plan: plan._core.stop(), batches, HELD)
        finally:
            for worker in workers:
                worker.close()

    def profile(self, *inputs: Array) -> Profile:
        """One inference with device events: time, GFLOP/s and GB/s of every step.

        Parameters
        ----------
        *inputs : array or Tensor
            As for calling the plan.

        Returns
        -------
        Profile
            The outputs are dropped.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError, StateError, DeviceError
            As calling the plan.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3)) as plan:
        ...     profile = plan.profile(np.zeros((2, 3), np.float32))
        >>> [(row.layer, row.op) for row in profile.rows]
        [('relu_1', 'relu')]
        """
        steps = self._core.steps()
        try:
            times = self._core.profile(inputs)[1]  # type: ignore[arg-type] # as there
        except (ArgumentError, DtypeError) as error:
            times = self._core.profile(self._plain(inputs, error))[1]
        rows = [
            StepTime(
                s["layer"], s["op"], s["algo"], s["kernel"], s["entry"], start, end, s["macs"], s["bytes"]
            )
            for s, (start, end) in zip(steps, times, strict=True)
        ]
        return Profile(self.device.name, rows)

    # ---- kernels that are built while it runs ----

    @property
    def ready(self) -> bool:
        """Whether the plan has the kernels that it will keep: False while compile(background=True) builds
        better ones."""
        self._change_over()
        return self._better is None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the plan has the kernels that it will keep.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None: however long it takes.

        Returns
        -------
        bool
            `ready`.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.compile(clcnn.zoo.lenet5(), (1, 1, 28, 28), background=True) as plan:
        ...     plan.wait()
        True
        """
        better = self._better
        if better is not None:
            better.wait(timeout)
        return self.ready

    def _improve(self, work: Callable[[Watch], _core.Plan]) -> None:
        """Begins to build what is to take the plan's place."""
        self._better = Job(work, background=True)

    def _change_over(self) -> None:
        """Between two runs: takes what was built, if it is there. What another thread still runs lives until
        it is done."""
        with _CHANGING:
            better = self._better
            if better is None or not better.done:
                return
            self._better = None
        try:
            self._core = better.result()
        except Error as error:
            warnings.warn(
                f"the plan keeps the kernels that it began with, as better ones could not be built: {error}",
                RuntimeWarning,
                stacklevel=3,
            )
        else:
            logger.info("changed over to the best kernels: %d steps", self._core.stats()["step_count"])

    def _keep(self) -> None:
        """Builds nothing better."""
        with _CHANGING:
            better, self._better = self._better, None
        if better is not None:
            better.stop()

    def __del__(self) -> None:
        if getattr(self, "_better", None) is not None:
            self._keep()

    # ---- life ----

    def clone(self) -> Plan:
        """A plan for another thread: shares weights and programs, has its own activations and queue.

        Returns
        -------
        Plan
            To be closed by itself.

        Raises
        ------
        UnsupportedError
            The graph assigns states: its runs take turns anyway.
        StateError
            The plan is closed.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (1, 2)) as plan, plan.clone() as other:
        ...     other(np.array([[-1.0, 1.0]], np.float32)).tolist()
        [[0.0, 1.0]]
        """
        return Plan(self._core.clone(), self._main, self.rows)

    def close(self) -> None:
        """Gives the plan's device memory back; using it then raises StateError.

        Waits for a run in another thread. Closing twice is fine.
        """
        self._keep()
        self._core.close()

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def check_guards(self) -> None:
        """For compile(guard=True): looks whether a kernel wrote outside of its buffers.

        Raises
        ------
        SystemError
            Names the buffer.
        """
        self._core.check_guards()


def copies_nothing(device: _core.Device) -> bool:
    """Whether plans work in the caller's arrays: then a second run at a time only takes the first one's
    cores."""
    return device.type == "cpu" and device.host_unified


def listed(given: Any, what: str) -> list[Any]:
    """The arrays in a sequence; one array counts as one."""
    if isinstance(given, _core.Tensor) or _arrays.speaks(given):
        return [given]
    return _arguments.items(given, what, "arrays")
