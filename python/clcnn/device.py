"""OpenCL devices: listing, opening, and one shared device for each selector and process.

Environment: CLCNN_DEVICE (selector used where none is given), CLCNN_CACHE_DIR (kernel cache, "0" for none),
CLCNN_KERNEL_DIR (kernels from disk instead of the embedded ones), CLCNN_MEMORY_LIMIT (bytes, or with K, M,
G).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from clcnn import _arguments, _core, _drivers
from clcnn._background.threads import Task
from clcnn._log import logger
from clcnn.errors import ArgumentError, DtypeError, Error
from clcnn.report import html_table, size

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(value: int | str, what: str) -> int:
    """A number of bytes from an int or from text (powers of 1024).

    Parameters
    ----------
    value : int or str
        Such as 1000000, "512M" or "1.5 GiB"; an int is given back as it is.
    what : str
        What the message of an error starts with.

    Returns
    -------
    int

    Raises
    ------
    ArgumentError
        The text is no number of bytes.

    Examples
    --------
    >>> from clcnn.device import parse_bytes
    >>> parse_bytes("512M", "memory_limit")
    536870912
    """
    if not isinstance(value, str):
        return value
    text = value.strip().upper().removesuffix("IB").removesuffix("B").strip()
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS and text[-1:] else (text, "")
    try:
        count = float(number) * UNITS[unit]
        if 0 <= count < 1 << 63:
            return int(count)
    except ValueError:
        pass
    raise ArgumentError(
        f"{what}: expected a number of bytes such as 1000000, '512M' or '2G', got {_arguments.shown(value)}"
    )


def default_cache_dir() -> Path:
    """The folder of compiled kernels below the user's cache folder (XDG_CACHE_HOME counts)."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("clcnn")) / "kernels"


def cache_folder(chosen: str | os.PathLike[str] | Literal[False] | None = None) -> Path | None:
    """The kernel cache folder that a device would use: `chosen`, CLCNN_CACHE_DIR, or the default; None when
    off."""
    if chosen is None:
        chosen = os.environ.get("CLCNN_CACHE_DIR") or default_cache_dir()
    if chosen is False:
        return None
    folder = _arguments.path(chosen, "cache_dir")
    return None if folder == "0" else Path(folder)


class Device(_core.Device):
    """An opened OpenCL device.

    Parameters
    ----------
    selector : str, int or DeviceInfo, optional
        None (CLCNN_DEVICE, else first GPU, first CPU, first device), "cpu", "gpu", "accelerator", an index,
        part of a device or platform name, "platform:part", or a row of `clcnn.devices()`.
    cache_dir : path or False, optional
        Kernel cache folder, None for CLCNN_CACHE_DIR or the user's cache folder, False for none; PoCL keeps
        what it makes of the bitcode there (POCL_CACHE_DIR), unless POCL_KERNEL_CACHE is "0".
    kernel_dir : path, optional
        Kernel files to use instead of the embedded ones.
    memory_limit : int or str
        Bytes that all buffers together may take, also as text such as "2G".
    build_threads : int
        Programs built at once, 0 for one a host core. PoCL builds one after the other; for NVIDIA's GPUs up
        to 8 processes build, each with a context of its own on the GPU, unless it is 1 or there is no cache
        folder.
    threads : int, optional
        Cores of a CPU device that runs may use, None for all of them.

    Attributes
    ----------
    name, type, compute_units, global_mem, ...
        All that clcnn.DeviceInfo has.
    closed : bool
        Whether close() was called: tensors and plans of the device raise StateError from then on.

    Raises
    ------
    NoDeviceError
        No device fits the selector; names those there are.
    DeviceError, ArgumentError
        The driver does not open it; what is wrong with an argument.

    Examples
    --------
    >>> import clcnn
    >>> with clcnn.Device() as device:
    ...     device.type in ("cpu", "gpu", "accelerator")
    True

    Its stats() tell what it has, in bytes of device memory, programs and objects:

    >>> with clcnn.Device(memory_limit="1G") as device:
    ...     tensor = clcnn.Tensor(device, (256,))
    ...     device.stats()["bytes_now"] >= tensor.nbytes
    True
    """

    __slots__ = ()

    def __new__(
        cls,
        selector: str | int | DeviceInfo | None = None,
        *,
        cache_dir: str | os.PathLike[str] | Literal[False] | None = None,
        kernel_dir: str | os.PathLike[str] | None = None,
        memory_limit: int | str | None = None,
        build_threads: int = 0,
        threads: int | None = None,
    ) -> Device:
        _drivers.offer()
        if memory_limit is None:
            limit = parse_bytes(os.environ.get("CLCNN_MEMORY_LIMIT") or 0, "CLCNN_MEMORY_LIMIT")
        else:
            limit = parse_bytes(memory_limit, "memory_limit")
        made = super().__new__(
            cls,
            _selector(selector),
            cache_dir=cache_folder(cache_dir),
            kernel_dir=os.environ.get("CLCNN_KERNEL_DIR") or None if kernel_dir is None else kernel_dir,
            memory_limit=limit,
            build_threads=build_threads,
            threads=threads,
        )
        logger.info("opened %r", made)
        return made

    def _repr_html_(self) -> str:
        rows = [[key, value] for key, value in self.info().items()]
        return html_table(["device", self.name], rows)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a driver says of a device, without opening it: a row of clcnn.devices().

    Attributes
    ----------
    index : int
        Its number among all devices, which Device() takes.
    name, vendor : str
    type : {"cpu", "gpu", "accelerator", "other"}
    version, driver : str
        The version of OpenCL that the device offers, and that of its driver.
    platform, platform_version : str
    compute_units : int
        Cores of a CPU device, multiprocessors of a GPU.
    max_clock : int
        MHz.
    global_mem, max_alloc, local_mem : int
        Bytes of device memory, of the largest buffer, and of memory that a work-group shares.
    max_group_size : int
        Work-items of a work-group.
    float_width : int
        Floats of the vectors that it computes with.
    compute_capability : int
        Of an NVIDIA GPU: 90 stands for 9.0. 0 elsewhere.
    host_unified : bool
        Device and host share their memory.
    local_is_dedicated : bool
        Local memory is apart from global memory.
    has_fp64, has_fp16 : bool
        Kernels may use doubles; halves.
    available : bool
        The driver lets it be opened.

    Examples
    --------
    >>> import clcnn
    >>> device = clcnn.devices()[0]
    >>> device.compute_units > 0
    True
    """

    index: int
    name: str
    type: str
    vendor: str
    version: str
    driver: str
    platform: str
    platform_version: str
    compute_units: int
    max_clock: int
    global_mem: int
    max_alloc: int
    local_mem: int
    max_group_size: int
    float_width: int
    compute_capability: int
    host_unified: bool
    local_is_dedicated: bool
    has_fp64: bool
    has_fp16: bool
    available: bool


class DeviceList(list[DeviceInfo]):
    """A list that notebooks show as a table."""

    def _repr_html_(self) -> str:
        head = ["index", "type", "name", "platform", "driver", "units", "memory"]
        rows = [
            [d.index, d.type, d.name, d.platform, d.driver, d.compute_units, size(d.global_mem)] for d in self
        ]
        return html_table(head, rows)


def devices() -> DeviceList:
    """Every OpenCL device of every platform, in index order; opens none.

    Returns
    -------
    list of DeviceInfo

    Raises
    ------
    NoDeviceError
        Says which loader and drivers were looked for and what to install.

    Examples
    --------
    >>> import clcnn
    >>> [device.index for device in clcnn.devices()][:1]
    [0]
    """
    _drivers.offer()
    known = {field.name for field in fields(DeviceInfo)}
    return DeviceList(DeviceInfo(**{k: v for k, v in row.items() if k in known}) for row in _core.devices())


def _selector(selector: str | int | DeviceInfo | None) -> str | int | None:
    if isinstance(selector, DeviceInfo):
        return selector.index
    if selector is None:
        return os.environ.get("CLCNN_DEVICE") or None
    return selector


Selector: TypeAlias = str | int | DeviceInfo | _core.Device | None
ONE = (str, int, DeviceInfo, _core.Device, type(None))  # its types

_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child: the thread that had the lock may not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)

_opened: dict[tuple[int, str | int | None, int | None], _core.Device] = {}


def get(
    device: str | int | DeviceInfo | _core.Device | None = None, threads: int | None = None
) -> _core.Device:
    """The process's shared device for a selector and number of threads, opened at the first call; a Device is
    returned as it is, and has as many threads as it was opened with.

    Models compiled for the same selector share weights and programs. In a forked child every use raises
    StateError.
    """
    if isinstance(device, _core.Device):
        if threads is not None:
            raise ArgumentError(f"threads={threads!r}: {device!r} is open: give Device(threads=...)")
        return device
    if not isinstance(device, (str, int, DeviceInfo, type(None))):
        raise DtypeError(f"device: expected a selector, an index, a DeviceInfo or a Device, got {device!r}")
    key = (os.getpid(), _selector(device), threads)
    with _lock:
        found = _opened.get(key)
        if found is None or found.closed:
            found = _same_device(Device(device, threads=threads))
            _opened[key] = found
        return found


def opening(device: Any, threads: int | None) -> Callable[[], _core.Device]:
    """get() in a thread of its own if drivers may have to be loaded first, which takes a tenth of a second;
    then the thread makes the programs that the last process began with. Gives what waits for the device; only
    that raises. The end of the process waits for the thread, since drivers do not bear to be unloaded while
    they load."""
    wanted = partial(get, device, threads)
    if _opened or isinstance(device, _core.Device):
        return wanted
    task = Task(wanted)

    def run() -> None:
        task()
        for opened in list(_opened.values()):
            opened._build_ahead()

    threading.Thread(target=run, name="clcnn device").start()
    return task.result


def _same_device(made: Device) -> _core.Device:
    """An open device that another selector led to, instead of a second context on the same hardware."""
    for (pid, *_), other in _opened.items():
        same = other.index == made.index and other.info()["compute_units"] == made.info()["compute_units"]
        if pid == os.getpid() and not other.closed and same:
            made.close()
            return other
    return made


def named(device: _core.Device) -> str:
    """A device as messages name it: several may have one name."""
    return f"device {device.index} ({device.name})"


def blame(device: _core.Device, error: Error) -> None:
    """Puts the device's name before what the error says."""
    error.args = (f"{named(device)}: {error}", *error.args[1:])


def several(given: Any, what: str, threads: int = 0) -> list[_core.Device]:
    """The shared devices of a selector, or of a list of them, each once; see with_threads(). Raises
    ArgumentError."""
    chosen = list(given) if isinstance(given, list | tuple) else [given]
    if not chosen:
        raise ArgumentError(f"{what}: the list is empty")
    opened = [with_threads(one, threads) for one in chosen]
    for at, made in enumerate(opened):
        for before in range(at):
            if opened[before].index == made.index:
                raise ArgumentError(
                    f"{what}: {_arguments.shown(chosen[before])} and {_arguments.shown(chosen[at])} are one "
                    f"device, {made.index} ({made.name})"
                )
    return opened


def with_threads(device: str | int | DeviceInfo | _core.Device | None, threads: int) -> _core.Device:
    """The shared device, of a CPU device so many cores at most, as onnxruntime's intra_op_num_threads: 0, or
    more than there are, is all of them, and elsewhere it says nothing."""
    whole = get(device)
    info = whole.info()
    if isinstance(device, _core.Device) or info["type"] != "cpu" or not 0 < threads < info["compute_units"]:
        return whole
    return get(device, threads)
