"""onnxruntime's option objects and provider names, and what clcnn makes of them.

Every option is a row of OPTIONS: one that says how a processor's memory is used has no effect
here, one that would change what a session does is mapped, or refused by name when it is not at its default.
onnxruntime's own objects are accepted wherever these are: only their attributes are read.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Literal

from clcnn import _arguments
from clcnn._log import logger
from clcnn._session.providers import IDLE_PROVIDER_OPTIONS as IDLE_PROVIDER_OPTIONS
from clcnn._session.providers import OPENCL as OPENCL
from clcnn._session.providers import PROVIDERS as PROVIDERS
from clcnn._session.providers import choose as choose
from clcnn._session.providers import device_selector as device_selector
from clcnn._session.providers import get_all_providers, get_available_providers, get_device
from clcnn._version import __version__
from clcnn.errors import ArgumentError, UnsupportedError

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]


class GraphOptimizationLevel(IntEnum):
    """onnxruntime's levels. ORT_DISABLE_ALL is compile(fuse=False); all others are fuse=True.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.SessionOptions().graph_optimization_level.name
    'ORT_ENABLE_ALL'
    """

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """onnxruntime's modes; the device's queue orders the work in both.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.SessionOptions().execution_mode.name
    'ORT_SEQUENTIAL'
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """onnxruntime's orders; a plan's steps are ordered at compile time in all of them.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.SessionOptions().execution_order.name
    'DEFAULT'
    """

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(frozen=True)
class Option:
    """A row: the default, and what a value means: it is mapped, has no effect, or is refused unless it is the
    default (with what to use instead)."""

    default: Any
    meaning: Literal["mapped", "no effect", "refused"]
    instead: str = ""


OPTIONS: dict[str, Option] = {
    "enable_cpu_mem_arena": Option(True, "no effect"),
    "enable_mem_pattern": Option(True, "no effect"),
    "enable_mem_reuse": Option(True, "no effect"),
    "enable_profiling": Option(False, "refused", "use session.profile(input_feed)"),
    "execution_mode": Option(ExecutionMode.ORT_SEQUENTIAL, "no effect"),
    "execution_order": Option(ExecutionOrder.DEFAULT, "no effect"),
    "graph_optimization_level": Option(GraphOptimizationLevel.ORT_ENABLE_ALL, "mapped"),
    "inter_op_num_threads": Option(0, "no effect"),
    "intra_op_num_threads": Option(0, "mapped"),
    "log_severity_level": Option(-1, "no effect"),
    "log_verbosity_level": Option(0, "no effect"),
    "logid": Option("", "no effect"),
    "optimized_model_filepath": Option("", "refused", "the rewritten graph is no ONNX model"),
    "profile_file_prefix": Option("onnxruntime_profile_", "no effect"),
    "use_deterministic_compute": Option(False, "no effect"),
    "use_per_session_threads": Option(True, "no effect"),
}
# Configuration entries that say how a processor's threads wait: accepted, without effect.
IDLE_CONFIG = (
    "session.intra_op.allow_spinning",
    "session.inter_op.allow_spinning",
    "session.intra_op_thread_affinities",
    "session.dynamic_block_base",
    "session.force_spinning_stop",
)
# What onnxruntime has and clcnn has nothing for, and what to use instead: refused by name when it is called.
DEVICE = "use providers= or device= of InferenceSession"
OPTION_METHODS = {
    "add_external_initializers": "weights are part of the model",
    "add_free_dimension_override_by_denotation": "use add_free_dimension_override_by_name()",
    "add_external_initializers_from_files_in_memory": "weights are part of the model",
    "add_initializer": "weights are part of the model",
    "add_provider": DEVICE,
    "add_provider_for_devices": DEVICE,
    "clear_ep_context_data_read_func": DEVICE,
    "register_custom_ops_library": "there are no custom operators",
    "set_ep_context_data_read_func": DEVICE,
    "set_load_cancellation_flag": "loading ends with the process",
    "set_provider_selection_policy": DEVICE,
    "set_provider_selection_policy_delegate": DEVICE,
}
SESSION_METHODS = {
    "create_ortvalue_from_shape_and_type": "use clcnn.OrtValue.ortvalue_from_shape_and_type()",
    "enable_fallback": "nothing ever falls back to another device",
    "end_profiling": "use session.profile(input_feed)",
    "get_input_epdevices": "see session.device",
    "get_input_memory_infos": DEVICE,
    "get_output_memory_infos": DEVICE,
    "get_provider_graph_assignment_info": "all nodes run on session.device",
    "get_profiling_start_time_ns": "use session.profile(input_feed)",
    "get_tuning_results": "see session.plan().explain() for the algorithms chosen",
    "release_captured_graph": "nothing is captured",
    "run_async": "call run() from a thread of your own: it does not hold the interpreter's lock",
    "run_with_ortvaluevector": "use run_with_ort_values()",
    "set_ep_dynamic_options": DEVICE,
    "set_providers": "make a session for the other device",
    "set_tuning_results": "use algorithms= of clcnn.compile()",
}


def refusing(name: str, instead: str) -> Callable[..., Any]:
    """A function that raises UnsupportedError."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{name} is not offered: {instead}")

    return refuse


class SessionOptions:
    """onnxruntime's SessionOptions: the same attributes and defaults (see OPTIONS for what each means
    here).

    Raises
    ------
    ArgumentError
        An unknown attribute.
    UnsupportedError
        When a session is made, for an attribute that is refused.

    Examples
    --------
    >>> import clcnn
    >>> options = clcnn.SessionOptions()
    >>> options.graph_optimization_level = clcnn.GraphOptimizationLevel.ORT_DISABLE_ALL
    >>> options.add_free_dimension_override_by_name("batch", 4)
    >>> options
    SessionOptions(graph_optimization_level=<GraphOptimizationLevel.ORT_DISABLE_ALL: 0>, batch=4)
    """

    _overrides: dict[str, int]
    _config: dict[str, str]
    enable_profiling: bool
    graph_optimization_level: int
    intra_op_num_threads: int
    inter_op_num_threads: int
    execution_mode: int
    log_severity_level: int

    def __init__(self) -> None:
        object.__setattr__(self, "_overrides", {})
        object.__setattr__(self, "_config", {})
        for name, option in OPTIONS.items():
            object.__setattr__(self, name, option.default)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in OPTIONS:
            raise ArgumentError(f"SessionOptions has no {name!r}{_near(name, OPTIONS)}")
        object.__setattr__(self, name, value)

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Fixes every dimension of this name in the inputs' shapes.

        Parameters
        ----------
        dim_name : str
        dim_value : int
            The size, 1 or more.

        Raises
        ------
        ArgumentError
            A size below 1.
        """
        if int(dim_value) < 1:
            raise ArgumentError(f"dimension {dim_name!r}: {dim_value} is no size")
        self._overrides[dim_name] = int(dim_value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Accepts the keys of IDLE_CONFIG, which have no effect here.

        Parameters
        ----------
        key, value : str

        Raises
        ------
        UnsupportedError
            Another key.
        """
        if key not in IDLE_CONFIG:
            raise UnsupportedError(f"session configuration {key!r}: clcnn has no such entry")
        self._config[key] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """What add_session_config_entry() was given.

        Parameters
        ----------
        key : str

        Returns
        -------
        str

        Raises
        ------
        ArgumentError
            It was not given.
        """
        if key not in self._config:
            raise ArgumentError(
                f"session configuration {key!r} was not given; given are {list(self._config)}"
            )
        return self._config[key]

    def has_providers(self) -> bool:
        """False: they are arguments of InferenceSession."""
        return False

    def __getattr__(self, name: str) -> Any:
        if name not in OPTION_METHODS:
            raise AttributeError(f"SessionOptions has no {name!r}")
        return refusing(f"SessionOptions.{name}()", OPTION_METHODS[name])

    def __repr__(self) -> str:
        given = [
            f"{name}={getattr(self, name)!r}"
            for name, o in OPTIONS.items()
            if getattr(self, name) != o.default
        ]
        given += [f"{name}={value}" for name, value in self._overrides.items()]
        return f"SessionOptions({', '.join(given)})"


class RunOptions:
    """onnxruntime's RunOptions: logging has no effect here, `terminate` must stay False.

    Attributes
    ----------
    log_severity_level, log_verbosity_level : int
    logid : str
    only_execute_path_to_fetches : bool
        Without effect.
    terminate : bool
        Where it is true, InferenceSession.run() raises UnsupportedError: use its `timeout`.

    Raises
    ------
    ArgumentError
        An unknown attribute is set.

    Examples
    --------
    >>> import clcnn
    >>> options = clcnn.RunOptions()
    >>> options.logid = "first"
    >>> options.terminate
    False
    """

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def __init__(self) -> None:
        for name, value in self.DEFAULTS.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.DEFAULTS:
            raise ArgumentError(f"RunOptions has no {name!r}{_near(name, self.DEFAULTS)}")
        object.__setattr__(self, name, value)


def check_run_options(options: Any) -> None:
    """Raises UnsupportedError where run options, ours or onnxruntime's, ask for what there is not."""
    if options is not None and getattr(options, "terminate", False):
        raise UnsupportedError("run_options.terminate: clcnn cannot end runs by it; use timeout= of run()")


@dataclass(frozen=True)
class Settings:
    """What session options come to."""

    fuse: bool = True
    overrides: tuple[tuple[str, int], ...] = ()
    threads: int = 0  # cores of a CPU device, 0 for all


def read_options(options: Any) -> Settings:
    """The settings that a SessionOptions, ours or onnxruntime's, stands for; None is all defaults.

    Raises ArgumentError (not an options object), UnsupportedError that names the option.
    """
    if options is None:
        return Settings()
    if not all(hasattr(options, name) for name in ("graph_optimization_level", "enable_profiling")):
        raise ArgumentError(f"sess_options: expected SessionOptions, got {type(options).__name__}")
    for name, option in OPTIONS.items():
        value = getattr(options, name, option.default)
        if option.meaning == "refused" and value != option.default:
            raise UnsupportedError(f"sess_options.{name}={value!r} is not offered: {option.instead}")
    if getattr(options, "has_providers", bool)():
        raise UnsupportedError("sess_options names providers itself; use providers= or device= instead")
    return Settings(
        int(options.graph_optimization_level) != GraphOptimizationLevel.ORT_DISABLE_ALL,
        tuple(getattr(options, "_overrides", {}).items()),
        int(options.intra_op_num_threads),
    )


def own(options: Any) -> SessionOptions:
    """A copy as clcnn.SessionOptions, which can be pickled."""
    made = SessionOptions()
    for name, option in OPTIONS.items():
        value = getattr(options, name, option.default)
        setattr(made, name, type(option.default)(int(value) if isinstance(option.default, int) else value))
    for name, size in getattr(options, "_overrides", {}).items():
        made.add_free_dimension_override_by_name(name, size)
    made._config.update(getattr(options, "_config", {}))
    return made


def set_default_logger_severity(severity: int) -> None:
    """What clcnn's logger lets through, in onnxruntime's numbers.

    Parameters
    ----------
    severity : int
        0 everything, 1 and above information, 2 warnings, 3 errors, 4 fatal errors.

    Raises
    ------
    ArgumentError
        Another number.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.set_default_logger_severity(5)
    Traceback (most recent call last):
    ...
    clcnn.errors.ArgumentError: severity: expected 0 (verbose) to 4 (fatal), got 5
    """
    if severity not in range(5):
        raise ArgumentError(f"severity: expected 0 (verbose) to 4 (fatal), got {severity!r}")
    logger.setLevel(10 * (int(severity) + 1))  # the levels of Python's logging


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing: clcnn's debug lines have one level.

    Parameters
    ----------
    verbosity : int

    Raises
    ------
    DtypeError
        It is no whole number.
    """
    _arguments.whole(verbosity, "verbosity")


def set_seed(seed: int) -> None:
    """Nothing: inference draws no random numbers; clcnn.train.Trainer has a seed of its own.

    Parameters
    ----------
    seed : int

    Raises
    ------
    DtypeError
        It is no whole number.
    """
    _arguments.whole(seed, "seed")


def get_version_string() -> str:
    """clcnn's version, which is clcnn.__version__.

    Returns
    -------
    str

    Examples
    --------
    >>> import clcnn
    >>> clcnn.get_version_string() == clcnn.__version__
    True
    """
    return __version__


def get_build_info() -> str:
    """What this is, in a line.

    Returns
    -------
    str

    Examples
    --------
    >>> import clcnn
    >>> clcnn.get_build_info().endswith(": OpenCL")
    True
    """
    return f"clcnn {__version__}: OpenCL"


def enable_telemetry_events() -> None:
    """Nothing: nothing is ever sent anywhere."""


disable_telemetry_events = enable_telemetry_events


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None) -> None:
    """Nothing: OpenCL's loader finds the drivers.

    Parameters
    ----------
    cuda, cudnn, msvc : bool
    directory : path, optional
        All without effect.
    """


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, 3, 0.5)
    return f"; did you mean {', '.join(near)}?" if near else f"; it has {', '.join(known)}"
