"""InferenceSession: an ONNX model behind onnxruntime's signature.

    session = clcnn.InferenceSession("net.onnx", device="cpu")
    (y,) = session.run(None, {"x": x})

A program written for onnxruntime changes its import: `import clcnn as ort`. Nothing falls back: a model with
a node that cannot be computed is refused when the session is made, with all such nodes in one message.

A plan is compiled for each combination of input shapes when it is first seen, and kept until more than
`max_plans` others have been used since. Kernels stand for tiles, not for sizes: those of the first plan serve
the next ones, so that a new size builds hardly any. warm() builds the best kernels for sizes that are known.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, compiler, session_options
from clcnn import device as devices
from clcnn import zeros as known_zeros
from clcnn._log import logger
from clcnn._session import model as session_model
from clcnn._session.bound import Bound
from clcnn._session.model import ModelMetadata, NodeArg, metadata, opened
from clcnn._session.plans import Clock, Compiled
from clcnn.errors import ArgumentError, StateError, UnsupportedError
from clcnn.report import Profile

if TYPE_CHECKING:
    from clcnn.onnx import Model
    from clcnn.plan import Plan

MAX_PLANS = 8


class InferenceSession(Bound):
    """A model of an ONNX file, ready to run.

    Threads may share a session: results are the same bits, runs of one combination of shapes wait for each
    other. A session pickles as its model and options. In a forked child it raises StateError.

    Parameters
    ----------
    path_or_bytes : path, bytes or clcnn.onnx.Model
        The file, its content, or what clcnn.onnx.load() gave.
    sess_options : SessionOptions, optional
        clcnn's or onnxruntime's own (clcnn.session_options.OPTIONS says what each option means here).
    providers, provider_options : lists, optional
        onnxruntime's names; the first that stands for a device of this machine is taken
        (clcnn.session_options.PROVIDERS), which says the same as device. Unknown ones are skipped with a
        warning.
    device : Device or selector, or a list of them, optional
        See clcnn.Device. Of a list, runs of several threads go to whichever device is free.
    precision, workspace_limit, memory_limit, zeros
        See clcnn.compile().
    max_plans : int
        Combinations of input shapes that stay compiled; the least recently used goes.

    Raises
    ------
    ModelError, UnsupportedError
        The file is damaged; nodes that cannot be computed, counted by type; an option.
    ArgumentError, NoDeviceError, MissingExtraError, OSError
        And where the inputs' shapes are fixed, what clcnn.compile() raises.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import clcnn as ort
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> ort.onnx.save(ort.zoo.lenet5(), path, (1, 1, 28, 28))
    >>> session = ort.InferenceSession(path)
    >>> (y,) = session.run(None, {session.get_inputs()[0].name: np.zeros((1, 1, 28, 28), np.float32)})
    >>> y.shape
    (1, 10)
    >>> session.close()
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
        provider_options: Sequence[dict[str, Any]] | None = None,
        device: devices.Selector | Sequence[devices.Selector] = None,
        *,
        precision: _arguments.Precision = "highest",
        workspace_limit: int | str = 64 << 20,
        memory_limit: int | str = 0,
        zeros: known_zeros.Given = None,
        max_plans: int = MAX_PLANS,
        **others: Any,
    ) -> None:
        session_model.refuse(others)
        max_plans = _arguments.whole(max_plans, "max_plans", 1)
        if device is not None and providers:
            raise ArgumentError("device and providers both name a device: give one of them")
        settings = session_options.read_options(sess_options)
        choice = session_options.choose(providers, provider_options)
        self._pid = os.getpid()
        self._provider = choice.name
        chosen = choice.device if device is None else device
        self._devices = devices.several(chosen, "device", settings.threads)
        self._device = self._devices[0]
        self._compile_options: dict[str, Any] = {
            "precision": precision,
            "workspace_limit": workspace_limit,
            "memory_limit": memory_limit,
            "zeros": zeros,
            "fuse": settings.fuse,
            **choice.keywords,
        }
        self._arguments = {
            "sess_options": session_options.own(sess_options),
            "providers": [(choice.name, {})] if device is None and choice.device is not None else None,
            "device": session_options.device_selector(device),
            "max_plans": max_plans,
            **{key: value for key, value in self._compile_options.items() if key != "fuse"},
        }
        self._max_plans = max_plans
        self._lock = threading.Lock()
        self._compiled: OrderedDict[Any, Compiled] = OrderedDict()
        self._closed = False
        self._newest: Plan | None = None  # whose kernels serve other shapes, too
        self._donate = False  # whether the model's arrays may be overwritten, since nothing reads them again
        self._file, model = opened(path_or_bytes)
        self._model: Model | None = model
        self._meta = metadata(model)
        self._inputs = [session_model.overridden(info, dict(settings.overrides)) for info in model.inputs]
        self._outputs = model.outputs
        self._value_inputs = model.value_inputs
        if not self._value_inputs and all(session_model.is_fixed(info) for info in self._inputs):
            self._donate = self._file is not None and len(self._devices) == 1
            self._ready({info.name: session_model.shape_of(info) for info in self._inputs}, {}, Clock(None))
            self._donate = False
            if self._file is not None:
                self._model = None  # the device has the weights; the file has them for whatever else comes

    # ---- running ----

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        *,
        timeout: float | None = None,
    ) -> list[Any]:
        """One inference.

        Parameters
        ----------
        output_names : sequence of str, optional
            The outputs wanted; None, or none, for all of them.
        input_feed : {name: array}
            Every input, of the declared element type and a shape that fits the declared one.
        run_options : RunOptions, optional
            clcnn's or onnxruntime's.
        timeout : float, optional
            Seconds, waiting for other threads included; not what compiling for new shapes takes in this call.

        Returns
        -------
        list of array
            In the order of output_names.

        Raises
        ------
        ArgumentError
            Names of inputs or outputs.
        DtypeError, ShapeError
            They name the input, what was expected and what came.
        StateError
            The session is closed, or this is a forked child.
        RunTimeoutError, DeviceError
            And for new shapes, what clcnn.compile() raises.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (1, 2), dynamic_batch=True)
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     for n in (1, 3):  # compiled for each size
        ...         (y,) = session.run(["output"], {"input": np.zeros((n, 2), np.float32)})
        >>> y.shape
        (3, 2)
        """
        session_options.check_run_options(run_options)
        names = session_model.wanted(self._outputs, output_names)
        clock = Clock(timeout)
        found, feed = self._prepared(input_feed, clock)
        program = found.program
        assert program is not None
        results = found.plan.run(feed, timeout=clock.left) if found.plan is not None else {}
        outputs = program.collect(results)
        return [outputs[name] for name in names]

    def profile(self, input_feed: Mapping[str, Any]) -> Profile:
        """One inference with device events: time, GFLOP/s and GB/s of every step.

        Parameters
        ----------
        input_feed : {name: array}
            As for run().

        Returns
        -------
        Profile

        Raises
        ------
        Error
            As run() does.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (1, 2))
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     profile = session.profile({"input": np.zeros((1, 2), np.float32)})
        >>> [row.op for row in profile.rows]
        ['relu']
        """
        found, feed = self._prepared(input_feed, Clock(None))
        if found.plan is None:
            return Profile(self._device.name, [])
        return found.plan.profile(*(feed[name] for name in found.plan.inputs))

    def plan(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, NDArray[Any]] | None = None,
    ) -> Plan:
        """The plan for these input shapes, compiled if there is none yet: for explain(), summary(), stats.

        Parameters
        ----------
        shapes : {name: shape}, optional
            Not needed for inputs of fixed shape.
        values : {name: array}, optional
            Of the inputs whose values decide shapes (Model.value_inputs).

        Returns
        -------
        Plan
            It belongs to the session.

        Raises
        ------
        UnsupportedError
            Every output is constant. Others as run() does.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (1, 2), dynamic_batch=True)
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     session.plan({"input": (8, 2)}).outputs
        {'output': (8, 2)}
        """
        wanted = {
            info.name: session_model.shape_of(info) for info in self._inputs if session_model.is_fixed(info)
        }
        wanted.update((name, tuple(int(n) for n in shape)) for name, shape in (shapes or {}).items())
        found = self._ready(wanted, dict(values or {}), Clock(None))
        if found.plan is None:
            raise UnsupportedError("the model's outputs are all constant: there is nothing to run")
        return found.plan

    def warm(self, shapes: Iterable[Mapping[str, Sequence[int]] | Sequence[int]]) -> None:
        """Compiles for these input shapes now, with the best kernels for each.

        A program may do so that knows what it will run. Other shapes can be run all the same: their first run
        takes longer.

        Parameters
        ----------
        shapes : iterable of {name: shape}, or of shape
            One for each combination. Inputs of fixed shape may be left out; a shape alone, such as
            (8, 3, 224, 224), will do where the model has one input.

        Raises
        ------
        ShapeError
            A shape that does not fit the declared one.
        ArgumentError
            An input that the model has not, more combinations than max_plans.
        UnsupportedError
            An input's values decide shapes. Others as run() does.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (1, 2), dynamic_batch=True)
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     session.warm([(1, 2), (8, 2)])
        """
        if self._value_inputs:
            raise UnsupportedError(f"the values of {list(self._value_inputs)} decide shapes: use plan()")
        rows = session_model.combinations(self._inputs, shapes, self._max_plans)
        for row in rows:
            self._ready(row, {}, Clock(None), best=True)

    def _prepared(self, input_feed: Mapping[str, Any], clock: Clock) -> tuple[Compiled, dict[str, Any]]:
        """What runs these inputs, and what its plan takes."""
        arrays = self._checked(input_feed)
        values = {name: np.asarray(arrays[name]) for name in self._value_inputs}
        found = self._ready({name: array.shape for name, array in arrays.items()}, values, clock)
        program = found.program
        assert program is not None
        return found, program.feed(arrays)

    def _ready(
        self,
        shapes: dict[str, tuple[int, ...]],
        values: Mapping[str, NDArray[Any]],
        clock: Clock,
        best: bool = False,
    ) -> Compiled:
        """The compiled model for these shapes and deciding values, out of the cache or new: with the kernels
        of another size's plan where they serve, or with the `best` ones."""
        self._check_usable()
        key = (
            tuple(shapes.get(info.name) for info in self._inputs),
            tuple((array.dtype.str, array.shape, array.tobytes()) for array in values.values()),
        )
        with self._lock:
            found = self._compiled.setdefault(key, Compiled())
            self._compiled.move_to_end(key)
            while len(self._compiled) > self._max_plans:
                # A plan in use lives on until its last thread is done with it.
                self._compiled.popitem(last=False)
        with clock.holding(found.lock):
            if found.program is None:
                try:
                    self._compile(found, shapes, values, best)
                except BaseException:
                    with self._lock:
                        if self._compiled.get(key) is found:
                            del self._compiled[key]
                    raise
        return found

    def _compile(
        self,
        found: Compiled,
        shapes: dict[str, tuple[int, ...]],
        values: Mapping[str, NDArray[Any]],
        best: bool,
    ) -> None:
        program = self.model.specialise(shapes, values)
        if program.graph is not None:
            if self._donate:
                program.graph._donate(program.fixed.values())
            like = None if best else self._newest
            found.plan = compiler.compile(
                program.graph,
                device=self._devices if len(self._devices) > 1 else self._device,
                like=like,
                **self._compile_options,
            )
            self._newest = found.plan
            program.graph._forget()
        logger.info("session: %d plans, new for %s", len(self._compiled), shapes)
        found.program = replace(program, graph=None, values={})

    def _checked(self, input_feed: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        if not isinstance(input_feed, Mapping):
            raise ArgumentError(f"input_feed: expected {{name: array}}, got {type(input_feed).__name__}")
        known = [info.name for info in self._inputs]
        missing = [name for name in known if name not in input_feed]
        extra = [name for name in input_feed if name not in known]
        if missing or extra:
            parts = [f"{what} {names}" for what, names in (("missing", missing), ("unknown", extra)) if names]
            raise ArgumentError(f"input_feed: {', '.join(parts)}; the model's inputs are {known}")
        return {info.name: session_model.fitting(info, input_feed[info.name]) for info in self._inputs}

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            raise StateError(
                f"this session was made in process {self._pid}, and this is its forked child {os.getpid()}: "
                "OpenCL does not survive fork(). Make the session in the child, or start it with spawn"
            )
        if self._closed:
            raise StateError("the session is closed")

    # ---- life ----

    def close(self) -> None:
        """Gives the plans' device memory back; runs then raise StateError. Closing twice is fine."""
        if self._pid != os.getpid():  # a thread that the child does not have may hold the lock
            self._closed = True
            return
        with self._lock:
            self._closed = True
            self._compiled.clear()
            self._newest = None

    def disable_fallback(self) -> None:
        """Nothing: there is no fallback."""

    def __getattr__(self, name: str) -> Any:
        if name not in session_options.SESSION_METHODS:
            raise AttributeError(f"InferenceSession has no {name!r}")
        return session_options.refusing(f"InferenceSession.{name}()", session_options.SESSION_METHODS[name])

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.model.serialized(), self._arguments)


def _restore(data: bytes, arguments: dict[str, Any]) -> InferenceSession:
    """A session out of its pickle."""
    return InferenceSession(data, **arguments)


__all__ = ["InferenceSession", "ModelMetadata", "NodeArg"]
