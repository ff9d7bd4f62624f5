"""Programs built by other processes, for drivers that build one after another in a process.

build() starts them, hands each one program after another through its standard input, and ends with the last
answer. A process opens the device, and leaves what it has built in the disk cache, where the compile finds
it. One that does not start, or dies, costs its program nothing but time: whatever is missing is built by the
compile.
"""

from __future__ import annotations

import os
import selectors
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

LOOK_S = 0.05  # between looks whether the compile was stopped
MOST = 8  # processes: more of them take longer to open the device than they save
EACH = 3  # programs for which one more is worth its start
CONTEXT_BYTES = 4 << 30  # device memory for one process: its context takes some hundred MiB
HEAD = struct.Struct("=II")  # bytes of the file's name and of the text, which follow
DONE = b"+"  # ready for the next program

Program = tuple[str, str]  # file, text


def processes(most: int, programs: int, device_bytes: int) -> int:
    """How many are worth it; 0: none."""
    if not _python():
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(MOST, most, cores, programs // EACH, device_bytes // CONTEXT_BYTES)
    return count if count > 1 else 0


def _python() -> str:
    """The interpreter to start; empty where this program is no plain Python (frozen, or embedded in
    another)."""
    name = os.path.basename(sys.executable or "")
    plain = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return sys.executable if plain else ""


def build(
    programs: Sequence[Program], index: int, cache_dir: str, count: int, look: Callable[[int], None]
) -> int:
    """Has `count` processes build programs for device `index` into `cache_dir`. look(done) is called all the
    time, and may raise, which ends them. Returns how many programs were answered for."""
    waiting = sorted(programs, key=lambda program: len(program[1]))  # the longest come last, and go first
    busy: set[int] = set()
    done = 0
    with selectors.DefaultSelector() as answers, ExitStack() as children:
        for _ in range(count):
            child = _Child(index, cache_dir)
            children.callback(child.end)
            answers.register(child.out, selectors.EVENT_READ, child)
        while (waiting or busy) and answers.get_map():
            for key, _ in answers.select(LOOK_S):
                child, was_busy = key.data, key.fd in busy
                busy.discard(key.fd)
                if child.out.read(len(DONE)) != DONE:  # it has ended
                    answers.unregister(key.fileobj)
                    continue
                done += was_busy
                if waiting and child.take(*waiting.pop()):
                    busy.add(key.fd)
            look(done)
    return done


class _Child:
    """A process that builds."""

    def __init__(self, index: int, cache_dir: str) -> None:
        paths = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; "
        self._process = subprocess.Popen(
            [_python(), "-c", f"{paths}serve({index}, {cache_dir!r})"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )  # fmt: skip
        assert self._process.stdin and self._process.stdout
        self._in, self.out = self._process.stdin, self._process.stdout

    def take(self, file: str, text: str) -> bool:
        """Gives it a program; False: it is not there any more."""
        name, source = file.encode(), text.encode()
        left = memoryview(HEAD.pack(len(name), len(source)) + name + source)
        try:
            while left:
                left = left[self._in.write(left) :]
        except OSError:
            return False
        return True

    def end(self) -> None:
        self._process.kill()
        self._in.close()
        self.out.close()
        self._process.wait()


def serve(index: int, cache_dir: str) -> None:
    """What such a process does until its standard input ends."""
    from clcnn.device import Device

    wanted, answers = sys.stdin.buffer, sys.stdout.buffer
    with Device(index, cache_dir=cache_dir) as device:
        while True:
            answers.write(DONE)
            answers.flush()
            head = wanted.read(HEAD.size)
            if len(head) < HEAD.size:
                return
            name, source = HEAD.unpack(head)
            device._build(wanted.read(name).decode(), wanted.read(source).decode())


__all__ = ["build", "processes", "serve"]
