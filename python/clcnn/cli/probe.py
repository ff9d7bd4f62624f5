"""`python -m clcnn.cli.probe`: the child process of `clcnn info`, which a broken driver may end.

Prints one line of JSON: the libraries that can be opened, every device, whether it opens, or "error" with the
reason why there are none.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

LIBRARIES = {
    "OpenCL loader": ("CLCNN_OPENCL_LIBRARY", "libOpenCL.so.1"),
    "CLBlast": ("CLCNN_CLBLAST_LIBRARY", "libclblast.so.1"),
}


def library(variable: str, default: str) -> str:
    """Where the library was found, or why it cannot be opened."""
    name = os.environ.get(variable) or default
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return f"missing ({error})"
    stem = os.path.basename(name).partition(".so")[0]
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = [line.split()[-1] for line in maps if f"/{stem}.so" in line]
    except OSError:  # only Linux has it
        paths = []
    return paths[0] if paths else name


def openable(index: int) -> str:
    """ "" when the device opens, else why it does not."""
    from clcnn import _core

    try:
        _core.Device(index).close()
    except _core.Error as error:
        return str(error)
    return ""


def main() -> None:
    from clcnn import _core, _drivers

    _drivers.offer()
    found: dict[str, Any] = {}
    try:
        found["devices"] = [{**row, "error": openable(row["index"])} for row in _core.devices()]
    except _core.Error as error:
        found.update(devices=[], error=str(error))
    # Only now: what is open already is not opened by the core.
    found["libraries"] = {what: library(*names) for what, names in LIBRARIES.items()}
    used = _drivers.chosen(_drivers.installed())
    if used is not None:
        found["libraries"]["driver of pip"] = library("", str(used.library))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
