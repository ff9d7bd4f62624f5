import os
from collections.abc import Sequence
from typing import Any, Literal, Self, TypedDict, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

MAX_RANK: int

class Error(Exception): ...
class ArgumentError(Error, ValueError): ...
class ShapeError(Error, ValueError): ...
class DtypeError(Error, TypeError): ...
class UnsupportedError(Error, NotImplementedError): ...

class BuildError(Error, RuntimeError):
    kernel: str
    options: str
    log: str

class DeviceError(Error, RuntimeError):
    code: int
    name: str | None
    call: str | None

class DeviceMemoryError(DeviceError, MemoryError): ...
class NoDeviceError(Error, RuntimeError): ...
class StateError(Error, RuntimeError): ...
class RunTimeoutError(Error, TimeoutError): ...

class _AttrRow(TypedDict):
    name: str
    kind: Literal["int", "bool", "float", "ints", "floats", "enum"]
    required: bool
    default: int | bool | float | str | tuple[()] | None
    choices: list[str]
    doc: str

class _AlgoRow(TypedDict):
    doc: str
    devices: str
    error_class: str
    error_bound: str
    error_rounding: str
    compute_capability: int
    effort: int
    clblast: bool
    blocked: bool
    vectors: bool

class _OpRow(TypedDict):
    doc: str
    inputs: list[str]
    attrs: list[_AttrRow]
    algos: dict[str, _AlgoRow]

class _NodeRow(TypedDict):
    name: str
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    macs: float

class _StepRow(TypedDict):
    layer: str
    op: str
    algo: str
    kernel: str
    entry: str
    defines: str
    groups: int
    group_size: int
    macs: float
    bytes: float

class _ProfileRow(TypedDict):
    op: str
    algo: str
    kernel: int
    channels: int
    filters: int
    size: int
    stride: int

class _CandidateRow(TypedDict):
    algo: str
    verdict: str
    reason: str
    workspace_bytes: int
    effort: float

class _LayerRow(TypedDict):
    key: str
    part: bool
    layer: str
    op: str
    algo: str
    fused: str
    error_class: str
    error_bound: str
    error_rounding: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    zeros: tuple[float, float, float, float, float] | None
    workspace_bytes: int
    weight_bytes: int
    macs: float
    candidates: list[_CandidateRow]

class _PlanStats(TypedDict):
    arena_bytes: int
    weights_bytes: int
    workspace_bytes: int
    peak_bytes: int
    live_bytes: int
    step_count: int
    chained_steps: int
    launch_count: int
    program_count: int
    shared_ends: int
    select_ms: float
    build_ms: float
    weights_ms: float
    warm_ms: float

def devices() -> list[dict[str, Any]]: ...
def ops() -> dict[str, _OpRow]: ...
def profile_rows() -> dict[str, _ProfileRow]: ...
def version() -> str: ...

@disjoint_base
class Device:
    def __new__(
        cls,
        selector: str | int | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        kernel_dir: str | os.PathLike[str] | None = None,
        memory_limit: int = 0,
        build_threads: int = 0,
    ) -> Self: ...
    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def platform_version(self) -> str: ...
    @property
    def compute_units(self) -> int: ...
    @property
    def max_clock(self) -> int: ...
    @property
    def global_mem(self) -> int: ...
    @property
    def max_alloc(self) -> int: ...
    @property
    def local_mem(self) -> int: ...
    @property
    def max_group_size(self) -> int: ...
    @property
    def float_width(self) -> int: ...
    @property
    def compute_capability(self) -> int: ...
    @property
    def host_unified(self) -> bool: ...
    @property
    def local_is_dedicated(self) -> bool: ...
    @property
    def has_fp64(self) -> bool: ...
    @property
    def has_fp16(self) -> bool: ...
    @property
    def available(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def info(self) -> dict[str, Any]: ...
    def stats(self) -> dict[str, int]: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

@disjoint_base
class Tensor:
    def __new__(cls, device: Device, shape: Sequence[int], dtype: str = "float32") -> Self: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def device(self) -> Device: ...
    @property
    def closed(self) -> bool: ...
    def write(self, array: NDArray[Any]) -> None: ...
    def read(self, out: NDArray[Any] | None = None) -> NDArray[Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

@final
class Graph:
    def __new__(cls) -> Self: ...
    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> int: ...
    def constant(self, name: str, array: NDArray[Any]) -> int: ...
    def donate(self, value: int) -> None: ...
    def node(
        self, op: str, name: str, inputs: Sequence[int | None], attrs: dict[str, Any]
    ) -> tuple[int, ...]: ...
    def output(self, value: int, name: str) -> None: ...
    def shape(self, value: int) -> tuple[int, ...]: ...
    def dtype(self, value: int) -> str: ...
    def nodes(self) -> list[_NodeRow]: ...

@final
class Plan:
    def __new__(
        cls,
        device: Device,
        graph: Graph,
        *,
        precision: str = "highest",
        workspace_limit: int = 67108864,
        memory_limit: int = 0,
        overrides: dict[str, str] = {},
        wisdom: dict[str, str] = {},
        profile: dict[str, float] = {},
        zeros: dict[str, tuple[float, float, float, float, float]] = {},
        fuse: bool = True,
        chain: bool | None = None,
        batch_part: int = 0,
        skip: bool = True,
        guard: bool = False,
    ) -> Self: ...
    @property
    def inputs(self) -> list[tuple[str, tuple[int, ...]]]: ...
    @property
    def outputs(self) -> list[tuple[str, tuple[int, ...]]]: ...
    @property
    def input_dtypes(self) -> list[tuple[str, str]]: ...
    @property
    def output_dtypes(self) -> list[tuple[str, str]]: ...
    @property
    def device(self) -> Device: ...
    @property
    def closed(self) -> bool: ...
    def run(
        self,
        inputs: Sequence[NDArray[Any] | Tensor],
        outputs: Sequence[NDArray[Any] | Tensor | None] | None = None,
        timeout: float | None = None,
    ) -> list[Any]: ...
    def profile(
        self, inputs: Sequence[NDArray[Any] | Tensor]
    ) -> tuple[list[NDArray[Any]], list[tuple[int, int]]]: ...
    def clone(self) -> Self: ...
    def close(self) -> None: ...
    def stop(self) -> None: ...
    def check_guards(self) -> None: ...
    def steps(self) -> list[_StepRow]: ...
    def layers(self) -> list[_LayerRow]: ...
    def rewrites(self) -> list[str]: ...
    def stats(self) -> _PlanStats: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...
