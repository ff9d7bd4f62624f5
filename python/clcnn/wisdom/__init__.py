"""Measured choices of algorithms: which one was fastest for a layer of these shapes on this device.

A table maps the key of a layer (`plan.layers[i]["key"]`: operator, shapes, attributes, epilogue, precision)
to the name of an algorithm, where that is another one than the rules would choose. The key of a layer of
which zeros are known has their share in tenths; what was measured without counts where there is none with
it. Tables of known devices
lie beside this file, written by benchmarks/tune.py; compile(tune="measure") adds what it measures to a table
of the user's, beside the compiled kernels. A choice that cannot be followed is ignored, and noted in
`plan.rewrites`.

A file has one choice a line, the key, a tab and the name; lines that begin with # are for people, but for
those that begin with #=, which keep the times of all candidates in us: the key, and name=time after tabs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from clcnn import _arguments, _core, _files
from clcnn.device import cache_folder
from clcnn.errors import ArgumentError

__all__ = ["file_name", "known", "mode", "own_file", "read", "read_times", "remember", "replace", "write"]

Wisdom = dict[str, str]
Times = dict[str, dict[str, float]]  # us of each algorithm that was measured, by key
Tune = Literal["off", "table", "measure"]
"""Whether compile() follows the rules alone, what was measured before, or measures: see clcnn.compile()."""
MODES = ("off", "table", "measure")
SHIPPED = Path(__file__).parent
TIMES = "#= "


def without_zeros(key: str) -> str:
    """The key of the same layer of which no zeros are known."""
    return re.sub(r" zeros=[\d.]+", "", key)


def read(path: Path) -> Wisdom:
    """The table in a file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    {key: algorithm}

    Raises
    ------
    ArgumentError
        Names the line that is not one of a table.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from clcnn import wisdom
    >>> wisdom.write(Path("table.txt"), {"a layer's key": "blocked"}, "an example")
    >>> wisdom.read(Path("table.txt"))
    {"a layer's key": 'blocked'}
    """
    table: Wisdom = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            key, tab, algorithm = line.partition("\t")
            if not (key and tab and re.fullmatch(r"\w+", algorithm)):
                raise ArgumentError(f"{path}:{number}: expected a key, a tab and an algorithm, got {line!r}")
            table[key] = algorithm
    return table


def read_times(path: Path) -> Times:
    """The times that a file keeps; a line that is damaged counts for nothing.

    Parameters
    ----------
    path : Path

    Returns
    -------
    {key: {algorithm: float}}
        Microseconds.

    Raises
    ------
    OSError
        The file cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from clcnn import wisdom
    >>> wisdom.write(Path("times.txt"), {}, "an example", {"a key": {"rows": 3.0, "blocked": 2.5}})
    >>> wisdom.read_times(Path("times.txt"))
    {'a key': {'blocked': 2.5, 'rows': 3.0}}
    """
    times: Times = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, *cells = line.removeprefix(TIMES).split("\t")
        pairs = [re.fullmatch(r"(\w+)=(\d+(?:\.\d+)?)", cell) for cell in cells]
        if line.startswith(TIMES) and key and pairs and all(pairs):
            times[key] = {pair[1]: float(pair[2]) for pair in pairs if pair}
    return times


def write(
    path: Path, table: Mapping[str, str], about: str, times: Mapping[str, Mapping[str, float]] = {}
) -> None:
    """Writes a table in the order of its keys, under a comment, and the times of candidates.

    Parameters
    ----------
    path : Path
    table : {key: algorithm}
    about : str
        The comment, of one line.
    times : {key: {algorithm: float}}
        Microseconds. Default {}.

    Raises
    ------
    OSError
        The file cannot be written.

    Examples
    --------
    See read() and read_times().
    """
    lines = [f"# {about}", *(f"{key}\t{table[key]}" for key in sorted(table))]
    for key in sorted(times):
        cells = (f"{name}={us:.1f}" for name, us in sorted(times[key].items(), key=lambda cell: cell[1]))
        lines.append("\t".join([TIMES + key, *cells]))
    replace(path, "\n".join(lines) + "\n")


def replace(path: Path, text: str) -> None:
    """Writes a file; readers see the old one or the new one, and of two writers one wins.

    Parameters
    ----------
    path : Path
        Its folder is made where there is none.
    text : str

    Raises
    ------
    OSError
        The file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from clcnn import wisdom
    >>> wisdom.replace(Path("notes/today.txt"), "done")
    >>> Path("notes/today.txt").read_text()
    'done'
    """
    _files.replace(path, text.encode())


def file_name(*names: str) -> str:
    """The name of a device's file.

    Parameters
    ----------
    *names : str
        Such as the device's and its driver's.

    Returns
    -------
    str
        Lower case, with an underscore for whatever is no letter and no digit.

    Examples
    --------
    >>> from clcnn import wisdom
    >>> wisdom.file_name("NVIDIA H200")
    'nvidia_h200.txt'
    """
    return re.sub(r"[^a-z0-9]+", "_", " ".join(names).lower()).strip("_") + ".txt"


def own_file(device: _core.Device) -> Path | None:
    """Where the user's choices for a device and its driver are kept.

    Parameters
    ----------
    device : Device

    Returns
    -------
    Path, or None
        None when the cache is off. The file need not be there.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import wisdom
    >>> with clcnn.Device() as device:
    ...     print(wisdom.own_file(device))  # doctest: +SKIP
    /home/me/.cache/clcnn/kernels/wisdom/nvidia_h200_580_65_06.txt
    """
    folder = cache_folder()
    return folder / "wisdom" / file_name(device.name, device.driver) if folder else None


@cache
def _shipped(name: str) -> Wisdom:
    path = SHIPPED / file_name(name)
    return read(path) if path.exists() else {}


def known(device: _core.Device) -> Wisdom:
    """What is known of a device: the package's table, and over it the user's.

    Parameters
    ----------
    device : Device

    Returns
    -------
    {key: algorithm}
        A file of the user's that cannot be read counts for nothing.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import wisdom
    >>> with clcnn.Device() as device:
    ...     type(wisdom.known(device))
    <class 'dict'>
    """
    table = dict(_shipped(device.name))
    if path := own_file(device):
        with contextlib.suppress(OSError, ArgumentError, UnicodeDecodeError):
            table |= read(path)
    return table


def remember(device: _core.Device, table: Mapping[str, str], times: Times) -> Path | None:
    """Keeps a table, and times beside those that are known, in the user's file of a device.

    Parameters
    ----------
    device : Device
    table : {key: algorithm}
        It takes the place of the one that was there.
    times : {key: {algorithm: float}}
        Microseconds.

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
    >>> import clcnn
    >>> from clcnn import wisdom
    >>> with clcnn.Device() as device:
    ...     path = wisdom.remember(device, wisdom.known(device), {})  # doctest: +SKIP
    """
    path = own_file(device)
    if path:
        before: Times = {}
        with contextlib.suppress(OSError):
            before = read_times(path)
        write(path, table, f"{device.name}, {device.driver}", before | times)
    return path


def mode(tune: str | None) -> str:
    """How compile() chooses.

    Parameters
    ----------
    tune : {"off", "table", "measure"}, or None

    Returns
    -------
    str
        The argument, or CLCNN_TUNE, or "table".

    Raises
    ------
    ArgumentError
        The word is none of these.

    Examples
    --------
    >>> from clcnn import wisdom
    >>> wisdom.mode("measure")
    'measure'
    """
    chosen = tune if tune is not None else os.environ.get("CLCNN_TUNE") or "table"
    if not isinstance(chosen, str) or chosen not in MODES:
        raise ArgumentError(
            f"tune: must be one of {', '.join(map(repr, MODES))}, got {_arguments.shown(chosen)}"
        )
    return chosen
