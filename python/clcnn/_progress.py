"""Where people see how far something is, and the line that tells them: in terminals and notebooks only."""

from __future__ import annotations

import sys
import time
from typing import TextIO

QUIET_S = 1.0  # what takes less says nothing


def watched() -> TextIO | None:
    """The stream that people look at while something goes on; None: nobody does."""
    if "ipykernel" in sys.modules:
        return sys.stdout
    return sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None


class Line:
    """A line about work that takes long, which is gone when it is done.

    stream: where it goes; None: nowhere, which is the default where nobody looks. quiet_s: seconds before it
    is first shown.
    """

    _width = 0  # of what stands there, whoever wrote it: a compile's line takes the place of its caller's

    def __init__(self, stream: TextIO | None = None, quiet_s: float | None = None) -> None:
        self._stream = watched() if stream is None else stream
        self._quiet_s = QUIET_S if quiet_s is None else quiet_s
        self._start = time.perf_counter()
        self._shown = ""

    def show(self, text: str) -> None:
        seconds = time.perf_counter() - self._start
        if self._stream is not None and seconds >= self._quiet_s:
            self._write(f"clcnn: {text}, {seconds:.0f} s")

    def close(self) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        if text != self._shown and self._stream is not None:
            self._stream.write("\r" + text.ljust(Line._width) + ("" if text else "\r"))
            self._stream.flush()
            self._shown, Line._width = text, len(text)


__all__ = ["Line", "watched"]
